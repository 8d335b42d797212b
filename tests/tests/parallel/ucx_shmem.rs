//! Calls of UCX and OpenSHMEM: each as the program itself tells it, on the libraries of the system.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::Context;
use rsys_tests::slurm::{clean_command, told};
use rsys_tests::{
    Run, Scratch, TestResult, Trace, Workload, answer, missing_tool, sampler, skip_if_missing,
    workload, workspace_dir,
};

/// The arguments that a call is judged by, in the order in which the programs tell them.
const KEYS: [&str; 7] = [
    "peer", "root", "tag", "count", "bytes", "blocking", "result",
];

/// The calls of a category, in order, as the programs tell them. Those of UCX have no counts.
fn calls(trace: &Trace, category: &str) -> anyhow::Result<Vec<String>> {
    let arguments: Vec<String> = KEYS
        .iter()
        .map(|key| format!("extract_arg(arg_set_id, 'debug.{key}') as {key}"))
        .collect();
    let rows = trace.query(&format!(
        "select name, {} from slice where category = '{category}' order by ts",
        arguments.join(", ")
    ))?;
    rows.iter()
        .map(|row| {
            let mut line = row.text("name")?.to_owned();
            for key in KEYS {
                if let Some(value) = row.cell(key)?.as_int() {
                    line.push_str(&format!(" {key}={value}"));
                }
            }
            Ok(line)
        })
        .collect()
}

/// How many bytes the calls that a program prints put to the other PE, and get from it. `own` is the number of this PE.
fn moved(told: &[&str], own: usize) -> anyhow::Result<[u64; 2]> {
    let mut moved = [0; 2];
    for line in told {
        let name = line.split(' ').next().unwrap_or_default();
        let Some((_, bytes)) = line.split_once("bytes=") else {
            continue;
        };
        let bytes: u64 = bytes.split(' ').next().unwrap_or_default().parse()?;
        let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
        let ends = |word| name.ends_with(word);
        let fetches = has(&["swap", "fetch_", "finc", "fadd"]);
        let gives = has(&["put", "_atomic_"]) && !ends("_atomic_fetch") || ends("_p") || fetches;
        let gets = has(&["get"]) || ends("_g") || ends("_atomic_fetch") || fetches;
        moved[0] += if gives { bytes } else { 0 };
        moved[1] += if gets { bytes } else { 0 };
        // Collectives of two PEs, of which this is one.
        let collective = if has(&["_to_all"]) {
            [1, 1]
        } else if has(&["fcollect"]) {
            [1, 2]
        } else if has(&["alltoall"]) {
            [2, 2]
        } else if has(&["broadcast"]) {
            let is_root = line.contains(&format!("root={own} "));
            [u64::from(is_root), u64::from(!is_root)]
        } else {
            [0, 0]
        };
        for (sum, times) in moved.iter_mut().zip(collective) {
            *sum += times * bytes;
        }
    }
    Ok(moved)
}

fn missing_ucx() -> Option<String> {
    let header = Path::new("/usr/include/ucp/api/ucp.h");
    (!header.is_file()).then(|| format!("no {}", header.display()))
}

fn of_ucx() -> Workload {
    workload("ucx_calls").flags(["-O1", "-g", "-Wl,--no-as-needed", "-lucp", "-lucs"])
}

#[test]
fn calls_of_ucx_are_as_the_program_tells_them() -> TestResult {
    skip_if_missing!(missing_ucx());
    let outcome = Run::new().options(["-I", "ucx"]).command(of_ucx()).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    let truth: Vec<&str> = outcome
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("told: "))
        .collect();
    assert!(truth.len() > 40, "{}", outcome.story());
    assert_eq!(calls(&trace, "ucx")?, truth, "{}", outcome.story());
    // What makes progress is counted.
    let progressed = outcome
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("progressed="));
    let metadata = trace.metadata()?;
    assert_eq!(
        Some(metadata.text("ucx_progress_calls")?.as_str()),
        progressed,
        "{}",
        outcome.story()
    );
    // All calls to the one peer name the one endpoint.
    let endpoints = trace.number(
        "select count(distinct extract_arg(arg_set_id, 'debug.endpoint')) from slice where category = 'ucx'",
    )?;
    assert_eq!(endpoints, 1);
    // Not asked for, nothing of it is there.
    let unasked = Run::new().options(["-I", "mpip"]).command(of_ucx()).run()?;
    assert!(calls(&unasked.expect_success().trace()?, "ucx")?.is_empty());
    Ok(())
}

