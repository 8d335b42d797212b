//! What the thread that launches did while a GPU was idle.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::interpreter::lock_wait_ns;
use super::submission::{LOOP, WAITING, held_ns, untold_ns};
use crate::advice::facts::{Facts, Gpu, Idle};
use crate::advice::places::{has_other_lock, without_line, without_lock};
use crate::advice::rule::{
    Finding, Need, OFTEN, Rule, Verdict, is_worth_of, of_each_gpu, of_each_gpu_together,
};
use crate::table::Cell;
use crate::table::view::View;
use rsys_traces::model::is_input as is_input_name;

pub(super) const RULES: [Rule; 7] = [
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
        name: "compilation",
        title: "a GPU waits while code is compiled",
        remedy: "in the first steps this happens once: warm up before measuring, and keep the caches of Inductor and Triton between runs; in later steps shapes or guards change: TORCH_LOGS=recompiles says which, torch.compile(dynamic=True) or padding avoids it",
        needs: &[Need::Gpus, Need::Calls],
        judge: compilation,
    },
    Rule {
        name: "many_operators",
        title: "the host launches work slower than the GPU does it, in many operators",
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
    /// How many times it was there.
    count: u64,
    /// The line with most of it.
    most: Option<&'f Idle>,
}

impl AtFunction<'_> {
    fn idle_ns(&self) -> u64 {
        self.code_ns + self.off_ns + self.wait_ns
    }
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
        function.count += idle.count;
        if function.most.is_none_or(|most| most.idle_ns < idle.idle_ns) {
            function.most = Some(idle);
        }
    }
    let mut functions: Vec<_> = functions
        .into_iter()
        .filter(|(name, _)| !NO_PLACES.contains(name))
        .map(|(_, function)| function)
        .collect();
    functions.sort_by_key(|one| Reverse(one.idle_ns()));
    functions
}

/// Which rule a function belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Code,
    Wait,
    Input,
    Loader,
    OffProcessor,
    Lock,
    Call,
    Generated,
    Compiler,
}

/// What most of the time at a function is. A thread that computes is put off its processor now and then, which is no cause of its own.
fn of_function(facts: &Facts<'_>, gpu: &Gpu, function: &AtFunction<'_>, place: &str) -> Of {
    if is_compiler(place) {
        return Of::Compiler;
    }
    if 2 * function.wait_ns >= function.code_ns + function.off_ns {
        return match () {
            // The wait of a call that has its own rule.
            () if 2 * gpu.paused_in_ns(without_line(place)) >= function.wait_ns => Of::Call,
            () if is_for_lock(facts, gpu, place, function.wait_ns) => Of::Lock,
            () if is_of_loader(facts, gpu, place, function.wait_ns) => Of::Loader,
            () if is_input(facts, place) => Of::Input,
            () => Of::Wait,
        };
    }
    if is_input_name(without_line(place)) {
        Of::Input
    } else if place.starts_with("gloo:") {
        // A collective of the host, in which a rank waits for others.
        Of::Call
    } else if is_generated(place) {
        Of::Generated
    } else if OFF_PART * function.code_ns >= function.off_ns {
        Of::Code
    } else {
        Of::OffProcessor
    }
}

/// A function of the host, and how much of its idle time no other rule has.
struct Share<'f> {
    function: AtFunction<'f>,
    most: &'f Idle,
    of: Of,
    saves_ns: u64,
}

/// Idle time that functions have, of what calls and phases would have without them.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Taken {
    pub(super) of_pauses_ns: u64,
    pub(super) of_phases_ns: u64,
}

/// One time alone is no chance where it is this part of a GPU's time: one in this many.
const STALL_PART: u64 = 5;

impl Share<'_> {
    /// How often it has happened. A stall that is long enough counts as if it had come again.
    fn times(&self, gpu: &Gpu) -> u64 {
        match STALL_PART * self.saves_ns >= gpu.span.duration_ns {
            true => self.function.times.max(OFTEN),
            false => self.function.times,
        }
    }
}

/// A function that a trace has recorded and that takes this long each time does not launch: it computes between two launches.
const NO_LAUNCH_NS: u64 = 50_000;
/// Longer times are in no phase of launches.
const PHASE_PAUSE_NS: u64 = 200_000;

