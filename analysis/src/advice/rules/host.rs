//! What the thread that launches did while a GPU was idle.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::interpreter::lock_wait_ns;
use crate::advice::facts::{Facts, Gpu, Idle, has_other_lock, without_line, without_lock};
use crate::advice::rule::{Finding, Need, Rule, Verdict, of_each_gpu};
use crate::table::view::View;

pub(super) const RULES: [Rule; 4] = [
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
        remedy: "read ahead: more or faster loader threads or processes, larger requests, a cache, data nearer to the machine",
        needs: &[Need::Gpus, Need::Calls, Need::WaitSamples],
        judge: input_wait,
    },
    Rule {
        name: "host_off_processor",
        title: "a GPU waits for a thread that is not on a processor",
        remedy: "record with --realtime, which tells waits from a lack of processors; give the process more of these if others take them",
        needs: &[Need::Gpus, Need::Calls],
        judge: host_off_processor,
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
    if OFF_PART * function.code_ns >= function.off_ns {
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
    of_host(facts, Of::Input)
}

fn host_off_processor(facts: &Facts<'_>) -> Verdict {
    of_host(facts, Of::OffProcessor)
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
    let what = what.map_or("", |wait| wait.text("waited_for"));
    let what = what.trim_start_matches("__").trim_start_matches("libc_");
    INPUTS.iter().any(|input| what.starts_with(input))
}

/// Whether a wait belongs to the interpreter's lock, which has a rule of its own.
fn is_for_lock(facts: &Facts<'_>, gpu: &Gpu, place: &str, wait_ns: u64) -> bool {
    let is_known = || 2 * lock_wait_ns(facts, gpu.owner, without_lock(place)) > wait_ns;
    !has_other_lock(place) && is_known()
}
