//! What to look at first: rules judge finished answers, and what they find is ordered by the time that it could give back.
//!
//! | file | holds |
//! |---|---|
//! | `view` | rows of finished tables, by their keys |
//! | `compared` | ranks that wait for each other in collectives |
//! | `facts` | the GPUs, and all else that rules are about, with the numbers of those tables |
//! | `owners` | hosts, times on their clocks, whose something is |
//! | `processes` | the processes |
//! | `used` | how well the time of each GPU was used, by operator |
//! | `places` | functions, lines and locks as answers write them |
//! | `rule` | what a rule is, and when a time is worth a finding |
//! | `rules` | the rules, in groups |
//!
//! A rule sees nothing but numbers that the answers show as well. `docs/advice.md` says of each what it needs and when it stays silent.

mod compared;
mod facts;
mod owners;
mod places;
mod processes;
mod rule;
mod rules;
mod used;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use self::facts::{Facts, Gpu, GpuKey, Idle, Runtime, keyed};
use self::owners::Span;
use self::rule::{Finding, Rule, Verdict};
use crate::measure::Measure;
use crate::measure::host::interpreter::Interpreter;
use crate::measure::host::pauses::Pauses;
use crate::measure::host::process_lifetimes::ProcessLifetimes;
use crate::measure::job::stuck::Stuck;
use crate::table::{Answer, Cell, Column, Table};
use rsys_traces::words::nanoseconds;

/// The most findings that are reported.
const FINDINGS: usize = 10;
/// What is less than this part of the run is 0.0 % of it: one part in this many.
const SHOWN_PART: u64 = 2_000;

/// What rules need beside the questions of a summary, under the names of these questions.
#[must_use]
pub fn further_measures() -> Vec<(&'static str, Box<dyn Measure>)> {
    vec![
        ("pauses", Box::<Pauses>::default()),
        ("lives", Box::<ProcessLifetimes>::default()),
        ("interpreter", Box::<Interpreter>::default()),
        ("stuck", Box::<Stuck>::default()),
    ]
}

/// The names of all rules, with their titles.
pub fn rule_names() -> impl Iterator<Item = (&'static str, &'static str)> {
    rules::all().map(|rule| (rule.name, rule.title))
}

