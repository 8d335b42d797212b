//! What rules are about: GPUs and processes, with the numbers of finished tables. Nothing is measured here.

use std::collections::{BTreeMap, BTreeSet};

use super::compared::{Compared, Reported, compared};
use super::owners::{Host, Owner, Span, host_of, hosts};
use super::places::without_line;
use super::processes::{Process, one_for_each_owner, process};
use super::used::Used;
use crate::table::Answer;
use crate::table::view::{View, rows, tidy};

/// Idle time of a GPU with one cause at one place.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Idle {
    /// As `gaps` or `pauses` names it.
    pub(super) cause: String,
    /// The call, if the table has it.
    pub(super) call: String,
    pub(super) place: String,
    pub(super) idle_ns: u64,
    pub(super) count: u64,
    pub(super) longest: Span,
}

impl Idle {
    /// How often it has happened; once where one time alone is most of it.
    pub(super) fn times(&self) -> u64 {
        let is_one = 2 * self.longest.duration_ns > self.idle_ns;
        if is_one {
            self.count.min(1)
        } else {
            self.count
        }
    }
}

/// A phase of launches that take longer than the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Phase {
    pub(super) span: Span,
    pub(super) bursts: u64,
    pub(super) busy_ns: u64,
    pub(super) idle_ns: u64,
}

/// A GPU as one process sees it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Gpu {
    pub(super) owner: Owner,
    /// Its number.
    pub(super) number: u64,
    /// Of those with the same owner and number, which are further recordings, it is the first.
    pub(super) is_first: bool,
    pub(super) span: Span,
    /// Records of kernels and fills, and of copies.
    pub(super) kernels: u64,
    pub(super) copies: u64,
    pub(super) busy_ns: u64,
    pub(super) computation_ns: u64,
    pub(super) exposed_comm_ns: u64,
    pub(super) exposed_copies_ns: u64,
    pub(super) comm_ns: u64,
    /// Idle time by `gaps`: all of it, by cause and place.
    pub(super) causes: Vec<Idle>,
    /// What the thread that submits its first operation did before that, which is no idle time.
    pub(super) before: Vec<Idle>,
    /// By `pauses`: what calls have of it.
    pub(super) pauses: Vec<Idle>,
    pub(super) phases: Vec<Phase>,
    /// What neither calls nor phases have of it.
    pub(super) other_idle_ns: u64,
    /// How long its copies took whose calls waited for them: those that should, and others. `None` where it is not known which they are.
    pub(super) blocking_copies_ns: Option<u64>,
    pub(super) blocked_async_copies_ns: Option<u64>,
}

impl Gpu {
    /// Time in which it did nothing.
    pub(super) fn idle_ns(&self) -> u64 {
        self.span.duration_ns.saturating_sub(self.busy_ns)
    }

    /// Whether another one, that has the same names, was recorded at the same time.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        let end_ns = |span: Span| span.start_ns + span.duration_ns;
        (self.owner, self.number) == (other.owner, other.number)
            && self.span.start_ns < end_ns(other.span)
            && other.span.start_ns < end_ns(self.span)
    }

    /// Idle time that one of the owners of `pauses` has.
    pub(super) fn paused_ns(&self, cause: &str) -> u64 {
        let of_cause = self.pauses.iter().filter(|one| one.cause == cause);
        of_cause.map(|one| one.idle_ns).sum()
    }

    /// Idle time that is neither a call's nor a phase's, nor that of work on its way: what is left for the host's own work.
    pub(super) fn host_idle_ns(&self) -> u64 {
        let on_its_way = self.causes.iter().filter(|idle| {
            let of_host = [
                "host_",
                "synchronisation",
                "blocking_copy",
                "runtime_call",
                "collective_call",
                "mpi",
                "shmem",
                "ucx",
                "openmp",
                "kokkos",
                // `other_idle_ns` is without it.
                "graph",
            ];
            !of_host.iter().any(|start| idle.cause.starts_with(start))
        });
        let on_its_way_ns: u64 = on_its_way.map(|idle| idle.idle_ns).sum();
        self.other_idle_ns.saturating_sub(on_its_way_ns)
    }

    /// Idle time in which the next work had been submitted and waited, for whatever.
    pub(super) fn submitted_idle_ns(&self) -> u64 {
        let submitted = [
            "queued",
            "memory_value",
            "event",
            "host_function",
            "barrier",
            "other_gpu",
        ];
        let causes = self.causes.iter();
        let submitted = causes.filter(|idle| submitted.contains(&idle.cause.as_str()));
        submitted.map(|idle| idle.idle_ns).sum()
    }

    /// Idle time that `gaps` has in a function.
    pub(super) fn idle_in_ns(&self, function: &str) -> u64 {
        let causes = self.causes.iter();
        let within = causes.filter(|idle| without_line(&idle.place) == function);
        within.map(|idle| idle.idle_ns).sum()
    }

    /// Idle time behind calls that emptied the GPU and were made in a function.
    pub(super) fn paused_in_ns(&self, function: &str) -> u64 {
        let pauses = self.pauses.iter();
        let within = pauses.filter(|pause| without_line(&pause.place) == function);
        within.map(|pause| pause.idle_ns).sum()
    }
}