/// An object that another thread is loading, whose references are not filled in yet when objects are looked at, is looked at again.
#[test]
fn a_weak_reference_in_an_object_that_is_being_loaded_is_null_as_without_rsys() -> TestResult {
    let scratch = Scratch::new("weak-late")?;
    let program = workload("weak_late").build()?;
    let folder = program.parent().context("a folder")?;
    let object = scratch.path().join("user.so");
    let made = Command::new("cc")
        .args(["-shared", "-fPIC"])
        .arg(workspace_dir().join("tests/workloads/weak_late/user.c"))
        .arg(folder.join("plugin_gate.so"))
        .arg("-o")
        .arg(&object)
        .output()?;
    assert!(made.status.success(), "{}", told(&made));
    let outcome = Run::new()
        .options(["-I", "ucx"])
        .command(workload("weak_late").args([&object]))
        .run()?;
    assert_eq!(
        outcome.expect_success().stdout,
        "ucp_get_nbx absent\n",
        "{}",
        outcome.story()
    );
    Ok(())
}

/// A job of two that has ended.
struct Pair {
    scratch: Scratch,
    output: Output,
}

impl Pair {
    /// Runs a program of OpenSHMEM's as two.
    fn run(program: &Path, options: &[&str]) -> anyhow::Result<Self> {
        let scratch = Scratch::new("shmem")?;
        let said = scratch.path().join("said");
        fs::create_dir(&said)?;
        let output = clean_command("oshrun")
            .args(["--oversubscribe", "-np", "2"])
            .arg(sampler()?)
            .arg("-o")
            .arg(scratch.path().join("out"))
            .args(options)
            .arg("--")
            .arg(program)
            .env("SHMEM_CALLS", &said)
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .output()?;
        anyhow::ensure!(output.status.success(), "{}", told(&output));
        Ok(Self { scratch, output })
    }

    /// The trace of a rank.
    fn path(&self, rank: usize) -> anyhow::Result<PathBuf> {
        let mut folders = fs::read_dir(self.scratch.path().join("out"))?.flatten();
        let folder = folders
            .find(|entry| !entry.path().is_symlink())
            .context("a folder with traces")?;
        Ok(folder.path().join(format!("perfetto-trace-{rank}.proto")))
    }

    /// What a rank says of itself.
    fn truth(&self, rank: usize) -> anyhow::Result<String> {
        Ok(fs::read_to_string(
            self.scratch.path().join("said").join(rank.to_string()),
        )?)
    }

    /// That the counters of a rank are what its calls move.
    fn assert_moved(&self, trace: &Trace, moved: [u64; 2]) -> TestResult {
        for (name, bytes) in ["SHMEM Comm Send", "SHMEM Comm Recv"]
            .into_iter()
            .zip(moved)
        {
            let counted = trace.number(&format!(
                "select cast(max(c.value) as int) from counter c join process_counter_track t on c.track_id = t.id where t.name = '{name}'"
            ))?;
            assert_eq!(
                counted.cast_unsigned(),
                bytes,
                "{name}: {}",
                told(&self.output)
            );
            assert!(bytes > 0);
        }
        Ok(())
    }
}

fn missing_shmem() -> Option<String> {
    missing_tool("oshcc").or_else(|| missing_tool("oshrun"))
}

#[test]
fn calls_of_openshmem_are_as_the_program_tells_them() -> TestResult {
    skip_if_missing!(missing_shmem());
    let program = workload("shmem_calls").compiler("oshcc").build()?;
    let pair = Pair::run(&program, &["-I", "shmem", "ucx"])?;
    for rank in 0..2 {
        let path = pair.path(rank)?;
        let trace = Trace::load(&path, None)?;
        let truth = pair.truth(rank)?;
        let mut found = calls(&trace, "shmem")?;
        // The last barrier comes when the file is written.
        found.retain(|line| line != "shmem_barrier_all blocking=1");
        let truth: Vec<&str> = truth
            .lines()
            .filter(|line| *line != "shmem_barrier_all blocking=1")
            .collect();
        assert!(truth.len() > 30);
        assert_eq!(found, truth, "{}", told(&pair.output));
        let barriers =
            trace.number("select count(*) from slice where name = 'shmem_barrier_all'")?;
        assert_eq!(barriers, 7);
        // What each call moves is counted in its direction.
        pair.assert_moved(&trace, moved(&truth, rank)?)?;
        // The answers count what the program printed, each rank for itself.
        let answer = answer("calls", &[path])?;
        let of_library = |runtime: &str| -> u64 {
            let rows = answer["calls"].as_array().into_iter().flatten();
            let rows = rows.filter(|row| row["runtime"] == runtime);
            rows.filter_map(|row| row["count"].as_u64()).sum()
        };
        assert_eq!(
            of_library("OpenSHMEM"),
            truth.len() as u64 + 7,
            "{answer:#}"
        );
        assert!(of_library("UCX") > 0, "{answer:#}");
        assert_eq!(of_library("RCCL"), 0, "{answer:#}");
        // OpenMPI's OpenSHMEM moves data by UCX: its calls lie within.
        let within = trace.number(
            "select count(*) from slice s join slice p on s.parent_id = p.id
             where s.category = 'ucx' and p.name = 'shmem_long_put' and extract_arg(s.arg_set_id, 'debug.bytes') = 8000",
        )?;
        assert_eq!(within, 1, "{}", told(&pair.output));
    }
    Ok(())
}

