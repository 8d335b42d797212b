//! RCCL: the real library over simulated GPUs, each call of the program as the program itself tells it.

use std::collections::{BTreeMap, BTreeSet};

use rsys_tests::simgpu::{Machine, Stack, library_program};
use rsys_tests::{
    Cell, Invocation, Outcome, Run, Scratch, TestResult, Trace, key, script, skip_if_missing,
};

/// The arguments that a call is judged by, in the order in which the program prints them.
const KEYS: [&str; 13] = [
    "communicator",
    "rank",
    "ranks",
    "sequence",
    "count",
    "datatype",
    "bytes",
    "operation",
    "root",
    "peer",
    "operations",
    "detail",
    "result",
];

/// The calls in a trace, in order, as the program prints them: communicators are numbered as they appear.
fn calls(trace: &Trace) -> anyhow::Result<(Vec<String>, Vec<String>)> {
    let rows = trace.query(
        "select s.id as id, s.name as name, coalesce(a.key, '') as key, coalesce(a.string_value, a.int_value) as value
         from slice s left join args a using (arg_set_id) where s.category = 'rccl' order by s.ts, s.id",
    )?;
    let mut found: Vec<(i64, String, BTreeMap<String, Cell>)> = Vec::new();
    for row in rows.iter() {
        let id = row.int("id")?;
        if found.last().is_none_or(|(last, ..)| *last != id) {
            found.push((id, row.text("name")?.to_owned(), BTreeMap::new()));
        }
        if let Some((_, _, arguments)) = found.last_mut() {
            let key = row.text("key")?.trim_start_matches("debug.");
            arguments.insert(key.to_owned(), row.cell("value")?.clone());
        }
    }
    let mut communicators: Vec<String> = Vec::new();
    let mut lines = Vec::new();
    for (_, name, arguments) in found {
        let mut line = format!("{name} ");
        let values: Vec<String> = KEYS
            .iter()
            .filter_map(|key| {
                let value = arguments.get(*key)?.to_string();
                if *key != "communicator" {
                    return Some(format!("{key}={value}"));
                }
                let known = communicators.iter().position(|known| *known == value);
                let number = known.unwrap_or_else(|| {
                    communicators.push(value);
                    communicators.len() - 1
                });
                Some(format!("{key}={number}"))
            })
            .collect();
        line.push_str(&values.join(" "));
        lines.push(line);
    }
    Ok((lines, communicators))
}

/// What the program says that it called, by process.
fn expected(outcome: &Outcome) -> BTreeMap<i64, Vec<String>> {
    let mut processes: BTreeMap<i64, Vec<String>> = BTreeMap::new();
    for line in outcome.stdout.lines() {
        let Some((pid, call)) = line
            .strip_prefix("call ")
            .and_then(|rest| rest.split_once(' '))
        else {
            continue;
        };
        let calls = processes.entry(pid.parse().unwrap_or(0)).or_default();
        calls.push(call.to_owned());
    }
    processes
}

/// Judges a run: every call of every process, once and in order. Returns the identities of the first communicator.
fn judge(outcome: &Outcome, processes: usize) -> anyhow::Result<BTreeSet<String>> {
    let mut expected = expected(outcome.expect_success());
    assert_eq!(expected.len(), processes, "{}", outcome.story());
    let mut identities = BTreeSet::new();
    for trace in outcome.traces()? {
        trace.assert_clean();
        let Some(calls_made) = expected.remove(&trace.metadata()?.int(key::PID)?) else {
            assert_eq!(calls(&trace)?.0, Vec::<String>::new());
            continue;
        };
        let (told, communicators) = calls(&trace)?;
        assert_eq!(told, calls_made);
        identities.extend(communicators.first().cloned());
        // Operations and the end of their group have one correlation, and each operation its stream.
        let lost = trace.number(
            "with told as (select s.name as name, extract_arg(arg_set_id, 'debug.correlation') as correlation,
               extract_arg(arg_set_id, 'debug.operations') as operations, extract_arg(arg_set_id, 'debug.count') as count,
               extract_arg(arg_set_id, 'debug.stream') as stream from slice s where category = 'rccl')
             select (select count(*) from told where count is not null and stream is null) +
               (select count(*) from told g where operations is not null and operations !=
                 (select count(*) from told o where o.correlation = g.correlation and o.count is not null))",
        )?;
        assert_eq!(lost, 0);
    }
    assert!(expected.is_empty(), "no trace of {:?}", expected.keys());
    Ok(identities)
}

