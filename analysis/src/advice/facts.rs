//! What rules are about: GPUs and processes, with the numbers of finished tables. Nothing is measured here.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::compared::{Compared, Reported, compared};
use crate::table::Answer;
use crate::table::view::{View, rows, tidy};
use rsys_traces::model::{WAITING_FOR_INTERPRETER, WAITING_FOR_LOCK};

/// A time span of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    pub(super) start_ns: u64,
    pub(super) duration_ns: u64,
    /// Index in [`Facts::hosts`]: the times are of that host's clock.
    pub(super) host: usize,
}

impl Span {
    pub(super) fn between(start_ns: u64, end_ns: u64, host: usize) -> Self {
        Self {
            start_ns,
            duration_ns: end_ns.saturating_sub(start_ns),
            host,
        }
    }

    /// The longest single time of a row.
    pub(super) fn longest(view: &View<'_>, host: usize) -> Self {
        Self {
            start_ns: view.count("longest_at_ns"),
            duration_ns: view.count("longest_ns"),
            host,
        }
    }
}

/// A host: each has a clock of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: String,
    /// The first time of any of its processes.
    pub(super) start_ns: u64,
}

/// The hosts of processes; one without a name if there are none.
fn hosts(lives: &[View<'_>]) -> Vec<Host> {
    let mut starts: BTreeMap<&str, u64> = BTreeMap::new();
    for view in lives {
        let start_ns = starts.entry(view.text("host")).or_insert(u64::MAX);
        *start_ns = (*start_ns).min(view.count("start_ns"));
    }
    if starts.is_empty() {
        starts.insert("", 0);
    }
    let hosts = starts.into_iter();
    hosts
        .map(|(name, start_ns)| Host {
            name: name.to_owned(),
            start_ns,
        })
        .collect()
}

/// The place of a row's host.
fn host_of(view: &View<'_>, hosts: &[Host]) -> usize {
    host_named(view.text("host"), hosts)
}

/// The place of a host; the first if it is not among them.
pub(super) fn host_named(name: &str, hosts: &[Host]) -> usize {
    let found = hosts.iter().position(|host| host.name == name);
    found.unwrap_or(0)
}

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

    /// Idle time that one of the owners of `pauses` has.
    pub(super) fn paused_ns(&self, cause: &str) -> u64 {
        let of_cause = self.pauses.iter().filter(|one| one.cause == cause);
        of_cause.map(|one| one.idle_ns).sum()
    }

    /// Idle time that is neither a call's nor a phase's, nor that of work on its way: what is left for the host's own doings.
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

    /// Idle time behind calls that emptied the GPU and were made in a function.
    pub(super) fn paused_in_ns(&self, function: &str) -> u64 {
        let pauses = self.pauses.iter();
        let within = pauses.filter(|pause| without_line(&pause.place) == function);
        within.map(|pause| pause.idle_ns).sum()
    }
}

/// A function without the line in it: `step (train.py:12)` is `step (train.py)`. Nor with a lock that it waits for.
pub(super) fn without_line(place: &str) -> &str {
    let place = without_lock(place);
    // Names have colons as well: `aten::mm` is no line `:mm` of `aten:`.
    let is_line = |behind: &str| {
        let digits = behind.trim_end_matches(')');
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    match place.rsplit_once(':') {
        Some((function, line)) if is_line(line) => function,
        _ => place,
    }
}

/// Where `gaps` says in a place which lock is waited for there and who holds it, and whether that is the interpreter's.
fn lock_in(place: &str) -> Option<(usize, bool)> {
    let is_at = |words: &str, at: usize| {
        let before = &place[..at];
        (before.is_empty() || before.ends_with(", ")) && place[at..].starts_with(words)
    };
    let mut ats = place.match_indices("waiting ").map(|(at, _)| at);
    ats.find_map(|at| {
        let is_interpreter = is_at(WAITING_FOR_INTERPRETER, at);
        (is_interpreter || is_at(WAITING_FOR_LOCK, at)).then_some((at, is_interpreter))
    })
}

/// A place without what `gaps` says of the lock that is waited for there, and of who holds it.
pub(super) fn without_lock(place: &str) -> &str {
    lock_in(place).map_or(place, |(at, _)| place[..at].trim_end_matches(", "))
}

/// Whether a lock is waited for at a place that is not the interpreter's.
pub(super) fn has_other_lock(place: &str) -> bool {
    lock_in(place).is_some_and(|(_, is_interpreter)| !is_interpreter)
}

/// Whose something is: on other hosts, and in other containers, processes may have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Owner {
    /// Index in [`Facts::hosts`].
    pub(super) host: usize,
    pub(super) rank: Option<u64>,
    pub(super) process: u64,
}

