//! What one file is and holds.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use rsys_proto::fields::packet;
use rsys_proto::message::Fields;

use super::merged::MergedReport;
use super::{State, TraceReport};
use crate::contents::Contents;
use crate::trace_info::{Depth, TraceInfo};
use crate::words::counted;
use rsys_analysis::processors;
use rsys_traces::perfetto::clocks::WallClock;
use rsys_traces::perfetto::losses::Losses;
use rsys_traces::read::foreign_kind;

/// What a file is.
pub(super) enum Found {
    /// A trace of one process, or one that cannot be read.
    Trace(Box<TraceReport>),
    /// A merged trace.
    Merged(MergedReport),
}

/// Looks at files, on all processors. The order is that of the files.
pub(super) fn look_at_all(files: &[PathBuf]) -> Vec<Found> {
    let found: Vec<OnceLock<Found>> = files.iter().map(|_| OnceLock::new()).collect();
    let next = AtomicUsize::new(0);
    let look_at_some = || {
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(path) = files.get(place) else { break };
            found[place].get_or_init(|| look_at(path));
        }
    };
    thread::scope(|scope| {
        for _ in 1..processors().min(files.len()) {
            scope.spawn(look_at_some);
        }
        look_at_some();
    });
    found.into_iter().filter_map(OnceLock::into_inner).collect()
}

/// Reads a file as a whole, and says what it is.
fn look_at(path: &Path) -> Found {
    let mut report = TraceReport {
        path: path.to_path_buf(),
        state: State::Foreign,
        kind: foreign_kind(path),
        rank: None,
        rank_count: None,
        host: String::new(),
        pid: None,
        command: String::new(),
        end: String::new(),
        samples: 0,
        losses: Losses::default(),
        coverage_percent: None,
        torn_bytes: 0,
        wall_clock: WallClock::default(),
    };
    if report.kind.is_some() {
        return Found::Trace(Box::new(report));
    }
    let mut has_content = false;
    let mut contents = Contents::default();
    let info = match TraceInfo::read(path, Depth::Whole, |encoded| {
        has_content |= !only_describes(encoded);
        // What is torn in a packet is not counted; the end of the trace is judged below.
        contents.packet(encoded).ok();
    }) {
        Ok(info) => info,
        Err(error) => {
            report.state = State::Unreadable(format!("{:#}", error.root_cause()));
            return Found::Trace(Box::new(report));
        }
    };
    if let Some(facts) = &info.merged {
        return Found::Merged(MergedReport::new(&info, facts, contents.samples));
    }
    report.rank = info.rank();
    report.rank_count = info.count("rank_count");
    info.host().clone_into(&mut report.host);
    report.pid = info
        .count("pid")
        .or(info.pids.first().map(|&pid| u64::from(pid)));
    info.text("command_line").clone_into(&mut report.command);
    report.torn_bytes = info.truncation.map_or(0, |truncation| truncation.bytes);
    report.state = match (&info.start, &info.end, &info.recovered) {
        _ if report.torn_bytes > 0 => State::Cut,
        (None, ..) if !has_content => State::Empty,
        (None, ..) => State::Foreign,
        (_, Some(_), _) => State::Finished,
        _ if info.part_end.is_some() => State::Finished,
        (.., Some(_)) => State::Recovered,
        _ => State::Cut,
    };
    if let Some(end) = &info.end {
        end.text("end").clone_into(&mut report.end);
        report.coverage_percent = end.number("coverage_percent");
    }
    report.losses = info.losses;
    let next = info
        .part_end
        .as_ref()
        .and_then(|end| end.count("next_part"));
    if let Some(next) = next {
        report.end = format!("goes on in part {next}");
    }
    // What the last file says at its end is of all.
    let is_part = info
        .start
        .as_ref()
        .is_some_and(|start| start.count("part").is_some());
    let facts = info
        .end
        .as_ref()
        .filter(|_| !is_part)
        .or(info.recovered.as_ref());
    report.samples = facts
        .and_then(|facts| facts.count("samples"))
        .unwrap_or(contents.samples);
    if let Some(short) = info.short {
        (report.rank, report.pid, report.coverage_percent) = (None, None, None);
        report.command = counted(short.ended, "short process");
        report.end.clone_from(&report.command);
        report.samples = short.samples;
        if short.begun > short.ended && info.recovered.is_none() {
            report.state = State::Cut;
        }
    }
    report.wall_clock = info.wall_clock;
    report.wall_clock.settle();
    Found::Trace(Box::new(report))
}

/// Whether a packet only says what is what, as those at the start of a trace do.
fn only_describes(encoded: &[u8]) -> bool {
    const DESCRIBE: [u32; 11] = [
        packet::CLOCK_SNAPSHOT,
        packet::TIMESTAMP,
        packet::TIMESTAMP_CLOCK_ID,
        packet::SEQUENCE_ID,
        packet::SEQUENCE_FLAGS,
        packet::DEFAULTS,
        packet::SYSTEM_INFO,
        packet::TRACE_UUID,
        packet::TRACK_DESCRIPTOR,
        packet::PROCESS_DESCRIPTOR,
        packet::THREAD_DESCRIPTOR,
    ];
    Fields::new(encoded)
        .flatten()
        .all(|field| DESCRIBE.contains(&field.number))
}
