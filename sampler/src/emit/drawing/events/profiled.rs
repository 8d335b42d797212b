//! Calls that a runtime reports when they are over, with a number of its own for the thread: tracks of the process, one for each thread.

use rsys_config::Flows;
use rsys_proto::hashing::FastMap;
use rsys_proto::{Event as Drawn, EventKind, Name, TrackSequence};
use rsys_wire::event::{Args, Category, Key};

use super::EventWriter;
use super::args::Annotations;
use super::lanes::Lanes;

/// The rows of a thread: a call within another cannot be told from one beside it.
#[derive(Debug)]
struct Rows {
    title: String,
    lanes: Lanes,
    tracks: Vec<TrackSequence>,
}

/// All such calls of a process.
#[derive(Debug, Default)]
pub struct Profiled {
    parent: Option<u64>,
    threads: FastMap<u64, Rows>,
    annotations: Annotations,
}

impl Profiled {
    /// Draws a call.
    pub fn draw(
        &mut self,
        times: [u64; 2],
        (category, name): (Category, u64),
        args: Args<'_>,
        pen: &mut EventWriter<'_>,
    ) {
        let Some((begin_ns, end_ns)) = pen.kept_part(times) else {
            return;
        };
        pen.tally.calls += 1;
        let parent = *self.parent.get_or_insert_with(|| {
            let about =
                "Calls of HIP as its own profiler reports them: the numbers of threads are HIP's";
            let process = pen.output.process_track();
            pen.output
                .child_track(process, "HIP calls", Some(about))
                .track()
        });
        let thread = args.number(Key::ThreadHash).unwrap_or_default();
        let number = self.threads.len() + 1;
        let rows = self.threads.entry(thread).or_insert_with(|| Rows {
            title: format!("thread {number}"),
            lanes: Lanes::default(),
            tracks: Vec::new(),
        });
        let row = rows.lanes.place(begin_ns, end_ns);
        while rows.tracks.len() <= row {
            let track = pen.output.child_track(parent, &rows.title, None);
            rows.tracks.push(track);
        }
        self.annotations.clear();
        self.annotations.add(args, pen.known, pen.output);
        let category = pen.output.call_category(category);
        let name = pen
            .output
            .event_text(pen.known, name)
            .map_or(Name::Once("?"), Name::Interned);
        let correlation = args.number(Key::Correlation);
        let flow = correlation
            .filter(|_| pen.run.flows != Flows::Numbers)
            .map(|correlation| pen.output.flow(correlation));
        let event = Drawn {
            name,
            category: Some(category),
            flows: flow.as_slice(),
            annotations: &self.annotations.list(),
            ..Drawn::default()
        };
        let track = &mut rows.tracks[row];
        let out = pen.output.buffer();
        track.event(out, begin_ns, EventKind::SliceBegin, &event);
        track.slice_end(out, end_ns);
    }
}
