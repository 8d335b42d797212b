//! A Slurm of two nodes on this machine, for all tests of a test program.
//!
//! It is started when a test first asks for it, with everything of its own: keys, ports, folders. Its keeper is its parent, and
//! takes it away when the test program ends, however that does.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use crate::needs::{is_root, missing_tool};
use crate::paths::target_dir;
use crate::procs::wait_until;

/// Whatever is waited for comes much sooner, unless something is broken.
pub const LIMIT: Duration = Duration::from_secs(300);

/// How long Slurm lets tasks live after SIGTERM: long enough for traces to be finished on a busy machine.
const KILL_WAIT_SECONDS: u32 = 8;

/// Variables of launchers around the tests, which must not reach the jobs.
const FOREIGN: &[&str] = &[
    "SLURM_",
    "SBATCH_",
    "SALLOC_",
    "SRUN_",
    "OMPI_",
    "PMI",
    "MPI",
    "FLUX_",
    "TORCHELASTIC_",
    "RSYS_",
    "LD_PRELOAD",
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
];

/// The cluster.
#[derive(Debug)]
pub struct Slurm {
    folder: PathBuf,
    // Its standard input ends with this process.
    _keeper: Child,
}

/// Says so when this machine cannot run a Slurm for tests.
#[must_use]
pub fn missing_slurm() -> Option<String> {
    let programs = ["slurmctld", "slurmd", "munged", "srun", "/usr/bin/python3"];
    if !is_root() {
        return Some("a Slurm for the tests is started by root only".to_owned());
    }
    if Path::new("/sys/fs/cgroup")
        .read_dir()
        .is_ok_and(|mut groups| groups.next().is_none())
    {
        return Some(
            "slurmd needs control groups, and none are mounted on /sys/fs/cgroup".to_owned(),
        );
    }
    programs.iter().find_map(|name| {
        let in_sbin = Path::new("/usr/sbin").join(name).is_file();
        missing_tool(name).filter(|_| !in_sbin)
    })
}

/// The Slurm of this test program.
///
/// # Errors
/// When it does not start; the story is in the error.
pub fn slurm() -> Result<&'static Slurm> {
    static SLURM: OnceLock<Result<Slurm>> = OnceLock::new();
    match SLURM.get_or_init(Slurm::start) {
        Ok(slurm) => Ok(slurm),
        Err(error) => bail!("no Slurm: {error:#}"),
    }
}

/// A command without the variables of launchers, whose signals have their default effects: a shell that runs tests in the
/// background lets them ignore the terminal's.
pub fn clean_command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if FOREIGN.iter().any(|start| text.starts_with(start)) {
            command.env_remove(&name);
        }
    }
    command
        .env("RSYS_CONFIG_FILE", "none")
        .env("XDG_CACHE_HOME", target_dir().join("tmp/cache"))
        .stdin(Stdio::null());
    // SAFETY: between fork and exec only signal is called, which is async-signal-safe.
    unsafe {
        command.pre_exec(|| {
            for number in [libc::SIGINT, libc::SIGQUIT, libc::SIGHUP, libc::SIGTERM] {
                libc::signal(number, libc::SIG_DFL);
            }
            Ok(())
        });
    }
    command
}

