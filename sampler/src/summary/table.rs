//! The closing table: where the time went, in lines that fit a terminal.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use crate::emit::account::End;
use crate::emit::digest::{Entry, GpuTime, LockUse};
use crate::emit::outcome::ProcessSummary;
use crate::session::Unstarted;
use crate::words::{counted, time};

/// Processes with a line of their own.
const PROCESSES: usize = 8;
/// Functions and kernels that are named.
const NAMES: usize = 5;
/// At most this many GPUs' idleness is shown, those with most of it first.
const GPUS: usize = 4;
/// Programs of processes that were too short for a trace of their own that have a line, and what stands behind their names.
const SHORT_PROGRAMS: usize = 3;
const SHORT: &str = " (no trace: too short)";
const SHARED: &str = " (short: one trace for all)";
/// Locks that are named.
const LOCKS: usize = 3;
/// What takes less of the whole is not named.
const LEAST_PERCENT: f64 = 1.0;
/// No line is cut shorter than this.
pub(super) const NARROWEST: usize = 54;

/// What the table is made of.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// What became of each process.
    pub processes: &'a [ProcessSummary],
    /// Processes that ended before they began to record.
    pub unstarted: &'a Unstarted,
    /// CPU time between two samples.
    pub period_ns: u64,
    /// How long the command ran.
    pub wall: Duration,
    /// The folder of the traces.
    pub directory: &'a Path,
    /// How wide a line may be, in characters.
    pub width: usize,
    /// The event that samples were taken by, if not by CPU time; their weights count it then.
    pub event: Option<&'a str>,
    /// Whether waiting threads were sampled (`--realtime`).
    pub realtime: bool,
}

/// The lines of the table; none if there is no trace.
#[must_use]
pub fn table(run: &Run<'_>) -> Vec<String> {
    let mut shown: Vec<&ProcessSummary> = run
        .processes
        .iter()
        .filter(|process| process.path.is_some())
        .collect();
    let shared = run.processes.iter().find_map(|one| one.shared.as_deref());
    let place = match (shown.as_slice(), shared) {
        ([], None) => return Vec::new(),
        ([], Some(shared)) => shared.to_owned(),
        ([only], None) => only.path.as_deref().unwrap_or(run.directory).to_owned(),
        _ => run.directory.to_owned(),
    };
    let viewed = match shown.as_slice() {
        [only] => only.overview.as_deref().or(only.path.as_deref()),
        _ => None,
    };
    let viewed = viewed.unwrap_or(&place).to_owned();
    let viewed = short_path(&viewed);
    shown.sort_by_key(|process| (std::cmp::Reverse(time_of(process)), process.pid));
    let place = short_path(&place);
    let mut lines = vec![format!(
        "{} in {}: {place}",
        counted(shown.len() as u64 + u64::from(shared.is_some()), "trace"),
        time(run.wall)
    )];
    lines.extend(processes(&shown, run));
    if run.event.is_none() {
        lines.extend(shown.first().and_then(|process| wall(process, run)));
    }
    let sharing = || run.processes.iter().filter(|one| one.shared.is_some());
    let digests = || {
        shown
            .iter()
            .copied()
            .chain(sharing())
            .map(|one| &one.digest)
    };
    let cpu_ns = digests().map(|digest| digest.cpu_ns).sum();
    let functions = digests().flat_map(|digest| &digest.functions);
    lines.extend(run.event.map(|event| format!("{event}, by function:")));
    let title = if run.event.is_some() { "" } else { "CPU" };
    lines.extend(entries(title, functions, cpu_ns, false));
    let kernel_ns = digests().map(|digest| digest.kernel_ns).sum();
    let kernels = digests().flat_map(|digest| &digest.kernels);
    lines.extend(entries("GPU", kernels, kernel_ns, true));
    let mut gpus: Vec<&GpuTime> = digests().flat_map(|digest| &digest.gpus).collect();
    gpus.retain(|gpu| percent(gpu.idle_ns(), gpu.total_ns) >= LEAST_PERCENT);
    gpus.sort_by_key(|gpu| std::cmp::Reverse(gpu.idle_ns()));
    lines.extend(gpus.iter().take(GPUS).flat_map(|gpu| idle(gpu)));
    lines.extend(locks(run.processes));
    lines.extend(lost(run.processes));
    lines.push(format!(
        "next: rsys-report view {viewed}   in the Perfetto UI"
    ));
    lines.push(format!("      rsys-report {place}   where the time went"));
    if !gpus.is_empty() {
        lines.push(format!("      rsys-report gaps {place}   why GPUs waited"));
    }
    // What is to be typed must be whole.
    let commands = 2 + usize::from(!gpus.is_empty());
    let cut = lines.len() - commands;
    for line in lines.iter_mut().take(cut).skip(1) {
        *line = shorten(line, run.width.max(NARROWEST));
    }
    lines
}

