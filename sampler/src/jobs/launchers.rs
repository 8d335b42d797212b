//! Commands that start ranks: `rsys-sample -- srun ./app` is turned into `srun rsys-sample --
//! ./app`.
//!
//! A sampler serves the processes of its own machine only. Put behind the launcher, it starts with
//! each rank, on whatever machine that is. For this, the place where the launcher's own options end
//! has to be found; where that is not certain, the command runs as it is, and the ranks on this
//! machine are profiled.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rsys_wire::launchers::{base_name, is_launcher, is_script_launcher};

/// What to do with a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrangement {
    /// It starts no ranks.
    Ordinary,
    /// Its ranks are profiled on this machine. Says what would be better, if something would.
    Around(Option<String>),
    /// To run in its place: rsys-sample is put in front of the program that it starts.
    Inside(Vec<OsString>),
    /// It hands the work to somebody else and returns: says what to do instead.
    Useless(String),
}

/// How the options of a launcher are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Style {
    /// `-n4 -c 2 --ntasks 4 --ntasks=4`.
    Gnu,
    /// `-np 4`, `--np 4`; several programs are separated by `:`.
    Mpi,
}

/// srun's short options with a value; the long ones below include those of pyxis.
const SRUN_SHORT_VALUED: &[u8] = b"AbcCdDeGiJLmMnNopqrStTwWxB";
/// And without; `-I` and `-K` may have one attached.
const SRUN_SHORT_PLAIN: &[u8] = b"HIkKlOQsuvXZ";

const SRUN_VALUED: &str = "\
    account acctg-freq bb bbf bcast bcast-exclude begin chdir cluster-constraint clusters comment constraint \
    container core-spec cores-per-socket cpu-bind cpu-freq cpus-per-gpu cpus-per-task deadline delay-boot dependency \
    distribution epilog error exclude export extra-node-info gpu-bind gpu-freq gpus gpus-per-node gpus-per-socket \
    gpus-per-task gres gres-flags hint input job-name jobid licenses mail-type mail-user mcs-label mem mem-bind \
    mem-per-cpu mem-per-gpu mincpus mpi network nodefile nodelist nodes ntasks ntasks-per-core ntasks-per-gpu \
    ntasks-per-node ntasks-per-socket open-mode output partition power priority profile prolog qos relative \
    reservation signal slurmd-debug sockets-per-node switches task-epilog task-prolog thread-spec threads \
    threads-per-core time time-min tmp tres-per-task uid gid wait wckey container-image container-mounts \
    container-workdir container-name container-save container-env";
/// Those with an optional value take it behind `=` alone.
const SRUN_PLAIN: &str = "\
    compress contiguous disable-status exact exclusive hold immediate interactive kill-on-bad-exit label nice \
    no-allocate no-kill overcommit overlap oversubscribe preserve-env propagate pty quiet quit-on-interrupt reboot \
    resv-ports send-libs spread-job unbuffered use-min-nodes verbose whole container-mount-home \
    no-container-mount-home container-remap-root no-container-remap-root container-entrypoint \
    no-container-entrypoint container-writable container-readonly";

/// Options of the `mpirun`s of OpenMPI, MPICH and Intel MPI: those without a value, with one, with
/// two.
const MPI_OPTIONS: [&str; 3] = [
    "allow-run-as-root bind-to-core bind-to-none bind-to-socket bycore bynode byslot continuous \
     disable-auto-cleanup disable-hostname-propagation display-allocation display-map do-not-launch envall \
     envnone forward-signals genvall genvnone info l leave-session-attached merge-stderr-to-stdout nolocal \
     nooversubscribe novm oversubscribe pernode pmi-port prepend-rank print-all-exitcodes q quiet report-bindings \
     skip-launch-node tag-output timestamp-output use-hwthread-cpus v verbose",
    "H N am bind-to bootstrap c cpu-list cpu-set default-hostfile demux display envlist errfile-pattern f \
     genvlist gpus-per-proc host hostfile hosts iface launch-agent launcher launcher-exec localhost machinefile \
     map-by max-restarts membind n nameserver np npernode npersocket order-nodes outfile-pattern output \
     output-directory output-filename path perhost personality ppn prefix prepend-pattern prtemca-param rank-by \
     rankfile rf rmk runtime-options stdin timeout topolib tune usize wd wdir x",
    "env genv gmca mca omca pmixmca prtemca",
];

