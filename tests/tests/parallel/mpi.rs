//! MPI: every call of the program as the program itself tells it, on the libraries of the system, in several languages.

mod answers;
mod languages;
mod own_tests;
mod wheels;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use anyhow::{Context, Result};
use rsys_tests::slurm::{clean_command, told};
use rsys_tests::{
    Cell, Scratch, TestResult, Trace, missing_tool, report, sampler, skip_if_missing, workload,
};

/// A library of MPI: its launcher and the compilers for it.
#[derive(Debug, Clone, Copy)]
struct Library {
    name: &'static str,
    launcher: &'static [&'static str],
}

const LIBRARIES: [Library; 2] = [
    Library {
        name: "openmpi",
        launcher: &["mpirun.openmpi", "--oversubscribe", "-n", "4"],
    },
    Library {
        name: "mpich",
        launcher: &["mpirun.mpich", "-n", "4"],
    },
];

const RANKS: usize = 4;

impl Library {
    /// Compiles a workload for it.
    fn build(self, name: &str) -> Result<PathBuf> {
        let compiler = format!("mpicc.{}", self.name);
        workload(name).compiler(&compiler).build()
    }
}

/// A job that was profiled.
#[derive(Debug)]
struct Job {
    scratch: Scratch,
    output: Output,
}

impl Job {
    /// Runs a program on all ranks, each below a sampler with these options.
    fn run(library: Library, options: &[&str], program: &[&str]) -> Result<Job> {
        let scratch = Scratch::new(library.name)?;
        let said = scratch.path().join("said");
        fs::create_dir(&said)?;
        let mut command = clean_command(library.launcher[0]);
        command
            .args(&library.launcher[1..])
            .arg(sampler()?)
            .arg("-o")
            .arg(scratch.path().join("out"))
            .args(options)
            .arg("--")
            .args(program)
            .env("MPI_CALLS", &said)
            // How long OpenMPI waits after SIGTERM before it kills the ranks of a job that was aborted: one second is little on a busy machine.
            .env("OMPI_MCA_odls_base_sigkill_timeout", "4")
            // OpenMPI 5 asks its own launcher (PRRTE) as well, also for more ranks than there are processors.
            .env("PRTE_ALLOW_RUN_AS_ROOT", "1")
            // Intel MPI: without the library for networks, which its package lacks.
            .env("I_MPI_FABRICS", "shm")
            .env("PRTE_ALLOW_RUN_AS_ROOT_CONFIRM", "1")
            .env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe")
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        let output = command.output()?;
        Ok(Job { scratch, output })
    }

    fn assert_success(&self) {
        assert!(self.output.status.success(), "{}", told(&self.output));
    }

    /// What a rank has written itself.
    fn said(&self, rank: usize) -> Result<Vec<String>> {
        let path = self.scratch.path().join("said").join(rank.to_string());
        let text = fs::read_to_string(&path).with_context(|| told(&self.output))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// The folder with the traces.
    fn folder(&self) -> Result<PathBuf> {
        let folders = fs::read_dir(self.scratch.path().join("out"))?.flatten();
        let mut folders = folders
            .map(|entry| entry.path())
            .filter(|path| !path.is_symlink());
        folders.next().with_context(|| told(&self.output))
    }

    fn trace(&self, rank: usize) -> Result<Trace> {
        let path = self.folder()?.join(format!("perfetto-trace-{rank}.proto"));
        Trace::load(&path, None).with_context(|| told(&self.output))
    }
}

/// The arguments that a call is judged by, in the order in which the programs tell them.
const KEYS: [&str; 8] = [
    "peer",
    "root",
    "tag",
    "count",
    "bytes",
    "sent_bytes",
    "received_bytes",
    "sequence",
];

/// A call in a trace.
#[derive(Debug)]
struct Call {
    name: String,
    arguments: BTreeMap<String, Cell>,
}

impl Call {
    /// As the programs tell it.
    fn line(&self) -> String {
        let arguments = KEYS.iter().filter_map(|key| {
            let value = self.arguments.get(*key)?;
            Some(format!(" {key}={value}"))
        });
        std::iter::once(self.name.clone())
            .chain(arguments)
            .collect()
    }

