//! The simulated GPU: what the real runtimes make of it.
//!
//! Times are compared on the GPU's clock only, never with the wall.

use std::collections::HashMap;
use std::os::unix::process::ExitStatusExt;

use rsys_tests::simgpu::{Dispatch, Machine, Stack, code_object, hip_program, hsa_program};
use rsys_tests::{Invocation, Outcome, Run, TestResult, run_plain, script, skip_if_missing};

/// Kernels of the workloads.
const TIMES: &str = "
[[kernel]]
name = 'spin'
microseconds = 300
[[kernel]]
name = 'touch'
microseconds = 5
[[kernel]]
name = 'node'
microseconds = 2
[[kernel]]
name = 'short_kernel'
microseconds = 20
[[kernel]]
name = 'long_kernel'
formula = '10000 + grid * 100'
";

/// ROCr translates ticks by a line through a few readings of both clocks.
const TRANSLATION_NS: u64 = 1000;

rsys_tests::on_every_stack! {
    rocminfo_lists_what_was_asked_for;
    hsa_programs_get_their_times_and_data;
    hip_programs_get_their_times_and_data;
    faults_reach_the_program;
    sensors_follow_the_load;
}

/// Compilers are in these two.
/// The number in a line `name=number`.
fn number(outcome: &Outcome, name: &str) -> anyhow::Result<f64> {
    let start = format!("{name}=");
    let line = outcome
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix(&start));
    let text = line.ok_or_else(|| anyhow::anyhow!("no {name} in\n{}", outcome.stdout))?;
    Ok(text.trim().parse()?)
}

fn rocminfo_lists_what_was_asked_for(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    // ROCr 5.2 knows no gfx942.
    let models: &[&str] = match stack {
        Stack::Debian13 | Stack::Unstable | Stack::Rocm7 => &["gfx90a", "gfx942"],
        _ => &["gfx90a", "gfx908"],
    };
    for (gpus, model) in [(1, models[0]), (8, models[1])] {
        let machine = Machine::new(stack)?.gpus(gpus).model(model);
        let outcome = Run::bare()
            .command(machine.run(stack.tool("rocminfo")))
            .run()?;
        let listed = outcome.expect_success().stdout.clone();
        let name = format!("Name: {model}");
        let found = listed
            .lines()
            .filter(|line| line.split_whitespace().collect::<Vec<_>>().join(" ") == name);
        assert_eq!(found.count(), gpus, "{listed}");
        // ROCr and HIP ask the driver for more than a list; nothing may be amiss there.
        assert!(!machine.log().contains("fault"), "{}", machine.log());
    }
    Ok(())
}

fn hsa_programs_get_their_times_and_data(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    const DISPATCHES: usize = 100;
    let machine = Machine::new(stack)?.gpus(2).config(TIMES)?;
    let program = hsa_program("hsa_check")?
        .arg(code_object("gfx90a")?)
        .arg(DISPATCHES.to_string());
    let outcome = Run::bare().command(machine.run(program)).run()?;
    assert!((number(outcome.expect_success(), "gpus")? - 2.0).abs() < 0.5);
    let truth = machine.truth()?;
    let mut expected: HashMap<(usize, u64, u64), (u64, u64, usize)> = HashMap::new();
    for dispatch in truth.kernels_named("_kernel") {
        let key = (dispatch.gpu, dispatch.start_tick, dispatch.end_tick);
        expected
            .entry(key)
            .or_insert((dispatch.start_ns, dispatch.end_ns, 0))
            .2 += 1;
        let items = u64::from(dispatch.grid[0]);
        let duration_ns = match dispatch.kernel.as_str() {
            "short_kernel" => 20_000,
            _ => 10_000 + 100 * items,
        };
        // Ticks are 10 ns.
        assert_eq!(
            dispatch.end_ns - dispatch.start_ns,
            duration_ns,
            "{dispatch:?}"
        );
    }
    let mut seen = 0;
    for line in outcome
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("dispatch "))
    {
        let numbers: Vec<u64> = line.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let [gpu, start_tick, end_tick, start_ns, end_ns] = numbers[..] else {
            anyhow::bail!("{line}");
        };
        let known = expected.get_mut(&(usize::try_from(gpu)?, start_tick, end_tick));
        let Some((true_start_ns, true_end_ns, left)) = known.filter(|known| known.2 > 0) else {
            anyhow::bail!("the signal says what did not happen: {line}");
        };
        *left -= 1;
        assert!(start_ns.abs_diff(*true_start_ns) < TRANSLATION_NS, "{line}");
        assert!(end_ns.abs_diff(*true_end_ns) < TRANSLATION_NS, "{line}");
        seen += 1;
    }
    assert_eq!(seen, 2 * DISPATCHES);
    // Packets without a barrier bit run beside their neighbours, and none starts before one with it has ended.
    let ours: Vec<_> = truth
        .kernels_named("_kernel")
        .filter(|dispatch| dispatch.gpu == 0)
        .collect();
    let overlapping = ours.iter().any(|one| {
        let beside = |other: &&&Dispatch| {
            other.index != one.index && other.start_ns < one.end_ns && one.start_ns < other.end_ns
        };
        ours.iter().any(|other| beside(&other))
    });
    assert!(overlapping);
    for barrier in ours.iter().filter(|one| one.index % 64 % 3 == 0) {
        let mut earlier = ours.iter().filter(|other| other.index < barrier.index);
        assert!(
            earlier.all(|other| other.end_tick <= barrier.start_tick),
            "{barrier:?}"
        );
    }
    assert!(truth.copies().count() > 0);
    Ok(())
}