/// Calls that copy, at one place.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Copying {
    pub(super) owner: Owner,
    pub(super) call: String,
    pub(super) place: String,
    pub(super) count: u64,
    pub(super) bytes: u64,
    pub(super) blocked_ns: u64,
}

/// A runtime of GPUs, in whose words remedies are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Runtime {
    Hip,
    Cuda,
    /// SYCL, over Level Zero or OpenCL.
    Sycl,
    /// One whose words are not known here.
    Other,
}

/// All that rules may look at.
#[cfg_attr(test, derive(Default))]
pub(super) struct Facts<'a> {
    pub(super) gpus: Vec<Gpu>,
    pub(super) processes: Vec<Process>,
    pub(super) blocking_copies: Vec<Copying>,
    pub(super) blocked_async_copies: Vec<Copying>,
    pub(super) copies: Vec<View<'a>>,
    pub(super) calls: Vec<View<'a>>,
    pub(super) waits: Vec<View<'a>>,
    /// By CPU time in the function itself, the longest first.
    pub(super) functions: Vec<View<'a>>,
    pub(super) sensors: Vec<View<'a>>,
    pub(super) slow_clocks: Vec<View<'a>>,
    pub(super) interpreter: Vec<View<'a>>,
    /// Who hands a main thread what it waits for.
    pub(super) loaders: BTreeMap<Owner, View<'a>>,
    /// How launches went on each GPU; empty where that was not asked.
    pub(super) launches: BTreeMap<(Owner, u64), View<'a>>,
    /// Kernels, and what hardware counters counted of them.
    pub(super) kernels: Vec<View<'a>>,
    pub(super) kernel_counters: Vec<View<'a>>,
    /// Operations between ranks that were not done when the traces ended.
    pub(super) never_done: Vec<View<'a>>,
    /// Waits for GPUs that lasted until the end.
    pub(super) never_ended: Vec<View<'a>>,
    /// What GPUs worked on, and how well their time was used; empty where that was not asked.
    pub(super) used: Used<'a>,
    pub(super) cost: Option<View<'a>>,
    /// `None` where ranks were not compared: there is one process, or nothing collective.
    pub(super) compared: Option<Compared>,
    /// The longest of the processes' lifetimes, or of the GPUs' spans.
    pub(super) run_ns: u64,
    pub(super) hosts: Vec<Host>,
}