fn program(stack: Stack) -> anyhow::Result<Invocation> {
    library_program(stack, "rccl_calls", &["rccl", "amdhip64"])
}

fn profiled(machine: &Machine, program: impl Into<Invocation>) -> Run {
    Run::new()
        .options(["-I", "roctx", "rccl"])
        .command(machine.run(program))
}

#[test]
fn each_call_is_told_once_in_one_process() -> TestResult {
    skip_if_missing!(Stack::Debian13.missing());
    let more = std::env::var_os("RSYS_SLOW").is_some();
    for gpus in [2, 4, 8].into_iter().filter(|gpus| *gpus < 8 || more) {
        calls_are_told_once(Stack::Debian13, gpus)?;
    }
    Ok(())
}

fn calls_are_told_once(stack: Stack, gpus: usize) -> TestResult {
    let machine = Machine::new(stack)?.gpus(gpus);
    let outcome = profiled(&machine, program(stack)?).run()?;
    judge(&outcome, 1)?;
    Ok(())
}

#[test]
fn ranks_in_processes_have_one_communicator() -> TestResult {
    skip_if_missing!(Stack::Debian13.missing());
    for (ranks, settings) in [(2, "export NCCL_P2P_DISABLE=1;"), (4, "")] {
        ranks_have_one_communicator(Stack::Debian13, ranks, settings)?;
    }
    Ok(())
}

fn ranks_have_one_communicator(stack: Stack, ranks: usize, settings: &str) -> TestResult {
    let program = program(stack)?.path();
    let machine = Machine::new(stack)?.gpus(ranks);
    let folder = Scratch::new("rccl")?;
    let line = format!(
        "{settings} for rank in $(seq 1 {last}); do {program} {ranks} $rank {id} & done; {program} {ranks} 0 {id} && wait",
        last = ranks - 1,
        program = program.display(),
        id = folder.path().join("id").display(),
    );
    let outcome = profiled(&machine, script(&line)).run()?;
    let identities = judge(&outcome, ranks)?;
    assert_eq!(identities.len(), 1, "{identities:?}");
    Ok(())
}

#[test]
fn kernels_hang_on_the_calls_that_launched_them() -> TestResult {
    skip_if_missing!(Stack::Debian13.missing());
    kernels_hang_on_calls(Stack::Debian13, "ncclKernel")
}

fn kernels_hang_on_calls(stack: Stack, kernel: &str) -> TestResult {
    let machine = Machine::new(stack)?.gpus(2);
    let outcome = Run::new()
        .options(["-I", "rccl", "roctracer"])
        .command(machine.run(program(stack)?))
        .run()?;
    let trace = outcome.expect_success().trace_of("rccl_calls")?;
    let executed = machine.truth()?.kernels_named(kernel).count();
    // A kernel, the HIP call that launched it, and the call of RCCL around that: by the arrows that the UI shows.
    let rows = trace.query(&format!(
        "select count(*) as links, count(distinct kernel.id) as kernels,
           count(distinct call.id) as calls,
           sum(call.name not in ('ncclGroupEnd', 'ncclAllReduce')) as others
         from slice kernel join flow on flow.slice_in = kernel.id
         join slice launch on launch.id = flow.slice_out
         join ancestor_slice(launch.id) call
         where kernel.name glob '{kernel}*' and launch.category = 'hip' and call.category = 'rccl'",
    ))?;
    let found: Vec<i64> = rows
        .iter()
        .flat_map(|row| ["links", "kernels", "others"].map(|name| row.int(name)))
        .collect::<anyhow::Result<_>>()?;
    let executed = i64::try_from(executed)?;
    assert!(executed > 0);
    assert_eq!(found, [executed, executed, 0], "{}", outcome.story());
    Ok(())
}

/// Calls, ranks in processes and kernels, with RCCL 7.
#[test]
#[ignore = "needs `cargo xtask runtimes rocm7-rccl`, which is large"]
fn calls_and_kernels_of_rccl_7_are_told() -> TestResult {
    let stack = Stack::Rocm7;
    skip_if_missing!(stack.missing_rccl());
    calls_are_told_once(stack, 2)?;
    ranks_have_one_communicator(stack, 2, "")?;
    kernels_hang_on_calls(stack, "ncclDevKernel")
}