/// Findings from the answers to all questions of a summary and to [`further_measures`], and the table of what profiling cost. `collectives` may be among them:
/// without it nothing is said of ranks that wait for each other.
///
/// The tables are `findings`, at most ten, and `not_judged`: the rules that lacked what they need.
///
/// # Panics
/// In builds for tests, when an answer lacks a question or column that rules read.
#[must_use]
pub fn advise(answers: &[(&'static str, Answer)], cost: &Table) -> Answer {
    let cost = Answer {
        tables: vec![cost.clone()],
        ..Answer::default()
    };
    let facts = Facts::new(answers, &cost);
    let mut found: Vec<(&Rule, Finding)> = Vec::new();
    let mut not_judged = Table::new("not_judged", "", &NOT_JUDGED_COLUMNS);
    let mut lacking: BTreeMap<(&str, &str), Vec<&str>> = BTreeMap::new();
    for rule in rules::all() {
        match rule.verdict(&facts) {
            Verdict::Found(findings) => found.extend(findings.into_iter().map(|one| (rule, one))),
            Verdict::Lacks(what, switch) => {
                lacking.entry((what, switch)).or_default().push(rule.name);
                not_judged.push(vec![
                    rule.name.into(),
                    rule.title.into(),
                    what.into(),
                    switch.into(),
                ]);
            }
        }
    }
    let is_shown = |saves_ns: u64| saves_ns.saturating_mul(SHOWN_PART) >= facts.run_ns;
    found.retain(|(_, one)| one.saves_ns.is_none_or(is_shown));
    // Of a run that hung the user wants to know that before anything else.
    found.sort_by_key(|(rule, one)| {
        let saves = Reverse(one.saves_ns);
        (
            !rules::is_of_hang(rule),
            saves,
            rule.name,
            one.place.clone(),
        )
    });
    let more = found.len().saturating_sub(FINDINGS);
    found.truncate(FINDINGS);
    let mut findings = Table::new("findings", "What to look at first", &FINDING_COLUMNS);
    for (number, (rule, finding)) in (1_u64..).zip(&found) {
        findings.push(cells(number, rule, finding, &facts));
    }
    // Who has a file of another profiler cannot record it again with rsys-sample, and who has no GPU has nothing to record of one: what is missing
    // is in the table.
    let is_ours = facts.is_ours();
    let mut notes: Vec<String> = lacking
        .iter()
        .filter(|_| is_ours && !facts.gpus.is_empty())
        .map(|((what, switch), names)| {
            let names = names.join(", ");
            let by = match *switch {
                "" => String::new(),
                switch => format!(" (rsys-sample {switch})"),
            };
            format!("not judged for want of {what}{by}: {names}")
        })
        .collect();
    if more > 0 {
        notes.push(format!("{more} smaller findings are left out"));
    }
    let is_empty = facts.processes.is_empty() && facts.gpus.is_empty();
    if found.is_empty() && !is_empty {
        notes.splice(0..0, nothing_found(&facts));
    } else if let Some(idle) = mostly_idle(&facts, &found) {
        notes.insert(0, idle);
    }
    Answer {
        tables: vec![findings, not_judged],
        notes,
        is_empty,
        ..Answer::default()
    }
}

/// What is said where no rule has found anything: of a GPU that is idle for half of its time, what is known of that.
fn nothing_found(facts: &Facts<'_>) -> Vec<String> {
    if let Some(idle) = mostly_idle(facts, &[]) {
        return vec![idle];
    }
    let known = what_took_the_time(facts);
    let compared = facts.compared.as_ref();
    if let Some(unjudged) = compared.and_then(|compared| compared.unjudged.as_ref()) {
        return vec![format!(
            "no rule has found anything, but {unjudged}: `rsys-report collectives` says which"
        )];
    }
    match known.is_empty() {
        true => vec!["no rule has found anything".to_owned()],
        false => known,
    }
}

/// Whether a GPU is idle for half of its time, and findings about that have less than half of it.
fn is_idle_unexplained(
    (key, gpu): (GpuKey, &Gpu),
    facts: &Facts<'_>,
    found: &[(&Rule, Finding)],
) -> bool {
    let about_idle = found
        .iter()
        .filter(|(rule, _)| !rules::is_of_busy_gpu(rule));
    let of_gpus = about_idle.flat_map(|(_, one)| &one.of_gpus);
    let own = of_gpus.filter(|(of, _)| *of == key);
    let explained_ns: u64 = own.map(|(_, idle_ns)| idle_ns).sum();
    // A straggler's finding names its rank, and is about what its GPU is idle for.
    let late_ns = facts.compared.as_ref().and_then(|compared| {
        let reported = compared.reported(facts.run_ns);
        reported.of_ns(|one| one.loses(gpu))
    });
    let explained_ns = explained_ns + late_ns.unwrap_or(0);
    // What is found of a GPU is of all recordings of it.
    let recordings = keyed(&facts.gpus).filter(|(of, _)| *of == key);
    let all_idle_ns: u64 = recordings.map(|(_, gpu)| gpu.idle_ns()).sum();
    let idle_ns = gpu.idle_ns();
    idle_ns > 0 && 2 * idle_ns >= gpu.span.duration_ns && 2 * explained_ns < all_idle_ns
}

/// What is known of the idle time of the GPU that is idle longest, of those that are idle for half of their time and of which no finding says why.
fn mostly_idle(facts: &Facts<'_>, found: &[(&Rule, Finding)]) -> Option<String> {
    let unexplained = keyed(&facts.gpus).filter(|one| is_idle_unexplained(*one, facts, found));
    let (_, gpu) = unexplained.max_by_key(|(_, gpu)| gpu.idle_ns())?;
    let idle_ns = gpu.idle_ns();
    let share = 100.0 * idle_ns as f64 / gpu.span.duration_ns as f64;
    let mut causes: Vec<&Idle> = gpu.causes.iter().collect();
    causes.sort_by_key(|one| Reverse(one.idle_ns));
    let mostly: Vec<String> = causes
        .iter()
        .take(3)
        .map(|one| {
            let place = match one.place.as_str() {
                "" => String::new(),
                place => format!(" ({place})"),
            };
            let cause = one.cause.replace('_', " ");
            format!("{cause}{place} {}", nanoseconds(one.idle_ns))
        })
        .collect();
    let because = match mostly.is_empty() {
        true => String::new(),
        false => format!(", most of it by: {}", mostly.join("; ")),
    };
    let advised = match found {
        [] => "no rule says what to do about it",
        _ => "the findings are about the smaller part of that",
    };
    Some(format!(
        "GPU {} of process {} is idle for {share:.0} % of {}{because}; {advised}, `rsys-report gaps` has all causes",
        gpu.number,
        gpu.owner.process,
        nanoseconds(gpu.span.duration_ns)
    ))
}

/// Functions that are named where no rule has found anything.
const NAMED: usize = 3;

/// What took the time of a program that nothing is wrong with, in three lines at most.
fn what_took_the_time(facts: &Facts<'_>) -> Vec<String> {
    let busiest = facts.processes.iter().filter(|one| facts.is_long(one));
    let busiest = busiest.max_by_key(|one| one.cpu_ns);
    let Some(process) = busiest.filter(|one| one.cpu_ns > 0) else {
        return Vec::new();
    };
    let of_life = |ns: u64| 100.0 * ns as f64 / process.recorded_ns.max(1) as f64;
    let mut lines = vec![format!(
        "nothing stands out: {} (process {}) ran for {} and used {} of CPU, its main thread {:.0} % of the time",
        match process.name.as_str() {
            "" => "the program",
            name => name,
        },
        process.owner.process,
        nanoseconds(process.recorded_ns),
        nanoseconds(process.cpu_ns),
        of_life(process.main_cpu_ns).min(100.0),
    )];
    let functions = facts.functions.iter().take(NAMED).map(|row| {
        let share = row.number("self_share").unwrap_or(0.0);
        format!("{} {:.0} %", row.text("function"), 100.0 * share)
    });
    let functions: Vec<String> = functions.collect();
    if !functions.is_empty() {
        lines.push(format!("most CPU time: {}", functions.join(", ")));
    }
    let (place, waited_for, ns) = &process.wait;
    if of_life(*ns) >= 1.0 {
        let place = match place.as_str() {
            "" => String::new(),
            place => format!(" in {place}"),
        };
        lines.push(format!(
            "most waiting of the main thread: {waited_for}{place}, {:.0} % of the time",
            of_life(*ns)
        ));
    }
    lines
}

fn cells(number: u64, rule: &Rule, finding: &Finding, facts: &Facts<'_>) -> Vec<Cell> {
    let share = |saves_ns: u64| (facts.run_ns > 0).then(|| saves_ns as f64 / facts.run_ns as f64);
    let place = finding.place.as_str();
    let span = finding.span.filter(|span| span.duration_ns > 0);
    vec![
        number.into(),
        rule.name.into(),
        rule.title.into(),
        finding.saves_ns.into(),
        finding.saves_ns.and_then(share).into(),
        (!place.is_empty()).then_some(place).into(),
        Cell::Named(finding.evidence.clone()),
        span.map(|span| look(span, facts)).into(),
        span.map(|span| span.start_ns).into(),
        span.map(|span| span.duration_ns).into(),
        remedy(rule.remedy, facts.runtime()).into(),
    ]
}

/// Words of remedies: as HIP has them, as CUDA and SYCL do, and where none of these is used.
const WORDS: [[&str; 4]; 12] = [
    [
        "hipMemcpyAsync",
        "cudaMemcpyAsync",
        "sycl::queue::memcpy",
        "an asynchronous copy",
    ],
    [
        "hipHostMalloc, hipHostRegister",
        "cudaMallocHost, cudaHostRegister",
        "sycl::malloc_host",
        "the runtime's pinned memory",
    ],
    [
        "hipMallocAsync and hipFreeAsync",
        "cudaMallocAsync and cudaFreeAsync",
        "memory pools",
        "memory pools",
    ],
    [
        "hipGraph, torch.cuda.graphs",
        "CUDA graphs, torch.cuda.graphs",
        "SYCL graphs",
        "the runtime's graphs, if it has some",
    ],
    [
        ", torch.cuda.graphs)",
        ", torch.cuda.graphs)",
        ", SYCL graphs)",
        ")",
    ],
    [
        "hipBLASLt and TunableOp",
        "cuBLASLt and TunableOp",
        "oneMKL and oneDNN",
        "the vendor's library",
    ],
    [
        "MIOpen's search",
        "cuDNN's benchmark mode",
        "oneDNN",
        "the vendor's library",
    ],
    [
        " (HIP_ENABLE_DEFERRED_LOADING=0)",
        " (CUDA_MODULE_LOADING=EAGER)",
        " (SYCL_CACHE_PERSISTENT=1 keeps compiled code)",
        "",
    ],
    [
        "HIP_LAUNCH_BLOCKING=1 or AMD_SERIALIZE_KERNEL",
        "CUDA_LAUNCH_BLOCKING=1",
        "UR_L0_SERIALIZE",
        "a setting for debugging",
    ],
    [
        "Triton or HIP",
        "Triton or CUDA",
        "Triton or SYCL",
        "Triton",
    ],
    [
        "versions of RCCL or MPI",
        "versions of NCCL or MPI",
        "versions of oneCCL or MPI",
        "versions of the communication library",
    ],
    [
        "version of RCCL",
        "version of NCCL",
        "version of oneCCL",
        "version of the communication library",
    ],
];

/// What to try, in the words of the runtime that the program uses.
fn remedy(text: &str, runtime: Runtime) -> String {
    let words = WORDS
        .iter()
        .map(|words| (words[0], words[runtime as usize]));
    words.fold(text.to_owned(), |text, (hip, own)| text.replace(hip, own))
}

/// Where in the UI a span is: by the first time of its host, and by the clock.
fn look(span: Span, facts: &Facts<'_>) -> String {
    let seconds = |ns: u64| ns as f64 / 1e9;
    let host = &facts.hosts[span.host];
    let after_s = seconds(span.start_ns.saturating_sub(host.start_ns));
    let of_host = match host.name.as_str() {
        "" => String::new(),
        _ if facts.hosts.len() == 1 => String::new(),
        name => format!(" on {name}"),
    };
    format!(
        "{after_s:.6} s after the start of the first process{of_host}, for {:.6} s ({}{} ns)",
        seconds(span.duration_ns),
        clock(span.start_ns, facts.is_ours()),
        span.start_ns
    )
}

/// The clock of a time. No machine runs for thirty years: what is that large counts from 1970, as in files of PyTorch's profiler. What smaller times of other
/// profilers count from, nothing says.
fn clock(time_ns: u64, is_ours: bool) -> &'static str {
    const THIRTY_YEARS_NS: u64 = 30 * 365 * 86_400 * 1_000_000_000;
    match time_ns {
        THIRTY_YEARS_NS.. => "since 1970 ",
        _ if is_ours => "CLOCK_BOOTTIME ",
        _ => "",
    }
}

const FINDING_COLUMNS: [Column; 11] = [
    Column::plain("number", "#"),
    Column::plain("rule", "rule"),
    Column::plain("title", "finding"),
    Column::ns("saves_ns", "up to"),
    Column::share("saves_share", "of the run"),
    Column::line("place", "where"),
    Column::line("evidence", "seen"),
    Column::line("look", "look"),
    Column::ns("start_ns", ""),
    Column::ns("duration_ns", ""),
    Column::line("try", "try"),
];

const NOT_JUDGED_COLUMNS: [Column; 4] = [
    Column::plain("rule", ""),
    Column::plain("title", ""),
    Column::plain("lacks", ""),
    Column::plain("switch", ""),
];

#[cfg(test)]
mod tests {
    use super::{Runtime, WORDS, clock, remedy, rules};

    #[test]
    fn times_of_pytorch_count_from_1970() {
        let uptime_ns = 60_815_196_287_650;
        assert_eq!(clock(uptime_ns, true), "CLOCK_BOOTTIME ");
        assert_eq!(clock(uptime_ns, false), "");
        assert_eq!(clock(1_700_000_000_000_000_000, false), "since 1970 ");
    }

    #[test]
    fn remedies_have_the_words_of_one_runtime() {
        let all: Vec<&str> = rules::all().map(|rule| rule.remedy).collect();
        for [hip, ..] in WORDS {
            assert!(all.iter().any(|text| text.contains(hip)), "{hip}");
        }
        for text in all {
            assert_eq!(remedy(text, Runtime::Hip), text);
            for (runtime, others) in [
                (Runtime::Cuda, &["hip", "HIP_", "SYCL"][..]),
                (Runtime::Sycl, &["hip", "HIP_", "cuda", "CUDA"]),
                (Runtime::Other, &["hip", "HIP_", "cuda", "CUDA", "SYCL"]),
            ] {
                let told = remedy(text, runtime);
                let mut words = told.split(|one: char| !one.is_alphanumeric() && one != '_');
                let is_others = |word: &str| others.iter().any(|other| word.starts_with(other));
                assert!(!words.any(is_others), "{told}");
            }
        }
    }
}