impl<'a> Facts<'a> {
    pub(super) fn new(answers: &'a [(&'static str, Answer)], cost: &'a Answer) -> Self {
        let answer = |question: &str| {
            let found = answers.iter().find(|(name, _)| *name == question);
            debug_assert!(found.is_some(), "{question} was not asked");
            found.map(|(_, answer)| answer)
        };
        let lives = rows(answer("lives"), "lives");
        let hosts = hosts(&lives);
        let processes = lives.iter().map(|view| process(view, &hosts)).collect();
        let processes = one_for_each_owner(processes);
        let (timeline, gaps, pauses) = (answer("timeline"), answer("gaps"), answer("pauses"));
        let gpus = gpus(timeline, gaps, pauses, &hosts);
        let lives = processes.iter().map(|one| one.recorded_ns);
        let spans = gpus.iter().map(|one| one.span.duration_ns);
        let asked = |question: &str| {
            let found = answers.iter().find(|(name, _)| *name == question);
            found.map(|(_, answer)| answer)
        };
        Self {
            run_ns: lives.chain(spans).max().unwrap_or(0),
            compared: asked("collectives").map(|answer| compared(answer, &gpus, &hosts)),
            used: Used::of(asked("efficiency"), asked("launch"), &hosts),
            blocking_copies: copying(&rows(answer("copies"), "blocking_copies"), &hosts),
            blocked_async_copies: copying(&rows(answer("pauses"), "blocked_async_copies"), &hosts),
            copies: rows(answer("copies"), "copies"),
            calls: rows(answer("calls"), "calls"),
            waits: rows(answer("functions"), "waits"),
            functions: rows(answer("functions"), "functions"),
            sensors: rows(answer("sensors"), "sensors"),
            slow_clocks: rows(answer("sensors"), "slow_clocks"),
            kernels: rows(answer("kernels"), "kernels"),
            kernel_counters: rows(answer("kernels"), "kernel_counters"),
            interpreter: rows(answer("interpreter"), "interpreter_threads"),
            loaders: rows(answer("lives"), "loaders")
                .into_iter()
                .map(|row| (Owner::of(&row, &hosts), row))
                .collect(),
            launches: rows(asked("launch"), "queue_depth")
                .into_iter()
                .map(|row| (key(&row, &hosts), row))
                .collect(),
            never_done: rows(answer("stuck"), "never_done"),
            never_ended: rows(answer("stuck"), "never_ended"),
            cost: rows(Some(cost), "profiling_cost").first().copied(),
            gpus,
            processes,
            hosts,
        }
    }

    /// Whether a process lived for half of the run at least: of what is shorter the run's time is not made.
    pub(super) fn is_long(&self, process: &Process) -> bool {
        2 * process.recorded_ns >= self.run_ns
    }

    /// The place of a row's host in `hosts`.
    pub(super) fn host_of(&self, view: &View<'_>) -> usize {
        host_of(view, &self.hosts)
    }

    /// Whose a row is.
    pub(super) fn owner(&self, view: &View<'_>) -> Owner {
        Owner::of(view, &self.hosts)
    }

    /// Stragglers that are worth a finding.
    pub(super) fn reported(&self) -> Reported<'_> {
        let compared = self.compared.as_ref();
        compared.map_or_else(Reported::default, |one| one.reported(self.run_ns))
    }

    /// The runtime of the GPUs, by the names of its calls.
    pub(super) fn runtime(&self) -> Runtime {
        let begins = |start: &&str| {
            let mut names = self.calls.iter().map(|row| row.text("name"));
            names.any(|name| {
                let rest = name.strip_prefix(start);
                rest.is_some_and(|rest| rest.starts_with(|one: char| one.is_ascii_uppercase()))
            })
        };
        let has = |starts: &[&str]| starts.iter().any(begins);
        let has_hsa = || {
            self.calls
                .iter()
                .any(|row| row.text("name").starts_with("hsa_"))
        };
        match () {
            () if has(&["hip"]) || has_hsa() || self.calls.is_empty() => Runtime::Hip,
            () if has(&["cuda", "cu"]) => Runtime::Cuda,
            () if has(&["ur", "ze", "pi"]) => Runtime::Sycl,
            () => Runtime::Other,
        }
    }

    /// Whether what is recorded here is a trace of rsys-sample.
    pub(super) fn is_ours(&self) -> bool {
        let has_samples = |cost: View<'_>| cost.known("samples").is_some();
        self.processes.iter().any(|one| one.is_sampled) || self.cost.is_some_and(has_samples)
    }

    /// Whether a GPU was idle while its host waited, by waits that were seen or recorded.
    pub(super) fn knows_host_waits(&self) -> bool {
        let causes = self.gpus.iter().flat_map(|gpu| &gpu.causes);
        causes.into_iter().any(|idle| idle.cause == "host_wait")
    }

    /// Whether the threads of the process of a GPU were sampled.
    pub(super) fn is_sampled(&self, gpu: &Gpu) -> bool {
        let mut users = self.processes.iter().filter(|one| one.uses(gpu.owner));
        users.any(|one| one.samples > 0)
    }

    /// Whether waits were recorded of the process of a GPU.
    pub(super) fn has_waits(&self, gpu: &Gpu) -> bool {
        let mut users = self.processes.iter().filter(|one| one.uses(gpu.owner));
        users.any(|one| one.has_waits)
    }
}

/// What tells GPUs apart: recordings of one, with pauses between them, have one key. In containers, processes of one number run at once.
pub(super) type GpuKey = (Owner, u64, usize);

/// The GPUs, each with its key.
pub(super) fn keyed(gpus: &[Gpu]) -> impl Iterator<Item = (GpuKey, &Gpu)> {
    gpus.iter().enumerate().map(|(number, gpu)| {
        let before = gpus[..number].iter();
        let beside = before.filter(|other| other.is_beside(gpu)).count();
        ((gpu.owner, gpu.number, beside), gpu)
    })
}

