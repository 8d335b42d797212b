//! What a program marked, and sensors of GPUs.

use std::collections::BTreeMap;

use super::calls::API;
use super::nodes::Nodes;
use super::texts::{EMPTY, Texts};
use crate::Failure;
use crate::rows::{Row, each};
use crate::run::{Process, Run};
use crate::sqlite::{Bulk, Rows};

/// Numbers of markers begin here, above those of calls.
const FIRST_MARKER: u64 = 1 << 31;

/// Writes ranges, marks, operators and functions.
pub(super) fn write_markers(
    run: &Run<'_>,
    nodes: &Nodes<'_>,
    bulk: &Bulk,
    texts: &mut Texts<'_>,
) -> Result<(), Failure> {
    let mut add = bulk.rows("rocpd_api", API)?;
    let mut id = FIRST_MARKER;
    let mut put = |row: Row<'_>, process: &Process, start_ns: u64, end_ns: u64, kind: &str| {
        let text = row.text(2);
        // Functions and operators are calls of a domain, ranges are markers with a text.
        let (domain, name, arguments) = match kind {
            "function" => ("python", text, ""),
            "operator" => ("pytorch", text, ""),
            _ => ("UserMarker", "UserMarker", text),
        };
        let (domain, name) = (texts.name(domain)?, texts.name(name)?);
        add.put([
            id.into(),
            nodes.pid(process).into(),
            row.number(1).into(),
            start_ns.into(),
            end_ns.into(),
            name.into(),
            EMPTY.into(),
            domain.into(),
            texts.arguments(arguments)?.into(),
        ])?;
        id += 1;
        Ok(())
    };
    const RANGES: [&str; 6] = ["process_id", "thread", "name", "kind", "start_ns", "end_ns"];
    each(run.view, "ranges", &RANGES, |row| {
        let (start_ns, end_ns) = (row.number(4), row.number(5));
        match run.during(row.number(0), start_ns, end_ns) {
            Some(process) => put(row, process, start_ns, end_ns, row.text(3)),
            None => Ok(()),
        }
    })?;
    const MARKERS: [&str; 4] = ["process_id", "thread", "name", "time_ns"];
    each(run.view, "markers", &MARKERS, |row| {
        let time_ns = row.number(3);
        match run.at(row.number(0), time_ns) {
            Some(process) => put(row, process, time_ns, time_ns, ""),
            None => Ok(()),
        }
    })?;
    add.finish();
    Ok(())
}

/// The times in which a sensor says the same.
#[derive(Debug)]
struct Stretch {
    gpu: u64,
    name: String,
    start_ns: u64,
    end_ns: u64,
    value: f64,
}

impl Stretch {
    fn put(&self, add: &mut Rows<'_, 6>) -> Result<(), Failure> {
        add.put([
            "gpu".into(),
            self.gpu.into(),
            self.name.as_str().into(),
            self.start_ns.into(),
            self.end_ns.into(),
            self.value.to_string().as_str().into(),
        ])
    }
}

/// Writes sensors of GPUs: a row for each time in which a value stays the same.
pub(super) fn write_monitors(run: &Run<'_>, nodes: &Nodes<'_>, bulk: &Bulk) -> Result<(), Failure> {
    /// What a group of sensors is called, in front of the number of its GPU.
    const SENSORS: &str = "Sensors of GPU ";
    const COLUMNS: [&str; 6] = [
        "process_id",
        "track_id",
        "belongs_to",
        "name",
        "time_ns",
        "value",
    ];
    let mut add = bulk.rows(
        "rocpd_monitor",
        [
            "deviceType",
            "deviceId",
            "monitorType",
            "start",
            "end",
            "value",
        ],
    )?;
    let mut stretches: BTreeMap<u64, Stretch> = BTreeMap::new();
    each(run.view, "counters", &COLUMNS, |row| {
        let (process_id, track, time_ns) = (row.number(0), row.number(1), row.number(4));
        let Some(process) = run.at(process_id, time_ns) else {
            return Ok(());
        };
        let gpu = row.text(2).strip_prefix(SENSORS);
        let gpu = gpu.and_then(|rest| rest.split(' ').next()?.parse::<u64>().ok());
        let Some(gpu) = gpu else { return Ok(()) };
        let value = row.measured(5);
        if let Some(stretch) = stretches.get_mut(&track) {
            stretch.end_ns = stretch.end_ns.max(time_ns);
            if stretch.value == value {
                return Ok(());
            }
            stretch.put(&mut add)?;
        }
        let stretch = Stretch {
            gpu: nodes.gpu(process, gpu),
            name: row.text(3).to_owned(),
            start_ns: time_ns,
            end_ns: time_ns,
            value,
        };
        stretches.insert(track, stretch);
        Ok(())
    })?;
    for stretch in stretches.values() {
        stretch.put(&mut add)?;
    }
    add.finish();
    Ok(())
}
