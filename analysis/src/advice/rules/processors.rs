//! Programs that use no GPU: what their threads waited for, and how processors were used.

use super::host::{is_data, loader_cells, loader_of_gpu};
use crate::advice::facts::Facts;
use crate::advice::processes::Process;
use crate::advice::rule::{Finding, Rule, Verdict};
use rsys_traces::model::is_input;

pub(super) const RULES: [Rule; 9] = [
    Rule {
        name: "loader_wait",
        title: "the main thread waits for its loader",
        remedy: "make what the loader does faster, or have more of them do it (DataLoader: num_workers, prefetch_factor, persistent_workers=True; several threads on one queue), prepare the data once and keep it; where it computes in Python, processes instead of threads",
        needs: &[],
        judge: loader_wait,
    },
    Rule {
        name: "data_wait",
        title: "the program waits for data that it reads or receives",
        remedy: "prepare the data ahead: more workers (DataLoader: num_workers, prefetch_factor, persistent_workers=True), a thread that reads ahead, larger reads, a cache, data nearer to the machine",
        needs: &[],
        judge: data_wait,
    },
    Rule {
        name: "main_wait",
        title: "the main thread waits instead of working",
        remedy: "do other work meanwhile, or make what it waits for faster: `rsys-report functions` lists all waits with their lines",
        needs: &[],
        judge: main_wait,
    },
    Rule {
        name: "imports",
        title: "importing modules takes much of the run",
        remedy: "`python -X importtime` lists the modules: import those that are rarely used where they are used, keep the process for several tasks, put the environment on a disk of this machine",
        needs: &[],
        judge: imports,
    },
    Rule {
        name: "garbage_collector",
        title: "Python's garbage collector takes much of the processor time",
        remedy: "make fewer objects that live long, call gc.freeze() when the program has started, raise gc.set_threshold(), or gc.disable() where there are no cycles",
        needs: &[],
        judge: garbage_collector,
    },
    Rule {
        name: "no_processor",
        title: "threads that could run have no processor",
        remedy: "others have the processors: give the run some of its own (taskset, srun --cpu-bind), or ask for more of them; if it has more threads and processes than processors itself, start fewer (OMP_NUM_THREADS, -n, num_workers)",
        needs: &[],
        judge: no_processor,
    },
    Rule {
        name: "one_busy_thread",
        title: "one thread does nearly all the work, and others wait for it",
        remedy: "the time of this thread is what the run takes, however many processors there are: divide its work, `rsys-report functions --by thread` shows it",
        needs: &[],
        judge: one_busy_thread,
    },
    Rule {
        name: "waits_not_recorded",
        title: "the main thread was not on a processor, and why was not recorded",
        remedy: "record with rsys-sample --realtime: it shows what threads wait for, and in which line",
        needs: &[],
        judge: waits_not_recorded,
    },
    Rule {
        name: "mpi_not_recorded",
        title: "ranks are in calls of MPI, and who waits for whom was not recorded",
        remedy: "record with rsys-sample -I mpip (and --realtime): it shows which rank the others wait for, and in which line",
        needs: &[],
        judge: mpi_not_recorded,
    },
];

/// From this part of a process's life on something is worth a finding, and from this time.
const WORTH_SHARE: f64 = 0.2;
const WORTH_NS: u64 = 200_000_000;
/// Shells, launchers and helpers have less than this part of all CPU time.
const HELPER_SHARE: f64 = 0.02;
/// Waits for this have a rule of their own.
const INTERPRETERS_LOCK: &str = "the interpreter's lock";
/// What is waited for where a child works.
const FOR_CHILDREN: [&str; 2] = ["wait4", "waitid"];