/// Whether a function's times may be what phases of launches consist of, though it launches nothing.
fn is_between_launches(facts: &Facts<'_>, gpu: &Gpu, function: &AtFunction<'_>, of: Of) -> bool {
    let mean_ns = function.idle_ns() / function.count.max(1);
    let is_operator = || function.most.is_none_or(|most| most.place.contains("::"));
    of == Of::Code
        && (NO_LAUNCH_NS..=PHASE_PAUSE_NS).contains(&mean_ns)
        && !facts.is_sampled(gpu)
        && !is_operator()
}

/// What each function of the host has of a GPU's idle time, the longest first. Waits for data have all of theirs, whatever call is in front of them; others what
/// is behind calls that no rule reports.
fn shares<'f>(facts: &Facts<'_>, gpu: &'f Gpu) -> (Vec<Share<'f>>, Taken) {
    let pauses_ns: u64 = WAITING.map(|cause| gpu.paused_ns(cause)).iter().sum();
    let phases_ns: u64 = gpu.phases.iter().map(|phase| phase.idle_ns).sum();
    let [untold_waits_ns, untold_memory_ns] = untold_ns(gpu);
    let left_ns = gpu.host_idle_ns().saturating_sub(held_ns(facts, gpu));
    let (mut left_ns, mut taken) = (left_ns, Taken::default());
    let mut untold_taken_ns = 0;
    let mut shares = Vec::new();
    for function in functions(gpu) {
        let Some(most) = function.most else { continue };
        let of = of_function(facts, gpu, &function, &most.place);
        shares.push(Share {
            function,
            most,
            of,
            saves_ns: 0,
        });
    }
    for is_input in [true, false] {
        for share in shares
            .iter_mut()
            .filter(|one| matches!(one.of, Of::Input | Of::Loader) == is_input)
        {
            let idle_ns = share.function.idle_ns();
            share.saves_ns = idle_ns.min(left_ns);
            left_ns -= share.saves_ns;
            let mut take = |of_ns: u64, taken_ns: &mut u64| {
                let more_ns = (idle_ns - share.saves_ns).min(of_ns - *taken_ns);
                *taken_ns += more_ns;
                share.saves_ns += more_ns;
            };
            if is_input {
                take(pauses_ns, &mut taken.of_pauses_ns);
                continue;
            }
            if is_between_launches(facts, gpu, &share.function, share.of) {
                take(phases_ns, &mut taken.of_phases_ns);
            }
            let untold_ns = untold_waits_ns.min(pauses_ns - taken.of_pauses_ns) + untold_memory_ns;
            take(untold_ns, &mut untold_taken_ns);
        }
    }
    (shares, taken)
}

/// What functions have of the idle time of a GPU that calls and phases would have without them.
pub(super) fn taken(facts: &Facts<'_>, gpu: &Gpu) -> Taken {
    shares(facts, gpu).1
}

/// Where the host is for most of the idle time that calls in front of it have, and for how long.
pub(super) fn behind_calls<'f>(facts: &Facts<'_>, gpu: &'f Gpu) -> Option<(&'f str, u64)> {
    let shares = shares(facts, gpu).0.into_iter();
    let behind = shares.map(|share| {
        let behind_ns = share.function.idle_ns() - share.saves_ns;
        (share.most.place.as_str(), behind_ns)
    });
    behind.max_by_key(|(_, behind_ns)| *behind_ns)
}

