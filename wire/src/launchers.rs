//! Programs that start the ranks of a job and do nothing else that a profile should show.
//!
//! The agent stays asleep in them and is passed on; the sampler treats them as commands of their own kind.

/// Launchers that are programs of their own, by their file names.
const PROGRAMS: &[&[u8]] = &[
    // Slurm.
    b"srun",
    b"salloc",
    b"sbatch",
    // OpenMPI and PRRTE. `mpirun` and `mpiexec` are links to these or to those of MPICH, or wrappers.
    b"mpirun",
    b"mpiexec",
    b"mpirun.openmpi",
    b"mpiexec.openmpi",
    b"orterun",
    b"orted",
    b"prterun",
    b"prun",
    b"prte",
    b"prted",
    // MPICH, Intel MPI, MVAPICH.
    b"mpirun.mpich",
    b"mpiexec.mpich",
    b"mpiexec.hydra",
    b"hydra_pmi_proxy",
    b"hydra_bstrap_proxy",
    b"hydra_nameserver",
    b"mpirun_rsh",
    b"mpispawn",
    // Flux, and the launchers of IBM and Cray.
    b"flux",
    b"flux-broker",
    b"flux-shell",
    b"jsrun",
    b"aprun",
];

/// Scripts in Python that start ranks.
const SCRIPTS: &[&[u8]] = &[b"torchrun", b"deepspeed"];

/// Modules that start ranks, after `python -m`.
const MODULES: &[&[u8]] = &[
    b"torch.distributed.run",
    b"torch.distributed.launch",
    b"deepspeed.launcher.launch",
];

/// Options of Python whose value is the next word.
const VALUED: &[&[u8]] = &[b"-W", b"-X", b"--check-hash-based-pycs"];

/// Whether a program with this file name starts ranks; `arguments` begins with the name that it was called by.
///
/// # Signal safety
/// Compares bytes: no allocation, no system call.
#[inline]
pub fn is_launcher<'a>(file_name: &[u8], arguments: impl Iterator<Item = &'a [u8]>) -> bool {
    PROGRAMS.contains(&file_name) || is_script_launcher(file_name, arguments)
}

/// Whether it is a script that starts the ranks of this machine as its own children.
///
/// # Signal safety
/// As [`is_launcher`].
#[inline]
pub fn is_script_launcher<'a>(
    file_name: &[u8],
    mut arguments: impl Iterator<Item = &'a [u8]>,
) -> bool {
    if is_script(file_name) {
        return true;
    }
    if !file_name.starts_with(b"python") && !file_name.starts_with(b"pypy") {
        return false;
    }
    arguments.next();
    while let Some(word) = arguments.next() {
        if word == b"-m" {
            return arguments
                .next()
                .is_some_and(|module| MODULES.contains(&module));
        }
        if VALUED.contains(&word) {
            arguments.next();
        } else if word == b"-c" {
            return false;
        } else if !word.starts_with(b"-") {
            return is_script(base_name(word));
        }
    }
    false
}

#[inline]
fn is_script(name: &[u8]) -> bool {
    // `flux run` and its like are scripts beside the `flux` program.
    SCRIPTS.contains(&name) || (name.starts_with(b"flux-") && name.ends_with(b".py"))
}

/// The last part of a path.
#[must_use]
#[inline]
pub fn base_name(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_are_recognised() {
        for (line, expected) in [
            ("/usr/bin/srun -n 4 ./app", true),
            ("/usr/bin/orterun -n 4 ./app", true),
            ("/opt/mpich/bin/hydra_pmi_proxy --control-port a:1", true),
            (
                "/usr/bin/python3.11 /usr/local/bin/torchrun --standalone t.py",
                true,
            ),
            ("/usr/bin/python3 -u -m torch.distributed.run t.py", true),
            ("/usr/bin/python3 -X dev -W ignore /opt/torchrun t.py", true),
            (
                "/usr/bin/python3 /usr/lib/flux/cmd/flux-run.py -n 2 a",
                true,
            ),
            ("/home/me/bin/torchrun t.py", true),
            ("/usr/bin/python3 train.py torchrun", false),
            ("/usr/bin/python3 -m train", false),
            ("/usr/bin/python3 -c torchrun", false),
            ("/usr/bin/python3", false),
            ("./srun.sh", false),
            ("/bin/bash srun", false),
        ] {
            let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let file = base_name(words[0]);
            assert_eq!(is_launcher(file, words.iter().copied()), expected, "{line}");
        }
    }
}