fn hip_programs_get_their_times_and_data(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.gpus(2).config(TIMES)?;
    let program = hip_program(stack, "hip_check")?;
    let outcome = Run::bare().command(machine.run(program)).run()?;
    outcome.expect_success();
    // Between the kernels there may be gaps, but no time can be missing.
    assert!(number(&outcome, "elapsed_us")? >= 900.0);
    // The program has used a memory pool: HIP 7 maps its memory by the graphics driver.
    if stack == Stack::Rocm7 {
        assert!((number(&outcome, "pools")? - 1.0).abs() < 0.5);
    }
    let truth = machine.truth()?;
    let executed = ["spin", "touch", "node"].map(|name| truth.kernels_named(name).count());
    assert_eq!(executed[0], 3);
    let launches = number(&outcome, "launches")?;
    assert!(
        (executed.iter().sum::<usize>() as f64 - launches).abs() < 0.5,
        "{executed:?} of {launches}"
    );
    for (name, nanoseconds) in [("spin", 300_000), ("touch", 5_000), ("node", 2_000)] {
        for dispatch in truth.kernels_named(name) {
            assert_eq!(
                dispatch.end_ns - dispatch.start_ns,
                nanoseconds,
                "{dispatch:?}"
            );
        }
    }
    for gpu in 0..2 {
        assert!(
            truth.copies().any(|copy| copy.gpu == gpu),
            "GPU {gpu} copied nothing"
        );
    }
    assert!(!machine.log().contains("fault"), "{}", machine.log());
    Ok(())
}

