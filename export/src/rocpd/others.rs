//! Ranges, waits, samples and counters.

use super::Database;
use super::entities::Counter;
use crate::Failure;
use crate::rows::each;
use crate::run::Run;

impl Database<'_> {
    /// Writes the ranges of a table, or its waits.
    pub(super) fn ranges(&mut self, run: &Run<'_>, table: &str) -> Result<(), Failure> {
        const COLUMNS: [&str; 6] = ["process_id", "thread", "kind", "name", "start_ns", "end_ns"];
        let mut add = self.insert(
            "region",
            ["nid", "pid", "tid", "start", "end", "name_id", "event_id"],
        )?;
        each(run.view, table, &COLUMNS, |row| {
            let (id, start_ns, end_ns) = (row.number(0), row.number(4), row.number(5));
            let Some(process) = run.during(id, start_ns, end_ns) else {
                return Ok(());
            };
            let category = match row.text(2) {
                "operator" => "PYTORCH_OPERATOR",
                "function" => "FUNCTION",
                "waiting" => "WAIT",
                "off processor" => "OFF_PROCESSOR",
                _ => "MARKER_CORE_RANGE_API",
            };
            let category = self.entities.text(category);
            let event = self.events.put(category, None, 0)?;
            let node = self.entities.node(process);
            let thread = self.entities.thread(id, row.number(1));
            let name = self.entities.text(row.text(3));
            add.put([
                node.into(),
                (id + 1).into(),
                thread.into(),
                start_ns.into(),
                end_ns.into(),
                name.into(),
                event.into(),
            ])?;
            Ok(())
        })?;
        add.finish();
        Ok(())
    }

    /// Writes points in time as ranges without length.
    pub(super) fn marks(&mut self, run: &Run<'_>) -> Result<(), Failure> {
        const COLUMNS: [&str; 4] = ["process_id", "thread", "name", "time_ns"];
        let mut add = self.insert(
            "region",
            ["nid", "pid", "tid", "start", "end", "name_id", "event_id"],
        )?;
        let category = self.entities.text("MARKER_CORE_API");
        each(run.view, "markers", &COLUMNS, |row| {
            let (id, time_ns) = (row.number(0), row.number(3));
            let Some(process) = run.at(id, time_ns) else {
                return Ok(());
            };
            let event = self.events.put(category, None, 0)?;
            let node = self.entities.node(process);
            let thread = self.entities.thread(id, row.number(1));
            let name = self.entities.text(row.text(2));
            add.put([
                node.into(),
                (id + 1).into(),
                thread.into(),
                time_ns.into(),
                time_ns.into(),
                name.into(),
                event.into(),
            ])?;
            Ok(())
        })?;
        add.finish();
        Ok(())
    }

    /// Writes samples of threads with their call stacks.
    pub(super) fn samples(&mut self, run: &Run<'_>) -> Result<(), Failure> {
        const COLUMNS: [&str; 6] = [
            "process_id",
            "thread",
            "basis",
            "time_ns",
            "weight",
            "stack_id",
        ];
        let mut add = self.insert("sample", ["track_id", "timestamp", "event_id", "extdata"])?;
        each(run.view, "samples", &COLUMNS, |row| {
            let (id, tid, time_ns) = (row.number(0), row.number(1), row.number(3));
            if run.at(id, time_ns).is_none() {
                return Ok(());
            }
            let (category, name) = match row.text(2) {
                "cpu" => ("CPU_SAMPLE", "samples of CPU time"),
                "wait" => ("WAIT_SAMPLE", "samples of waits"),
                "event" => ("EVENT_SAMPLE", "samples of events"),
                _ => return Ok(()),
            };
            let category = self.entities.text(category);
            self.entities.thread(id, tid);
            let track = self.entities.track(id, Some(tid), name);
            let event = self.events.of_stack(category, row.number(5) as usize)?;
            let weight = format!("{{\"weight\":{}}}", row.number(4));
            let weight = weight.as_str().into();
            add.put([track.into(), time_ns.into(), event.into(), weight])?;
            Ok(())
        })?;
        add.finish();
        Ok(())
    }

    /// Writes counters and sensors.
    pub(super) fn counters(&mut self, run: &Run<'_>) -> Result<(), Failure> {
        const COLUMNS: [&str; 7] = [
            "process_id",
            "track_id",
            "belongs_to",
            "name",
            "unit",
            "time_ns",
            "value",
        ];
        let mut add = self.insert("pmc_event", ["event_id", "pmc_id", "value"])?;
        let mut add_time = self.insert("sample", ["track_id", "timestamp", "event_id"])?;
        let category = self.entities.text("COUNTER");
        each(run.view, "counters", &COLUMNS, |row| {
            let (id, counter, time_ns) = (row.number(0), row.number(1), row.number(5));
            let Some(process) = run.at(id, time_ns) else {
                return Ok(());
            };
            let (owner, name) = (row.text(2), row.text(3));
            if !self.entities.counters.contains_key(&counter) {
                let gpu = owner
                    .strip_prefix("Sensors of GPU ")
                    .and_then(|rest| rest.split(' ').next()?.parse().ok());
                let counter_of = Counter {
                    node: self.entities.node(process),
                    process: id,
                    agent: self.entities.agent(id, gpu),
                    is_of_gpu: gpu.is_some(),
                    owner: owner.to_owned(),
                    name: name.to_owned(),
                    unit: row.text(4).to_owned(),
                };
                self.entities.counters.insert(counter, counter_of);
            }
            let event = self.events.put(category, None, 0)?;
            let track = self
                .entities
                .track(id, None, format!("{owner} {name}").trim());
            add.put([event.into(), (counter + 1).into(), row.measured(6).into()])?;
            add_time.put([track.into(), time_ns.into(), event.into()])?;
            Ok(())
        })?;
        add.finish();
        add_time.finish();
        Ok(())
    }
}
