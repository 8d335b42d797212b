//! The end of a parallel job: one table of all ranks, from the records that they left. The rank that ends last says it.

use std::cmp::Reverse;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::table::{NARROWEST, percent, short_path, shorten};
use crate::words::{counted, time};

/// Ranks with a row of their own.
const RANKS: usize = 8;
/// Ranks that did not end well, or that have no trace, with a line of their own.
const TROUBLES: usize = 3;
/// Where the rank with least time in MPI has that much less of the job's time than the others, it gets a line.
const WORTH_PERCENT: f64 = 5.0;

/// A rank, as its record tells of it. Times are in nanoseconds, those of all its processes together.
#[derive(Debug, Clone, PartialEq)]
struct Rank {
    name: String,
    start_ns: u64,
    end_ns: u64,
    /// `None` where samples were taken by another event.
    cpu_ns: Option<u64>,
    mpi_ns: u64,
    collective_ns: u64,
    gpu_ns: u64,
    gpu_busy_ns: u64,
    samples: u64,
    traces: u64,
    dropped: u64,
    trouble: Option<String>,
}

impl Rank {
    fn of(record: &Value) -> Self {
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        let traces = record["traces"].as_array();
        let first = traces.and_then(|traces| traces.first());
        let program = first.and_then(|trace| trace["name"].as_str());
        let rank = record["rank"].as_u64();
        let rank = rank.map_or_else(|| "task".to_owned(), |rank| rank.to_string());
        let spent = &record["time"];
        Self {
            name: format!("{rank} {} on {}", program.unwrap_or("?"), host(record)),
            start_ns: number(&record["start"]["realtime_ns"]),
            end_ns: number(&record["end"]["realtime_ns"]),
            cpu_ns: spent["cpu_ns"].as_u64(),
            mpi_ns: number(&spent["mpi_ns"]),
            collective_ns: number(&spent["collective_kernel_ns"]),
            gpu_ns: number(&spent["gpu_ns"]),
            gpu_busy_ns: number(&spent["gpu_busy_ns"]),
            samples: traces
                .into_iter()
                .flatten()
                .map(|trace| number(&trace["samples"]))
                .sum(),
            traces: traces.map_or(0, |traces| traces.len() as u64),
            dropped: number(&record["dropped"]),
            trouble: trouble(record),
        }
    }

    /// How long it was in MPI, or where there is none, in kernels of collectives.
    fn communicating_ns(&self, by_mpi: bool) -> u64 {
        if by_mpi {
            self.mpi_ns
        } else {
            self.collective_ns
        }
    }
}

/// The machine of a rank, by the name that the scheduler has for it.
fn host(record: &Value) -> &str {
    let names = [&record["node_name"], &record["host"]];
    names.into_iter().find_map(Value::as_str).unwrap_or("?")
}

/// Why a rank did not end well, or has no trace.
fn trouble(record: &Value) -> Option<String> {
    let signal = record["exit_signal"].as_i64();
    if let Some(signal) = signal {
        return Some(format!("ended by signal {signal}"));
    }
    match record["exit_code"].as_i64() {
        Some(0) | None => {}
        Some(code) => return Some(format!("ended with exit code {code}")),
    }
    let none = &record["no_trace"];
    let reason = none["reason"].as_str()?;
    (none["expected"] != true).then(|| format!("has no trace: {reason}"))
}