/// Time that processes are ordered by.
fn time_of(process: &ProcessSummary) -> u64 {
    let gpus = process.digest.gpus.iter();
    process.digest.cpu_ns + gpus.map(|gpu| gpu.busy_ns).sum::<u64>()
}

/// A row of processes.
#[derive(Debug, Default)]
struct ProcessRow<'a> {
    of: Vec<&'a ProcessSummary>,
    /// Those that ended before they began to record, and their CPU time.
    unstarted: u64,
    unstarted_ns: u64,
    name: String,
}

impl ProcessRow<'_> {
    fn count(&self) -> u64 {
        self.of.len() as u64 + self.unstarted
    }

    fn time_ns(&self) -> u64 {
        let of = self.of.iter().map(|one| time_of(one));
        of.sum::<u64>() + self.unstarted_ns
    }

    /// What is said of the traces of short processes. Those that have one may stand beside others that ended before they began to record.
    fn where_short(&self) -> &'static str {
        if self.of.iter().any(|one| one.shared.is_some()) {
            SHARED
        } else {
            SHORT
        }
    }
}

/// Processes that were too short for a trace of their own, by the names of their programs; the busiest first.
fn short_rows<'a>(run: &Run<'a>) -> Vec<ProcessRow<'a>> {
    let mut short: BTreeMap<&str, ProcessRow<'_>> = BTreeMap::new();
    let is_short = |one: &&ProcessSummary| one.short && one.tally.samples > 0;
    for process in run.processes.iter().filter(is_short) {
        short.entry(&process.name).or_default().of.push(process);
    }
    for (name, count, periods) in run.unstarted.programs() {
        let row = short.entry(name).or_default();
        row.unstarted = count;
        row.unstarted_ns = periods.saturating_mul(run.period_ns);
    }
    let mut rows: Vec<_> = short
        .into_iter()
        .map(|(name, row)| ProcessRow {
            name: format!("{} x {name}{}", row.count(), row.where_short()),
            ..row
        })
        .collect();
    rows.sort_by_key(|row| std::cmp::Reverse(row.time_ns()));
    if rows.len() > SHORT_PROGRAMS {
        let rest = rows.split_off(SHORT_PROGRAMS - 1);
        let count: u64 = rest.iter().map(ProcessRow::count).sum();
        let mut other = ProcessRow {
            unstarted: rest.iter().map(|row| row.unstarted).sum(),
            unstarted_ns: rest.iter().map(|row| row.unstarted_ns).sum(),
            of: rest.into_iter().flat_map(|row| row.of).collect(),
            name: String::new(),
        };
        other.name = format!("{count} x other programs{}", other.where_short());
        rows.push(other);
    }
    rows
}

