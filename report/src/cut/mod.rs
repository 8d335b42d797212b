//! `rsys-report cut`: a part of a trace as a trace of its own.
//!
//! Packets are copied one by one, in one pass, whatever the length of the trace (`cutter`); in a second one where it turns out that the first packet was not the earliest, so
//! that the trace starts sooner. What is left out is decided by time (`range`)
//! and by what it belongs to (`select`). Kept in memory are the slices that are open, the last values of counters, and the names and stacks of sequences of
//! which nothing was written yet.

mod cutter;
mod facts;
mod range;
mod select;
mod sequence;

use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use rsys_proto::packets::Packets;

use crate::block_writer::{BLOCK_BYTES, BlockWriter, Piece};
use crate::files::{self, short_name};
use crate::temp_output::{TempOutput, refuse_existing};
use crate::trace_info::explain_of;
use crate::words::counted;
use cutter::Cutter;

pub use range::parse_time;
pub use select::{Kind, Pick, Selection};

/// What to cut.
#[derive(Debug, Clone)]
pub struct Request {
    /// The trace.
    pub input: PathBuf,
    /// The part.
    pub output: PathBuf,
    /// Whether an existing file may be replaced.
    pub force: bool,
    /// Where the part begins, in nanoseconds since the start of the trace.
    pub from_ns: u64,
    /// Where it ends; none: with the trace.
    pub to_ns: Option<u64>,
    /// What is kept of that time.
    pub selection: Selection,
}

/// What came of it.
#[derive(Debug)]
pub struct Cut {
    /// Packets that were read.
    pub read_packets: u64,
    /// Events of the part, samples among them.
    pub kept: u64,
    /// Bytes of the trace.
    pub read_bytes: u64,
    /// Bytes of the part.
    pub written_bytes: u64,
    /// How long it took.
    pub seconds: f64,
    /// What the user should know.
    pub remarks: Vec<String>,
}

impl Cut {
    /// What was done, in a line.
    #[must_use]
    pub fn text(&self, request: &Request) -> String {
        let mega = |bytes: u64| bytes as f64 / 1e6;
        format!(
            "{}: {} of {}; {:.1} of {:.1} MB in {:.2} s\n",
            request.output.display(),
            counted(self.kept, "event"),
            counted(self.read_packets, "packet"),
            mega(self.written_bytes),
            mega(self.read_bytes),
            self.seconds,
        )
    }
}

impl Request {
    /// What is wrong with the range, if nothing can lie in it.
    #[must_use]
    pub fn empty_range(&self) -> Option<String> {
        let to_ns = self.to_ns.filter(|to_ns| *to_ns <= self.from_ns)?;
        let (from, to) = (seconds(self.from_ns), seconds(to_ns));
        Some(format!(
            "nothing lies between {from} s and {to} s: --to must be later than --from"
        ))
    }
}

/// Cuts.
///
/// # Errors
/// When the trace cannot be read or is damaged, nothing of it is in the part, or the output cannot be written. Nothing is left of the output
/// then.
pub fn cut(request: &Request) -> Result<Cut> {
    let started = Instant::now();
    let (input, output) = (&request.input, &request.output);
    if let Some(text) = request.empty_range() {
        bail!(text);
    }
    refuse_existing(output, request.force)?;
    let cannot_read = || format!("cannot read {}", input.display());
    let about = std::fs::metadata(input).with_context(cannot_read)?;
    if about.is_dir() {
        bail!(
            "{}: a folder; cut one of its traces, or what `rsys-report merge` makes of them",
            input.display()
        );
    }
    files::regular(input, &about)?;
    let mut pass = Pass::new(request, None)?;
    if let Some(start_ns) = pass.cutter.earlier_ns {
        drop(pass);
        pass = Pass::new(request, Some(start_ns))?;
    }
    let Pass {
        packets,
        cutter,
        temp_output,
        read_packets,
        written_bytes,
    } = pass;
    if cutter.kept == 0 {
        let lasts = seconds(cutter.length_ns());
        bail!(
            "nothing of {} is in this part: the trace lasts {lasts} s, and {}",
            input.display(),
            counted_as(&request.selection)
        );
    }
    let mut remarks = Vec::new();
    if let Some(cut) = packets.truncation() {
        remarks.push(format!(
            "{}: ends within a packet; its {} bytes are left out",
            input.display(),
            cut.bytes
        ));
    }
    for (count, what) in [
        (
            cutter.timeless,
            "without a time that a clock snapshot tells",
        ),
        (cutter.torn, "malformed"),
    ] {
        if count > 0 {
            remarks.push(format!(
                "{}: packets left out, {what}: {count}",
                input.display()
            ));
        }
    }
    temp_output.keep()?;
    Ok(Cut {
        read_packets,
        kept: cutter.kept,
        read_bytes: about.len(),
        written_bytes,
        seconds: started.elapsed().as_secs_f64(),
        remarks,
    })
}

