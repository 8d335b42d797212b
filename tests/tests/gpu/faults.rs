//! GPUs that fail: the trace holds what was done before, and says what happened; the program ends as it would without us.

use anyhow::ensure;
use rsys_tests::simgpu::{
    Machine, Stack, accounts, below_hsa_tool, code_object, hip_program, hsa_program, hsa_tool, ops,
};
use rsys_tests::{Outcome, Run, TestResult, run_plain, skip_if_missing};

/// What goes wrong, and how the trace shows it.
struct Case {
    name: &'static str,
    config: &'static str,
    /// Whether ROCr 5 notices: where it does not, the program hangs, with or without us.
    noticed_by_5: bool,
    /// A counter that is not zero then.
    count: &'static str,
    /// What the trace says of it.
    says: &'static str,
}

const SPIN: &str = "[[kernel]]\nname = 'spin'\nmicroseconds = 300\n";

const CASES: [Case; 8] = [
    Case {
        name: "zero times",
        config: "[[kernel]]\nname = 'one'\nfault = 'zero-times'\n",
        noticed_by_5: true,
        count: "impossible",
        says: "",
    },
    Case {
        name: "backward times",
        config: "[[kernel]]\nname = 'one'\nfault = 'backward-times'\n",
        noticed_by_5: true,
        count: "clamped",
        says: "",
    },
    Case {
        name: "late times",
        config: "[[kernel]]\nname = 'one'\nfault = 'late-times'\n",
        noticed_by_5: true,
        count: "recorded",
        says: "",
    },
    Case {
        name: "queue error",
        config: "[[kernel]]\nname = 'one'\nfault = 'queue-error'\n",
        noticed_by_5: true,
        count: "at_end",
        says: "of the GPU failed",
    },
    Case {
        name: "memory fault",
        config: "[[kernel]]\nname = 'one'\nfault = 'memory-fault'\n",
        noticed_by_5: false,
        count: "at_end",
        says: "memory fault on GPU 0",
    },
    Case {
        name: "vanished GPU",
        config: "[faults]\nvanish_after_dispatches = 20\n",
        noticed_by_5: false,
        count: "at_end",
        says: "GPU 0",
    },
    Case {
        name: "no memory",
        config: "[faults]\nfailing_allocations = [1, 2]\n",
        noticed_by_5: true,
        count: "",
        says: "",
    },
    Case {
        name: "slow start",
        config: "[faults]\nopen_delay_ms = 300\n",
        noticed_by_5: true,
        count: "recorded",
        says: "",
    },
];

/// What became of a program, and what it said; without what HIP 7 says of a queue that failed, with addresses and where it stood.
fn ending(outcome: &Outcome) -> (String, String) {
    let lines = outcome.stdout.lines();
    let said: Vec<_> = lines.filter(|line| !line.starts_with("VGPU(")).collect();
    (outcome.status.to_string(), said.join("\n"))
}

fn faults_are_told_and_change_nothing(stack: Stack, source: &str) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let old = matches!(stack, Stack::Debian12 | Stack::Wheel54);
    for case in CASES {
        if old && !case.noticed_by_5 {
            continue;
        }
        let name = case.name;
        let machine = Machine::new(stack)?.config(&format!("{}{SPIN}", case.config))?;
        let program = || hip_program(stack, "hip_fault");
        let bare = run_plain(machine.run(program()?))?;
        let outcome = Run::new()
            .options(["-I", "rocm", "--gpu-source", source])
            .command(machine.run(program()?))
            .run()?;
        ensure!(
            ending(&outcome) == ending(&bare),
            "{name}\n{}\nwithout us:\n{}",
            outcome.story(),
            bare.story()
        );
        if name == "no memory" && !outcome.stdout.contains("after=0") {
            continue;
        }
        let trace = outcome.trace_of("hip_fault")?;
        let (counts, kernels) = (accounts(&trace)?, ops(&trace, "kernel")?);
        // What was complete before the fault is there; of what the program has not waited for, HIP has not told. HIP 6 tells a moment
        // after a wait, on the thread that learns of a queue's error and aborts: what it had no time to tell is counted.
        let before = kernels.iter().filter(|op| op.name.contains("spin")).count();
        let ran = machine.truth()?.kernels_named("spin").count();
        // So it is with a memory fault, on ROCr's own thread.
        let may_lose =
            source == "hip" && matches!(name, "vanished GPU" | "queue error" | "memory fault");
        ensure!(
            before == ran
                || (may_lose && before < ran && counts["at_end"] >= (ran - before) as i64),
            "{name}: {before} of {ran}, {counts:?}\n{}",
            outcome.story()
        );
        ensure!(
            ran == 20 || matches!(name, "vanished GPU" | "no memory"),
            "{name}: {ran} ran"
        );
        ensure!(
            kernels.iter().all(|op| op.start_ns > 0),
            "{name}: {kernels:?}"
        );
        // HIP 7 puts them right before it tells.
        let is_mended = source == "hip" && stack == Stack::Rocm7 && name == "backward times";
        match case.count {
            "" => {}
            _ if is_mended => ensure!(counts["recorded"] == 21, "{name}: {counts:?}"),
            // HIP replaces such times by others.
            "impossible" => ensure!(
                counts["time_invalid"] + counts["clamped"] >= 1,
                "{name}: {counts:?}"
            ),
            // HIP 7 goes on, and tells of what did not end as if it had, at times that cannot be.
            "at_end" if source == "hip" && stack == Stack::Rocm7 => ensure!(
                counts["at_end"] + counts["clamped"] >= 1,
                "{name}: {counts:?}"
            ),
            count => ensure!(counts[count] >= 1, "{name}: {counts:?}"),
        }
        let clamped = kernels.iter().filter(|op| op.clamped).count();
        ensure!(clamped as i64 == counts["clamped"], "{name}: {counts:?}");
        let says = case.says;
        // HIP's queues are its own: it says so itself, on standard error.
        let is_hips = source == "hip" && name == "queue error";
        if !says.is_empty() && !is_hips {
            let told = trace.metadata()?.text("gpu fault")?;
            ensure!(told.contains(says), "{name}: {told}");
            ensure!(outcome.stderr.contains(&told), "{}", outcome.story());
        }
    }
    Ok(())
}