fn processes(shown: &[&ProcessSummary], run: &Run<'_>) -> Vec<String> {
    let has_gpu = shown.iter().any(|one| !one.digest.gpus.is_empty());
    let line = |cpu: String, gpu: String, idle: String, samples: String, name: &str| {
        let gpu = if has_gpu {
            format!("{gpu:>9}{idle:>9}")
        } else {
            String::new()
        };
        format!("{cpu:>9}{gpu}{samples:>9}  {name}")
    };
    let told = |row: &ProcessRow<'_>| {
        let digests = || row.of.iter().map(|process| &process.digest);
        let gpus = || digests().flat_map(|digest| &digest.gpus);
        let busy_ns = gpus().map(|gpu| gpu.busy_ns).sum();
        let idle_ns = gpus().map(GpuTime::idle_ns).sum();
        let total_ns = gpus().map(|gpu| gpu.total_ns).sum();
        let or_dash = |text: String| if total_ns == 0 { "-".to_owned() } else { text };
        let weight = digests().map(|digest| digest.cpu_ns).sum::<u64>() + row.unstarted_ns;
        let samples = row.of.iter().map(|process| process.tally.samples);
        line(
            if run.event.is_some() {
                u64::to_string(&weight)
            } else {
                nanoseconds(weight)
            },
            or_dash(nanoseconds(busy_ns)),
            or_dash(format!("{:.0} %", percent(idle_ns, total_ns))),
            samples.sum::<u64>().to_string(),
            &row.name,
        )
    };
    let word = |text: &str| text.to_owned();
    let mut lines = vec![line(
        word(if run.event.is_some() { "events" } else { "CPU" }),
        word("GPU busy"),
        word("GPU idle"),
        word("samples"),
        "process",
    )];
    // One more row is no longer than the line that stands for it.
    let named = if shown.len() == PROCESSES + 1 {
        shown.len()
    } else {
        PROCESSES
    };
    let (first, rest) = shown.split_at(shown.len().min(named));
    for process in first {
        let rank = process.rank.map(|rank| format!("rank {rank} "));
        let end = match (process.end, &process.trouble) {
            (End::StillRunning, _) => ", still running, trace ends here",
            (_, Some(_)) => ", incomplete",
            _ => "",
        };
        let rank = rank.unwrap_or_default();
        lines.push(told(&ProcessRow {
            of: vec![*process],
            name: format!("{rank}{} {}{end}", process.pid, process.name),
            ..ProcessRow::default()
        }));
    }
    if !rest.is_empty() {
        lines.push(told(&ProcessRow {
            of: rest.to_vec(),
            name: format!("{} more", rest.len()),
            ..ProcessRow::default()
        }));
    }
    lines.extend(short_rows(run).iter().map(told));
    lines
}

/// Of shorter programs nothing is said of their wall time.
const SHORTEST: Duration = Duration::from_millis(100);
/// Where less of the wall time was neither used nor seen, the rest is not worth a line.
const WORTH_PERCENT: f64 = 10.0;

/// What the first thread of the busiest process did with its time.
fn wall(process: &ProcessSummary, run: &Run<'_>) -> Option<String> {
    let all = run.processes.iter().map(time_of).sum::<u64>();
    let unstarted = run.unstarted.programs().map(|(_, _, periods)| periods);
    let all = all + unstarted.sum::<u64>().saturating_mul(run.period_ns);
    // Where others did the work, this one waited for them.
    if 2 * time_of(process) < all {
        return None;
    }
    let main = &process.digest.main;
    // Nor where its other threads worked.
    if 2 * process.digest.cpu_ns.saturating_sub(main.cpu_ns) >= main.wall_ns {
        return None;
    }
    let share = |ns: u64| percent(ns.min(main.wall_ns), main.wall_ns);
    // Samples and looks have errors, and whole numbers more: what is said is to add up.
    let used = share(main.cpu_ns).round();
    let waited = share(main.wait_ns).round().min(100.0 - used);
    let unseen = 100.0 - used - waited;
    if Duration::from_nanos(main.wall_ns) < SHORTEST || waited + unseen < WORTH_PERCENT {
        return None;
    }
    let wall = nanoseconds(main.wall_ns);
    let waits = match (&main.wait_place, run.realtime) {
        (Some((place, ns)), _) if share(*ns) >= LEAST_PERCENT => {
            format!(
                "{waited:.0} % waiting ({:.0} % in {place}), {unseen:.0} % neither",
                share(*ns).round().min(waited)
            )
        }
        (_, true) => format!("{waited:.0} % waiting, {unseen:.0} % neither"),
        (_, false) => format!("{unseen:.0} % not: --realtime shows what it waited for"),
    };
    Some(format!(
        "{} {}: its main thread was {used:.0} % of {wall} on a processor, {waits}",
        process.pid, process.name
    ))
}

