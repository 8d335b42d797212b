//! `rsys-report merge`: the traces of many processes become one.
//!
//! All inputs are looked at first ([`crate::trace_info`]), which decides their order, identifiers, names and clocks (`plan`, `align`). Then they are
//! copied one after another, packet by packet (`rewrite`), into blocks that other threads compress and write (`block_writer`). Memory does
//! not grow with the length of the inputs, and the result does not depend on the order in which they were named.

mod align;
mod alignment;
mod collectives;
mod head;
mod messages;
mod plan;
mod rewrite;

use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rsys_proto::blocks::{Block, BlockReader};
use rsys_proto::packets::Blocks;
use rsys_proto::reader::Truncation;
use rsys_traces::read::{Chain, is_further_part};

use crate::block_writer::{BLOCK_BYTES, BlockWriter, Piece};
use crate::cache;
use crate::files::{PERFETTO, short_name, traces};
use crate::temp_output::{TempOutput, refuse_existing};
use crate::trace_info::{Depth, TraceInfo, explain};
use rsys_proto::ProcessNamespace;

use plan::{Ids, InputPlan, Roots};
use rewrite::{Rewriter, SequenceIds};

pub use align::HostClock;

const CANNOT_WRITE: &str = "cannot write the merged trace";
/// At most this many remapped process ids are listed one by one.
const CHANGED_PIDS_TOLD: usize = 4;

/// Whether the merged trace is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// If one of the inputs is.
    #[default]
    AsInputs,
    /// Yes.
    Compressed,
    /// No.
    Plain,
}

/// What to merge, and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// Traces, and folders with traces.
    pub inputs: Vec<PathBuf>,
    /// The merged trace.
    pub output: PathBuf,
    /// Whether an existing file may be replaced.
    pub force: bool,
    /// Whether it is compressed.
    pub packing: Packing,
}

/// What came of a merge.
#[derive(Debug)]
pub struct Merged {
    /// How many traces.
    pub traces: usize,
    /// How many distinct ranks.
    pub ranks: usize,
    /// The hosts, in order; the first is the one of reference.
    pub hosts: Vec<HostClock>,
    /// Packets in the merged trace.
    pub packets: u64,
    /// Bytes of the inputs.
    pub read_bytes: u64,
    /// Bytes of their packets, without compression.
    pub plain_bytes: u64,
    /// Those of them in compressed blocks of which nothing had to be changed, which were copied as they are.
    pub kept_bytes: u64,
    /// Bytes of the merged trace.
    pub written_bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// What the user should know.
    pub remarks: Vec<String>,
}

/// Merges.
///
/// # Errors
/// When an input cannot be read or is damaged, two are of the same process instance, or the output cannot be written. Nothing is left of the
/// output then.
pub fn merge(request: &Request) -> Result<Merged> {
    let started = Instant::now();
    let output = &request.output;
    refuse_existing(output, request.force)?;
    let mut paths = traces(&request.inputs, PERFETTO, Some(output))?;
    paths.retain(|path| !is_further_part(path));
    let mut infos = paths
        .iter()
        .map(|path| TraceInfo::read(path, Depth::Head, |_| {}))
        .collect::<Result<Vec<_>>>()?;
    let mut remarks = Vec::new();
    infos.retain(|info| {
        let empty = info.packets == 0;
        if empty {
            remarks.push(format!("{}: no packets, left out", info.path.display()));
        }
        !empty
    });
    let (merged, others): (Vec<TraceInfo>, Vec<TraceInfo>) =
        infos.into_iter().partition(|info| info.merged.is_some());
    infos = others;
    for info in &merged {
        let path = info.path.display();
        if infos.is_empty() {
            bail!("{path} is a merged trace already; merge the traces that it was made of");
        }
        remarks.push(format!("{path}: a merged trace already, left out"));
    }
    if infos.is_empty() {
        bail!("no input has a packet in it");
    }
    plan::sort(&mut infos)?;
    let (of_inputs, hosts) = plan::hosts(&infos);
    let clocks = align::align(&infos, &of_inputs, &hosts)?;
    let plans = plan_inputs(&infos, &of_inputs, &clocks);
    let ranks: std::collections::BTreeSet<_> = infos.iter().filter_map(TraceInfo::rank).collect();

    let temp_output = TempOutput::new(output)?;
    let compress = match request.packing {
        Packing::Compressed => true,
        Packing::Plain => false,
        Packing::AsInputs => infos.iter().any(|info| info.compressed),
    };
    let mut writer = BlockWriter::new(temp_output.file.try_clone()?, compress);
    let outcome = copy(
        &infos,
        &plans,
        &of_inputs,
        &clocks,
        &mut writer,
        &mut remarks,
    );
    let written = writer
        .finish()
        .with_context(|| format!("cannot write {}", output.display()));
    // If writing failed, that is the reason for any other failure.
    let (_, written_bytes) = written?;
    let copied = outcome?;
    temp_output.keep()?;
    remarks.extend(changed_pids(&infos, &plans));
    Ok(Merged {
        traces: infos.len(),
        ranks: ranks.len(),
        hosts: clocks,
        packets: copied.packets,
        read_bytes: cache::bytes_of(&paths),
        plain_bytes: copied.plain_bytes,
        kept_bytes: copied.kept_bytes,
        written_bytes,
        seconds: started.elapsed().as_secs_f64(),
        remarks,
    })
}

