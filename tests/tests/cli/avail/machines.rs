//! Machines that are not here: their lists, and the reasons for what they lack.

use super::*;

#[test]
fn an_epyc_with_two_mi300x() -> TestResult {
    let machine = Machine::epyc()?;
    for index in 0..2 {
        machine.gpu(
            index,
            90402,
            "power1_input",
            &[("junction", 54000), ("mem", 41000)],
        )?;
    }
    machine.file(
        "opt/rocm/share/rocprofiler-sdk/counter_defs.yaml",
        "rocprofiler-sdk:\n  counters-schema-version: 1\n  counters:\n\
         \u{20}   - name: SQ_WAVES\n      description: Waves sent. All of them.\n      properties: []\n      definitions:\n\
         \u{20}       - architectures: [gfx90a, gfx942]\n          block: SQ\n          event: 4\n\
         \u{20}   - name: OnlyElsewhere\n      description: none\n      properties: []\n      definitions:\n\
         \u{20}       - architectures: [gfx1100]\n          expression: reduce(X,sum)\n",
    )?;
    let listed = run_on(&machine, "-H --json")?;
    let all = rows(&listed, "counters")?;
    let rows = by_name(&all);

    // name, available, beginning of the reason
    let expected = [
        ("cycles", true, "user mode only"),
        ("context-switches", false, "perf_event_paranoid is 2"),
        ("ref-cycles", false, "not counted by this processor"),
        ("node-loads", false, "not counted by this processor"),
        ("PAPI_TOT_INS", true, "user mode only"),
        ("PAPI_REF_CYC", false, "not counted by this processor"),
        ("cpu/cache-misses/", true, "user mode only"),
        ("power/energy-pkg/", false, "perf_event_paranoid is 2"),
        ("amd_df/FIELD=VALUE,.../", false, "perf_event_paranoid is 2"),
        ("ibs_op/FIELD=VALUE,.../", true, ""),
        ("gpu0:power", true, ""),
        ("gpu1:temp_junction", true, ""),
        ("gpu1:temp_edge", false, "this GPU does not have it"),
        ("gpu1:fan", false, "this GPU does not have it"),
        ("SQ_WAVES", true, ""),
    ];
    for (name, available, reason) in expected {
        let row = rows
            .get(name)
            .with_context(|| format!("{name} is not listed"))?;
        assert_eq!(row["available"], available, "{row:#}");
        assert_eq!(row["reason"], reason, "{row:#}");
    }
    assert_eq!(
        rows["power/energy-pkg/"]["summary"],
        "energy pkg, in Joules"
    );
    assert_eq!(
        rows["cpu/cache-misses/"]["description"],
        "cpu/event=0x64,umask=0x09/"
    );
    let power = rows["gpu0:power"]["description"]
        .as_str()
        .context("a text")?;
    assert!(power.starts_with("142 W"), "{power}");
    let clock = rows["gpu0:clock_gfx"]["description"]
        .as_str()
        .context("a text")?;
    assert!(clock.starts_with("2100Mhz"), "{clock}");
    // Each GPU has its counters, and no others.
    let waves: Vec<&Value> = all.iter().filter(|row| row["name"] == "SQ_WAVES").collect();
    assert_eq!(waves.len(), 2);
    assert_eq!(waves[1]["device"], "GPU 1 (gfx942)");
    assert_eq!(waves[1]["summary"], "Waves sent");
    assert!(!rows.contains_key("OnlyElsewhere"));
    assert!(!rows.contains_key("power/energy-pkg.unit/"));
    assert!(notes(&listed, "counters")?.contains("sysctl kernel.perf_event_paranoid=0"));
    Ok(())
}