/// What a program has to say of a fault.
enum Then {
    /// It prints this line and ends by itself.
    Prints(&'static str),
    /// It is aborted with this message.
    Aborts(&'static str),
}

fn faults_reach_the_program(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let program = hip_program(stack, "hip_once")?;
    let new = stack == Stack::Rocm7;
    let old = matches!(stack, Stack::Debian12 | Stack::Wheel54);
    let mut cases = vec![
        ("[faults]\ninterrupt_every = 3", Then::Prints("elapsed=0")),
        ("[faults]\ninterrupt_opens = 1", Then::Prints("count=100")),
        ("[faults]\nopen_delay_ms = 100", Then::Prints("elapsed=0")),
        ("vram_mib = 32", Then::Prints("malloc=2")),
        (
            "[[kernel]]\nname = 'spin'\nfault = 'zero-times'",
            Then::Prints("synchronize=0"),
        ),
        (
            "[[kernel]]\nname = 'spin'\nfault = 'backward-times'",
            Then::Prints("synchronize=0"),
        ),
        (
            "[[kernel]]\nname = 'spin'\nfault = 'late-times'",
            Then::Prints("synchronize=0"),
        ),
        (
            "[[kernel]]\nname = 'spin'\nfault = 'queue-error'",
            // HIP 7 gives errors back where those before it abort.
            if new {
                Then::Prints("synchronize=719")
            } else {
                Then::Aborts("aborting with error")
            },
        ),
    ];
    // Not here: silent events. All runtimes do their work without interrupts most of the time, but each can then hang for good,
    // HIP 5 in its wait for an event, ROCr 6.4 at its end.
    if !old {
        // ROCr 5 only looks at signals while HIP waits: it never asks the driver, and the program hangs.
        cases.push((
            "[[kernel]]\nname = 'spin'\nfault = 'memory-fault'",
            if new {
                Then::Prints("synchronize=700")
            } else {
                Then::Aborts("Memory access fault by GPU node-1")
            },
        ));
    }
    for (config, then) in cases {
        let machine = Machine::new(stack)?.config(config)?;
        let outcome = run_plain(machine.run(program.clone()))?;
        match then {
            Then::Prints(line) => {
                let printed = outcome.stdout.lines().any(|printed| printed == line);
                assert!(
                    printed,
                    "{config}: no {line} in\n{}\n{}",
                    outcome.stdout, outcome.stderr
                );
                assert!(
                    outcome.status.code().is_some_and(|code| code < 2),
                    "{config}: {}",
                    outcome.status
                );
            }
            Then::Aborts(message) => {
                assert!(
                    outcome.stderr.contains(message),
                    "{config}: {}",
                    outcome.stderr
                );
                assert!(
                    !outcome.stdout.contains("synchronize=0"),
                    "{config}: {}",
                    outcome.stdout
                );
                // By a signal; or 128 and its number, where a shell stands in between.
                let number = outcome
                    .status
                    .signal()
                    .or(outcome.status.code().map(|code| code - 128));
                assert_eq!(number, Some(6), "{config}: {}", outcome.status);
            }
        }
    }
    Ok(())
}

fn sensors_follow_the_load(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    if stack == Stack::Wheel54 {
        // It has no SMI library.
        return Ok(());
    }
    let machine = Machine::new(stack)?
        .gpus(2)
        .config("[[kernel]]\nname = 'spin'\nmicroseconds = 3600000000")?;
    let program = hip_program(stack, "hip_once")?.path();
    let tools = stack.tool("").path();
    // The first question is about an idle machine; the others come when the sensors have seen the kernel, which never ends.
    let line = format!(
        "busy() {{ cat /sys/class/drm/card0/device/gpu_busy_percent; }}; smi={}/rocm-smi; \
         $smi; {} > /dev/null & until [ \"$(busy)\" = 100 ]; do sleep 0.1; done; $smi; $smi --showmeminfo vram; kill -KILL $!",
        tools.display(),
        program.display(),
    );
    let outcome = run_plain(machine.run(script(&line)))?;
    let shown = &outcome.expect_success().stdout;
    // The last two columns are shares of memory and time, of each GPU.
    let rows: Vec<Vec<&str>> = shown
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|words| words.len() > 8 && ["0", "1"].contains(&words[0]))
        .collect();
    let busy: Vec<_> = rows.iter().map(|words| words[words.len() - 1]).collect();
    assert_eq!(busy, ["0%", "0%", "100%", "0%"], "{shown}");
    let used = shown.lines().filter(|line| line.contains("Used Memory"));
    let used: Vec<u64> = used
        .filter_map(|line| line.rsplit(' ').next()?.parse().ok())
        .collect();
    assert!(
        used.len() == 2 && used[0] > used[1] && used[0] >= 64 << 20,
        "{shown}"
    );
    Ok(())
}

/// Waves of 32, another instruction set: the runtimes' copy kernels are known there too.
#[test]
fn another_family_moves_data_and_runs_kernels() -> TestResult {
    for stack in [Stack::Debian13, Stack::Unstable, Stack::Rocm7] {
        skip_if_missing!(stack.missing_to_build());
        let machine = Machine::new(stack)?.model("gfx1100").config(TIMES)?;
        let program = hsa_program("hsa_check")?
            .arg(code_object("gfx1100")?)
            .arg("100");
        run_plain(machine.run(program))?.expect_success();
        assert_eq!(machine.truth()?.kernels_named("_kernel").count(), 100);
    }
    Ok(())
}

#[test]
fn amd_smi_lists_the_gpus() -> TestResult {
    for stack in [Stack::Debian13, Stack::Unstable, Stack::Rocm7] {
        skip_if_missing!(stack.missing_to_build());
        let machine = Machine::new(stack)?.gpus(3).model("gfx942");
        let outcome = run_plain(machine.run(stack.tool("amd-smi").arg("list")))?;
        let listed = &outcome.expect_success().stdout;
        for part in ["GPU: 2", "0000:10:00.0", "0000:18:00.0", "0000:20:00.0"] {
            assert!(listed.contains(part), "no {part} in\n{listed}");
        }
    }
    Ok(())
}

#[test]
fn other_programs_are_not_disturbed() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let machine = Machine::new(Stack::Wheel54)?.gpus(2);
    for line in [
        "ls -la /usr",
        "ls /no/such/folder",
        "python3 -c 'import os; print(os.stat(\"/dev/null\").st_mode, os.path.realpath(\"/proc/self/../1\"))'",
        "python3 -c pass",
        "gcc --version",
        "echo 'int main(void) { return 3; }' > simgpu_a.c && gcc simgpu_a.c -o simgpu_a && ./simgpu_a",
        "find /sys/bus/cpu | sort | head -20; cat /proc/version; test -e /dev/null",
        "kill -TERM $$",
    ] {
        let bare = run_plain(script(line))?;
        let simulated = run_plain(machine.run(script(line)))?;
        assert_eq!(bare.status, simulated.status, "{line}");
        assert_eq!(bare.stdout, simulated.stdout, "{line}");
        assert_eq!(bare.stderr, simulated.stderr, "{line}");
    }
    Ok(())
}