/// The trace was read once, and the part written.
struct Pass<'a> {
    packets: Packets<File>,
    cutter: Cutter<'a>,
    temp_output: TempOutput,
    read_packets: u64,
    written_bytes: u64,
}

impl<'a> Pass<'a> {
    /// Cuts; `start_ns` is when the trace starts, if that is known to be in front of its first packet.
    fn new(request: &'a Request, start_ns: Option<u64>) -> Result<Self> {
        let (input, output) = (&request.input, &request.output);
        let file = File::open(input).with_context(|| format!("cannot read {}", input.display()))?;
        let mut packets = Packets::new(file, true);
        let range = (request.from_ns, request.to_ns);
        let mut cutter = Cutter::new(range, start_ns, &request.selection);
        let temp_output = TempOutput::new(output)?;
        let mut writer = None;
        let outcome = copy(
            request,
            &mut packets,
            &mut cutter,
            &temp_output,
            &mut writer,
        );
        let Some(writer) = writer else {
            outcome?;
            bail!("{}: no packets", input.display());
        };
        // If writing failed, that is the reason for any other failure.
        let (_, written_bytes) = writer
            .finish()
            .with_context(|| format!("cannot write {}", output.display()))?;
        Ok(Self {
            packets,
            cutter,
            temp_output,
            read_packets: outcome?,
            written_bytes,
        })
    }
}

fn copy(
    request: &Request,
    packets: &mut Packets<File>,
    cutter: &mut Cutter<'_>,
    temp_output: &TempOutput,
    kept_writer: &mut Option<BlockWriter>,
) -> Result<u64> {
    const CANNOT_WRITE: &str = "cannot write the part";
    let told = || request.input.display().to_string();
    let mut count = 0;
    let mut block = Vec::new();
    let explain = |error| explain_of(&request.input, error);
    while let Some(encoded) = packets.next().map_err(explain).with_context(told)? {
        count += 1;
        cutter.packet(encoded, &mut block);
        if block.len() >= BLOCK_BYTES || kept_writer.is_none() {
            let compress = packets.has_compressed_packets();
            let writer = match kept_writer {
                Some(writer) => writer,
                None => {
                    kept_writer.insert(BlockWriter::new(temp_output.file.try_clone()?, compress))
                }
            };
            let full = std::mem::replace(&mut block, writer.block());
            writer.put(Piece::Packets(full)).context(CANNOT_WRITE)?;
        }
    }
    cutter.finish(&facts(request), &mut block);
    if let Some(writer) = kept_writer {
        writer.put(Piece::Packets(block)).context(CANNOT_WRITE)?;
    }
    Ok(count)
}

/// What the part says of itself.
fn facts(request: &Request) -> Vec<(&'static str, String)> {
    let selection = &request.selection;
    let mut facts = vec![
        ("version", env!("CARGO_PKG_VERSION").to_owned()),
        ("of", short_name(&request.input)),
        ("from_ns", request.from_ns.to_string()),
    ];
    facts.extend(request.to_ns.map(|to_ns| ("to_ns", to_ns.to_string())));
    let picks = |picks: &[Pick]| {
        let words: Vec<String> = picks.iter().map(Pick::to_string).collect();
        words.join(", ")
    };
    let dropped: Vec<String> = selection.dropped.iter().map(Kind::to_string).collect();
    for (name, words) in [
        ("processes", picks(&selection.processes)),
        ("threads", picks(&selection.threads)),
        ("tracks", selection.tracks.join(", ")),
        ("dropped", dropped.join(", ")),
    ] {
        if !words.is_empty() {
            facts.push((name, words));
        }
    }
    facts
}

fn counted_as(selection: &Selection) -> String {
    let filters = [
        ("--process", selection.processes.is_empty()),
        ("--thread", selection.threads.is_empty()),
        ("--track", selection.tracks.is_empty()),
        ("--drop", selection.dropped.is_empty()),
    ];
    let used = filters.iter().filter(|(_, is_empty)| !is_empty);
    let used: Vec<&str> = used.map(|(name, _)| *name).collect();
    match used.as_slice() {
        [] => "nothing lies in this range".to_owned(),
        [one] => format!("what {one} says leaves nothing of the range"),
        used => format!("what {} say leaves nothing of the range", used.join(", ")),
    }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}
