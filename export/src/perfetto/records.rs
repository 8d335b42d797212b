//! Records as packets, but for slices.

use std::collections::HashSet;

use rsys_analysis::measure::packed_rows::PackedRows;

use super::message::{
    Counter, Extra, Launch, Packet, RenderStage, Sizes, StackSample, TrackDescriptor, TrackEvent,
};
use super::slices::owner_track;
use super::{Trace, process_track};
use crate::Failure;
use crate::calls::grid;
use crate::rows::each;
use crate::stacks::Stacks;

/// Of operations the process, the correlation and the event id.
pub(super) type Submitted = PackedRows<3>;

/// In `TrackEvent.Type`.
pub(super) const BEGIN: i32 = 1;
pub(super) const END: i32 = 2;
const INSTANT: i32 = 3;
const COUNTER: i32 = 4;

/// Tracks of counters, numbered from here on.
const COUNTERS: u64 = 1 << 63;

impl Trace<'_> {
    /// Writes operations; returns which calls they belong to, in order.
    pub(super) fn operations(&mut self) -> Result<Submitted, Failure> {
        const COLUMNS: [&str; 11] = [
            "operation_id",
            "process_id",
            "kind",
            "name",
            "start_ns",
            "end_ns",
            "device",
            "queue",
            "correlation",
            "bytes",
            "grid",
        ];
        const OTHERS: [&str; 1] = ["direction"];
        let run = self.run;
        let mut submitted: Submitted = run.rows();
        each(
            run.view,
            "operations",
            &[&COLUMNS[..], &OTHERS[..]].concat(),
            |row| {
                let (id, start_ns, end_ns) = (row.number(1), row.number(4), row.number(5));
                let Some(process) = run.during(id, start_ns, end_ns) else {
                    return Ok(());
                };
                let stage = match row.text(2) {
                    "kernel" => "Kernel",
                    "copy" => "Copy",
                    "fill" => "Fill",
                    _ => "Other",
                };
                let event_id = row.number(0) + 1;
                if let Some(correlation) = row.known(8) {
                    submitted.push([id, correlation, event_id]);
                }
                let bytes = row.known(9).map(|bytes| bytes.to_string());
                let direction = (!row.text(11).is_empty()).then(|| row.text(11).to_owned());
                let extra = [("bytes", bytes), ("direction", direction)];
                let extra = extra.into_iter().filter_map(|(name, value)| {
                    let name = name.to_owned();
                    Some(Extra {
                        name,
                        value: value?,
                    })
                });
                let [x, y, z] =
                    grid(row.text(10)).map(|size| u32::try_from(size).unwrap_or(u32::MAX));
                let event = RenderStage {
                    event_id,
                    duration: Some(end_ns - start_ns),
                    context: self.interned.context(id, process.pid),
                    extra_data: extra.collect(),
                    submission_id: row.known(8).and_then(|id| u32::try_from(id).ok()),
                    gpu_id: i32::try_from(row.number(6)).ok(),
                    hw_queue_iid: self.interned.queue(id, row.number(6), row.text(7)),
                    stage_iid: self.interned.stage(stage),
                    name_iid: self.interned.name(row.text(3)),
                    launch: (x > 0).then_some(Launch {
                        grid_size: Some(Sizes { x, y, z }),
                    }),
                };
                self.put(Packet {
                    timestamp: Some(start_ns),
                    render_stage: Some(event),
                    ..Packet::default()
                })
            },
        )?;
        submitted.sort();
        Ok(submitted)
    }

    pub(super) fn event(&mut self, time_ns: u64, event: TrackEvent) -> Result<(), Failure> {
        self.put(Packet {
            timestamp: Some(time_ns),
            track_event: Some(event),
            ..Packet::default()
        })
    }

    /// Writes points in time that the program marked.
    pub(super) fn marks(&mut self) -> Result<(), Failure> {
        const COLUMNS: [&str; 4] = ["process_id", "thread", "name", "time_ns"];
        let run = self.run;
        each(run.view, "markers", &COLUMNS, |row| {
            let (id, time_ns) = (row.number(0), row.number(3));
            if run.at(id, time_ns).is_none() {
                return Ok(());
            }
            let event = TrackEvent {
                kind: INSTANT,
                name_iid: Some(self.interned.name(row.text(2))),
                track_uuid: owner_track(id, row.known(1)),
                categories: vec!["mark".to_owned()],
                ..TrackEvent::default()
            };
            self.event(time_ns, event)
        })
    }

    /// Writes samples of threads with their call stacks.
    pub(super) fn samples(&mut self) -> Result<(), Failure> {
        const COLUMNS: [&str; 6] = [
            "process_id",
            "thread",
            "basis",
            "time_ns",
            "weight",
            "stack_id",
        ];
        let run = self.run;
        let stacks = Stacks::read(run.view)?;
        each(run.view, "samples", &COLUMNS, |row| {
            let (id, tid, time_ns) = (row.number(0), row.number(1), row.number(3));
            let Some(process) = run.at(id, time_ns) else {
                return Ok(());
            };
            let timebase = match row.text(2) {
                "cpu" => "cpu-time",
                "wait" => "wait-time",
                "event" => "events",
                // Kernels and calls are there themselves.
                _ => return Ok(()),
            };
            let sample = StackSample {
                task_context_iid: self.interned.task(id, process.pid, tid),
                callstack_iid: self.interned.callstack(&stacks, row.number(5) as usize),
                primary_descriptor_iid: self.interned.timebase(timebase),
                primary_weight: row.number(4),
            };
            self.put(Packet {
                timestamp: Some(time_ns),
                stack_sample: Some(sample),
                ..Packet::default()
            })
        })
    }

    /// Writes counters and sensors.
    pub(super) fn counters(&mut self) -> Result<(), Failure> {
        const COLUMNS: [&str; 7] = [
            "process_id",
            "track_id",
            "belongs_to",
            "name",
            "unit",
            "time_ns",
            "value",
        ];
        let (run, mut known) = (self.run, HashSet::new());
        each(run.view, "counters", &COLUMNS, |row| {
            let (id, track, time_ns) = (row.number(0), row.number(1), row.number(5));
            if run.at(id, time_ns).is_none() {
                return Ok(());
            }
            let track_uuid = COUNTERS | (track + 1);
            if known.insert(track) {
                let name = format!("{} {}", row.text(2), row.text(3));
                self.describe(TrackDescriptor {
                    uuid: track_uuid,
                    parent_uuid: Some(process_track(id)),
                    name: Some(name.trim().to_owned()),
                    counter: Some(Counter {
                        unit_name: row.text(4).to_owned(),
                    }),
                    ..TrackDescriptor::default()
                })?;
            }
            let event = TrackEvent {
                kind: COUNTER,
                track_uuid,
                double_counter_value: Some(row.measured(6)),
                ..TrackEvent::default()
            };
            self.event(time_ns, event)
        })
    }
}
