//! What the thread that launches did while a GPU was idle.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::interpreter::lock_wait_ns;
use crate::advice::facts::{Facts, Gpu, Idle, has_other_lock, without_line, without_lock};
use crate::advice::rule::{Finding, Need, Rule, Verdict, is_worth_of, of_each_gpu};
use crate::model::is_input as is_input_name;
use crate::table::view::View;

pub(super) const RULES: [Rule; 6] = [
    Rule {
        name: "host_code",
        title: "a GPU waits for code on the host",
        remedy: "launch the next work before this code runs, move it to another thread or to the GPU, or make it faster: `rsys-report functions` shows what it does",
        needs: &[Need::Gpus, Need::Calls],
        judge: host_code,
    },
    Rule {
        name: "host_wait",
        title: "a GPU waits while the host sleeps or waits for another thread",
        remedy: "launch the next work before the wait, or remove the wait; `rsys-report functions` lists the waits, `rsys-report locks` those for locks and who held them",
        needs: &[Need::Gpus, Need::Calls, Need::Waits],
        judge: host_wait,
    },
    Rule {
        name: "input_wait",
        title: "a GPU waits for data that the host reads or receives",
        remedy: "prepare the data ahead of the GPU: more workers (DataLoader: num_workers, prefetch_factor, persistent_workers=True), pinned memory (pin_memory=True, copies with non_blocking=True), larger reads, a cache, data nearer to the machine",
        needs: &[Need::Gpus, Need::Calls],
        judge: input_wait,
    },
    Rule {
        name: "host_off_processor",
        title: "a GPU waits for a thread that is not on a processor",
        remedy: "record with --realtime, which tells waits from a lack of processors; give the process more of these if others take them",
        needs: &[Need::Gpus, Need::Calls],
        judge: host_off_processor,
    },
    Rule {
        name: "generated_code",
        title: "a GPU waits for code that a compiler generated",
        remedy: "nobody edits this code: record its launches once as a graph (torch.compile(mode=\"reduce-overhead\"), torch.cuda.graphs), make batches larger, and see with TORCH_LOGS=recompiles,graph_breaks whether it is compiled again and again",
        needs: &[Need::Gpus, Need::Calls],
        judge: generated_code,
    },
    Rule {
        name: "many_operators",
        title: "the host takes longer to launch the work than the GPU to do it, and no operator stands out",
        remedy: "launch fewer and larger pieces: record the step as a graph (hipGraph, torch.cuda.graphs), fuse operators (torch.compile), make batches larger; `rsys-report launch` has the operators",
        needs: &[Need::Gpus, Need::Calls],
        judge: many_operators,
    },
];

/// A thread that is off its processor for so many times as long as it runs does not compute there.
const OFF_PART: u64 = 4;

/// What threads wait for where data comes in: beginnings of names of system calls and functions.
const INPUTS: [&str; 16] = [
    "read",
    "pread",
    "readv",
    "recv",
    "poll",
    "ppoll",
    "epoll_",
    "select",
    "pselect",
    "accept",
    "io_getevents",
    "io_uring",
    "splice",
    "sendfile",
    "[page fault]",
    "wait4",
];

/// Idle time of a GPU at one function of the host.
#[derive(Debug, Default)]
struct AtFunction<'f> {
    code_ns: u64,
    off_ns: u64,
    wait_ns: u64,
    times: u64,
    /// The line with most of it.
    most: Option<&'f Idle>,
}

/// Functions that every stack of a thread has: they are no place.
const NO_PLACES: [&str; 4] = ["_start", "clone", "clone3", "start_thread"];

/// Times of the host by function, the longest first.
fn functions(gpu: &Gpu) -> Vec<AtFunction<'_>> {
    let mut functions: BTreeMap<&str, AtFunction<'_>> = BTreeMap::new();
    for idle in &gpu.causes {
        let Some(of_host) = idle.cause.strip_prefix("host_") else {
            continue;
        };
        let function = functions.entry(without_line(&idle.place)).or_default();
        *match of_host {
            "code" => &mut function.code_ns,
            "wait" => &mut function.wait_ns,
            _ => &mut function.off_ns,
        } += idle.idle_ns;
        function.times += idle.times();
        if function.most.is_none_or(|most| most.idle_ns < idle.idle_ns) {
            function.most = Some(idle);
        }
    }
    let mut functions: Vec<_> = functions
        .into_iter()
        .filter(|(name, _)| !NO_PLACES.contains(name))
        .map(|(_, function)| function)
        .collect();
    functions.sort_by_key(|one| Reverse(one.code_ns + one.off_ns + one.wait_ns));
    functions
}

/// Which rule a function belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Code,
    Wait,
    Input,
    OffProcessor,
    Lock,
    Call,
    Generated,
}

/// What most of the time at a function is. A thread that computes is put off its processor now and then, which is no cause of its own.
fn of_function(facts: &Facts<'_>, gpu: &Gpu, function: &AtFunction<'_>, place: &str) -> Of {
    if 2 * function.wait_ns >= function.code_ns + function.off_ns {
        return match () {
            // The wait of a call that has its own rule.
            () if 2 * gpu.paused_in_ns(without_line(place)) >= function.wait_ns => Of::Call,
            () if is_for_lock(facts, gpu, place, function.wait_ns) => Of::Lock,
            () if is_input(facts, place) => Of::Input,
            () => Of::Wait,
        };
    }
    if is_input_name(without_line(place)) {
        Of::Input
    } else if is_generated(place) {
        Of::Generated
    } else if OFF_PART * function.code_ns >= function.off_ns {
        Of::Code
    } else {
        Of::OffProcessor
    }
}

