//! Versions and builds of HIP that are not here, played by a stand-in: what a tracer gets from them is recorded rightly.

use anyhow::ensure;
use rsys_tests::simgpu::{Machine, Stack, library_program, ops, standin_hip};
use rsys_tests::{LINKED, Outcome, Run, TestResult, Trace, skip_if_missing};

/// Runs calls of the stand-in, with these variables.
fn run(variables: &[(&str, &str)], words: &[&str]) -> anyhow::Result<Outcome> {
    run_with(&[], variables, words)
}

/// The same with a stand-in that is compiled with these options.
fn run_with(
    options: &[&str],
    variables: &[(&str, &str)],
    words: &[&str],
) -> anyhow::Result<Outcome> {
    let stack = Stack::Debian12;
    let mut program = library_program(stack, "hip_standin", &[])?
        .arg(standin_hip(options)?)
        .args(words);
    for (name, value) in variables {
        program = program.env(name, value);
    }
    let machine = Machine::new(stack)?;
    let source = variables.iter().find(|(name, _)| *name == SOURCE);
    Run::new()
        .options(["-I", "rocm", "--launch-stacks", "--min-samples", "1"])
        .options(["--gpu-source", source.map_or("auto", |(_, source)| source)])
        .command(machine.run(program))
        .run()
}

/// Chooses the source, among the variables of the stand-in.
const SOURCE: &str = "STANDIN_SOURCE";

/// Builds without stack protectors leave something else in the record where the tracer's functions are looked for.
#[test]
fn calls_are_recorded_whatever_lies_in_the_record() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    const V5: &str = "50731921";
    const V7: &str = "70253211";
    const NEW: &str = "90100000";
    for (version, place, dirty, is_found) in [
        (V7, "1536", "", true),
        (V7, "1536", "0", true),
        (V5, "856", "0 3 7", true),
        // More than one word in a row, among the arguments.
        (V7, "1536", "0-3 10-30", true),
        // Single ones, and the very places.
        (V7, "1536", "0 110 120 130 150", true),
        (V7, "1536", "0 192 193", true),
        // Nothing can be measured.
        (V7, "1536", "0-511", true),
        (V5, "856", "0-511", true),
        // Unknown versions are measured.
        (NEW, "1704", "", true),
        (NEW, "1704", "0", true),
        (NEW, "1704", "0-191 200 210", true),
        // Where that fails, they are left alone, which is said.
        (NEW, "1704", "0-511", false),
        (NEW, "1704", "0 200-202", false),
    ] {
        let what = format!("{version} at {place}, touched {dirty}");
        let outcome = run(
            &[
                ("STANDIN_VERSION", version),
                ("STANDIN_PLACE", place),
                ("STANDIN_DIRTY", dirty),
            ],
            &["launch:20", "sync"],
        )?;
        ensure!(
            outcome.expect_success().stdout.contains("done"),
            "{what}\n{}",
            outcome.story()
        );
        let trace = outcome.trace_of("hip_standin")?;
        let count = |text: &str| trace.number(&format!("select count(*) from slice where {text}"));
        let (calls, kernels) = (
            count("category = 'hip' and name = 'hipLaunchKernel'")?,
            count("category = 'kernel'")?,
        );
        ensure!(
            kernels == 20 && calls == if is_found { 20 } else { 0 },
            "{what}: {calls} calls, {kernels} kernels\n{}",
            outcome.story()
        );
        let said = outcome.stderr.contains("HIP's calls are not recorded");
        ensure!(said != is_found, "{what}\n{}", outcome.story());
        let calibration = trace.metadata()?.text("hip calibration")?;
        ensure!(
            calibration.starts_with("failed") != is_found,
            "{what}: {calibration}"
        );
    }
    Ok(())
}

/// The calls of a name: what they say, as text, in the order of time.
fn calls(trace: &Trace, name: &str, keys: &[&str]) -> anyhow::Result<Vec<Vec<String>>> {
    let columns: Vec<String> = keys
        .iter()
        .map(|key| {
            format!("cast(ifnull(extract_arg(arg_set_id, 'debug.{key}'), '') as text) as {key}")
        })
        .collect();
    let rows = trace.query(&format!(
        "select {} from slice where category = 'hip' and name = '{name}' order by ts",
        columns.join(", ")
    ))?;
    rows.iter()
        .map(|row| {
            let values = keys.iter().map(|key| Ok(row.text(key)?.to_owned()));
            values.collect()
        })
        .collect()
}