/// The lines of the table. `records` are those of all tasks, in the order of ranks; `width` is that of a line in characters.
#[must_use]
pub fn job_table(records: &[Value], directory: &Path, width: usize) -> Vec<String> {
    let ranks: Vec<Rank> = records.iter().map(Rank::of).collect();
    let mut hosts: Vec<&str> = records.iter().map(host).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let start_ns = ranks.iter().map(|rank| rank.start_ns).min().unwrap_or(0);
    let end_ns = ranks.iter().map(|rank| rank.end_ns).max().unwrap_or(0);
    let wall_ns = end_ns.saturating_sub(start_ns);
    let place = short_path(directory);
    let mut lines = vec![format!(
        "{} on {}, {} in {}: {place}",
        counted(ranks.len() as u64, "rank"),
        counted(hosts.len() as u64, "host"),
        counted(ranks.iter().map(|rank| rank.traces).sum(), "trace"),
        time(Duration::from_nanos(wall_ns)),
    )];
    let has = |of: fn(&Rank) -> u64| ranks.iter().any(|rank| of(rank) > 0);
    let (has_mpi, has_gpu) = (has(|rank| rank.mpi_ns), has(|rank| rank.gpu_ns));
    let has_collectives = has(|rank| rank.collective_ns);
    lines.extend(rows(&ranks, has_mpi, has_collectives, has_gpu));
    if has_mpi || has_collectives {
        lines.extend(least_communicating(&ranks, has_mpi, wall_ns));
    }
    lines.extend(troubles(&ranks));
    let dropped: u64 = ranks.iter().map(|rank| rank.dropped).sum();
    if dropped > 0 {
        lines.push(format!("warning: lost: {}", counted(dropped, "sample")));
    }
    for line in lines.iter_mut().skip(1) {
        *line = shorten(line, width.max(NARROWEST));
    }
    let mut next = vec![format!("rsys-report {place}   where the time went")];
    if has_mpi || has_collectives {
        let what = "which rank the others waited for";
        next.push(format!("rsys-report collectives {place}   {what}"));
    }
    if has_gpu {
        next.push(format!("rsys-report gaps {place}   why GPUs waited"));
    }
    next.push(format!("rsys-report view {place}   in the Perfetto UI"));
    let titles = std::iter::once("next: ").chain(std::iter::repeat("      "));
    lines.extend(
        titles
            .zip(next)
            .map(|(title, line)| title.to_owned() + &line),
    );
    lines
}

/// A row for each rank; of many for those that the others may have waited for, and one of what the others did on average.
fn rows(ranks: &[Rank], has_mpi: bool, has_collectives: bool, has_gpu: bool) -> Vec<String> {
    let has_cpu = ranks.iter().any(|rank| rank.cpu_ns.is_some());
    let line = |[cpu, mpi, collectives, busy, idle, samples]: [String; 6], name: &str| {
        let columns = [
            (has_cpu, cpu),
            (has_mpi, mpi),
            (has_collectives, collectives),
            (has_gpu, busy),
            (has_gpu, idle),
            (true, samples),
        ];
        let shown = columns.into_iter().filter(|(is_there, _)| *is_there);
        let cells: String = shown.map(|(_, cell)| format!("{cell:>9}")).collect();
        format!("{cells}  {name}")
    };
    let row = |of: &[&Rank], name: &str| {
        let count = of.len() as u64;
        let mean = |value: fn(&Rank) -> u64| {
            let sum: u64 = of.iter().map(|rank| value(rank)).sum();
            sum / count.max(1)
        };
        let shown = |value: fn(&Rank) -> u64| time(Duration::from_nanos(mean(value)));
        let [gpu_ns, busy_ns] = [mean(|rank| rank.gpu_ns), mean(|rank| rank.gpu_busy_ns)];
        let idle = if gpu_ns == 0 {
            "-".to_owned()
        } else {
            let idle = percent(gpu_ns.saturating_sub(busy_ns), gpu_ns);
            format!("{idle:.0} %")
        };
        let cells = [
            shown(|rank| rank.cpu_ns.unwrap_or(0)),
            shown(|rank| rank.mpi_ns),
            shown(|rank| rank.collective_ns),
            shown(|rank| rank.gpu_busy_ns),
            idle,
            mean(|rank| rank.samples).to_string(),
        ];
        line(cells, name)
    };
    let titles = ["CPU", "MPI", "RCCL", "GPU busy", "GPU idle", "samples"];
    let mut lines = vec![line(titles.map(str::to_owned), "rank")];
    let mut order: Vec<&Rank> = ranks.iter().collect();
    // One more row is no longer than the line that stands for the rest.
    let named = if ranks.len() > RANKS + 1 {
        if has_mpi || has_collectives {
            order.sort_by_key(|rank| rank.communicating_ns(has_mpi));
        } else {
            order.sort_by_key(|rank| Reverse(rank.cpu_ns));
        }
        RANKS
    } else {
        ranks.len()
    };
    let (first, rest) = order.split_at(named);
    lines.extend(first.iter().map(|rank| row(&[*rank], &rank.name)));
    if !rest.is_empty() {
        let name = format!("on average of {} more", rest.len());
        lines.push(row(rest, &name));
    }
    lines
}

