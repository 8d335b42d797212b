//! A job on GPUs: everything is in the trace of each rank, all ranks are in one trace, and who opens a trace sees at a glance what matters.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use rsys_tests::simgpu::{Machine, Stack, code_object, library_program};
use rsys_tests::{
    Invocation, Run, Scratch, TestResult, Trace, View, key, missing_browser, report, sampler,
    script, skip_if_missing, view,
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
        .or_else(missing_browser)
}

/// Runs `train` with these arguments behind its code object. The profiler runs on the same machine, so that it sees the sensors. Returns
/// the folder of the traces.
fn train(
    machine: &Machine,
    scratch: &Scratch,
    line: impl FnOnce(&str, &str) -> String,
) -> anyhow::Result<PathBuf> {
    let program = library_program(STACK, "train", &["rccl", "amdhip64", "roctx64"])?.path();
    let code = code_object("gfx90a")?;
    let id = scratch.path().join("id");
    let line = line(
        &format!("{} {} {STEPS}", program.display(), code.display()),
        &id.display().to_string(),
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

/// Four ranks on two GPUs: ranks 0 and 1 sum among each other, and so do 2 and 3.
fn four_ranks(train: &str, id: &str) -> String {
    format!(
        "for rank in 0 1 2 3; do RANK=$rank LOCAL_RANK=$rank WORLD_SIZE=4 {train} $((rank % 2)) 2 $((rank % 2)) {id}.$((rank / 2)) & \
         all=\"$all $!\"; done; for one in $all; do wait $one || exit 1; done"
    )
}

/// What has to be there of a process: each kind of thing, and how much of it at least.
fn check(trace: &Trace, pid: i64, kernels_of_a_step: i64) -> TestResult {
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
        ("kernels with an arrow", linked, kernels_of_a_step * steps),
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
    let folder = train(&machine, &scratch, four_ranks)?;
    let mut pids = Vec::new();
    let mut kernels = Vec::new();
    for rank in 0..4 {
        let trace = Trace::load(&folder.join(format!("perfetto-trace-{rank}.proto")), None)?;
        ensure!(trace.problems()?.is_empty(), "{:?}", trace.problems()?);
        let pid = trace.metadata()?.int(key::PID)?;
        check(&trace, pid, 5)?;
        pids.push(pid);
        kernels.push(trace.number(KERNELS)?);
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
    for pid in &pids {
        check(&merged, *pid, 5)?;
    }
    let order = merged.order_of_processes()?;
    // What has no rank comes behind.
    ensure!(order.starts_with(&pids), "{order:?} instead of {pids:?}");
    for (rank, kernels) in kernels.iter().enumerate() {
        let below_its_gpu = format!(
            "{KERNELS} and track_id in (select t.id from track t join track gpu on gpu.id = t.parent_id
             where gpu.name glob 'rank {rank} \u{b7} GPU *')"
        );
        ensure!(merged.number(&below_its_gpu)? == *kernels, "rank {rank}");
    }
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

    // Ranks stand in order, and a sensor has one track, though processes that read it ended one after the other.
    let open = ["GPUs", "rank ", "Machines", "Sensors of GPU 0"];
    let job = view(merged.path(), "job", &open)?;
    let screen = job.first_screen();
    let gpus: Vec<&str> = screen
        .iter()
        .filter_map(|title| title.split_once(" \u{b7} GPU ")?.0.strip_prefix("rank "))
        .collect();
    ensure!(gpus == ["0", "1", "2", "3"], "{screen:?}");
    stands_in_order(
        &job,
        &["rank 3 \u{b7} GPU 1", "stream 1", "GPU Power [0] (S)"],
    )?;
    let of_power = "select count(*) from counter_track where name = 'GPU Power [0] (S)'";
    ensure!(merged.number(of_power)? == 1, "{}", job.outline);
    for rank in 0..4 {
        let process = format!("\nrank {rank} \u{b7} train");
        ensure!(job.outline.contains(&process), "{}", job.outline);
    }
    nothing_before_the_groups(&merged)
}

#[test]
fn one_process_is_seen_at_a_glance() -> TestResult {
    skip_if_missing!(missing());
    let machine = Machine::new(STACK)?.gpus(2).config(MACHINE)?;
    let scratch = Scratch::new("train")?;
    let folder = train(&machine, &scratch, |train, id| {
        format!("exec {train} 0 1 0 {id}")
    })?;
    let mut traces = fs::read_dir(&folder)?;
    let trace = Trace::load(&traces.next().context("no trace")??.path(), None)?;
    ensure!(trace.problems()?.is_empty(), "{:?}", trace.problems()?);
    let pid = trace.metadata()?.int(key::PID)?;
    check(&trace, pid, 4)?;

    let glance = view(
        trace.path(),
        "rank",
        &["GPU 0", "Sensors of GPU 0", "train"],
    )?;
    let stream = "select t.name from slice s join track t on t.id = s.track_id where s.name = 'long_kernel' limit 1";
    let stream = trace.query(stream)?;
    let stream = stream.iter().next().context("no kernel")?;
    stands_in_order(
        &glance,
        &[
            "GPU 0 \u{b7} ",
            stream.text("name")?,
            "Sensors of GPU 0",
            "GPU Power [0] (S)",
            &format!("train {pid}"),
            "Process Callstacks",
            &format!("train Callstacks {pid}"),
            // Calls of HIP and RCCL.
            &format!("calls ({pid})"),
            &format!("roctx ({pid})"),
            &format!("stack ({pid})"),
        ],
    )?;
    nothing_before_the_groups(&trace)
}

/// Tracks whose titles begin so are on the first screen, in this order, perhaps with others between them.
fn stands_in_order(view: &View, starts: &[&str]) -> TestResult {
    let screen = view.first_screen();
    let mut titles = screen.iter();
    for start in starts {
        let found = titles.any(|title| title.starts_with(start));
        ensure!(
            found,
            "`{start}` is not there or not in its place: {screen:#?}"
        );
    }
    Ok(())
}

/// Viewers number all tracks without a parent in the order of their names, and put those with numbers above 50 below the processes: nothing of
/// which there may be many comes before the groups that belong above them.
fn nothing_before_the_groups(trace: &Trace) -> TestResult {
    let before = trace.number(
        "select count(*) from track where type glob '*_track_event' and parent_id is null and coalesce(name, '') < 'GPU'",
    )?;
    ensure!(before == 0, "{before} tracks come before the GPUs");
    Ok(())
}