/// HIP 7 launches by configurations.
#[test]
fn launches_by_configuration_have_their_arguments() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let outcome = run(&[], &["exc:3", "no-config:2", "drv:4", "sync"])?;
    ensure!(outcome.expect_success().stdout.contains("done"));
    let trace = outcome.trace_of("hip_standin")?;
    const KEYS: [&str; 5] = ["kernel", "grid", "workgroup", "lds_bytes", "stream"];
    let said = |kernel| [kernel, "7×8×9", "64×2×1", "256", "20816"].map(str::to_owned);
    let by_config = calls(&trace, "hipLaunchKernelExC", &KEYS)?;
    ensure!(by_config.len() == 5, "{by_config:?}");
    ensure!(
        by_config
            .iter()
            .take(3)
            .all(|call| *call == said("kernel_by_pointer")),
        "{by_config:?}"
    );
    // Without a configuration there is nothing to say, and nothing to read.
    ensure!(
        by_config
            .iter()
            .skip(3)
            .all(|call| call[1..].iter().all(String::is_empty)),
        "{by_config:?}"
    );
    let by_driver = calls(&trace, "hipDrvLaunchKernelEx", &KEYS)?;
    ensure!(
        by_driver.len() == 4
            && by_driver
                .iter()
                .all(|call| *call == said("kernel_by_handle")),
        "{by_driver:?}"
    );
    let metadata = trace.metadata()?;
    ensure!(
        metadata.int("gpu_launch_stacks")? == 7,
        "{}",
        outcome.story()
    );
    ensure!(metadata.int("gpu_seen")? == 7 && metadata.int("gpu_recorded")? == 7);
    let streams = trace.number(
        "select count(*) from slice where category = 'kernel' and extract_arg(arg_set_id, 'debug.stream') = 20816",
    )?;
    ensure!(streams == 7, "{streams} kernels have a stream");
    Ok(())
}

/// What HIP 7 copies and fills by new calls has its size, of a batch as a whole and of each copy.
#[test]
fn new_copies_and_fills_have_their_bytes() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let words = [
        "batch", "batch3d", "peer3d", "fill8", "fill16", "fill32", "sync",
    ];
    let outcome = run(&[], &words)?;
    let trace = outcome.expect_success().trace_of("hip_standin")?;
    for (name, keys, expected) in [
        (
            "hipMemcpyBatchAsync",
            &["bytes", "operations", "stream"][..],
            "600 3 20816",
        ),
        (
            "hipMemcpy3DBatchAsync",
            &["bytes", "operations", "stream"],
            "185 2 20816",
        ),
        ("hipMemcpy3DPeer", &["bytes", "stream"], "800 0"),
        ("hipMemcpy3DPeerAsync", &["bytes", "stream"], "800 20816"),
        ("hipMemsetD2D8", &["bytes", "stream", "dst"], "30 0 4096"),
        (
            "hipMemsetD2D8Async",
            &["bytes", "stream", "dst"],
            "30 20816 4096",
        ),
        ("hipMemsetD2D16", &["bytes", "stream"], "60 0"),
        ("hipMemsetD2D16Async", &["bytes", "stream"], "60 20816"),
        ("hipMemsetD2D32", &["bytes", "stream"], "120 0"),
        ("hipMemsetD2D32Async", &["bytes", "stream"], "120 20816"),
    ] {
        let said = calls(&trace, name, keys)?;
        ensure!(
            said.len() == 1 && said[0].join(" ") == expected,
            "{name}: {said:?}\n{}",
            outcome.story()
        );
    }
    let bytes = |category: &str| -> anyhow::Result<Vec<u64>> {
        let mut bytes: Vec<u64> = ops(&trace, category)?.iter().map(|op| op.bytes).collect();
        bytes.sort_unstable();
        Ok(bytes)
    };
    // The stand-in reports sizes of the batch only; those of the batch of boxes are not known.
    ensure!(
        bytes("copy")? == [0, 0, 100, 200, 300, 800, 800],
        "{:?}",
        bytes("copy")?
    );
    ensure!(
        bytes("fill")? == [30, 30, 60, 60, 120, 120],
        "{:?}",
        bytes("fill")?
    );
    Ok(())
}