/// Functions of the host with idle time of one kind, as far as no call or phase has it.
fn of_host(facts: &Facts<'_>, meant: Of) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let mut left_ns = gpu.host_idle_ns();
        let mut found = Vec::new();
        for function in functions(gpu) {
            let Some(most) = function.most else { continue };
            let idle_ns = function.code_ns + function.off_ns + function.wait_ns;
            let saves_ns = idle_ns.min(left_ns);
            left_ns -= saves_ns;
            if of_function(facts, gpu, &function, &most.place) == meant {
                found.push(Finding {
                    saves_ns: Some(saves_ns),
                    place: most.place.clone(),
                    evidence: vec![
                        ("idle_ns", idle_ns.into()),
                        ("in_code_ns", function.code_ns.into()),
                        ("in_waits_ns", function.wait_ns.into()),
                        ("off_processor_ns", function.off_ns.into()),
                        ("waits_recorded", facts.has_waits(gpu).into()),
                    ],
                    span: Some(most.longest),
                    times: function.times,
                });
            }
        }
        found
    })
}

fn host_code(facts: &Facts<'_>) -> Verdict {
    of_host(facts, Of::Code)
}

fn host_wait(facts: &Facts<'_>) -> Verdict {
    of_host(facts, Of::Wait)
}

fn input_wait(facts: &Facts<'_>) -> Verdict {
    match of_host(facts, Of::Input) {
        // Code that loads is known by its name, waits for data by samples alone.
        Verdict::Found(found) if found.is_empty() && !Need::WaitSamples.is_there(facts) => {
            Need::WaitSamples.lack()
        }
        verdict => verdict,
    }
}

fn host_off_processor(facts: &Facts<'_>) -> Verdict {
    of_host(facts, Of::OffProcessor)
}

fn generated_code(facts: &Facts<'_>) -> Verdict {
    of_host(facts, Of::Generated)
}

/// Whether a place is in what `torch.compile`, `torch.fx` or Triton have made.
fn is_generated(place: &str) -> bool {
    let marks = [
        "torchinductor_",
        "Torch-Compiled Region",
        "CompiledFxGraph",
        "<eval_with_key>",
        "TorchDynamo Cache Lookup",
    ];
    marks.iter().any(|mark| place.contains(mark))
}

/// Code of operators and functions of which none alone is worth a finding, and all together are.
fn many_operators(facts: &Facts<'_>) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let whole_ns = gpu.span.duration_ns;
        let mut left_ns = gpu.host_idle_ns();
        let (mut together_ns, mut times, mut small) = (0, 0, Vec::new());
        for function in functions(gpu) {
            let Some(most) = function.most else { continue };
            let idle_ns = function.code_ns + function.off_ns + function.wait_ns;
            let saves_ns = idle_ns.min(left_ns);
            left_ns -= saves_ns;
            let is_code = of_function(facts, gpu, &function, &most.place) == Of::Code;
            if is_code && !is_worth_of(saves_ns, whole_ns, function.times) {
                together_ns += saves_ns;
                times += function.times;
                small.push((saves_ns, most));
            }
        }
        let [(most_ns, most), _, ..] = small[..] else {
            return Vec::new();
        };
        let launches = gpu.causes.iter().filter(|idle| idle.cause == "launch");
        let launch_ns: u64 = launches.map(|idle| idle.idle_ns).sum();
        vec![Finding {
            saves_ns: Some(together_ns),
            place: format!("{} and {} others", most.place, small.len() - 1),
            evidence: vec![
                ("idle_ns", together_ns.into()),
                ("operators_and_functions", (small.len() as u64).into()),
                (
                    "most_of_one_share",
                    (most_ns as f64 / together_ns.max(1) as f64).into(),
                ),
                ("launch_latency_ns", launch_ns.into()),
                ("busy_ns", gpu.busy_ns.into()),
            ],
            span: Some(gpu.span),
            times,
        }]
    })
}

/// Whether a thread waited at a place for data, by most of the time.
fn is_input(facts: &Facts<'_>, place: &str) -> bool {
    let function = without_line(place);
    let is_there = |wait: &&View<'_>| {
        let waits_at = wait.place("");
        without_line(&waits_at) == function
    };
    // Sorted: the first is the longest.
    let what = facts.waits.iter().find(is_there);
    is_data(what.map_or("", |wait| wait.text("waited_for")))
}

/// Whether data comes in by what a thread waits for.
pub(super) fn is_data(waited_for: &str) -> bool {
    let what = waited_for
        .trim_start_matches("__")
        .trim_start_matches("libc_");
    INPUTS.iter().any(|input| what.starts_with(input))
}

/// Whether a wait belongs to the interpreter's lock, which has a rule of its own.
fn is_for_lock(facts: &Facts<'_>, gpu: &Gpu, place: &str, wait_ns: u64) -> bool {
    let is_known = || 2 * lock_wait_ns(facts, gpu.owner, without_lock(place)) > wait_ns;
    !has_other_lock(place) && is_known()
}