/// Functions of the host with idle time of one kind, as far as no call or phase has it.
fn of_host(facts: &Facts<'_>, meant: Of) -> Verdict {
    of_each_gpu(facts, |gpu| {
        let (shares, _) = shares(facts, gpu);
        let own = shares.into_iter().filter(|share| share.of == meant);
        let found = own.map(|share| {
            let function = &share.function;
            let loader = facts
                .loaders
                .get(&gpu.owner)
                .filter(|_| meant == Of::Loader);
            let mut evidence = loader.map_or_else(Vec::new, loader_cells);
            evidence.extend::<[(&str, Cell); 5]>([
                ("idle_ns", function.idle_ns().into()),
                ("in_code_ns", function.code_ns.into()),
                ("in_waits_ns", function.wait_ns.into()),
                ("off_processor_ns", function.off_ns.into()),
                ("waits_recorded", facts.has_waits(gpu).into()),
            ]);
            Finding {
                saves_ns: Some(share.saves_ns),
                place: share.most.place.clone(),
                evidence,
                span: Some(share.most.longest),
                times: share.times(gpu),
                ..Finding::default()
            }
        });
        found.collect()
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

/// Waits of the thread that launches for what another thread or process hands it.
pub(super) fn loader_of_gpu(facts: &Facts<'_>) -> Verdict {
    of_host(facts, Of::Loader)
}

/// The finding for a loader.
pub(super) fn loader_cells(loader: &View<'_>) -> Vec<(&'static str, Cell)> {
    let mut told: Vec<(&str, Cell)> = vec![
        ("loader", loader.text("loader").into()),
        ("waits", loader.count("waits").into()),
        ("loader_runs_ns", loader.count("loader_runs_ns").into()),
    ];
    let waits_ns = loader.count("loader_waits_ns");
    if waits_ns > 0 {
        told.push(("loader_waits_ns", waits_ns.into()));
        told.push(("loader_waits_in", loader.text("loader_waits_for").into()));
    }
    told
}

/// Whether a place is where the main thread of a GPU's process waits for its loader, and most of such waits are for that.
fn is_of_loader(facts: &Facts<'_>, gpu: &Gpu, place: &str, wait_ns: u64) -> bool {
    let loader = facts.loaders.get(&gpu.owner);
    loader.is_some_and(|row| {
        2 * row.count("wait_ns") >= wait_ns && without_line(&row.place("")) == without_line(place)
    })
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

/// All that compilers do for a GPU's code is one finding, at the place with most of it. Its name says what it is: even one of them is no accident.
fn compilation(facts: &Facts<'_>) -> Verdict {
    of_each_gpu_together(facts, |gpu| {
        let shares = shares(facts, gpu).0.into_iter();
        let shares: Vec<Share<'_>> = shares.filter(|share| share.of == Of::Compiler).collect();
        let longest = shares.iter().max_by_key(|share| share.saves_ns);
        let found = longest.map(|longest| Finding {
            saves_ns: Some(shares.iter().map(|share| share.saves_ns).sum()),
            place: longest.most.place.clone(),
            evidence: vec![
                (
                    "idle_ns",
                    shares
                        .iter()
                        .map(|share| share.function.idle_ns())
                        .sum::<u64>()
                        .into(),
                ),
                ("idle_there_ns", longest.function.idle_ns().into()),
                (
                    "times",
                    shares
                        .iter()
                        .map(|share| share.function.count)
                        .sum::<u64>()
                        .into(),
                ),
            ],
            span: Some(longest.most.longest),
            times: LOOP.max(shares.iter().map(|share| share.times(gpu)).sum()),
            ..Finding::default()
        });
        found.into_iter().collect()
    })
}

/// Whether a place is in what makes code: ranges of `torch.compile`, functions of its compilers and of Triton's. What runs for each call of compiled code is not.
fn is_compiler(place: &str) -> bool {
    let marks = [
        "(dynamo_timed)",
        "torch/_dynamo/convert_frame.py",
        "torch/_dynamo/symbolic_convert.py",
        "torch/_dynamo/output_graph.py",
        "torch/_inductor/graph.py",
        "torch/_inductor/scheduler.py",
        "torch/_inductor/codegen/",
        "torch/_inductor/async_compile.py",
        "torch/_inductor/codecache.py",
        "triton/compiler/",
    ];
    marks.iter().any(|mark| place.contains(mark))
}

/// Code of operators and functions of which none alone is worth a finding, and all together are.
fn many_operators(facts: &Facts<'_>) -> Verdict {
    of_each_gpu_together(facts, |gpu| {
        let whole_ns = gpu.span.duration_ns;
        let (mut together_ns, mut times, mut small) = (0, 0, Vec::new());
        for share in shares(facts, gpu).0 {
            // What is long enough stands out, however seldom it is.
            let is_small = !is_worth_of(share.saves_ns, whole_ns, OFTEN);
            if share.of == Of::Code && is_small {
                together_ns += share.saves_ns;
                times += share.function.times;
                small.push((share.saves_ns, share.most));
            }
        }
        small.sort_by_key(|(saves_ns, _)| Reverse(*saves_ns));
        let [(most_ns, most), _, ..] = small[..] else {
            return Vec::new();
        };
        if 2 * most_ns > together_ns {
            return Vec::new();
        }
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
            ..Finding::default()
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