/// Calls that no header has yet are known by what they cause: their kernels have stacks, and the end of the process waits for them.
#[test]
fn unknown_calls_that_launch_work_are_noticed() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    // Nobody synchronises.
    let words = [
        "ask-tomorrow:100",
        "tomorrow:5",
        "copy-tomorrow:2",
        "ask-tomorrow:100",
        "tomorrow:30",
    ];
    let outcome = run(&[], &words)?;
    let trace = outcome.expect_success().trace_of("hip_standin")?;
    let told = |name| calls(&trace, name, &["kernel"]).map(|calls| calls.len());
    ensure!(told("hipLaunchKernelOfTomorrow")? == 35 && told("hipAskOfTomorrow")? == 200);
    let kernels = ops(&trace, "kernel")?;
    ensure!(
        kernels.len() == 35
            && kernels
                .iter()
                .all(|op| op.name == "of_tomorrow" && op.arrows == 1),
        "{kernels:?}\n{}",
        outcome.story()
    );
    ensure!(
        ops(&trace, "copy")?
            .iter()
            .map(|op| op.bytes)
            .eq([777, 777])
    );
    let metadata = trace.metadata()?;
    ensure!(
        metadata.int("gpu_launch_stacks")? == 35,
        "{}",
        outcome.story()
    );
    for name in ["hipLaunchKernelOfTomorrow", "hipMemcpyOfTomorrow"] {
        let said = metadata.text(&format!("hip call {name}"))?;
        ensure!(said.contains("gives GPUs work"), "{said}");
    }
    ensure!(metadata.get("hip call hipAskOfTomorrow").is_err());
    Ok(())
}

/// Should HIP lose its place for a tracer one day, the trace says which way was taken, and what is lacking.
#[test]
fn a_hip_without_a_place_for_a_tracer_is_said() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let outcome = run_with(&["-DNO_TRACER"], &[], &["launch:5", "sync"])?;
    ensure!(outcome.expect_success().stdout.contains("done"));
    let said = outcome
        .stderr
        .contains("this HIP has no place for a tracer");
    ensure!(said, "{}", outcome.story());
    let trace = outcome.trace_of("hip_standin")?;
    trace.assert_clean();
    let metadata = trace.metadata()?;
    ensure!(metadata.text("gpu source")?.starts_with("HSA queues"));
    let hip = metadata.text("hip")?;
    ensure!(
        hip.contains("hipRegisterTracerCallback") && hip.contains("only those that rsys wraps"),
        "{hip}"
    );
    Ok(())
}

