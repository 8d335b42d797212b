//! Samples of threads with their call stacks, and values of counters over time.

use std::collections::HashMap;

use rsys_traces::model::{
    Basis, Batch, Counter, CounterId, CounterValue, Frame, Kinds, Model, Sample, StackId,
};

use super::{Query, Record, What, natural, record};
use crate::places::Places;
use crate::stream::{Closed, Sink, number, text};

/// A row.
pub(super) enum Row {
    /// A function of the call stack of an event, outermost first.
    Frame {
        event: Event,
        function: String,
        module: String,
        source: String,
        line: u64,
    },
    Sample {
        event: Event,
        tid: i64,
        basis: Basis,
        weight: u64,
    },
    Value {
        counter: Event,
        group: String,
        name: String,
        unit: String,
        value: f64,
    },
}

/// The number of the process's tables, and the id in them.
type Event = (usize, i64);

/// What a sample's weight is, by the category of its event.
fn basis(category: &str) -> Option<Basis> {
    match category {
        "CPU_SAMPLE" => Some(Basis::CpuTime),
        "WAIT_SAMPLE" => Some(Basis::WaitTime),
        "EVENT_SAMPLE" => Some(Basis::Event),
        _ => None,
    }
}

/// Reads the rows of the tables of a process, which is the `file`-th.
pub(super) fn rows(
    query: &Query<'_>,
    sink: &mut Sink<Record>,
    kinds: Kinds,
    file: usize,
) -> Result<(), Closed> {
    if !["sample", "event", "track", "string"]
        .iter()
        .all(|table| query.has(table))
    {
        return Ok(());
    }
    let (sample, event, track) = (
        query.table("sample"),
        query.table("event"),
        query.table("track"),
    );
    let (strings, process) = (query.table("string"), query.table("info_process"));
    let place = format!(
        "{}, (select pid from {process} where id = t.pid), s.timestamp, s.timestamp, 0",
        query.node("t.nid")
    );
    if kinds.samples {
        let ours = "('CPU_SAMPLE', 'WAIT_SAMPLE', 'EVENT_SAMPLE')";
        let is_ours = format!("e.category_id in (select id from {strings} where string in {ours})");
        // A stack is written once, before the samples that have it.
        let frames = format!(
            "select e.id, f.key, json_extract(f.value, '$.function'), json_extract(f.value, '$.module'), json_extract(f.value, '$.source'),
                    json_extract(f.value, '$.line')
             from {event} e, json_each(case when json_valid(e.call_stack) then e.call_stack else '[]' end) f
             where {is_ours} and f.type = 'object' order by e.id, f.key desc"
        );
        sink.rows(
            query.database,
            "call stacks of rocpd_event",
            &frames,
            |row| {
                let frame = Row::Frame {
                    event: (file, number(row, 0)?),
                    function: text(row, 2),
                    module: text(row, 3),
                    source: text(row, 4),
                    line: natural(number(row, 5)),
                };
                Some(Record::of_all(What::Sampled(frame)))
            },
        )?;
        let threads = query.table("info_thread");
        let sql = format!(
            "select s.id, {place}, (select string from {strings} where id = e.category_id), (select tid from {threads} where id = t.tid),
                    case when json_valid(s.extdata) then json_extract(s.extdata, '$.weight') end, e.id
             from {sample} s join {event} e on e.id = s.event_id join {track} t on t.id = s.track_id where {is_ours} order by s.id"
        );
        sink.rows(query.database, "rocpd_sample", &sql, |row| {
            let one = Row::Sample {
                basis: basis(&text(row, 6))?,
                tid: number(row, 7).unwrap_or(0),
                weight: natural(number(row, 8)),
                event: (file, number(row, 9)?),
            };
            record(row, What::Sampled(one))
        })?;
    }
    // Counters of kernels have no time of their own.
    if kinds.counters && query.has("pmc_event") && query.has("info_pmc") {
        let sql = format!(
            "select v.id, {place}, i.id, coalesce(i.block, ''), i.name, coalesce(i.units, ''), v.value
             from {} v join {sample} s on s.event_id = v.event_id join {track} t on t.id = s.track_id join {} i on i.id = v.pmc_id order by v.id",
            query.table("pmc_event"),
            query.table("info_pmc")
        );
        sink.rows(query.database, "rocpd_pmc_event", &sql, |row| {
            let value = row.get::<_, f64>(10).ok().filter(|value| value.is_finite());
            let one = Row::Value {
                counter: (file, number(row, 6)?),
                group: text(row, 7),
                name: text(row, 8),
                unit: text(row, 9),
                value: value?,
            };
            record(row, What::Sampled(one))
        })?;
    }
    Ok(())
}

/// What was met.
#[derive(Debug, Default)]
pub(super) struct Sampled {
    stacks: HashMap<Event, StackId>,
    counters: HashMap<Event, CounterId>,
}

impl Sampled {
    /// Takes in a row of a process, with its time.
    pub(super) fn take(
        &mut self,
        row: Row,
        (pid, time_ns): (i64, u64),
        places: &mut Places,
        model: &mut Model,
        batch: &mut Batch,
    ) {
        match row {
            Row::Frame {
                event,
                function,
                module,
                source,
                line,
            } => {
                let frame = Frame {
                    function: model.texts.intern(&function),
                    mapping: model.texts.intern(&module),
                    source: model.texts.intern(&source),
                    line: u32::try_from(line).unwrap_or(0),
                };
                let frame = model.stacks.frame_id(frame);
                let stack = self.stacks.entry(event).or_insert(StackId::ROOT);
                *stack = model.stacks.child(*stack, frame);
            }
            Row::Sample {
                event,
                tid,
                basis,
                weight,
            } => {
                let (process, thread) = places.thread(pid, tid, model);
                batch.samples.push(Sample {
                    time_ns,
                    weight,
                    process,
                    thread,
                    stack: self.stacks.get(&event).copied().unwrap_or(StackId::ROOT),
                    basis,
                });
            }
            Row::Value {
                counter,
                group,
                name,
                unit,
                value,
            } => {
                let counter = *self.counters.entry(counter).or_insert_with(|| {
                    let (_, process) = places.process(Some(pid), model);
                    model.counters.push(Counter {
                        process,
                        group: model.texts.intern(&group),
                        name: model.texts.intern(&name),
                        unit: model.texts.intern(&unit),
                    });
                    CounterId::new(model.counters.len() - 1)
                });
                batch.counters.push(CounterValue {
                    time_ns,
                    counter,
                    value,
                });
            }
        }
    }
}
