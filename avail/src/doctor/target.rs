//! The program or process that is to be recorded: whether the agent can be in it, and what attaching to it would need.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use nix::unistd::geteuid;
use rsys_machine::rocm::{Environment, Program};
use rsys_machine::roots::Roots;
use rsys_machine::secure::gained_rights;
use rsys_wire::launchers::{base_name, is_launcher};
use rsys_wire::program::{Kind, is_agent_file, kind_of};

use super::finding::{Finding, Level};
use super::system::{PTRACE, has_capability, ptrace_scope};

const NAME: &str = "program";

/// What was named on the command line.
#[derive(Debug)]
pub struct Target {
    /// As it is called: `/usr/bin/python3.11`, `process 4711 (/usr/bin/python3.11)`.
    pub title: String,
    /// Its file, as named on the command line or by the kernel.
    pub file: PathBuf,
    /// What it loads; nothing where its file cannot be read as a program.
    pub program: Option<Program>,
    /// Whether the agent can be in it, and about attaching.
    pub findings: Vec<Finding>,
}

impl Target {
    /// Looks at a program, or at a process where the word is the number of one.
    ///
    /// # Errors
    /// When there is neither.
    pub fn of(roots: &Roots, word: &Path) -> Result<Self> {
        let pid = word.to_str().and_then(|text| text.parse::<u32>().ok());
        match pid.filter(|_| !roots.inside(word).is_file()) {
            Some(pid) => Self::of_process(roots, pid),
            None => Self::of_program(roots, word),
        }
    }

    fn of_program(roots: &Roots, word: &Path) -> Result<Self> {
        let environment = Environment::of_this_process();
        let program = match Program::look_at(roots, &environment, word) {
            Ok(program) => program,
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                let shown = word.display().to_string();
                let finding = Finding::at(Level::Problem, NAME, format!("{shown}: {error}"))
                    .means("it runs, but is not sampled");
                return Ok(Self {
                    title: shown,
                    file: word.to_owned(),
                    program: None,
                    findings: vec![finding],
                });
            }
            Err(error) => return Err(anyhow!("{}: {error}", word.display())),
        };
        let mut findings = vec![judge(roots, &program.path)];
        if let Some(script) = program.script.as_ref().filter(|_| !program.is_python) {
            findings.push(
                Finding::at(
                    Level::Note,
                    NAME,
                    format!("{} is a script", script.display()),
                )
                .means("what is said here is of its interpreter: name the program that it starts"),
            );
        }
        Ok(Self {
            title: program.path.display().to_string(),
            file: word.to_owned(),
            program: Some(program),
            findings,
        })
    }

    fn of_process(roots: &Roots, pid: u32) -> Result<Self> {
        if !roots.path(&format!("proc/{pid}/status")).is_file() {
            return Err(anyhow!("{pid}: no such process, and no such program"));
        }
        let attach = Attaching { roots, pid };
        let (program, mut findings) = match Program::of_process(roots, pid) {
            Ok(program) => {
                let findings = vec![judge(roots, &program.path)];
                (Some(program), findings)
            }
            Err(error) => {
                let finding = Finding::at(Level::Note, NAME, format!("process {pid}: {error}"))
                    .means("which program it is and what it has loaded cannot be seen")
                    .mend(format!("sudo rsys-avail --doctor {pid}"));
                (None, vec![finding])
            }
        };
        findings.extend(attach.findings(program.as_ref()));
        let path = program.as_ref().map(|program| program.path.clone());
        let shown = path.as_ref().map(|path| format!(" ({})", path.display()));
        Ok(Self {
            title: format!("process {pid}{}", shown.unwrap_or_default()),
            file: path.unwrap_or_default(),
            program,
            findings,
        })
    }
}