/// HIP's own profiler, which newer versions have: calls, kernels, copies, fills and the single operations of graphs, in chunks and what is left of one.
#[test]
fn hips_own_profiler_is_a_source_where_it_is_chosen() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    const CHUNKS: [&str; 2] = ["-DPROFILER", "-DCHUNK=100"];
    let source = [(SOURCE, "hip-profiler")];
    // A HIP without a place for a tracer has it too.
    for options in [&CHUNKS[..], &["-DPROFILER", "-DCHUNK=100", "-DNO_TRACER"]] {
        let words = [
            "sync",
            "wait-profiler",
            "launch:730",
            "copy:3",
            "set:2",
            "graph:4",
            "sync:2",
        ];
        let outcome = run_with(options, &source, &words)?;
        ensure!(
            outcome.expect_success().stdout.contains("done"),
            "{}",
            outcome.story()
        );
        let trace = outcome.trace_of("hip_standin")?;
        trace.assert_clean();
        ensure!(
            trace
                .metadata()?
                .text("gpu source")?
                .starts_with("HIP's own profiler: chosen")
        );
        let rows = trace.query(
            "select category || ' ' || name || ' ' || coalesce(extract_arg(arg_set_id, 'debug.grid'), '') || ' ' ||
               coalesce(extract_arg(arg_set_id, 'debug.workgroup'), '') || ' ' || coalesce(extract_arg(arg_set_id, 'debug.bytes'), '') as what,
               count(*) as number from slice where category in ('hip', 'kernel', 'copy', 'fill') group by 1 order by 1",
        )?;
        let found: Vec<String> = rows
            .iter()
            .map(|row| {
                Ok(format!(
                    "{} × {}",
                    row.text("what")?.trim_end(),
                    row.int("number")?
                ))
            })
            .collect::<anyhow::Result<_>>()?;
        let expected = [
            "copy CopyDeviceToDevice   4096 × 4",
            "copy CopyHostToDevice   300 × 3",
            "fill FillBuffer   500 × 2",
            "hip hipDeviceSynchronize × 2",
            "hip hipGraphLaunch × 4",
            "hip hipLaunchKernel × 730",
            "hip hipMemcpyAsync   300 × 3",
            "hip hipMemsetAsync   500 × 2",
            "kernel node_even 1×1×1 64×1×1 × 4",
            "kernel node_even 3×1×1 64×1×1 × 4",
            "kernel node_odd 2×1×1 64×1×1 × 4",
            "kernel plain 3×4×5 64×1×1 × 730",
        ];
        ensure!(found == expected, "{found:#?}");
        // Each operation has an arrow, and is near its call: the clocks agree.
        let arrows = trace.number(
            "select count(distinct op.id) from flow join slice op on op.id = flow.slice_in where op.category in ('kernel', 'copy', 'fill')",
        )?;
        let near = trace.number(&format!(
            "with linked as {LINKED},
                  call as (select slice.*, number from slice join linked using (id) where category = 'hip'),
                  op as (select slice.*, number from slice join linked using (id) where category in ('kernel', 'copy', 'fill'))
             select count(*) from call join op using (number) where op.ts >= call.ts - 1000000 and op.ts < call.ts + 1000000000"
        ))?;
        let operations = 730 + 3 + 2 + 4 * 4;
        ensure!(
            [arrows, near] == [operations; 2],
            "{arrows} arrows, {near} near their calls"
        );
    }
    Ok(())
}

/// What came before is recorded once, and so is what comes after; also where a chunk is handed out of which some was fetched before.
#[test]
fn hips_own_profiler_goes_on_after_an_exec_that_fails() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let source = [(SOURCE, "hip-profiler")];
    let words = [
        "sync",
        "wait-profiler",
        "launch:7",
        "exec",
        "launch:2",
        "exec",
        "exec",
        "launch:230",
    ];
    for options in [&["-DPROFILER", "-DCHUNK=100"][..], &["-DPROFILER"]] {
        let outcome = run_with(options, &source, &words)?;
        let trace = outcome.expect_success().trace_of("hip_standin")?;
        trace.assert_clean();
        for category in ["kernel", "hip"] {
            let found = trace.number(&format!(
                "select count(*) from slice where category = '{category}' and name not like '%Synchronize'"
            ))?;
            ensure!(found == 239, "{found} of {category}\n{}", outcome.story());
        }
    }
    Ok(())
}

/// Chunks that HIP hands out, and frees, while what is left is taken from its list are recorded once.
#[test]
fn hips_own_profiler_may_hand_out_chunks_while_its_list_is_taken() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let options = ["-DPROFILER", "-DCHUNK=100", "-DLATE_CHUNKS"];
    let words = ["sync", "wait-profiler", "launch:730"];
    let outcome = run_with(&options, &[(SOURCE, "hip-profiler")], &words)?;
    let trace = outcome.expect_success().trace_of("hip_standin")?;
    trace.assert_clean();
    for category in ["kernel", "hip"] {
        let found = trace.number(&format!(
            "select count(*) from slice where category = '{category}' and name not like '%Synchronize'"
        ))?;
        ensure!(found == 730, "{found} of {category}\n{}", outcome.story());
    }
    Ok(())
}

/// Where it is chosen and not there, `auto` decides, and a line says so.
#[test]
fn a_hip_without_a_profiler_is_recorded_as_ever() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let outcome = run(&[(SOURCE, "hip-profiler")], &["launch:5", "sync"])?;
    ensure!(
        outcome
            .expect_success()
            .stderr
            .contains("this HIP has no profiler of its own"),
        "{}",
        outcome.story()
    );
    let trace = outcome.trace_of("hip_standin")?;
    let kernels = trace.number("select count(*) from slice where category = 'kernel'")?;
    ensure!(kernels == 5, "{kernels}");
    Ok(())
}