macro_rules! with_sources {
    ($($test:ident: $stack:ident, $source:literal;)*) => {
        $(
            #[test]
            fn $test() -> TestResult {
                faults_are_told_and_change_nothing(Stack::$stack, $source)
            }
        )*
    };
}

with_sources! {
    queues_of_the_oldest: Debian12, "hsa";
    queues_of_the_newest: Unstable, "hsa";
    hip_of_the_wheel: Wheel54, "hip";
    hip_of_the_newest: Unstable, "hip";
    queues_of_rocm7: Rocm7, "hsa";
    hip_of_rocm7: Rocm7, "hip";
}

#[test]
fn kernels_that_hang_do_not_hold_the_end() -> TestResult {
    let stack = Stack::Unstable;
    skip_if_missing!(stack.missing_to_build());
    let machine = Machine::new(stack)?.config("[[kernel]]\nname = 'short'\nfault = 'hang'\n")?;
    let program = hsa_program("hsa_flood")?
        .arg(code_object("gfx90a")?)
        .args(["hang", "2", "3", "0"]);
    let outcome = Run::new()
        .options(["-I", "rocm", "hsa", "--min-samples", "1"])
        .command(machine.run(program))
        .run()?;
    let trace = outcome.expect_success().trace_of("hsa_flood")?;
    let counts = accounts(&trace)?;
    ensure!(counts["seen"] == 6 && counts["at_end"] == 6, "{counts:?}");
    Ok(())
}

/// What the HSA runtime reports besides faults is none: ROCr 7.2 reports its own shutdown. A later event never hides a fault.
fn system_events_are_told_apart(stack: Stack) -> TestResult {
    skip_if_missing!(stack.missing_to_build());
    let tool = hsa_tool("system_events_tool")?;
    const NONE: [(&str, &str); 0] = [];
    for (events, facts, absent) in [
        ("3", &NONE[..], &["gpu fault", "gpu event"][..]),
        ("0 3", &[("gpu fault", "memory fault")], &["gpu fault 2"]),
        (
            "0 2 1 3",
            &[
                ("gpu fault", "memory fault"),
                ("gpu fault 2", "memory error"),
                ("gpu fault 3", "hardware failed"),
            ],
            &["gpu fault 4", "gpu event"],
        ),
        (
            "70 2 3",
            &[("gpu fault", "memory error"), ("gpu event", "70")],
            &["gpu fault 2"],
        ),
    ] {
        let machine = Machine::new(stack)?;
        let program = hsa_program("hsa_flood")?
            .arg(code_object("gfx90a")?)
            .args(["reuse", "1", "20", "4"]);
        let program = below_hsa_tool(&tool, program).env("SYSTEM_EVENTS", events);
        let outcome = Run::new()
            .options(["-I", "rocm", "--min-samples", "1"])
            .command(machine.run(program))
            .run()?;
        outcome.expect_success();
        // The runtime is answered as it would be without us, but for what is not meant for handlers that act on it.
        let answers = outcome.stdout.matches("answered 0x1000").count();
        let faults = events.split(' ').filter(|kind| *kind != "3").count();
        ensure!(answers == faults, "{events}: {}", outcome.story());
        let metadata = outcome.trace_of("hsa_flood")?.metadata()?;
        for (key, part) in facts {
            let said = metadata.text(key)?;
            ensure!(
                said.contains(part) && outcome.stderr.contains(&said),
                "{events}: {key} is {said}\n{}",
                outcome.story()
            );
        }
        for key in absent {
            ensure!(
                metadata.get(key).is_err(),
                "{events}: {:?}",
                metadata.get(key)
            );
        }
        let lines = outcome.stderr.lines();
        let alarms = lines.filter(|line| line.contains("memory") || line.contains("event"));
        ensure!(
            facts.len() >= alarms.count(),
            "{events}: {}",
            outcome.story()
        );
    }
    Ok(())
}

#[test]
fn system_events_are_told_apart_by_the_oldest() -> TestResult {
    system_events_are_told_apart(Stack::Debian12)
}

#[test]
fn system_events_are_told_apart_by_the_newest() -> TestResult {
    system_events_are_told_apart(Stack::Unstable)
}

#[test]
fn system_events_are_told_apart_by_rocm7() -> TestResult {
    system_events_are_told_apart(Stack::Rocm7)
}