/// The names with most time, those of all processes together.
fn entries<'a>(
    title: &str,
    all: impl Iterator<Item = &'a Entry>,
    total_ns: u64,
    is_counted: bool,
) -> Vec<String> {
    let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
    for entry in all {
        let sum = sums.entry(&entry.name).or_default();
        sum.0 += entry.ns;
        sum.1 += entry.count;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|(_, (ns, _))| std::cmp::Reverse(*ns));
    let shares = sums
        .into_iter()
        .map(|(name, (ns, count))| (name, percent(ns, total_ns), count));
    let worth = shares.filter(|(_, share, _)| *share >= LEAST_PERCENT);
    worth
        .take(NAMES)
        .enumerate()
        .map(|(at, (name, share, count))| {
            let title = if at == 0 { title } else { "" };
            let count = if is_counted {
                format!("{count} x ")
            } else {
                String::new()
            };
            format!("{title:>4}{share:>7.1} %  {count}{name}")
        })
        .collect()
}

/// How idle a GPU was, and what it waited for.
fn idle(gpu: &GpuTime) -> Vec<String> {
    let share = |ns| format!("{:.0} %", percent(ns, gpu.total_ns));
    // Whole numbers are to add up.
    let [idle, late] = [gpu.idle_ns(), gpu.late_ns].map(|ns| percent(ns, gpu.total_ns).round());
    let launched = match gpu.late_ns + gpu.submitted_ns == gpu.idle_ns() {
        true => idle - late,
        false => percent(gpu.submitted_ns, gpu.total_ns).round(),
    };
    let mut lines = vec![format!(
        "{} idle {idle:.0} %: {late:.0} % not yet launched, {launched:.0} % launched",
        gpu.name
    )];
    if let Some((place, ns)) = &gpu.late_place
        && percent(*ns, gpu.total_ns) >= LEAST_PERCENT
    {
        lines.push(format!("     {} before launches from {place}", share(*ns)));
    }
    lines
}

/// The locks that were waited for most.
fn locks(processes: &[ProcessSummary]) -> Vec<String> {
    let all = processes.iter().flat_map(|process| &process.digest.locks);
    let mut all: Vec<&LockUse> = all.collect();
    all.sort_by_key(|lock| std::cmp::Reverse(lock.wait_ns));
    let line = |(at, lock): (usize, &&LockUse)| {
        let title = if at == 0 { "LOCK" } else { "" };
        let waiter = lock.waiter.as_ref();
        let waiter = waiter.map_or_else(String::new, |place| format!(" in {place}"));
        let holder = lock.holder.as_ref();
        let holder = holder.map_or_else(String::new, |place| format!(", held by {place}"));
        format!(
            "{title:>4}{:>9}  {}{waiter}{holder}; {} of {} had to wait",
            nanoseconds(lock.wait_ns),
            lock.name,
            lock.contended,
            lock.acquisitions
        )
    };
    all.iter().take(LOCKS).enumerate().map(line).collect()
}

/// What was lost, if anything was.
fn lost(processes: &[ProcessSummary]) -> Option<String> {
    let sum = |of: &dyn Fn(&ProcessSummary) -> u64| processes.iter().map(of).sum::<u64>();
    let parts = [
        (sum(&|one| one.counts.dropped()), "sample"),
        (sum(&|one| one.counts.dropped_events), "event"),
        (sum(&ProcessSummary::gpu_dropped), "GPU operation"),
        (sum(&|one| one.tally.corrupt), "damaged record"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, what)| counted(*count, what)).collect();
    (!parts.is_empty()).then(|| format!("warning: lost: {}", parts.join(", ")))
}

/// A path as the user would type it: from the folder that they are in, if it is below.
pub(super) fn short_path(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let below = here
        .as_deref()
        .and_then(|here| path.strip_prefix(here).ok());
    below.unwrap_or(path).display().to_string()
}

