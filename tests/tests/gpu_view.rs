//! A job on GPUs: everything is in the trace of each rank, and all ranks are in one trace. The pictures show how viewers draw them; GPU tracks
//! and power lie below the deep stacks of the threads there.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use rsys_tests::simgpu::{Machine, Stack, code_object, library_program};
use rsys_tests::{
    Invocation, Run, Scratch, TestResult, Trace, key, missing_tool, report, sampler, screenshot,
    script, skip_if_missing,
};

const STACK: Stack = Stack::Debian13;
const STEPS: usize = 12;
const KERNELS: &str = "select count(*) from slice where category = 'kernel'";

/// Kernels that take as long as in life.
const MACHINE: &str = "
[[kernel]]
name = 'long_kernel'
microseconds = 4000
[[kernel]]
name = 'ncclKernel'
microseconds = 6000
";

fn missing() -> Option<String> {
    [STACK, Stack::Debian12]
        .into_iter()
        .find_map(Stack::missing)
        .or_else(|| missing_tool("chromium"))
}

/// Runs four ranks on two GPUs: ranks 0 and 1 sum among each other, and so do 2 and 3. The profiler runs on the same machine, so that it
/// sees the sensors. Returns the folder of the traces.
fn train(machine: &Machine, scratch: &Scratch) -> anyhow::Result<PathBuf> {
    let program = library_program(STACK, "train", &["rccl", "amdhip64", "roctx64"])?.path();
    let code = code_object("gfx90a")?;
    let line = format!(
        "for rank in 0 1 2 3; do RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=4 {program} {code} {STEPS} $((rank % 2)) 2 $((rank % 2)) {id}.$((rank / 2)) & \
         all=\"$all $!\"; done; for one in $all; do wait $one || exit 1; done",
        program = program.display(),
        code = code.display(),
        id = scratch.path().join("id").display(),
    );
    let profiler = Invocation::new(sampler()?)
        .args(["-f", "500", "-I", "rocm", "roctx", "rccl", "rocm-smi", "-o"])
        .arg(scratch.path().join("traces"))
        .arg("--")
        .program(script(&line));
    let outcome = Run::bare().command(machine.run(profiler)).run()?;
    outcome.expect_success();
    let mut folders = fs::read_dir(scratch.path().join("traces"))?;
    Ok(folders.next().context("no traces")??.path())
}

/// What has to be there of a process: each kind of thing, and how much of it at least.
fn check(trace: &Trace, pid: i64) -> TestResult {
    let steps = i64::try_from(STEPS)?;
    let mine = format!(
        "from slice s left join thread_track tt on tt.id = s.track_id left join thread t using (utid)
         left join process_track pt on pt.id = s.track_id
         join process p on p.upid = coalesce(t.upid, pt.upid) where p.pid = {pid}"
    );
    let samples = format!(
        "select count(*) from perf_sample join thread using (utid) join process p using (upid) where p.pid = {pid}"
    );
    let linked = format!(
        "select count(distinct kernel.id) from slice kernel join flow on flow.slice_in = kernel.id
         join slice launch on launch.id = flow.slice_out where kernel.category = 'kernel' and launch.category = 'hip'
         and launch.id in (select s.id {mine})"
    );
    let slices = |condition: &str| format!("select count(*) {mine} and {condition}");
    for (what, sql, least) in [
        ("samples", samples, 20),
        (
            "ranges",
            slices("s.category = 'roctx' and s.name glob 'step *'"),
            steps,
        ),
        (
            "launches",
            slices("s.category = 'hip' and s.name = 'hipModuleLaunchKernel'"),
            4 * steps,
        ),
        (
            "collectives",
            slices("s.category = 'rccl' and s.name = 'ncclAllReduce'"),
            steps,
        ),
        ("kernels with an arrow", linked, 5 * steps),
    ] {
        let found = trace.number(&sql)?;
        ensure!(found >= least, "{what} of {pid}: {found} of {least}");
    }
    Ok(())
}

#[test]
fn a_job_is_whole_rank_by_rank_and_merged() -> TestResult {
    skip_if_missing!(missing());
    let machine = Machine::new(STACK)?.gpus(2).config(MACHINE)?;
    let scratch = Scratch::new("train")?;
    let folder = train(&machine, &scratch)?;
    let mut pids = Vec::new();
    let mut kernels = 0;
    for rank in 0..4 {
        let trace = Trace::load(&folder.join(format!("perfetto-trace-{rank}.proto")), None)?;
        ensure!(trace.problems()?.is_empty(), "{:?}", trace.problems()?);
        let pid = trace.metadata()?.int(key::PID)?;
        check(&trace, pid)?;
        pids.push(pid);
        kernels += trace.number(KERNELS)?;
        if rank == 0 {
            ensure!(screenshot(trace.path(), "rank")?.is_file());
        }
    }

    let merged = scratch.path().join("job.pftrace");
    let done = Command::new(report()?)
        .arg("merge")
        .arg(&folder)
        .arg("-o")
        .arg(&merged)
        .output()?;
    let said = String::from_utf8_lossy(&done.stderr);
    ensure!(done.status.success(), "{said}");
    let merged = Trace::load(&merged, None)?;
    ensure!(merged.problems()?.is_empty(), "{:?}", merged.problems()?);
    for pid in pids {
        check(&merged, pid)?;
    }
    ensure!(merged.number(KERNELS)? == kernels);
    // Sensors: there, and such as they can be, also when processes end beside each other.
    let readings = |name: &str, condition: &str| {
        format!(
            "select count(*) from counter c join counter_track t on t.id = c.track_id where t.name glob '{name}*' and {condition}"
        )
    };
    ensure!(merged.number(&readings("GPU Power", "value > 0"))? > 0);
    ensure!(merged.number(&readings("GPU Memory Usage", "value > 0"))? > 0);
    let absurd = readings("GPU Memory Usage", "value > 64.0 * (1 << 30)");
    ensure!(merged.number(&absurd)? == 0);

    let picture = screenshot(merged.path(), "job")?;
    let outline = fs::read_to_string(picture.with_extension("txt"))?;
    let groups: Vec<&str> = outline
        .lines()
        .filter(|line| !line.starts_with(' '))
        .collect();
    for rank in 0..4 {
        let start = format!("rank {rank} · train");
        ensure!(
            groups.iter().any(|group| group.starts_with(&start)),
            "{outline}"
        );
    }
    // What is of the whole machine does not push the processes down.
    let above = |group: &&&str| group.starts_with("GPU") || group.starts_with("Host");
    ensure!(groups.iter().find(above).is_none(), "{outline}");
    Ok(())
}