/// The rank that was least in MPI or in kernels of collectives: the one that the others are likely to have waited for.
fn least_communicating(ranks: &[Rank], by_mpi: bool, wall_ns: u64) -> Option<String> {
    let of = |rank: &Rank| rank.communicating_ns(by_mpi);
    let least = ranks.iter().min_by_key(|rank| of(rank))?;
    let others = (ranks.len() as u64)
        .checked_sub(1)
        .filter(|count| *count > 0)?;
    let sum: u64 = ranks.iter().map(of).sum();
    let mean_ns = (sum - of(least)) / others;
    let more_ns = mean_ns.saturating_sub(of(least));
    let place = if by_mpi {
        "in MPI"
    } else {
        "in kernels of collectives"
    };
    (percent(more_ns, wall_ns) >= WORTH_PERCENT).then(|| {
        format!(
            "rank {} was least {place}: {}, the others {} on average",
            least.name,
            time(Duration::from_nanos(of(least))),
            time(Duration::from_nanos(mean_ns)),
        )
    })
}

/// Ranks that did not end well, or have no trace.
fn troubles(ranks: &[Rank]) -> Vec<String> {
    let told = |rank: &Rank| {
        let trouble = rank.trouble.as_ref()?;
        Some(format!("warning: rank {} {trouble}", rank.name))
    };
    let mut lines: Vec<String> = ranks.iter().filter_map(told).collect();
    if lines.len() > TROUBLES + 1 {
        let more = lines.split_off(TROUBLES).len() as u64;
        lines.push(format!("warning: and {} more", counted(more, "rank")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn record(rank: u64, mpi_ms: u64) -> Value {
        json!({
            "rank": rank,
            "host": format!("n{}", rank / 4),
            "start": { "realtime_ns": 1_000_000_000 + rank },
            "end": { "realtime_ns": 6_000_000_000_u64 - rank },
            "exit_code": 0,
            "exit_signal": null,
            "dropped": 0,
            "no_trace": null,
            "time": {
                "cpu_ns": (5_000 - mpi_ms) * 1_000_000,
                "mpi_ns": mpi_ms * 1_000_000,
                "collective_kernel_ns": 0,
                "gpu_ns": 0,
                "gpu_busy_ns": 0,
            },
            "traces": [{ "name": "heat", "samples": 700 }],
        })
    }

    fn lines(records: &[Value]) -> Vec<String> {
        job_table(records, Path::new("/out/4711.0"), 100)
    }

    #[test]
    fn each_rank_has_a_row_and_the_one_with_least_mpi_a_line() {
        let mut records = vec![record(0, 2_000), record(1, 100)];
        records[0]["exit_code"] = json!(3);
        assert_eq!(
            lines(&records),
            [
                "2 ranks on 1 host, 2 traces in 5.0 s: /out/4711.0",
                "      CPU      MPI  samples  rank",
                "    3.0 s    2.0 s      700  0 heat on n0",
                "    4.9 s   100 ms      700  1 heat on n0",
                "rank 1 heat on n0 was least in MPI: 100 ms, the others 2.0 s on average",
                "warning: rank 0 heat on n0 ended with exit code 3",
                "next: rsys-report /out/4711.0   where the time went",
                "      rsys-report collectives /out/4711.0   which rank the others waited for",
                "      rsys-report view /out/4711.0   in the Perfetto UI",
            ]
        );
    }

    #[test]
    fn of_many_ranks_those_stand_first_that_others_may_have_waited_for() {
        let records: Vec<Value> = (0..64)
            .map(|rank| record(rank, if rank == 40 { 10 } else { 1_000 + rank }))
            .collect();
        let told = lines(&records);
        assert!(told[2].ends_with("  40 heat on n10"), "{told:#?}");
        assert!(told[10].ends_with("on average of 56 more"), "{told:#?}");
        assert!(told[11].starts_with("rank 40 heat on n10 was least in MPI"));
        assert_eq!(told.len(), 15, "{told:#?}");
    }

    #[test]
    fn ranks_that_are_alike_are_not_told_apart() {
        let told = lines(&[record(0, 1_000), record(1, 1_020)]);
        assert!(!told.iter().any(|line| line.contains("least")), "{told:#?}");
        let mut gone = record(1, 0);
        gone["no_trace"] = json!({ "reason": "disk full", "expected": false });
        gone["traces"] = json!([]);
        let told = lines(&[record(0, 0), gone]);
        assert!(
            told.contains(&"warning: rank 1 ? on n0 has no trace: disk full".to_owned()),
            "{told:#?}"
        );
        assert!(!told[1].contains("MPI"), "{told:#?}");
    }
}