/// What to do with `command`, whose file is `file`; `ours` is how rsys-sample was called, up to
/// where the command begins.
#[must_use]
pub fn arrange(file: &Path, command: &[OsString], ours: &[OsString]) -> Arrangement {
    let real = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let called = base_name(file.as_os_str().as_bytes());
    let name = base_name(real.as_os_str().as_bytes());
    let words = || command.iter().map(|word| word.as_bytes());
    // A script is run by its interpreter, whose name it does not have.
    if is_script_launcher(called, words()) || is_script_launcher(name, words()) {
        return Arrangement::Around(None);
    }
    if !is_launcher(called, words()) && !is_launcher(name, words()) {
        return Arrangement::Ordinary;
    }
    let called = String::from_utf8_lossy(called).into_owned();
    let style = match (called.as_str(), name) {
        ("sbatch", _) => {
            return Arrangement::Useless(
                "sbatch only hands in a script, which runs later: nothing is profiled; call rsys-sample in the script".to_owned(),
            );
        }
        // It runs a command here, which starts the ranks.
        ("salloc", _) => return Arrangement::Around(None),
        ("srun", _) => Some(Style::Gnu),
        (called, name)
            if called.starts_with("mpi")
                || name.starts_with(b"mpi")
                || name == b"orterun"
                || name == b"prterun" =>
        {
            Some(Style::Mpi)
        }
        _ => None,
    };
    let inside = style.and_then(|style| insert(style, command, ours));
    inside.map_or_else(
        || {
            Arrangement::Around(Some(format!(
                "only ranks of this machine are profiled, for it is not clear where the program begins; better: {called} ... rsys-sample -- program"
            )))
        },
        Arrangement::Inside,
    )
}

/// Puts `ours` in front of each program that the launcher starts. `None` when an option is not
/// known.
fn insert(style: Style, command: &[OsString], ours: &[OsString]) -> Option<Vec<OsString>> {
    let (launcher, mut rest) = command.split_first()?;
    let mut result = vec![launcher.clone()];
    loop {
        let program = match style {
            Style::Gnu => skip_srun(rest)?,
            Style::Mpi => skip_mpi(rest)?,
        };
        let (options, after) = rest.split_at_checked(program)?;
        // The launcher alone, or with its options only, starts nothing.
        after.first()?;
        result.extend_from_slice(options);
        result.extend_from_slice(ours);
        let end = after.iter().position(|word| word == OsStr::new(":"));
        let (own, next) = after.split_at(end.unwrap_or(after.len()));
        result.extend_from_slice(own);
        let Some((separator, next)) = next.split_first() else {
            return Some(result);
        };
        result.push(separator.clone());
        rest = next;
    }
}

/// Whether a text of words has this one.
fn has_word(words: &str, word: &str) -> bool {
    words.split_whitespace().any(|one| one == word)
}

/// How many words srun takes for its own.
fn skip_srun(words: &[OsString]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let word = word.to_str()?;
        at += 1;
        if word == "--" {
            return Some(at);
        }
        if let Some(long) = word.strip_prefix("--") {
            let name = long.split('=').next()?;
            // The programs are named in a file.
            if name == "multi-prog" {
                return None;
            }
            if has_word(SRUN_VALUED, name) {
                at += usize::from(!long.contains('='));
            } else if !has_word(SRUN_PLAIN, name) {
                return None;
            }
        } else if let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) {
            at += usize::from(srun_letters_want_a_word(letters.as_bytes())?);
        } else {
            return Some(at - 1);
        }
    }
    Some(at)
}

/// Whether short options in one word take the next word, too.
fn srun_letters_want_a_word(letters: &[u8]) -> Option<bool> {
    for (at, letter) in letters.iter().enumerate() {
        let is_last = at + 1 == letters.len();
        match letter {
            // srun's `-E` is without a value in some versions and says what to keep in others.
            b'E' => return None,
            letter if SRUN_SHORT_VALUED.contains(letter) => return Some(is_last),
            b'I' | b'K' => return Some(false),
            letter if SRUN_SHORT_PLAIN.contains(letter) => {}
            _ => return None,
        }
    }
    Some(false)
}

