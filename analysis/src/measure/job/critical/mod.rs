//! The critical path of iterations: what, on which rank, the end of an iteration had waited for, step by step back to its begin.
//!
//! | file | holds |
//! |---|---|
//! | `selection` | iterations over all ranks, and which of them are examined |
//! | `recorder` | what a rank did then, while its file is read |
//! | `earlier` | calls from before that, whose operations may run then |
//! | `timeline` | the same in order, on the axis of time that ranks have in common |
//! | `walk` | the walk from the end to the begin, from rank to rank |
//! | `tables` | the answer |
//!
//! Who came last to a collective is known from [`crate::measure::job::collectives`], which keep little of each rank. What a rank did is read when the path comes to it,
//! so that of a large job few files are read a second time, and few are in memory at once.

mod earlier;
mod recorder;
mod selection;
#[cfg(test)]
mod small_jobs;
mod tables;
mod timeline;
mod walk;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::measure::Measure;
use crate::measure::job::collectives::{Axis, Found, LastArrivals};
use crate::measure::job::iterations::Lane;
use crate::measure::job::ranks::rank_name;
use crate::table::Answer;
use recorder::Recorder;
use rsys_traces::model::{Model, ProcessId};
use selection::{Of, Span, selected, spans};
use timeline::RankTimeline;
use walk::{At, Crossing, LastArrival, Ranks, walk};

/// Reads a file once more, for a measure; its model.
pub type ReadAgain<'r> = &'r dyn Fn(&Path, Box<dyn Measure>) -> Model;

/// The most ranks whose records are in memory at once, and their records beyond which there are fewer.
const TIMELINES: usize = 8;
const RECORDS: usize = recorder::MOST;

/// The critical paths of iterations: of those with these numbers, or of the median one and the slowest where there are none. `lanes` are the iterations of
/// each GPU with the file that they were found in, `found` and `model` are of all files, of which `read_again` reads some.
#[must_use]
pub fn answer(
    lanes: &[(PathBuf, Lane)],
    found: &Found,
    model: &Model,
    wanted: &[u64],
    read_again: ReadAgain<'_>,
) -> Answer {
    let mut axes: Vec<(ProcessId, Axis, &Lane)> = Vec::new();
    for (file, lane) in lanes {
        if let Some(process) = process_of(model, file, lane) {
            axes.push((process, found.axis(process, model), lane));
        }
    }
    let order = |process: ProcessId| model.process(process).order();
    axes.sort_by(|one, other| {
        let by_process = order(one.0).cmp(&order(other.0));
        by_process.then_with(|| one.2.order().cmp(&other.2.order()))
    });
    let all: Vec<Of<'_>> = axes
        .iter()
        .map(|(process, axis, lane)| Of {
            process: *process,
            axis,
            lane,
        })
        .collect();
    let (selected, lost) = selected(&spans(&all), wanted);
    let times: Vec<(i64, i64)> = selected
        .iter()
        .map(|(_, one)| (one.begin, one.end))
        .collect();
    let begins = all.iter().flat_map(|of| {
        let numbers = selected.iter().map(|(_, one)| one.number);
        let own = numbers.filter_map(|number| {
            let mut iterations = of.lane.iterations.iter();
            iterations.find(|one| one.number == number)
        });
        own.map(|one| (of.process, one.start_ns))
    });
    let mut files = Files {
        last_arrivals: found.last_arrivals(&times, model),
        begins: begins.collect(),
        times,
        found,
        model,
        read_again,
        read: VecDeque::new(),
        shortened: BTreeMap::new(),
    };
    let paths: Vec<tables::Path> = selected
        .into_iter()
        .map(|(why, span)| {
            let rank = span.last.process.index();
            let at = files.timeline(rank).map_or(At::Nowhere, |timeline| {
                let axis = found.axis(span.last.process, model);
                end_of(&timeline, &span, &axis)
            });
            let segments = walk(&mut files, (rank, at), (span.begin, span.end));
            tables::Path {
                why,
                span,
                segments,
            }
        })
        .collect();
    let marker = lanes.first().map_or("", |(_, lane)| lane.marker.as_str());
    let marker = if marker.is_empty() {
        "the whole run"
    } else {
        marker
    };
    let mut answer = tables::answer(&paths, marker, model);
    let lost = lost
        .iter()
        .map(|number| format!("no rank has an iteration {number}"));
    answer.notes.extend(lost);
    for (rank, since) in files.shortened {
        let whose = rank_name(model, ProcessId::new(rank));
        let since_ns = found.axis(ProcessId::new(rank), model).local(since);
        answer.notes.push(format!(
            "the iterations of {whose} have more records than are kept ({}): only what ended from {since_ns} ns on is looked at, and what was before is unknown; mark shorter iterations (--marker)",
            recorder::MOST
        ));
    }
    answer
}

