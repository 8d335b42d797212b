//! What the simulated driver keeps of processes, and how it answers them.

use std::collections::HashMap;

use rsys_tests::simgpu::{Machine, Stack, code_object, hip_program, hsa_program};
use rsys_tests::{TestResult, run_plain, script, skip_if_missing};

/// The oldest, which runs without a file tree of its own.
const STACK: Stack = Stack::Debian12;

#[test]
fn everybody_sees_what_a_process_uses_until_it_is_killed() -> TestResult {
    skip_if_missing!(STACK.missing());
    let machine = Machine::new(STACK)?
        .gpus(2)
        .config("[[kernel]]\nname = 'spin'\nmicroseconds = 3600000000")?;
    let program = hip_program(STACK, "hip_once")?.path();
    // The shell never opens a device: it only looks. The kernel never ends.
    let line = format!(
        "d=/sys/class/kfd/kfd/proc; used=/sys/class/drm/card0/device/mem_info_vram_used
         number() {{ cat $1 2> /dev/null || echo 0; }}
         echo before=$(ls $d | wc -l)
         {program} > /dev/null & pid=$!; p=$d/$pid
         until [ $(number $p/vram_30000) -ge $((64 << 20)) ]; do sleep 0.05; done
         until [ -n \"$(ls $p/queues)\" ]; do sleep 0.05; done
         echo pasid=$(cat $p/pasid) other=$(cat $p/vram_31111) sdma=$(cat $p/sdma_30000) evicted=$(cat $p/stats_30000/evicted_ms)
         queue=$p/queues/$(ls $p/queues | head -1); echo gpuid=$(cat $queue/gpuid) size=$(cat $queue/size) type=$(cat $queue/type)
         kill -KILL $pid
         until [ ! -e $p ] && [ $(cat $used) = 0 ]; do sleep 0.05; done
         echo after=$(ls $d | wc -l)",
        program = program.display(),
    );
    let outcome = run_plain(machine.run(script(&line)))?;
    let shown = &outcome.expect_success().stdout;
    for part in [
        "before=0",
        "pasid=32768 other=",
        "evicted=0",
        "gpuid=30000 size=",
        "after=0",
    ] {
        assert!(shown.contains(part), "no {part} in\n{shown}");
    }
    Ok(())
}

#[test]
fn an_allocation_that_fails_is_told_as_such() -> TestResult {
    skip_if_missing!(STACK.missing());
    let program = hip_program(STACK, "hip_once")?;
    // The first allocation is the runtime's own. It asks once more when one fails.
    for (failing, line, status) in [("2", "malloc=0", 0), ("2, 3", "malloc=2", 1)] {
        let config = format!("[faults]\nfailing_allocations = [{failing}]");
        let machine = Machine::new(STACK)?.config(&config)?;
        let outcome = run_plain(machine.run(program.clone()))?;
        assert_eq!(outcome.status.code(), Some(status), "{config}");
        assert!(
            outcome.stdout.lines().any(|printed| printed == line),
            "{config}: no {line} in\n{}",
            outcome.stdout
        );
        assert!(
            machine.log().contains("fails with error 12"),
            "{config}: {}",
            machine.log()
        );
    }
    Ok(())
}

#[test]
fn no_kernel_starts_before_it_was_submitted() -> TestResult {
    skip_if_missing!(STACK.missing());
    const KERNELS: usize = 2000;
    let machine = Machine::new(STACK)?.config("strict_doorbell = true")?;
    let program = hsa_program("hsa_check")?
        .arg(code_object("gfx90a")?)
        .arg(KERNELS.to_string())
        .arg("doorbell");
    let outcome = run_plain(machine.run(program))?;
    let truth = machine.truth()?;
    let starts: HashMap<u64, u64> = truth
        .dispatches()
        .map(|dispatch| (dispatch.start_tick, dispatch.start_ns))
        .collect();
    let mut seen = 0;
    for line in outcome.expect_success().stdout.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        let ["submitted", submitted_ns, start_tick] = words[..] else {
            continue;
        };
        let start_ns = starts[&start_tick.parse()?];
        assert!(start_ns >= submitted_ns.parse()?, "{line}: at {start_ns}");
        seen += 1;
    }
    assert_eq!(seen, KERNELS + 3);
    Ok(())
}
