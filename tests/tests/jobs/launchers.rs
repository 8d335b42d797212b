//! Launchers pass the agent on and leave no trace; ranks have their names wherever rsys-sample stands.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use rsys_tests::slurm::{clean_command, missing_slurm, slurm, told};
use rsys_tests::steps::{job_json, of_tasks, only_folder};
use rsys_tests::{Scratch, TestResult, missing_tool, skip_if_missing, workload};

use super::{assert_rank, files, of_step, profiled, with};

fn rate() -> Result<Vec<String>> {
    let program = workload("rate").build()?.display().to_string();
    Ok(vec![program, "--seconds".to_owned(), "0.1".to_owned()])
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

#[test]
fn mpirun_inside_and_around() -> TestResult {
    skip_if_missing!(missing_tool("mpirun.openmpi"), missing_tool("mpirun.mpich"));
    let scratch = Scratch::new("mpirun")?;
    for mpirun in ["mpirun.openmpi --oversubscribe -n 3", "mpirun.mpich -n 3"] {
        for around in [false, true] {
            let name = mpirun.split(' ').next().unwrap_or_default();
            let output = scratch.path().join(format!("{name}-{around}"));
            let (launcher, sampler) = (words(mpirun), profiled(&output)?);
            let all = if around {
                [sampler, launcher]
            } else {
                [launcher, sampler]
            };
            let line = [all.concat(), rate()?].concat();
            let mut command = clean_command(&line[0]);
            command
                .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
                .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            let done = with(command, &line[1..]).output()?;
            assert!(done.status.success(), "{}", told(&done));
            let step = only_folder(&output)?;
            let folder = step.file_name().unwrap_or_default().to_string_lossy();
            assert_eq!(
                files(&output),
                of_step(&folder, 3),
                "{mpirun} {around}: {}",
                told(&done)
            );
            assert_eq!(of_tasks(&job_json(&step)?, "exit_code"), [0, 0, 0]);
            assert_rank(&step, 2)?;
        }
    }
    Ok(())
}

/// The program that calls `MPI_Init`, linked with a library of MPI.
fn mpi_ranks(library: &str) -> Result<String> {
    let flags = ["-Wl,--no-as-needed".to_owned(), mpi_library(library)];
    let program = workload("mpi_ranks").flags(flags).build()?;
    Ok(program.display().to_string())
}

fn mpi_library(name: &str) -> String {
    format!("/usr/lib/x86_64-linux-gnu/{name}")
}

fn missing_mpi(name: &str) -> Option<String> {
    let path = mpi_library(name);
    (!Path::new(&path).exists()).then(|| format!("no {path}"))
}

/// The rank and the number of ranks that MPI told each process, by its id.
type ByMpi = BTreeMap<u64, (u64, u64)>;
/// The process whose trace is named after each rank.
type ByTrace = BTreeMap<u64, u64>;

/// Runs ranks.
fn ranks_of_both(command: Command, words: &[String], output: &Path) -> Result<(ByMpi, ByTrace)> {
    let done = with(command, words).output()?;
    assert!(done.status.success(), "{}", told(&done));
    let stdout = String::from_utf8_lossy(&done.stdout);
    let number = |line: &str, name: &str| -> Option<u64> {
        let mut words = line.split_whitespace();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('=')?.parse().ok())
    };
    let by_mpi = stdout.lines().filter_map(|line| {
        let told = (number(line, "rank")?, number(line, "size")?);
        Some((number(line, "pid")?, told))
    });
    let step = only_folder(output)?;
    let job = job_json(&step)?;
    let mut by_trace = BTreeMap::new();
    for traces in of_tasks(&job, "traces") {
        for trace in traces.as_array().context("no traces")? {
            let rank = trace["rank"].as_u64().context("no rank")?;
            assert_eq!(trace["file"], format!("perfetto-trace-{rank}.proto"));
            by_trace.insert(rank, trace["pid"].as_u64().context("no pid")?);
        }
    }
    Ok((by_mpi.collect(), by_trace))
}

const OPENMPI: &str = "libmpi.so.40";
const MPICH: &str = "libmpich.so.12";

#[test]
fn launchers_tell_the_rank_that_mpi_init_gives() -> TestResult {
    skip_if_missing!(
        missing_slurm(),
        missing_tool("mpirun.openmpi"),
        missing_tool("mpirun.mpich"),
        missing_mpi(OPENMPI),
        missing_mpi(MPICH)
    );
    let slurm = slurm()?;
    let scratch = Scratch::new("mpi-init")?;
    // launcher, library, ranks
    for (number, (launcher, library, ranks)) in [
        ("mpirun.openmpi --oversubscribe -n 4", OPENMPI, 4),
        // Not in the order of their starts.
        (
            "mpirun.openmpi --oversubscribe --map-by node --rank-by slot -n 3",
            OPENMPI,
            3,
        ),
        ("mpirun.mpich -n 4", MPICH, 4),
        (
            "salloc -Q -n 2 mpirun.openmpi --oversubscribe -n 2",
            OPENMPI,
            2,
        ),
        ("salloc -Q -n 2 mpirun.mpich -n 2", MPICH, 2),
        ("srun --mpi=pmi2 -N2 -n4 --distribution=cyclic", MPICH, 4),
        ("srun --mpi=pmix -N1 -n2", OPENMPI, 2),
    ]
    .into_iter()
    .enumerate()
    {
        let output: PathBuf = scratch.path().join(number.to_string());
        let launch = words(launcher);
        // Slurm's plugin for PMIx does not find every version of the library.
        if launcher.contains("pmix") && slurm.output("srun", ["--mpi=pmix", "-n1", "true"]).is_err()
        {
            println!("left out: {launcher}: this srun does not speak PMIx");
            continue;
        }
        let line = [&launch[1..], &profiled(&output)?, &[mpi_ranks(library)?]].concat();
        let (by_mpi, by_trace) = ranks_of_both(slurm.command(&launch[0]), &line, &output)?;
        assert_eq!(by_mpi.len(), ranks as usize, "{launcher}: {by_mpi:?}");
        for (pid, (rank, size)) in by_mpi {
            assert_eq!(size, ranks, "{launcher}");
            assert_eq!(by_trace.get(&rank), Some(&pid), "{launcher}: {by_trace:?}");
        }
    }
    Ok(())
}