impl Owner {
    pub(super) fn of(view: &View<'_>, hosts: &[Host]) -> Self {
        Self {
            host: host_of(view, hosts),
            rank: view.known("rank"),
            process: view.count("process"),
        }
    }
}

/// A process.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Process {
    pub(super) owner: Owner,
    pub(super) life: Span,
    /// From the first to the last operation of its GPUs.
    pub(super) used: Option<Span>,
    pub(super) samples: u64,
    /// Whether its threads were sampled by time.
    pub(super) is_sampled: bool,
    /// Whether waiting threads were looked at.
    pub(super) has_waits: bool,
    /// Where its main thread was most before and after that, and for how long.
    pub(super) before: (String, u64),
    pub(super) after: (String, u64),
    pub(super) name: String,
    pub(super) cpu_ns: u64,
    /// How long its main thread ran and waited, and where and for what it waited most.
    pub(super) main_cpu_ns: u64,
    pub(super) main_wait_ns: u64,
    pub(super) wait: (String, String, u64),
    /// Whether that may be for a time to come as well as for data.
    pub(super) is_any_wait: bool,
    /// How many of its threads ran, and how long the busiest.
    pub(super) threads: u64,
    pub(super) most_cpu_ns: u64,
    /// How long it imported modules of Python, and collected its garbage.
    pub(super) imports_ns: u64,
    pub(super) collector_ns: u64,
    /// How long its threads could run and had no processor.
    pub(super) runnable_ns: u64,
}