/// The number of a GPU and its process, by which tables are joined.
fn key(view: &View<'_>, hosts: &[Host]) -> (Owner, u64) {
    (Owner::of(view, hosts), view.count("device"))
}

fn gpus(
    timeline: Option<&Answer>,
    gaps: Option<&Answer>,
    pauses: Option<&Answer>,
    hosts: &[Host],
) -> Vec<Gpu> {
    let (gaps, pauses) = (rows(gaps, "devices"), rows(pauses, "pauses"));
    let devices = rows(timeline, "devices");
    // A GPU that was recorded several times has a row in each table for every recording in which it worked.
    let mut recordings: BTreeMap<(Owner, u64), usize> = BTreeMap::new();
    let mut known: BTreeSet<(Owner, u64)> = BTreeSet::new();
    let devices = devices.iter().map(|view| {
        let same = |other: &&View<'_>| key(other, hosts) == key(view, hosts);
        let recording = recordings.entry(key(view, hosts)).or_default();
        let causes = gaps.iter().filter(same).nth(*recording);
        let before = causes.map(|view| view.below("outside"));
        let causes = causes.map(|view| view.below("causes"));
        let pauses = pauses.iter().filter(same).nth(*recording);
        *recording += usize::from(view.count("total_ns") > 0);
        let pause_causes = pauses.map(|view| view.below("pause_causes"));
        let phases = pauses.map(|view| view.below("launch_phases"));
        let owner = Owner::of(view, hosts);
        let host = owner.host;
        Gpu {
            owner,
            number: view.count("device"),
            is_first: known.insert(key(view, hosts)),
            span: Span {
                start_ns: view.count("start_ns"),
                duration_ns: view.count("total_ns"),
                host,
            },
            kernels: view.count("records.compute"),
            copies: view.count("records.memcpy"),
            busy_ns: view.count("busy_ns"),
            computation_ns: view.count("computation_ns"),
            exposed_comm_ns: view.count("exposed_comm_ns"),
            exposed_copies_ns: view.count("exposed_memcpy_ns"),
            comm_ns: view.count("total_comm_ns"),
            causes: causes
                .iter()
                .flatten()
                .map(|view| cause(view, "idle_ns", host))
                .collect(),
            before: before
                .iter()
                .flatten()
                .filter(|view| view.text("when") == "before")
                .map(|view| cause(view, "time_ns", host))
                .collect(),
            pauses: pause_causes
                .iter()
                .flatten()
                .map(|view| pause(view, host))
                .collect(),
            phases: phases
                .iter()
                .flatten()
                .map(|view| phase(view, host))
                .collect(),
            other_idle_ns: pauses.map_or(0, |view| view.count("other_idle_ns")),
            blocking_copies_ns: pauses.and_then(|view| view.known("blocking_copies_ns")),
            blocked_async_copies_ns: pauses.and_then(|view| view.known("blocked_async_copies_ns")),
        }
    });
    devices.collect()
}

fn cause(view: &View<'_>, time: &str, host: usize) -> Idle {
    Idle {
        cause: view.text("cause").to_owned(),
        call: String::new(),
        place: tidy(view.text("where")),
        idle_ns: view.count(time),
        count: view.count("count"),
        longest: Span::longest(view, host),
    }
}

fn pause(view: &View<'_>, host: usize) -> Idle {
    Idle {
        cause: view.text("cause").to_owned(),
        call: view.text("call").to_owned(),
        place: view.place(""),
        idle_ns: view.count("idle_ns"),
        count: view.count("count"),
        longest: Span::longest(view, host),
    }
}

fn phase(view: &View<'_>, host: usize) -> Phase {
    Phase {
        span: Span {
            start_ns: view.count("start_ns"),
            duration_ns: view.count("duration_ns"),
            host,
        },
        bursts: view.count("bursts"),
        busy_ns: view.count("busy_ns"),
        idle_ns: view.count("idle_ns"),
    }
}

fn copying(views: &[View<'_>], hosts: &[Host]) -> Vec<Copying> {
    let copying = |view: &View<'_>| Copying {
        owner: Owner::of(view, hosts),
        call: view.text("call").to_owned(),
        place: view.place(""),
        count: view.count("count"),
        bytes: view.count("bytes"),
        blocked_ns: view.count("blocked_ns"),
    };
    views.iter().map(copying).collect()
}