/// Finds something in the processes that matter, where no GPU is used. Ranks that are compared have findings of their own for their waits.
fn of_processes(
    facts: &Facts<'_>,
    is_about_waits: bool,
    find: impl Fn(&Process) -> Option<Finding>,
) -> Verdict {
    if !facts.gpus.is_empty() {
        return Verdict::Found(Vec::new());
    }
    let is_seen = |one: &&Process| one.is_sampled || one.has_waits;
    if !facts.processes.iter().any(|one| is_seen(&one)) {
        return Verdict::Lacks("samples of threads", "-f 300");
    }
    let all_ns: u64 = facts.processes.iter().map(|one| one.cpu_ns).sum();
    let of_compared =
        |one: &&Process| is_about_waits && one.owner.rank.is_some() && facts.compared.is_some();
    let matter = facts.processes.iter().filter(|one| {
        is_seen(one)
            && !of_compared(one)
            && facts.is_long(one)
            && one.cpu_ns as f64 >= HELPER_SHARE * all_ns as f64
    });
    let found = matter.filter_map(|process| {
        let mut finding = find(process)?;
        finding
            .evidence
            .push(("of_process_ns", process.recorded_ns.into()));
        finding
            .evidence
            .push(("process", process.owner.process.into()));
        Some(finding)
    });
    // Workers of one kind wait at one place, and ranks lack processors together: the longest stands for all.
    let mut found: Vec<Finding> = found.collect();
    found.sort_by_key(|one| (one.place.clone(), std::cmp::Reverse(one.saves_ns)));
    found.dedup_by(|other, one| other.place == one.place);
    Verdict::Found(found)
}

fn is_worth(ns: u64, process: &Process) -> bool {
    ns >= WORTH_NS && ns as f64 >= WORTH_SHARE * process.recorded_ns as f64
}

/// The longest wait of the main thread, if it is worth a finding and of this kind.
fn waits(facts: &Facts<'_>, is_for_data: bool) -> Verdict {
    of_processes(facts, true, |process| {
        let (place, waited_for, ns) = &process.wait;
        let is_data = is_data(waited_for) && !process.is_any_wait || is_input(place);
        let is_other =
            FOR_CHILDREN.contains(&waited_for.as_str()) || waited_for.contains(INTERPRETERS_LOCK);
        let is_of_loader = facts
            .loaders
            .get(&process.owner)
            .is_some_and(|row| row.place("") == *place);
        let is_worth = is_worth(*ns, process) && !is_other && !is_of_loader;
        // Of several threads, who waits may have others work.
        let has_others_work = !is_data && process.threads > 1;
        (is_worth && is_data == is_for_data && !has_others_work).then(|| Finding {
            saves_ns: Some((*ns).min(process.recorded_ns)),
            place: place.clone(),
            evidence: vec![
                ("waited_for", waited_for.as_str().into()),
                ("main_wait_ns", process.main_wait_ns.into()),
                ("main_cpu_ns", process.main_cpu_ns.into()),
            ],
            span: Some(process.life),
            ..Finding::default()
        })
    })
}

fn data_wait(facts: &Facts<'_>) -> Verdict {
    waits(facts, true)
}

fn main_wait(facts: &Facts<'_>) -> Verdict {
    waits(facts, false)
}

/// The main thread waits for what another thread or process of its own hands it; with a GPU, see [`loader_of_gpu`].
fn loader_wait(facts: &Facts<'_>) -> Verdict {
    if !facts.gpus.is_empty() {
        return loader_of_gpu(facts);
    }
    of_processes(facts, true, |process| {
        let loader = facts.loaders.get(&process.owner)?;
        let ns = loader.count("wait_ns");
        is_worth(ns, process).then(|| Finding {
            saves_ns: Some(ns.min(process.recorded_ns)),
            place: loader.place(""),
            evidence: loader_cells(loader),
            span: Some(process.life),
            ..Finding::default()
        })
    })
}

fn imports(facts: &Facts<'_>) -> Verdict {
    of_processes(facts, false, |process| {
        is_worth(process.imports_ns, process).then(|| Finding {
            saves_ns: Some(process.imports_ns),
            evidence: vec![("imports_ns", process.imports_ns.into())],
            ..Finding::default()
        })
    })
}