#[test]
fn an_intel_server_with_an_mi250x_and_an_old_rocm() -> TestResult {
    let machine = Machine::intel()?;
    let temperatures = [("edge", 40000), ("junction", 45000), ("mem", 50000)];
    machine.gpu(0, 90010, "power1_average", &temperatures)?;
    machine.file(
        "opt/rocm-5.7.1/lib/rocprofiler/gfx_metrics.xml",
        "<gfx9>\n<metric name=\"GRBM_COUNT\" block=GRBM event=0 descr=\"Free-running clock.\"></metric>\n</gfx9>\n\
         <gfx90a base=\"gfx9\">\n<metric name=\"TCC_HIT\" block=TCC event=17 descr=\"Hits.\"></metric>\n</gfx90a>\n\
         <gfx11>\n<metric name=\"NOT_HERE\" block=X event=1 descr=\"x\"></metric>\n</gfx11>",
    )?;
    let listed = run_on(&machine, "-H --json")?;
    let rows = rows(&listed, "counters")?;
    let rows = by_name(&rows);
    let expected = [
        ("cycles", true, ""),
        ("context-switches", true, ""),
        // Three fields, one of them in the second word.
        ("cpu/mem-loads/", true, ""),
        ("cpu/slots/", false, "in use by somebody else"),
        ("cpu/offcore/", false, "needs a value for 'core'"),
        ("uncore_imc/cas_count_read/", true, ""),
        ("gpu0:temp_edge", true, ""),
        ("gpu0:power", true, ""),
        ("GRBM_COUNT", true, ""),
        ("TCC_HIT", true, ""),
    ];
    for (name, available, reason) in expected {
        let row = rows
            .get(name)
            .with_context(|| format!("{name} is not listed"))?;
        assert_eq!(
            (&row["available"], &row["reason"]),
            (&available.into(), &reason.into()),
            "{row:#}"
        );
    }
    assert_eq!(
        rows["uncore_imc/cas_count_read/"]["summary"],
        "cas count read, in MiB (on 8 units)"
    );
    assert!(!rows.contains_key("NOT_HERE"));

    // The same from a file that is named, and nothing from the installed ones.
    let file = machine.root().join("mine.yaml");
    fs::write(
        &file,
        "MINE:\n  architectures:\n    gfx90a/gfx942:\n      block: SQ\n      event: 1\n  description: My own.\n",
    )?;
    let listed = run_on(
        &machine,
        &format!("-H --json --gpu-counters {}", file.display()),
    )?;
    let rows = self::rows(&listed, "counters")?;
    let rows = by_name(&rows);
    assert_eq!(rows["MINE"]["device"], "GPU 0 (gfx90a)");
    assert!(!rows.contains_key("TCC_HIT"));
    Ok(())
}

#[test]
fn a_virtual_machine_without_counters_and_gpus() -> TestResult {
    let machine = Machine::virtual_machine()?;
    machine.file("sys/kernel/tracing/events/sched/sched_switch/id", "314")?;
    let listed = run_on(&machine, "-H --json")?;
    let all = rows(&listed, "counters")?;
    let available: Vec<&str> = all
        .iter()
        .filter(|row| row["available"] == true)
        .filter_map(|row| row["category"][1].as_str())
        .collect();
    assert!(available.len() == 11 && available.iter().all(|kind| *kind == "Software"));
    assert_eq!(
        by_name(&all)["cycles"]["reason"],
        "no PMU in this virtual machine"
    );
    assert!(!by_name(&all).contains_key("sched:sched_switch"));
    let notes = notes(&listed, "counters")?;
    assert!(
        notes.contains("no AMD GPU") && notes.contains("/dev/kfd"),
        "{notes}"
    );
    assert!(notes.contains("pmu=on"), "{notes}");

    for line in ["-H --json --advanced", "-H --json sched_sw"] {
        let rows = rows(&run_on(&machine, line)?, "counters")?;
        assert_eq!(
            by_name(&rows)["sched:sched_switch"]["available"],
            true,
            "{line}"
        );
    }
    // -A leaves what works; the categories choose devices.
    assert_eq!(
        rows(&run_on(&machine, "-H -A --json")?, "counters")?.len(),
        11
    );
    assert_eq!(
        rows(&run_on(&machine, "-H -c GPU --json")?, "counters")?.len(),
        0
    );
    assert_eq!(
        rows(&run_on(&machine, "-c Hardware --json")?, "counters")?.len(),
        10
    );
    Ok(())
}