/// Says which process ids are shown as others.
fn changed_pids(infos: &[TraceInfo], plans: &[InputPlan]) -> Vec<String> {
    let changed = infos.iter().zip(plans).flat_map(|(info, plan)| {
        let changed = std::collections::BTreeMap::from_iter(&plan.pids);
        changed.into_iter().map(|(old, new)| {
            format!(
                "{}: process id {old} is taken by another process; shown as {new}",
                short_name(&info.path)
            )
        })
    });
    let mut changed: Vec<String> = changed.collect();
    let more = changed.len().saturating_sub(CHANGED_PIDS_TOLD);
    if more > 1 {
        changed.truncate(CHANGED_PIDS_TOLD);
        changed.push(format!(
            "{more} more process ids collide and were remapped; process names show the original id"
        ));
    }
    changed
}

fn plan_inputs(infos: &[TraceInfo], of_inputs: &[usize], clocks: &[HostClock]) -> Vec<InputPlan> {
    let highest = infos.iter().filter_map(TraceInfo::rank).max().unwrap_or(0);
    let rank_digits = highest.to_string().len();
    let several_hosts = clocks.len() > 1;
    let roots = Roots::new(Ids::of_merge(infos));
    let mut pids = plan::pids(infos).into_iter();
    let mut namespaces = plan::namespaces(infos).into_iter();
    infos
        .iter()
        .zip(of_inputs)
        .enumerate()
        .map(|(order, (info, &host))| {
            let prefix = plan::prefix(info, rank_digits, several_hosts);
            let boot_id = info.text("boot_id");
            InputPlan {
                path: info.path.clone(),
                ids: Ids::new(&info.instance()),
                own: namespaces.next().flatten(),
                pids: pids.next().unwrap_or_default(),
                order: order as u32,
                roots: info.is_ours().then_some(roots),
                top_prefix: plan::top_prefix(info, &prefix),
                machine_prefix: if several_hosts {
                    format!("{} \u{b7} ", clocks[host].name)
                } else {
                    String::new()
                },
                machine: (!boot_id.is_empty()).then(|| ProcessNamespace::machine(boot_id)),
                prefix,
                alignment: clocks[host].alignment.clone(),
                clocks: info.clocks.clone(),
            }
        })
        .collect()
}

#[derive(Debug, Default)]
struct Copied {
    packets: u64,
    plain_bytes: u64,
    kept_bytes: u64,
}

fn copy(
    infos: &[TraceInfo],
    plans: &[InputPlan],
    of_inputs: &[usize],
    clocks: &[HostClock],
    writer: &mut BlockWriter,
    remarks: &mut Vec<String>,
) -> Result<Copied> {
    let mut copied = Copied::default();
    let mut sequences = SequenceIds::new(head::FIRST_FREE_SEQUENCE);
    let mut cuts = Vec::new();
    let mut block = writer.block();
    let mut read = Block::default();
    // What is known of the merge stands in front; what was cut off is only known behind.
    copied.packets += head::start(infos, plans, of_inputs, clocks, &mut block);
    for plan in plans {
        let told = || plan.path.display().to_string();
        let file = Chain::open(&plan.path).with_context(told)?;
        let mut input = Blocks::ahead(BlockReader::new(file).keeping_packed());
        let mut rewriter = Rewriter::new(plan, &mut sequences);
        while input.read(&mut read).map_err(explain).with_context(told)? {
            let start = block.len();
            let mut place = 0;
            while let Some(encoded) = read
                .packet(&mut place)
                .map_err(explain)
                .with_context(told)?
            {
                rewriter.packet(encoded, &mut block);
            }
            copied.plain_bytes += read.len() as u64;
            let is_kept =
                writer.compresses() && !read.packed().is_empty() && block[start..] == *read.bytes();
            if is_kept {
                block.truncate(start);
                copied.kept_bytes += read.len() as u64;
            }
            if block.len() >= BLOCK_BYTES || is_kept && !block.is_empty() {
                let full = std::mem::replace(&mut block, writer.block());
                writer.put(Piece::Packets(full)).context(CANNOT_WRITE)?;
            }
            if is_kept {
                let packed = Piece::Packed(read.packed().to_vec());
                writer.put(packed).context(CANNOT_WRITE)?;
            }
        }
        copied.packets += rewriter.packets;
        let name = short_name(&plan.path);
        if let Some(Truncation { offset, bytes }) = input.truncation() {
            let cut = format!(
                "{name}: ends within a packet; its {bytes} bytes from byte {offset} on are left out"
            );
            cuts.push(cut);
        }
        if rewriter.timeless > 0 {
            cuts.push(format!(
                "{name}: {} packets are left out: no clock snapshot relates their clock to BOOTTIME",
                rewriter.timeless
            ));
        }
        if rewriter.torn > 0 {
            cuts.push(format!(
                "{name}: {} malformed packets are left out",
                rewriter.torn
            ));
        }
    }
    copied.packets += head::end(infos, &cuts, &mut block);
    writer.put(Piece::Packets(block)).context(CANNOT_WRITE)?;
    remarks.append(&mut cuts);
    Ok(copied)
}