/// Collecting garbage is worth a finding from this part of the CPU time on.
const COLLECTOR_SHARE: f64 = 0.05;

fn garbage_collector(facts: &Facts<'_>) -> Verdict {
    of_processes(facts, false, |process| {
        let ns = process.collector_ns;
        let is_worth = ns >= WORTH_NS && ns as f64 >= COLLECTOR_SHARE * process.cpu_ns as f64;
        is_worth.then(|| Finding {
            saves_ns: Some(ns),
            evidence: vec![
                ("collector_ns", ns.into()),
                ("cpu_ns", process.cpu_ns.into()),
            ],
            ..Finding::default()
        })
    })
}

fn no_processor(facts: &Facts<'_>) -> Verdict {
    of_processes(facts, false, |process| {
        let threads = process.threads.max(1);
        let each_ns = process.runnable_ns / threads;
        is_worth(each_ns, process).then(|| Finding {
            saves_ns: Some(each_ns),
            evidence: vec![
                ("runnable_ns", process.runnable_ns.into()),
                ("cpu_ns", process.cpu_ns.into()),
                ("threads", process.threads.into()),
            ],
            ..Finding::default()
        })
    })
}

/// A thread does nearly all where it has this part of the CPU time, and runs for this part of the life.
const ALONE_SHARE: f64 = 0.9;
const BUSY_SHARE: f64 = 0.7;
/// The fewest threads that are meant to share the work.
const SEVERAL: u64 = 3;

fn one_busy_thread(facts: &Facts<'_>) -> Verdict {
    of_processes(facts, false, |process| {
        let (most, all, life) = (
            process.most_cpu_ns as f64,
            process.cpu_ns as f64,
            process.recorded_ns as f64,
        );
        let is_alone = process.threads >= SEVERAL && most >= ALONE_SHARE * all;
        (is_alone && most >= BUSY_SHARE * life && process.most_cpu_ns >= WORTH_NS).then(|| {
            Finding {
                evidence: vec![
                    ("most_cpu_ns", process.most_cpu_ns.into()),
                    ("cpu_ns", process.cpu_ns.into()),
                    ("threads", process.threads.into()),
                ],
                ..Finding::default()
            }
        })
    })
}

/// What is not known of a life is worth a finding from this part and time on.
const UNSEEN_SHARE: f64 = 0.5;
const UNSEEN_NS: u64 = 1_000_000_000;

fn waits_not_recorded(facts: &Facts<'_>) -> Verdict {
    of_processes(facts, true, |process| {
        let unseen_ns = process.recorded_ns.saturating_sub(process.main_cpu_ns);
        let is_much =
            unseen_ns >= UNSEEN_NS && unseen_ns as f64 >= UNSEEN_SHARE * process.recorded_ns as f64;
        (!process.has_waits && is_much).then(|| Finding {
            evidence: vec![
                ("not_on_processor_ns", unseen_ns.into()),
                ("main_cpu_ns", process.main_cpu_ns.into()),
            ],
            ..Finding::default()
        })
    })
}

/// Within MPI is worth a finding from this part of a life on.
const MPI_SHARE: f64 = 0.05;

/// The rank with most of it stands for all.
fn mpi_not_recorded(facts: &Facts<'_>) -> Verdict {
    let ranks = facts.processes.iter().filter(|one| {
        let ns = one.unrecorded_mpi_ns;
        ns >= WORTH_NS && ns as f64 >= MPI_SHARE * one.recorded_ns as f64
    });
    let count = ranks.clone().count() as u64;
    let most = ranks.max_by_key(|one| (one.unrecorded_mpi_ns, std::cmp::Reverse(one.owner)));
    let found = most.map(|most| Finding {
        evidence: vec![
            ("in_mpi_ns", most.unrecorded_mpi_ns.into()),
            ("of_process_ns", most.recorded_ns.into()),
            ("process", most.owner.process.into()),
            ("processes", count.into()),
        ],
        ..Finding::default()
    });
    Verdict::Found(found.into_iter().collect())
}