impl Process {
    /// Whether a GPU is one of its own.
    pub(super) fn uses(&self, gpu: &Gpu) -> bool {
        self.owner == gpu.owner
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

/// All that rules may look at.
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
    /// Operations between ranks that were not done when the traces ended.
    pub(super) never_done: Vec<View<'a>>,
    /// Waits for GPUs that lasted until the end.
    pub(super) never_ended: Vec<View<'a>>,
    pub(super) cost: Option<View<'a>>,
    /// `None` where ranks were not compared: there is one process, or nothing collective.
    pub(super) compared: Option<Compared>,
    /// The longest of the processes' lives, or of the GPUs' spans.
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
        let lives = processes.iter().map(|one| one.life.duration_ns);
        let spans = gpus.iter().map(|one| one.span.duration_ns);
        let collectives = answers.iter().find(|(name, _)| *name == "collectives");
        Self {
            run_ns: lives.chain(spans).max().unwrap_or(0),
            compared: collectives.map(|(_, answer)| compared(answer, &gpus, &hosts)),
            blocking_copies: copying(&rows(answer("copies"), "blocking_copies"), &hosts),
            blocked_async_copies: copying(&rows(answer("pauses"), "blocked_async_copies"), &hosts),
            copies: rows(answer("copies"), "copies"),
            calls: rows(answer("calls"), "calls"),
            waits: rows(answer("functions"), "waits"),
            functions: rows(answer("functions"), "functions"),
            sensors: rows(answer("sensors"), "sensors"),
            slow_clocks: rows(answer("sensors"), "slow_clocks"),
            interpreter: rows(answer("interpreter"), "interpreter_threads"),
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
        2 * process.life.duration_ns >= self.run_ns
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

    /// Whether a GPU was idle while its host waited, by waits that were seen or recorded.
    pub(super) fn knows_host_waits(&self) -> bool {
        let causes = self.gpus.iter().flat_map(|gpu| &gpu.causes);
        causes.into_iter().any(|idle| idle.cause == "host_wait")
    }

    /// Whether the threads of the process of a GPU were sampled.
    pub(super) fn is_sampled(&self, gpu: &Gpu) -> bool {
        let mut users = self.processes.iter().filter(|one| one.uses(gpu));
        users.any(|one| one.samples > 0)
    }

    /// Whether waits were recorded of the process of a GPU.
    pub(super) fn has_waits(&self, gpu: &Gpu) -> bool {
        let mut users = self.processes.iter().filter(|one| one.uses(gpu));
        users.any(|one| one.has_waits)
    }
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
    let devices = devices.iter().map(|view| {
        let same = |other: &&View<'_>| key(other, hosts) == key(view, hosts);
        let causes = gaps.iter().find(same).map(|view| view.below("causes"));
        let pauses = pauses.iter().find(same);
        let pause_causes = pauses.map(|view| view.below("pause_causes"));
        let phases = pauses.map(|view| view.below("launch_phases"));
        let owner = Owner::of(view, hosts);
        let host = owner.host;
        Gpu {
            owner,
            number: view.count("device"),
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
                .map(|view| cause(view, host))
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

fn cause(view: &View<'_>, host: usize) -> Idle {
    Idle {
        cause: view.text("cause").to_owned(),
        call: String::new(),
        place: tidy(view.text("where")),
        idle_ns: view.count("idle_ns"),
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

fn process(view: &View<'_>, hosts: &[Host]) -> Process {
    let owner = Owner::of(view, hosts);
    let host = owner.host;
    let used = view
        .known("first_operation_ns")
        .zip(view.known("last_operation_ns"));
    Process {
        owner,
        life: Span::between(view.count("start_ns"), view.count("end_ns"), host),
        used: used.map(|(first_ns, last_ns)| Span::between(first_ns, last_ns, host)),
        samples: view.count("samples"),
        is_sampled: view.count("sample_period_ns") > 0,
        has_waits: view.count("wait_frequency_hz") > 0,
        before: (view.place("before_"), view.count("before_ns")),
        after: (view.place("after_"), view.count("after_ns")),
        name: view.text("process_name").to_owned(),
        cpu_ns: view.count("cpu_ns"),
        main_cpu_ns: view.count("main_cpu_ns"),
        main_wait_ns: view.count("main_wait_ns"),
        wait: (
            view.place("wait_"),
            view.text("wait_for").to_owned(),
            view.count("wait_ns"),
        ),
        is_any_wait: view.count("wait_is_any") > 0,
        threads: view.count("threads"),
        most_cpu_ns: view.count("most_cpu_ns"),
        imports_ns: view.count("imports_ns"),
        collector_ns: view.count("collector_ns"),
        runnable_ns: view.count("runnable_ns"),
    }
}

/// Programs that one process executed after each other are one process: what they did is known by their owner only.
fn one_for_each_owner(mut programs: Vec<Process>) -> Vec<Process> {
    let most = |one: &Process| Reverse((one.used.is_some(), one.samples, one.life.duration_ns));
    programs.sort_by_key(|one| (one.owner, most(one)));
    programs.dedup_by(|other, one| {
        let is_same = other.owner == one.owner;
        if is_same {
            let end_ns = |span: Span| span.start_ns + span.duration_ns;
            let last_ns = end_ns(one.life).max(end_ns(other.life));
            let first_ns = one.life.start_ns.min(other.life.start_ns);
            one.life = Span::between(first_ns, last_ns, one.owner.host);
            one.samples += other.samples;
            one.cpu_ns += other.cpu_ns;
            one.is_sampled |= other.is_sampled;
            one.has_waits |= other.has_waits;
        }
        is_same
    });
    programs
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_places_are_told_apart() {
        let gil = "serves (app.py:30), waiting for the interpreter's lock (GIL), held by thread 7";
        let mutex = "take (app.cc:7), waiting in pthread_mutex_lock";
        for (place, without, is_other) in [
            (gil, "serves (app.py:30)", false),
            (mutex, "take (app.cc:7)", true),
            ("waiting in sem_wait", "", true),
            (
                "a waiting in vain (app.cc:7)",
                "a waiting in vain (app.cc:7)",
                false,
            ),
        ] {
            assert_eq!(
                (without_lock(place), has_other_lock(place)),
                (without, is_other)
            );
        }
    }

    #[test]
    fn a_process_that_executed_another_program_is_one() {
        let of_host = |host, process| Owner {
            host,
            rank: None,
            process,
        };
        let program = |process, start_ns, end_ns, samples| Process {
            owner: of_host(0, process),
            life: Span::between(start_ns, end_ns, 0),
            samples,
            before: (format!("of {samples}"), 0),
            ..Process::default()
        };
        let programs = vec![
            program(7, 0, 10, 0),
            program(8, 5, 90, 3),
            program(7, 10, 80, 40),
            // Of another host.
            Process {
                owner: of_host(1, 7),
                life: Span::between(5_000, 5_070, 1),
                ..program(7, 0, 0, 9)
            },
        ];
        let found = one_for_each_owner(programs);
        let found: Vec<_> = found
            .iter()
            .map(|one| {
                (
                    one.owner.process,
                    one.life,
                    one.samples,
                    one.before.0.as_str(),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                (7, Span::between(0, 80, 0), 40, "of 40"),
                (8, Span::between(5, 90, 0), 3, "of 3"),
                (7, Span::between(5_000, 5_070, 1), 9, "of 9"),
            ]
        );
    }
}