#[test]
fn devices_look_like_devices() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let machine = Machine::new(Stack::Wheel54)?.gpus(3);
    let look = script(
        "stat -c '%n %F %t:%T' /dev/kfd /dev/dri/renderD129; ls /dev/dri /sys/class/drm; \
         readlink -f /sys/class/drm/card2/device; cat /sys/class/drm/card2/device/uevent; \
         grep -c . /sys/class/kfd/kfd/topology/nodes/3/properties",
    );
    let outcome = run_plain(machine.run(look))?;
    let shown = &outcome.expect_success().stdout;
    for part in [
        "/dev/kfd character special file eb:0",
        "/dev/dri/renderD129 character special file e2:81",
        "card0\ncard1\ncard2\nrenderD128\nrenderD129\nrenderD130\n",
        "/sys/devices/pci0000:00/0000:20:00.0\n",
        "PCI_SLOT_NAME=0000:20:00.0\n",
    ] {
        assert!(shown.contains(part), "no {part} in\n{shown}");
    }
    Ok(())
}

#[test]
fn wrong_questions_get_clear_answers() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    for (machine, reason) in [
        (
            Machine::new(Stack::Wheel54)?.gpus(17),
            "17 GPUs cannot be simulated; 1 to 16 can",
        ),
        (
            Machine::new(Stack::Wheel54)?.model("gfx1"),
            "there is no model `gfx1`; there are gfx90a,",
        ),
        (
            Machine::new(Stack::Wheel54)?.config("speed = 3")?,
            "unknown field `speed`",
        ),
        (
            Machine::new(Stack::Wheel54)?.config("[[kernel]]\nname = 'a'\nformula = 'grid *'")?,
            "[[kernel]] a: formula: `grid *` ends too early",
        ),
        (
            Machine::new(Stack::Wheel54)?.config("[copies]\nhost_gb_per_s = 0")?,
            "copies.host_gb_per_s is 0; it must be more than 0",
        ),
    ] {
        let outcome = run_plain(machine.run("true"))?;
        assert_eq!(outcome.status.code(), Some(126));
        assert!(outcome.stderr.contains(reason), "{}", outcome.stderr);
    }
    let outcome = run_plain(Machine::new(Stack::Wheel54)?.run("/no/such/program"))?;
    assert!(
        outcome.stderr.contains("cannot start /no/such/program"),
        "{}",
        outcome.stderr
    );
    Ok(())
}

#[test]
fn the_launcher_ends_as_the_program_does() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing());
    let machine = Machine::new(Stack::Wheel54)?;
    for line in ["exit 7", "kill -KILL $$", "kill -SEGV $$", "true"] {
        let bare = run_plain(script(line))?;
        assert_eq!(
            run_plain(machine.run(script(line)))?.status,
            bare.status,
            "{line}"
        );
    }
    Ok(())
}

/// A program that uses the GPUs, profiled: the two preloaded libraries get along, in either order.
#[test]
fn profiler_and_simulation_get_along() -> TestResult {
    skip_if_missing!(Stack::Debian12.missing_to_build());
    for profiler_outside in [true, false] {
        let machine = Machine::new(Stack::Debian12)?.config(TIMES)?;
        let program = hsa_program("hsa_check")?
            .arg(code_object("gfx90a")?)
            .arg("200");
        let run = if profiler_outside {
            Run::new().freq(500).command(machine.run(program)).run()?
        } else {
            let sampler = rsys_tests::sampler()?;
            let inside = Invocation::new(sampler)
                .args(["-f", "500", "-o", "traces", "--"])
                .program(program);
            Run::bare().command(machine.run(inside)).run()?
        };
        assert!((number(run.expect_success(), "gpus")? - 1.0).abs() < 0.5);
        assert_eq!(machine.truth()?.kernels_named("_kernel").count(), 200);
    }
    Ok(())
}