/// How many words an mpirun takes for its own.
fn skip_mpi(words: &[OsString]) -> Option<usize> {
    let mut at = 0;
    while let Some(word) = words.get(at) {
        let word = word.to_str()?;
        let Some(option) = word.strip_prefix('-') else {
            return Some(at);
        };
        let option = option.strip_prefix('-').unwrap_or(option);
        at += 1;
        let attached = option.split_once('=');
        let name = attached.map_or(option, |(name, _)| name);
        let taken = MPI_OPTIONS.iter().position(|names| has_word(names, name))?;
        at += if attached.is_some() { 0 } else { taken };
    }
    Some(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arranged(line: &str) -> Arrangement {
        let command: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        let file = Path::new("/nowhere").join(&command[0]);
        arrange(&file, &command, &["RSYS".into(), "--".into()])
    }

    #[test]
    fn rsys_sample_is_put_in_front_of_the_program() {
        for (line, expected) in [
            ("srun ./a -n 3", "srun RSYS -- ./a -n 3"),
            ("srun -n 4 ./a", "srun -n 4 RSYS -- ./a"),
            (
                "srun -n4 -c2 -lu ./a -- b",
                "srun -n4 -c2 -lu RSYS -- ./a -- b",
            ),
            (
                "srun -N2 --ntasks 4 --exclusive --mem=1G ./a",
                "srun -N2 --ntasks 4 --exclusive --mem=1G RSYS -- ./a",
            ),
            (
                "srun -K1 -o out-%t -- ./a",
                "srun -K1 -o out-%t -- RSYS -- ./a",
            ),
            ("srun -lun 4 ./a", "srun -lun 4 RSYS -- ./a"),
            (
                "srun -n1 ./a : -n2 ./b x",
                "srun -n1 RSYS -- ./a : -n2 RSYS -- ./b x",
            ),
            ("mpirun -n 4 ./a -n 5", "mpirun -n 4 RSYS -- ./a -n 5"),
            (
                "mpiexec -x A=1 --mca btl self --bind-to core -np 2 python3 -u t.py",
                "mpiexec -x A=1 --mca btl self --bind-to core -np 2 RSYS -- python3 -u t.py",
            ),
            (
                "mpiexec.hydra -genv A 1 -ppn 2 -n 2 ./a : -n 1 ./b",
                "mpiexec.hydra -genv A 1 -ppn 2 -n 2 RSYS -- ./a : -n 1 RSYS -- ./b",
            ),
            (
                "mpirun --map-by=slot ./a",
                "mpirun --map-by=slot RSYS -- ./a",
            ),
        ] {
            let expected = expected.split(' ').map(OsString::from).collect();
            assert_eq!(arranged(line), Arrangement::Inside(expected), "{line}");
        }
    }

    #[test]
    fn what_is_not_certain_stays_as_it_is() {
        for line in [
            "srun --new-option x ./a",
            "srun --multi-prog file",
            "srun -n 4",
            "mpirun -foo 3 ./a",
            "mpirun -configfile f",
            "jsrun -n 4 ./a",
            "flux run -n 4 ./a",
        ] {
            let arranged = arranged(line);
            assert!(
                matches!(arranged, Arrangement::Around(Some(_))),
                "{line}: {arranged:?}"
            );
        }
        for (line, expected) in [
            (
                "torchrun --nproc-per-node 4 t.py",
                Arrangement::Around(None),
            ),
            (
                "python3 -m torch.distributed.run t.py",
                Arrangement::Around(None),
            ),
            ("salloc -n 4 mpirun ./a", Arrangement::Around(None)),
            ("./a srun", Arrangement::Ordinary),
            ("python3 train.py", Arrangement::Ordinary),
        ] {
            assert_eq!(arranged(line), expected, "{line}");
        }
        assert!(matches!(arranged("sbatch job.sh"), Arrangement::Useless(_)));
    }
}