fn nanoseconds(ns: u64) -> String {
    time(Duration::from_nanos(ns))
}

pub(super) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// A line of at most so many characters.
pub(super) fn shorten(line: &str, width: usize) -> String {
    let line = rsys_proto::without_arguments(line, width);
    if line.chars().count() <= width {
        return line;
    }
    let kept = line.chars().take(width - 1);
    kept.chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;

    use super::super::tests::process;
    use super::*;
    use crate::emit::digest::MainThread;

    fn entry(name: &str, ns: u64) -> Entry {
        Entry {
            name: name.to_owned(),
            count: 3,
            ns,
        }
    }

    fn lines(processes: &[ProcessSummary], width: usize) -> Vec<String> {
        table(&run(processes, width))
    }

    fn run(processes: &[ProcessSummary], width: usize) -> Run<'_> {
        Run {
            processes,
            unstarted: UNSTARTED.get_or_init(Unstarted::default),
            period_ns: 3_333_333,
            wall: Duration::from_millis(2_500),
            directory: Path::new("/out"),
            width,
            event: None,
            realtime: false,
        }
    }

    #[test]
    fn events_are_no_cpu_time() {
        let mut one = process();
        one.digest.cpu_ns = 12_000;
        one.digest.functions = vec![entry("fill", 9_000)];
        let told = table(&Run {
            event: Some("page-faults"),
            ..run(&[one], 100)
        });
        assert_eq!(
            told[1..4],
            [
                "   events  samples  process",
                "    12000       10  7 app",
                "page-faults, by function:",
            ]
        );
        assert_eq!(told[4], "       75.0 %  fill");
    }

    #[test]
    fn it_tells_where_the_time_went() {
        let mut one = process();
        one.digest.cpu_ns = 2_000_000_000;
        one.digest.functions = vec![entry("multiply", 1_500_000_000), entry("rest", 1_000)];
        one.digest.kernel_ns = 400_000_000;
        one.digest.kernels = vec![entry("gemm", 400_000_000)];
        one.digest.gpus = vec![GpuTime {
            name: "GPU 0".to_owned(),
            total_ns: 1_000_000_000,
            busy_ns: 400_000_000,
            late_ns: 550_000_000,
            submitted_ns: 50_000_000,
            late_place: Some(("step (train.py:7)".to_owned(), 500_000_000)),
        }];
        one.counts.dropped_events = 2;
        assert_eq!(
            lines(&[one], 100),
            [
                "1 trace in 2.5 s: /out/t-7.proto",
                "      CPU GPU busy GPU idle  samples  process",
                "    2.0 s   400 ms     60 %       10  7 app",
                " CPU   75.0 %  multiply",
                " GPU  100.0 %  3 x gemm",
                "GPU 0 idle 60 %: 55 % not yet launched, 5 % launched",
                "     50 % before launches from step (train.py:7)",
                "warning: lost: 2 events",
                "next: rsys-report view /out/t-7.proto   in the Perfetto UI",
                "      rsys-report /out/t-7.proto   where the time went",
                "      rsys-report gaps /out/t-7.proto   why GPUs waited",
            ]
        );
    }

    #[test]
    fn a_thousand_children_take_a_few_lines_and_the_busiest_stand_first() {
        let processes: Vec<ProcessSummary> = (0..1000)
            .map(|pid| {
                let mut one = process();
                one.pid = pid;
                one.name = "compiler-with-a-name-that-goes-on-and-on-and-on-and-on".to_owned();
                one.digest.cpu_ns = u64::from(pid) * 1_000_000;
                one
            })
            .collect();
        let lines = lines(&processes, 60);
        assert!(lines.len() <= 30, "{}", lines.join("\n"));
        assert!(lines[2].contains(" 999 compiler"), "{}", lines[2]);
        let rest = (0..992).sum::<u64>() as f64 / 1e3;
        assert!(lines[10].contains("992 more") && lines[10].contains(&format!("{rest:.1} s")));
        assert!(
            lines.iter().all(|line| line.chars().count() <= 60),
            "{}",
            lines.join("\n")
        );
    }

    static UNSTARTED: OnceLock<Unstarted> = OnceLock::new();

    #[test]
    fn what_was_not_used_is_said() {
        let mut one = process();
        one.digest.cpu_ns = 500_000_000;
        one.digest.main.wall_ns = 10_000_000_000;
        one.digest.main.cpu_ns = 500_000_000;
        let lines = lines(std::slice::from_ref(&one), 100);
        let expected = "7 app: its main thread was 5 % of 10.0 s on a processor, 95 % not: --realtime shows what it waited for";
        assert_eq!(lines[3], shorten(expected, 100));
        one.digest.main.wait_ns = 9_000_000_000;
        one.digest.main.wait_place = Some(("load (train.py:4)".to_owned(), 8_000_000_000));
        let looked_at = |one: &ProcessSummary| {
            let all = std::slice::from_ref(one);
            let realtime = true;
            wall(
                one,
                &Run {
                    realtime,
                    ..run(all, 100)
                },
            )
        };
        assert_eq!(
            looked_at(&one).unwrap(),
            "7 app: its main thread was 5 % of 10.0 s on a processor, 90 % waiting (80 % in load (train.py:4)), 5 % neither"
        );
        one.digest.main.cpu_ns = 9_500_000_000;
        one.digest.main.wait_ns = 0;
        assert_eq!(looked_at(&one), None);
    }

    #[test]
    fn parts_of_a_whole_add_up() {
        let mut one = process();
        one.digest.cpu_ns = 715_000_000;
        one.digest.main = MainThread {
            wall_ns: 1_000_000_000,
            cpu_ns: 715_000_000,
            wait_ns: 333_000_000,
            wait_place: Some(("load (train.py:4)".to_owned(), 333_000_000)),
        };
        one.digest.gpus = vec![GpuTime {
            name: "gfx90a".to_owned(),
            total_ns: 1_000,
            busy_ns: 409,
            late_ns: 326,
            submitted_ns: 265,
            late_place: None,
        }];
        let text = lines(&[one], 200).join("\n");
        assert!(text.contains("was 72 % of"), "{text}");
        assert!(
            text.contains("28 % waiting (28 % in load (train.py:4)), 0 % neither"),
            "{text}"
        );
        assert!(
            text.contains("idle 59 %: 33 % not yet launched, 26 % launched"),
            "{text}"
        );
    }

    #[test]
    fn short_processes_have_a_row_for_each_program() {
        let mut processes = vec![process()];
        processes[0].digest.cpu_ns = 5_000_000;
        processes.extend((0..60).map(|pid| {
            let mut one = process();
            (one.pid, one.path, one.short) = (100 + pid, None, true);
            one.name = "perl".to_owned();
            one.digest.cpu_ns = 4_000_000;
            one
        }));
        let mut unstarted = Unstarted::default();
        for (name, periods) in [("perl", 2), ("perl", 1), ("env", 1)] {
            unstarted.add(name.as_bytes(), periods);
        }
        let unstarted = &unstarted;
        let lines = table(&Run {
            unstarted,
            ..run(&processes, 100)
        });
        assert_eq!(
            lines[2..5],
            [
                "   5.0 ms       10  7 app",
                "   250 ms      600  62 x perl (no trace: too short)",
                "   3.3 ms        0  1 x env (no trace: too short)",
            ],
            "{lines:#?}"
        );
    }

    #[test]
    fn what_is_not_whole_is_said() {
        let (mut running, mut cut) = (process(), process());
        running.end = End::StillRunning;
        cut.trouble = Some("the disk is full".to_owned());
        let lines = lines(&[running, cut], 100).join("\n");
        assert!(
            lines.contains("7 app, still running, trace ends here\n"),
            "{lines}"
        );
        assert!(lines.contains("7 app, incomplete\n"), "{lines}");
    }

    #[test]
    fn without_a_trace_there_is_no_table() {
        let mut one = process();
        one.path = None;
        assert!(lines(&[one], 80).is_empty());
    }
}