    fn text(&self, key: &str) -> Option<String> {
        self.arguments.get(key).map(ToString::to_string)
    }
}

/// The calls in a trace, in order. What is said of completed requests is left out.
fn calls(trace: &Trace) -> Result<Vec<Call>> {
    let rows = trace.query(
        "select s.id as id, s.name as name, coalesce(a.key, '') as key, coalesce(a.string_value, a.int_value) as value
         from slice s left join args a using (arg_set_id)
         where s.category = 'mpi' and s.name != 'completed' order by s.ts, s.id",
    )?;
    let mut found: Vec<(i64, Call)> = Vec::new();
    for row in rows.iter() {
        let id = row.int("id")?;
        if found.last().is_none_or(|(last, _)| *last != id) {
            let call = Call {
                name: row.text("name")?.to_owned(),
                arguments: BTreeMap::new(),
            };
            found.push((id, call));
        }
        if let Some((_, call)) = found.last_mut() {
            let key = row.text("key")?.trim_start_matches("debug.");
            call.arguments
                .insert(key.to_owned(), row.cell("value")?.clone());
        }
    }
    Ok(found.into_iter().map(|(_, call)| call).collect())
}

fn assert_lines(found: &[Call], told: &[String], whose: &str) {
    let found: Vec<String> = found.iter().map(Call::line).collect();
    for (place, (found, told)) in found.iter().zip(told).enumerate() {
        assert_eq!(found, told, "{whose}, call {place}");
    }
    assert_eq!(found.len(), told.len(), "{whose}: {found:?} {told:?}");
}

/// The calls of `mpi_calls`, judged by what each rank says. Returns them for all ranks, from the first that was told.
fn judge(job: &Job, at_the_end: &[&str]) -> Result<Vec<Vec<Call>>> {
    let mut of_ranks = Vec::new();
    for rank in 0..RANKS {
        let trace = job.trace(rank)?;
        let mut told = job.said(rank)?;
        // The handler runs once, as without us; what the call returns then differs: MPICH 5 returns success.
        let errors = told.pop().unwrap_or_default();
        assert!(errors.starts_with("errors 1 "), "rank {rank}: {errors}");
        told.extend(at_the_end.iter().map(|name| (*name).to_owned()));
        let mut found = calls(&trace)?;
        let names: Vec<&str> = found
            .iter()
            .take(3)
            .map(|call| call.name.as_str())
            .collect();
        assert_eq!(names, ["MPI_Initialized", "MPI_Init", "MPI_Comm_rank"]);
        assert_lines(&found.split_off(3), &told, &format!("rank {rank}"));
        of_ranks.push(calls(&trace)?.split_off(3));
    }
    Ok(of_ranks)
}

fn missing() -> Option<String> {
    LIBRARIES
        .iter()
        .flat_map(|library| {
            [
                missing_tool(&format!("mpicc.{}", library.name)),
                missing_tool(library.launcher[0]),
            ]
        })
        .flatten()
        .next()
}

#[test]
fn every_call_of_the_program_is_there_with_its_bytes() -> TestResult {
    skip_if_missing!(missing());
    for library in LIBRARIES {
        let program = library.build("mpi_calls")?.display().to_string();
        let job = Job::run(library, &["-I", "mpip"], &[&program])?;
        job.assert_success();
        let of_ranks = judge(&job, &["MPI_Finalize"])?;
        assert_communicators(&of_ranks);
        for rank in 0..RANKS {
            let trace = job.trace(rank)?;
            trace.assert_valid_prefix();
            assert_traffic(&trace)?;
            assert_joined(&trace)?;
        }
        assert_messages(&job)?;
    }
    Ok(())
}

/// In a merged trace an arrow leads from every message's sender to its receiver.
fn assert_messages(job: &Job) -> TestResult {
    let merged = job.scratch.path().join("merged.pftrace");
    let output = Command::new(report()?)
        .arg("merge")
        .arg(job.folder()?)
        .arg("-o")
        .arg(&merged)
        .output()?;
    assert!(output.status.success(), "{}", told(&output));
    let trace = Trace::load(&merged, None)?;
    let sent = trace.number(
        "select count(*) from slice where category = 'mpi' and extract_arg(arg_set_id, 'debug.message') is not null
           and extract_arg(arg_set_id, 'debug.result') is null
           and extract_arg(arg_set_id, 'debug.peer') != extract_arg(arg_set_id, 'debug.rank')",
    )?;
    // Both ends know the number, the tag and each other. What failed was not sent. Where the receiver waited, it began first.
    let ends = |sender: &str, receiver: &str| {
        trace.number(&format!(
            "select count(distinct s.id) from flow f join slice s on s.id = f.{sender} join slice r on r.id = f.{receiver}
             where extract_arg(s.arg_set_id, 'debug.message') = extract_arg(r.arg_set_id, 'debug.received_message')
               and extract_arg(s.arg_set_id, 'debug.communicator') = extract_arg(r.arg_set_id, 'debug.communicator')
               and extract_arg(s.arg_set_id, 'debug.tag') =
                   coalesce(extract_arg(r.arg_set_id, 'debug.received_tag'), extract_arg(r.arg_set_id, 'debug.tag'))
               and extract_arg(s.arg_set_id, 'debug.peer') = extract_arg(r.arg_set_id, 'debug.rank')
               and extract_arg(s.arg_set_id, 'debug.rank') =
                   coalesce(extract_arg(r.arg_set_id, 'debug.source'), extract_arg(r.arg_set_id, 'debug.peer'))",
        ))
    };
    let arrows = ends("slice_out", "slice_in")? + ends("slice_in", "slice_out")?;
    let others = trace.number(
        "select count(*) from flow f join slice o on o.id = f.slice_out join slice i on i.id = f.slice_in
         where i.category = 'mpi' and o.category = 'mpi' and o.track_id != i.track_id",
    )?;
    assert!(
        sent > 0 && arrows == sent && others == sent,
        "{sent} messages, {arrows} arrows, {others} between tracks"
    );
    Ok(())
}

/// Ranks of one communicator have the same identity, and different communicators others.
fn assert_communicators(of_ranks: &[Vec<Call>]) {
    let barriers = |calls: &[Call]| -> Vec<String> {
        let barriers = calls.iter().filter(|call| call.name == "MPI_Barrier");
        barriers
            .filter_map(|call| call.text("communicator"))
            .collect()
    };
    let all: Vec<Vec<String>> = of_ranks.iter().map(|calls| barriers(calls)).collect();
    // The world, its half, the copy of the half, and the world once more.
    for barriers in &all {
        assert_eq!(barriers.len(), 4, "{all:?}");
        assert_eq!(barriers.iter().collect::<BTreeSet<_>>().len(), 3, "{all:?}");
        assert_eq!((&barriers[0], &barriers[0]), (&all[0][0], &barriers[3]));
    }
    assert_eq!((&all[0], &all[1]), (&all[2], &all[3]));
    assert_ne!((&all[0][1], &all[0][2]), (&all[1][1], &all[1][2]));
}

/// The counters end at the sum of what the calls say.
fn assert_traffic(trace: &Trace) -> TestResult {
    for (track, key) in [
        ("MPI Comm Send", "sent_bytes"),
        ("MPI Comm Recv", "received_bytes"),
    ] {
        let last = trace.number(&format!(
            "select cast(max(value) as int) from counter c join counter_track t on c.track_id = t.id where t.name = '{track}'"
        ))?;
        let mut sum = 0;
        for call in calls(trace)? {
            let number = |key: &str| call.text(key).and_then(|text| text.parse::<i64>().ok());
            let receives = call.name.contains("ecv") && !call.name.contains("endrecv");
            let is_root = call.text("root") == call.text("rank") && call.text("root").is_some();
            let gives = match call.name.as_str() {
                // Those that name only what they do themselves.
                "MPI_Bcast" if key == "sent_bytes" => is_root,
                "MPI_Bcast" => !is_root,
                "MPI_Reduce" if key == "received_bytes" => is_root,
                "MPI_Gather" if key == "received_bytes" => is_root,
                "MPI_Scatter" if key == "sent_bytes" => is_root,
                "MPI_Put" => key == "sent_bytes",
                "MPI_Send_init" => false,
                _ if receives => key == "received_bytes",
                name if name.contains("end") && !name.contains("endrecv") => key == "sent_bytes",
                _ => true,
            };
            if gives {
                sum += number(key).or_else(|| number("bytes")).unwrap_or(0);
            }
        }
        assert_eq!(last, sum, "{track}");
    }
    Ok(())
}

/// Each request is joined with the call that completed it.
fn assert_joined(trace: &Trace) -> TestResult {
    let begun = trace.number(
        "select count(*) from slice where category = 'mpi' and name in ('MPI_Isend', 'MPI_Irecv', 'MPI_Ibarrier', 'MPI_Start')",
    )?;
    assert_eq!(begun, 4 * 4 + 2 + 1);
    // From every such call an arrow leads to the call that completed it, or to the mark in that.
    let joined = trace.number(
        "select count(distinct flow.slice_out) from flow join slice b on b.id = flow.slice_out join slice e on e.id = flow.slice_in
         where b.category = 'mpi' and b.name in ('MPI_Isend', 'MPI_Irecv', 'MPI_Ibarrier', 'MPI_Start')
           and (e.name = 'MPI_Wait' or e.name = 'completed')",
    )?;
    assert_eq!(joined, begun);
    let completed = trace.number(
        "select sum(extract_arg(arg_set_id, 'debug.completed')) from slice where category = 'mpi'",
    )?;
    assert_eq!(completed, begun);
    Ok(())
}

#[test]
fn jobs_that_die_keep_their_calls() -> TestResult {
    skip_if_missing!(missing());
    for library in LIBRARIES {
        let program = library.build("mpi_calls")?.display().to_string();
        for (way, last) in [("abort", "MPI_Abort"), ("die", "MPI_Barrier")] {
            let job = Job::run(library, &["-I", "mpip"], &[&program, way])?;
            assert!(!job.output.status.success(), "{}", told(&job.output));
            for rank in 0..RANKS {
                let told = job.said(rank)?;
                let found = calls(&job.trace(rank)?)?;
                // A rank that was killed may not have written all that it did.
                let told: Vec<String> = told
                    .into_iter()
                    .filter(|line| !line.starts_with("errors"))
                    .collect();
                let (told, whose) = (told.as_slice(), format!("rank {rank} {way}"));
                let found = found.get(3..).unwrap_or(&[]);
                // MPICH's launcher kills the samplers of the other ranks, and of one that aborts its job: what they did last is lost.
                if library.name == "mpich" && (rank, way) != (1, "die") {
                    let both = found.len().min(told.len());
                    assert_lines(&found[..both], &told[..both], &whose);
                    continue;
                }
                assert!(
                    found.len() >= told.len(),
                    "{whose}: {} of {}",
                    found.len(),
                    told.len()
                );
                assert_lines(&found[..told.len()], told, &whose);
                let end = &found[told.len()..];
                let end: Vec<&str> = end.iter().map(|call| call.name.as_str()).collect();
                match (rank, way) {
                    (1, "abort") => assert_eq!(end, [last]),
                    (1, _) => assert!(end.is_empty(), "{end:?}"),
                    // The others may be gone before they come to wait for it.
                    _ => assert!(end.is_empty() || end == ["MPI_Barrier"], "{end:?}"),
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_filter_leaves_calls_out_and_keeps_numbers() -> TestResult {
    skip_if_missing!(missing());
    let library = LIBRARIES[1];
    let program = library.build("mpi_calls")?.display().to_string();
    let job = Job::run(
        library,
        &["-I", "mpi", "--mpi-functions", "All* -Alltoall*"],
        &[&program],
    )?;
    job.assert_success();
    let told: Vec<String> = job
        .said(0)?
        .into_iter()
        .filter(|line| line.starts_with("MPI_All") && !line.starts_with("MPI_Alltoall"))
        .collect();
    assert_lines(&calls(&job.trace(0)?)?, &told, "rank 0");
    Ok(())
}

#[test]
fn without_mpi_its_functions_are_not_found() -> TestResult {
    let line = "import ctypes; every = ctypes.CDLL(None); print([hasattr(every, name) for name in ('MPI_Init', 'PMPI_Send', 'mpi_init_')])";
    for backend in ["mpip", "roctx"] {
        let run = rsys_tests::Run::new()
            .options(["-I", backend])
            .command(rsys_tests::Invocation::new("/usr/bin/python3").args(["-c", line]));
        let outcome = run.run()?;
        assert_eq!(
            outcome.expect_success().stdout.trim(),
            "[False, False, False]"
        );
    }
    Ok(())
}