/// The process of a lane.
fn process_of(model: &Model, file: &Path, lane: &Lane) -> Option<ProcessId> {
    let file = file.to_str().unwrap_or_default();
    let mut processes = model.processes.iter();
    let place = processes.position(|one| {
        one.pid == lane.pid
            && one.start_ns == lane.process_start_ns
            && one.host == lane.host
            && one.rank == lane.rank
            && one.file == file
    });
    place.map(ProcessId::new)
}

/// Where the walk through an iteration begins.
fn end_of(timeline: &RankTimeline, span: &Span, axis: &Axis) -> At {
    let (start_ns, end_ns) = span.last.times;
    if span.last.behind_ns > 0 {
        let times = (axis.common(start_ns), axis.common(end_ns));
        let last = timeline.ended_last(times, |_| true);
        return last.map_or(At::Nowhere, At::Within);
    }
    if !span.last.is_of_gpu {
        let busiest = || {
            let calls = timeline.threads.iter();
            let busiest = calls
                .max_by_key(|(thread, track)| (track.calls.len(), std::cmp::Reverse(**thread)));
            busiest.map(|(thread, _)| *thread)
        };
        let thread = timeline.marked.get(&start_ns).copied().or_else(busiest);
        return thread.map_or(At::Nowhere, At::Thread);
    }
    let mut operations = timeline.operations.iter();
    if let Some(next) = operations.position(|one| one.start_ns == end_ns) {
        return At::Before(next);
    }
    let last = timeline.ended_last((axis.common(start_ns), axis.common(end_ns)), |_| true);
    last.map_or(At::Nowhere, At::Within)
}

/// Ranks whose files are read when they are asked for.
struct Files<'f> {
    found: &'f Found,
    model: &'f Model,
    last_arrivals: LastArrivals,
    /// On the common axis.
    times: Vec<(i64, i64)>,
    /// Begins of the iterations.
    begins: Vec<(ProcessId, u64)>,
    read_again: ReadAgain<'f>,
    /// Those that were read last.
    read: VecDeque<(usize, Option<Rc<RankTimeline>>)>,
    /// Ranks of which only the records from a time on are kept, for there are too many.
    shortened: BTreeMap<usize, i64>,
}

impl Files<'_> {
    fn read(&self, rank: usize) -> Option<RankTimeline> {
        let process = ProcessId::new(rank);
        let file = &self.model.process(process).file;
        let axis = self.found.axis(process, self.model);
        let local = |&(begin, end): &(i64, i64)| (axis.local(begin), axis.local(end));
        let times = self.times.iter().map(local).collect();
        let own = self.begins.iter().filter(|(of, _)| *of == process);
        let begins = own.map(|(_, begin_ns)| *begin_ns).collect();
        // Processes of a file are in the model in the order in which the file has them.
        let before = self.model.processes[..rank].iter();
        let place = before.filter(|one| one.file == *file).count();
        let recorder = Recorder::new(place, times, begins);
        let of_file = (self.read_again)(Path::new(file), Box::new(recorder.clone()));
        (place < of_file.processes.len()).then(|| recorder.timeline(&of_file, &axis))
    }
}

impl Ranks for Files<'_> {
    fn timeline(&mut self, rank: usize) -> Option<Rc<RankTimeline>> {
        if let Some((_, timeline)) = self.read.iter().find(|(of, _)| *of == rank) {
            return timeline.clone();
        }
        let records = |read: &VecDeque<(usize, Option<Rc<RankTimeline>>)>| {
            let timelines = read.iter().filter_map(|(_, timeline)| timeline.as_ref());
            timelines.map(|timeline| timeline.records).sum::<usize>()
        };
        // Before another is read: it may be as large as all others.
        while self.read.len() >= TIMELINES || records(&self.read) > RECORDS {
            self.read.pop_front();
        }
        let timeline = self.read(rank).map(Rc::new);
        if let Some(since) = timeline.as_ref().and_then(|timeline| timeline.since) {
            self.shortened.insert(rank, since);
        }
        self.read.push_back((rank, timeline.clone()));
        timeline
    }

    fn last_arrival(&self, rank: usize, start_ns: u64) -> Option<LastArrival> {
        let process = ProcessId::new(rank);
        let known = self.last_arrivals.of(process, start_ns)?;
        Some(LastArrival {
            name: known.name.clone(),
            last_rank: known.last.index(),
            last: known.last_start,
            last_start_ns: known.last_start_ns,
            crossing: Crossing {
                margin_ns: known.margin_ns,
                margin_uncertainty_ns: known.margin_uncertainty_ns,
                uncertainty_ns: self.found.apart_ns(process, known.last, self.model),
            },
        })
    }

    fn grain_ns(&self) -> u64 {
        self.last_arrivals.grain_ns
    }
}