#[test]
fn ranks_that_mpi_takes_for_single_programs_keep_those_of_the_launcher() -> TestResult {
    skip_if_missing!(missing_slurm(), missing_mpi(MPICH));
    let scratch = Scratch::new("singletons")?;
    let output = scratch.path().join("traces");
    // MPICH does not hear of Slurm without PMI: each rank is the only one for it.
    let line = [
        &words("--mpi=none -n3"),
        &profiled(&output)?[..],
        &[mpi_ranks(MPICH)?],
    ]
    .concat();
    let (by_mpi, by_trace) = ranks_of_both(slurm()?.command("srun"), &line, &output)?;
    let told: Vec<_> = by_mpi.values().copied().collect();
    assert_eq!(told, [(0, 1); 3]);
    let pids: Vec<u64> = by_mpi.into_keys().collect();
    let mut traced: Vec<u64> = by_trace.values().copied().collect();
    traced.sort_unstable();
    assert_eq!(traced, pids);
    assert!(by_trace.into_keys().eq(0..3));
    Ok(())
}

#[test]
fn mpirun_in_an_allocation() -> TestResult {
    skip_if_missing!(missing_slurm(), missing_tool("mpirun.openmpi"));
    let slurm = slurm()?;
    let scratch = Scratch::new("salloc")?;
    // Two starts in one allocation, one of them below a sampler that is around salloc.
    let mpirun = words("mpirun.openmpi --oversubscribe -n 2");
    let inner = scratch.path().join("inner");
    let outer = scratch.path().join("outer");
    let salloc = words("salloc -Q -n 2");
    let lines = [
        [salloc.clone(), mpirun.clone(), profiled(&inner)?, rate()?].concat(),
        [profiled(&outer)?, salloc, mpirun, rate()?].concat(),
    ];
    for line in lines {
        let done = with(slurm.command(&line[0]), &line[1..]).output()?;
        assert!(done.status.success(), "{}", told(&done));
    }
    let step = only_folder(&inner)?;
    let name = step.file_name().unwrap_or_default().to_string_lossy();
    assert!(name.contains(".mpi-"), "{name}");
    assert_eq!(files(&inner), of_step(&name, 2));
    // One sampler for all: salloc, mpirun and its like have no traces.
    let run = only_folder(&outer)?;
    assert_eq!(
        files(&run),
        ["perfetto-trace-0.proto", "perfetto-trace-1.proto"]
    );
    Ok(())
}

#[test]
fn torchrun_sleeps_and_its_workers_do_not() -> TestResult {
    // What torchrun does, as far as we see it: a Python script of that name starts programs with ranks.
    let scratch = Scratch::new("torchrun")?;
    let torchrun = scratch.path().join("torchrun");
    fs::write(
        &torchrun,
        "import os, subprocess, sys\n\
         for _ in range(3000000): pass\n\
         start = lambda rank: subprocess.Popen(sys.argv[1:], env=dict(os.environ, RANK=str(rank), LOCAL_RANK=str(rank),\n\
         \x20   WORLD_SIZE='2', TORCHELASTIC_RUN_ID='none', TORCHELASTIC_RESTART_COUNT='1'))\n\
         sys.exit(max(worker.wait() for worker in [start(rank) for rank in range(2)]))\n",
    )?;
    let output = scratch.path().join("traces");
    for (options, expected) in [(None, vec!["0.r1", "1.r1"]), (Some("1"), vec!["1.r1"])] {
        let mut command = profiled(&output.join(expected.len().to_string()))?;
        if let Some(ranks) = options {
            command.splice(1..1, ["--ranks".to_owned(), ranks.to_owned()]);
        }
        command.extend([
            "/usr/bin/python3".to_owned(),
            torchrun.display().to_string(),
        ]);
        command.extend(rate()?);
        let done = with(clean_command(&command[0]), &command[1..]).output()?;
        assert!(done.status.success(), "{}", told(&done));
        let run = only_folder(&output.join(expected.len().to_string()))?;
        let expected: Vec<String> = expected
            .iter()
            .map(|rank| format!("perfetto-trace-{rank}.proto"))
            .collect();
        assert_eq!(files(&run), expected, "{}", told(&done));
    }
    Ok(())
}

#[test]
fn sbatch_is_not_profiled_and_says_so() -> TestResult {
    skip_if_missing!(missing_slurm());
    let slurm = slurm()?;
    let scratch = Scratch::new("sbatch")?;
    let output = scratch.path().join("traces");
    let out = scratch.path().join("out");
    let options = format!("sbatch --parsable -o {} --wrap", out.display());
    let line = [
        profiled(&output)?,
        words(&options),
        vec!["echo done $LD_PRELOAD".to_owned()],
    ]
    .concat();
    let done = with(slurm.command(&line[0]), &line[1..]).output()?;
    let stderr = String::from_utf8_lossy(&done.stderr);
    assert!(
        done.status.success() && stderr.contains("note: sbatch"),
        "{}",
        told(&done)
    );
    let job = String::from_utf8_lossy(&done.stdout).trim().to_owned();
    slurm.wait_for_end(&job)?;
    assert_eq!(fs::read_to_string(&out)?, "done\n");
    assert!(!output.exists());
    Ok(())
}