/// Whether the agent can be loaded into a program.
fn judge(roots: &Roots, path: &Path) -> Finding {
    let shown = path.display();
    let file = roots.inside(path);
    if is_launcher(base_name(path.as_os_str().as_bytes()), std::iter::empty()) {
        return Finding::at(
            Level::Note,
            NAME,
            format!("{shown} starts the ranks of a job"),
        )
        .means("it is not sampled itself: name the program that it starts");
    }
    if let Some(why) = gained_rights(&file) {
        return Finding::at(Level::Problem, NAME, format!("{shown} {why}"))
            .means("the loader leaves the agent out: it runs, but is not sampled")
            .mend("run rsys-sample as the user whose rights it gains, or a copy without them");
    }
    let kind = fs::File::open(&file).ok().and_then(|file| {
        let read = |offset: u64, buffer: &mut [u8]| file.read_at(buffer, offset).unwrap_or(0);
        kind_of(path.as_os_str().as_bytes(), read)
    });
    match kind {
        Some(Kind::Unfit(obstacle)) => {
            Finding::at(Level::Problem, NAME, format!("{shown} {obstacle}"))
                .means(if obstacle.forbids_agent() {
                    "it runs, but is not sampled"
                } else {
                    "it runs, but is not sampled; programs that it starts are"
                })
                .mend("link it dynamically with glibc")
        }
        _ => Finding::ok(NAME, shown.to_string()),
    }
}

/// What attaching to a process would need.
struct Attaching<'a> {
    roots: &'a Roots,
    pid: u32,
}

impl Attaching<'_> {
    const NAME: &'static str = "attaching";

    fn findings(&self, program: Option<&Program>) -> Vec<Finding> {
        let has_agent =
            program.is_some_and(|program| program.files.iter().any(|path| is_agent(path)));
        if has_agent {
            return vec![Finding::ok(
                Self::NAME,
                "rsys-sample records this process already",
            )];
        }
        let mut found = vec![
            Finding::at(Level::Note, Self::NAME, "the process runs already")
                .means("rsys-sample -p records what it does from then on; HIP, MPI and others whose interfaces are taken when a program starts are left out")
                .mend(format!(
                    "rsys-sample -p {pid}; its stacks: rsys-sample --dump {pid}; all that it does: rsys-sample -- PROGRAM",
                    pid = self.pid
                )),
            self.right(),
        ];
        found.extend(self.tracer());
        found.extend(self.network());
        found
    }

    fn folder(&self) -> PathBuf {
        self.roots.path(&format!("proc/{}", self.pid))
    }

    fn status(&self, name: &str) -> Option<String> {
        // The program's name is whatever bytes it chose.
        let text = fs::read(self.folder().join("status")).ok()?;
        let text = String::from_utf8_lossy(&text);
        let mut values = text
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        values.next().map(|value| value.trim().to_owned())
    }

    /// Whether its memory may be read and written: the kernel asks that when the file is opened.
    fn right(&self) -> Finding {
        let opened = fs::OpenOptions::new()
            .read(true)
            .write(true)
            .open(self.folder().join("mem"));
        let Err(error) = opened else {
            return Finding::ok(Self::NAME, "this process may be traced");
        };
        let finding = Finding::at(
            Level::Note,
            Self::NAME,
            format!("this process may not be traced: {error}"),
        )
        .means("who attaches needs the right to trace it");
        let owner = self.status("Uid");
        let owner = owner
            .as_deref()
            .and_then(|ids| ids.split_whitespace().next());
        let is_ours = owner == Some(geteuid().to_string().as_str());
        finding.mend(match ptrace_scope(self.roots) {
            _ if !is_ours => format!(
                "as its user or as root: sudo rsys-avail --doctor {}",
                self.pid
            ),
            1 | 2 if !has_capability(self.roots, PTRACE) => {
                "sudo sysctl kernel.yama.ptrace_scope=0, or as root".to_owned()
            }
            _ => "as root; a process that hides itself (PR_SET_DUMPABLE) is traced by nobody else"
                .to_owned(),
        })
    }

    fn tracer(&self) -> Option<Finding> {
        let tracer = self.status("TracerPid").filter(|tracer| tracer != "0")?;
        let finding = format!("process {tracer} traces it (a debugger, strace)");
        Some(
            Finding::at(Level::Note, Self::NAME, finding)
                .means("a process has one tracer at a time")
                .mend(format!("end process {tracer} first")),
        )
    }

    /// Agents find the sampler by a socket in the network namespace.
    fn network(&self) -> Option<Finding> {
        let own = fs::read_link(self.roots.path("proc/self/ns/net")).ok()?;
        let its = fs::read_link(self.folder().join("ns/net")).ok()?;
        (own != its).then(|| {
            Finding::at(
                Level::Note,
                Self::NAME,
                "it is in a network namespace of its own",
            )
            .means("it reaches only a rsys-sample in the same container")
            .mend(format!("sudo nsenter -t {} -n rsys-sample …", self.pid))
        })
    }
}

fn is_agent(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    is_agent_file(name.as_bytes())
}