/// By the names for tools, and through a tool that calls these itself: each call of the program once, by its plain name.
#[test]
fn calls_by_the_names_for_tools_count_once() -> TestResult {
    skip_if_missing!(missing_shmem());
    let program = workload("shmem_tools").compiler("oshcc").build()?;
    let pair = Pair::run(&program, &["-I", "shmem"])?;
    for rank in 0..2 {
        let trace = Trace::load(&pair.path(rank)?, None)?;
        let truth = pair.truth(rank)?;
        let truth: Vec<&str> = truth.lines().collect();
        assert_eq!(truth.len(), 35);
        assert_eq!(calls(&trace, "shmem")?, truth, "{}", told(&pair.output));
        pair.assert_moved(&trace, moved(&truth, rank)?)?;
    }
    Ok(())
}

/// Collectives of teams, of OpenSHMEM 1.5: no library at hand can do them, so this is a stand-in with the standard's prototypes.
#[test]
fn collectives_of_teams_are_as_the_program_tells_them() -> TestResult {
    const KEYS: [(&str, &str); 9] = [
        ("root", "root"),
        ("count", "count"),
        ("bytes", "bytes"),
        ("blocking", "blocking"),
        ("rank", "rank"),
        ("ranks", "ranks"),
        ("sent", "sent_bytes"),
        ("received", "received_bytes"),
        ("result", "result"),
    ];
    let said = Scratch::new("shmem-teams")?;
    let outcome = Run::new()
        .options(["-I", "shmem"])
        .env("SHMEM_CALLS", said.path())
        .command(workload("shmem_teams"))
        .run()?;
    outcome.expect_success().all_clean()?;
    let columns: Vec<String> = KEYS
        .iter()
        .map(|(name, key)| format!("extract_arg(arg_set_id, 'debug.{key}') as {name}"))
        .collect();
    let sql = format!(
        "select name, ts, ts + dur as end, extract_arg(arg_set_id, 'debug.team') as team, {} from slice where category = 'shmem' order by ts",
        columns.join(", ")
    );
    let mut meetings = Vec::new();
    for path in outcome.files() {
        let trace = Trace::load(&path, None)?;
        let pid = path
            .file_name()
            .and_then(|name| name.to_str()?.rsplit('-').next()?.split('.').next())
            .context("a file that is named by its process")?;
        let truth = fs::read_to_string(said.path().join(pid))?;
        let truth: Vec<&str> = truth.lines().collect();
        let mut found = Vec::new();
        let mut sums = [0, 0];
        for row in trace.query(&sql)?.iter() {
            let mut line = row.text("name")?.to_owned();
            if line == "shmem_team_sync" {
                meetings.push([row.int("ts")?, row.int("end")?]);
            }
            if let Some(team) = row.cell("team")?.as_int() {
                line.push_str(&format!(" team={team:#x}"));
            }
            for (name, _) in KEYS {
                if let Some(value) = row.cell(name)?.as_int() {
                    line.push_str(&format!(" {name}={value}"));
                }
            }
            for (sum, name) in sums.iter_mut().zip(["sent", "received"]) {
                *sum += row.cell(name)?.as_int().unwrap_or(0);
            }
            found.push(line);
        }
        assert_eq!(found, truth, "{}", outcome.story());
        for (sum, name) in sums.into_iter().zip(["Send", "Recv"]) {
            let counted = trace.number(&format!(
                "select cast(max(c.value) as int) from counter c join process_counter_track t on c.track_id = t.id where t.name = 'SHMEM Comm {name}'"
            ))?;
            assert_eq!(counted, sum, "{}", outcome.story());
            assert!(sum > 0);
        }
    }
    // The others are held as long as the last is not there, and until it has come.
    assert_eq!(meetings.len(), 4);
    let last = meetings.iter().map(|[begin, _]| *begin).max();
    assert!(
        meetings.iter().all(|[_, end]| Some(*end) >= last),
        "{meetings:?}"
    );
    Ok(())
}
