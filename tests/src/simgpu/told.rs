//! What a trace says of operations of GPUs.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};

use crate::trace::Trace;

/// How far a time in a trace may be from the truth.
pub const EXACT_NS: u64 = 1000;

/// An operation in a trace.
#[derive(Debug)]
pub struct Op {
    /// Its name.
    pub name: String,
    /// When it began.
    pub start_ns: u64,
    /// When it ended.
    pub end_ns: u64,
    /// The GPU's number.
    pub device: usize,
    /// The queue, or 0.
    pub queue: i64,
    /// Of copies: how much.
    pub bytes: u64,
    /// Arrows that touch it. A simulated copy may begin a little before its call is over, or even begins: arrows go either way.
    pub arrows: i64,
    /// Its times were impossible.
    pub clamped: bool,
}

impl Op {
    /// Whether it ran then.
    #[must_use]
    pub fn is_at(&self, start_ns: u64, end_ns: u64) -> bool {
        self.start_ns.abs_diff(start_ns) <= EXACT_NS && self.end_ns.abs_diff(end_ns) <= EXACT_NS
    }
}

/// The operations of a category, by their start.
///
/// # Errors
/// When the trace cannot be read.
pub fn ops(trace: &Trace, category: &str) -> Result<Vec<Op>> {
    let rows = trace.query(&format!(
        "select s.ts, s.dur, s.name,
             extract_arg(s.arg_set_id, 'debug.device') as device,
             ifnull(extract_arg(s.arg_set_id, 'debug.queue'), 0) as queue,
             ifnull(extract_arg(s.arg_set_id, 'debug.bytes'), 0) as bytes,
             extract_arg(s.arg_set_id, 'debug.clamped') is not null as clamped,
             (select count(*) from flow where s.id in (slice_in, slice_out)) as arrows
         from slice s where s.category = '{category}' order by s.ts"
    ))?;
    rows.iter()
        .map(|row| {
            let start_ns = u64::try_from(row.int("ts")?)?;
            Ok(Op {
                name: row.text("name")?.to_owned(),
                start_ns,
                end_ns: start_ns + u64::try_from(row.int("dur")?)?,
                device: usize::try_from(row.int("device")?)?,
                queue: row.int("queue")?,
                bytes: u64::try_from(row.int("bytes")?)?,
                arrows: row.int("arrows")?,
                clamped: row.int("clamped")? != 0,
            })
        })
        .collect()
}

/// What the trace says of the operations that were seen.
///
/// # Errors
/// When the trace cannot be read, or one is unaccounted for.
pub fn accounts(trace: &Trace) -> Result<BTreeMap<&'static str, i64>> {
    const CAUSES: [&str; 7] = [
        "at_end",
        "not_kernel",
        "batch",
        "no_queue",
        "pool",
        "time_failed",
        "time_invalid",
    ];
    let metadata = trace.metadata()?;
    let mut counts = BTreeMap::new();
    for name in ["seen", "recorded", "clamped"] {
        counts.insert(name, metadata.int(&format!("gpu_{name}"))?);
    }
    for name in CAUSES {
        counts.insert(name, metadata.int(&format!("gpu_dropped_{name}"))?);
    }
    let dropped: i64 = CAUSES.iter().map(|name| counts[name]).sum();
    ensure!(counts["seen"] == counts["recorded"] + dropped, "{counts:?}");
    let drawn = trace.number(
        "select count(*) from slice where category in ('kernel', 'copy', 'fill', 'scratch')",
    )?;
    ensure!(counts["recorded"] == drawn, "{drawn} drawn, {counts:?}");
    Ok(counts)
}