impl Slurm {
    fn start() -> Result<Self> {
        let folder = target_dir().join(format!("tmp/slurm-{}", std::process::id()));
        for name in ["state", "spool/n1", "spool/n2", "log"] {
            fs::create_dir_all(folder.join(name))?;
        }
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755))?;
        let key = folder.join("munge.key");
        fs::write(&key, [7_u8; 64])?;
        fs::set_permissions(&key, fs::Permissions::from_mode(0o400))?;
        let conf = folder.join("slurm.conf");
        fs::write(&conf, configuration(&folder)?)?;
        let (at, conf) = (folder.display(), conf.display());
        let munged = format!(
            "/usr/sbin/munged --foreground --force --key-file={at}/munge.key --socket={at}/munge.socket \
             --pid-file={at}/munged.pid --log-file={at}/log/munged.log --seed-file={at}/munge.seed \
             >{at}/log/munged.out 2>&1"
        );
        let wait = format!("while ! [ -S {at}/munge.socket ]; do sleep 0.05; done; exec");
        let controller =
            format!("sh -c '{wait} /usr/sbin/slurmctld -D -f {conf}' >{at}/log/slurmctld.out 2>&1");
        let node = |name: &str| {
            format!(
                "sh -c '{wait} /usr/sbin/slurmd -D -f {conf} -N {name}' >{at}/log/slurmd.{name}.out 2>&1"
            )
        };
        let keeper = clean_command("/usr/bin/python3")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/slurm_keeper.py"))
            .args([munged, controller, node("n1"), node("n2")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("the keeper does not start")?;
        let slurm = Self {
            folder,
            _keeper: keeper,
        };
        let is_up = || {
            slurm
                .output("sinfo", ["-h", "-t", "idle", "-o", "%D"])
                .is_ok_and(|answer| answer.trim() == "2")
        };
        if !wait_until(LIMIT, is_up) {
            let mut story = String::new();
            for file in fs::read_dir(slurm.folder.join("log"))?.flatten() {
                let text = fs::read_to_string(file.path()).unwrap_or_default();
                let tail: Vec<&str> = text.lines().rev().take(8).collect();
                story.push_str(&format!("\n{}: {tail:?}", file.path().display()));
            }
            bail!("the nodes are not up{story}");
        }
        Ok(slurm)
    }

    /// A program of Slurm, or one that runs such programs.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = clean_command(program);
        command
            .env("SLURM_CONF", self.folder.join("slurm.conf"))
            .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
            .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command
    }

    /// What such a program prints.
    ///
    /// # Errors
    /// When it fails.
    pub fn output<S: AsRef<OsStr>>(
        &self,
        program: &str,
        arguments: impl IntoIterator<Item = S>,
    ) -> Result<String> {
        let output = self.command(program).args(arguments).output()?;
        ensure!(output.status.success(), "{program}: {output:?}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Hands in a batch script. Returns the job's id.
    ///
    /// # Errors
    /// When it is refused.
    pub fn submit(&self, folder: &Path, options: &[&str], script: &str) -> Result<String> {
        let file = folder.join("job.sh");
        fs::File::create(&file)?.write_all(format!("#!/bin/bash\n{script}\n").as_bytes())?;
        let answer = self
            .command("sbatch")
            .current_dir(folder)
            .args(["--parsable", "-o", "out-%A-%a.txt"])
            .args(options)
            .arg(&file)
            .output()?;
        ensure!(answer.status.success(), "sbatch: {answer:?}");
        Ok(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
    }

    /// Puts a running job back, and waits until it runs again.
    ///
    /// Only when the job has left its nodes, the controller gives it a time to begin: two minutes later, when all that the nodes
    /// may still hold of it is void. That is set to now, when it is there; before, it would be overwritten.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn requeue(&self, job: &str) -> Result<()> {
        self.output("scontrol", ["requeue", job])?;
        let mut known = String::new();
        let runs_again = || {
            known = self.show_job(job);
            let is = |name, value| field(&known, name) == Some(value);
            if is("JobState", "PENDING") && is("Reason", "BeginTime") {
                let job = format!("JobId={job}");
                self.output("scontrol", ["update", &job, "StartTime=now"])
                    .ok();
            }
            !is("Restarts", "0") && !is("JobState", "PENDING") && !is("JobState", "COMPLETING")
        };
        ensure!(
            wait_until(LIMIT, runs_again),
            "job {job} does not run again: {known}"
        );
        Ok(())
    }

    /// What the controller knows of a job, one record for each element of an array.
    #[must_use]
    pub fn show_job(&self, job: &str) -> String {
        self.output("scontrol", ["-o", "show", "job", job])
            .unwrap_or_default()
    }

    /// Waits until all of a job is in one of these states, or another final one. Returns what the controller knows of it.
    ///
    /// # Errors
    /// When that takes too long.
    pub fn wait_for_end(&self, job: &str) -> Result<String> {
        let mut known = String::new();
        let is_over = || {
            known = self.show_job(job);
            let states = known.lines().filter_map(|line| field(line, "JobState"));
            let states: Vec<&str> = states.collect();
            let live = [
                "PENDING",
                "RUNNING",
                "COMPLETING",
                "CONFIGURING",
                "REQUEUED",
            ];
            !states.is_empty() && states.iter().all(|state| !live.contains(state))
        };
        ensure!(
            wait_until(LIMIT, is_over),
            "job {job} does not end: {known}"
        );
        Ok(known)
    }
}

/// The value of `NAME=` in a line of scontrol.
#[must_use]
pub fn field<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    line.split_whitespace()
        .find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// How a program ended and what it printed, for messages.
#[must_use]
pub fn told(output: &Output) -> String {
    format!(
        "{}\n--- stdout\n{}\n--- stderr\n{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

fn configuration(folder: &Path) -> Result<String> {
    let host = String::from_utf8(Command::new("hostname").arg("-s").output()?.stdout)?;
    let host = host.trim();
    let at = folder.display();
    // Held until all are known, so that they differ.
    let ports = [0; 3].map(|_| TcpListener::bind("127.0.0.1:0"));
    let [controller, one, two] = ports.map(|port| Some(port.ok()?.local_addr().ok()?.port()));
    let missing = "no free port";
    let (controller, one, two) = (
        controller.context(missing)?,
        one.context(missing)?,
        two.context(missing)?,
    );
    Ok(format!(
        "ClusterName=rsys
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={at}/munge.socket
CredType=cred/munge
MpiDefault=none
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SchedulerType=sched/backfill
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
ReturnToService=2
SlurmctldPidFile={at}/slurmctld.pid
SlurmdPidFile={at}/slurmd.%n.pid
StateSaveLocation={at}/state
SlurmdSpoolDir={at}/spool/%n
SlurmctldLogFile={at}/log/slurmctld.log
SlurmdLogFile={at}/log/slurmd.%n.log
SlurmctldPort={controller}
SlurmdParameters=config_overrides
KillWait={KILL_WAIT_SECONDS}
MinJobAge=600
PropagateResourceLimits=NONE
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={one} CPUs=32 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={two} CPUs=32 State=UNKNOWN
PartitionName=main Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
"
    ))
}
