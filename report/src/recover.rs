//! `rsys-report recover`: finishes what a killed profiler left.
//!
//! All whole packets stay as they are, byte by byte. Behind them come the ends of the slices that were open, and an instant that says what was
//! done. The file as it was stays beside the new one.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use prost::Message;
use rsys_proto::fields::trace;
use rsys_proto::message::put_message;
use rsys_proto::reader::{PacketReader, ReadError};
use rsys_proto::schema::{
    self, DebugAnnotation, TracePacket, TrackDescriptor, TrackEvent, clock, event_type,
};

use crate::contents::Contents;
use crate::temp_output::TempOutput;
use crate::trace_info::explain_of;
use rsys_traces::perfetto::facts::{MetadataReader, RECOVERED};

/// What stands behind the name of the file as it was.
const KEPT: &str = "cut";

/// What was done with one trace.
#[derive(Debug, PartialEq, Eq)]
pub enum Recovery {
    /// It was finished before.
    Whole,
    /// It is finished now.
    Done {
        /// Slices that were open.
        closed: u64,
        /// Bytes at its end that were no whole packets.
        cut_bytes: u64,
        /// Samples in it.
        samples: u64,
        /// Where the file is as it was.
        original: PathBuf,
    },
}

/// Finishes a trace in place, or as `output`.
///
/// # Errors
/// When it cannot be read or written, holds no packet, or is being written.
pub fn recover(path: &Path, output: Option<&Path>) -> Result<Recovery> {
    let told = || path.display().to_string();
    if let Some(writer) = writer_of(path) {
        bail!(
            "{}: process {writer} is still writing it; wait for its end",
            path.display()
        );
    }
    let file = File::open(path).with_context(told)?;
    let file_bytes = file.metadata().with_context(told)?.len();
    let mut scan = Scan::of((path, &file), file_bytes).with_context(told)?;
    let (valid_bytes, damage) = (scan.valid_bytes, scan.damage.take());
    if damage.is_some() {
        // Packets of a damaged block may have been read before the damage was; they do not count.
        scan = Scan::of((path, &File::open(path).with_context(told)?), valid_bytes)
            .with_context(told)?;
    }
    let Scan {
        contents, metadata, ..
    } = scan;
    // Of short processes that share a trace the last one may lack its end.
    let has_all_ends = metadata.end.is_some() && metadata.ends >= metadata.starts;
    let finished = has_all_ends || metadata.part_end.is_some() || metadata.recovered.is_some();
    if damage.is_none()
        && contents.open_slices().is_empty()
        && (finished || metadata.start.is_none())
    {
        return Ok(Recovery::Whole);
    }
    if valid_bytes == 0 {
        bail!("{}: no whole packet is in it", path.display());
    }
    let cut_bytes = file_bytes - valid_bytes;
    let closed = contents.open_slices().values().sum();
    let mut tail = Vec::new();
    append_tail(&contents, cut_bytes, damage.as_deref(), &mut tail);

    let goal = output.unwrap_or(path);
    let original = match output {
        Some(_) => path.to_path_buf(),
        None => {
            let mut name = path.as_os_str().to_owned();
            name.push(format!(".{KEPT}"));
            PathBuf::from(name)
        }
    };
    if output.is_none() && original.exists() || output.is_some_and(Path::exists) {
        let taken = output.unwrap_or(&original);
        bail!("{} is already there; move it away", taken.display());
    }
    let mut temp_output = TempOutput::new(goal)?;
    let told = || format!("cannot write {}", goal.display());
    let mut source = File::open(path).with_context(told)?.take(valid_bytes);
    io::copy(&mut source, &mut temp_output.file).with_context(told)?;
    temp_output.file.write_all(&tail).with_context(told)?;
    temp_output.file.sync_all().with_context(told)?;
    if output.is_none() {
        // A second name first: at no moment is the original without one.
        std::fs::hard_link(path, &original)
            .or_else(|_| std::fs::rename(path, &original))
            .with_context(|| format!("cannot keep the original as {}", original.display()))?;
    }
    temp_output.keep()?;
    Ok(Recovery::Done {
        closed,
        cut_bytes,
        samples: contents.samples,
        original,
    })
}

/// What the whole packets at the start of a file hold.
struct Scan {
    contents: Contents,
    metadata: MetadataReader,
    valid_bytes: u64,
    damage: Option<String>,
}

impl Scan {
    fn of((path, file): (&Path, &File), bytes: u64) -> Result<Self> {
        let mut reader = PacketReader::new(file.take(bytes));
        let (mut contents, mut metadata) = (Contents::default(), MetadataReader::default());
        let mut damage = None;
        let valid_bytes = loop {
            match reader.next_encoded() {
                Ok(Some(encoded)) => {
                    metadata.packet(encoded);
                    if contents.packet(encoded).is_err() {
                        damage = Some("a malformed packet".to_owned());
                        break reader.packet_offset();
                    }
                }
                Ok(None) => match reader.truncation() {
                    None => break bytes,
                    Some(truncation) => {
                        damage = Some("it ends within a packet".to_owned());
                        break truncation.offset;
                    }
                },
                Err(error) => {
                    let offset = reader.packet_offset();
                    if offset == 0 || matches!(error, ReadError::Io(_)) {
                        return Err(explain_of(path, error));
                    }
                    damage = Some(error.to_string());
                    break offset;
                }
            }
        };
        Ok(Self {
            contents,
            metadata,
            valid_bytes,
            damage,
        })
    }
}

/// Appends the ends of open slices, and what was done.
fn append_tail(contents: &Contents, cut_bytes: u64, damage: Option<&str>, out: &mut Vec<u8>) {
    let sequence = contents.last_sequence().wrapping_add(1).max(1);
    let mut put = |mut packet: TracePacket| {
        packet.trusted_packet_sequence_id = Some(sequence);
        put_message(out, trace::PACKET, |body| {
            packet.encode(body).expect("a vector grows as needed");
        });
    };
    let event = |track: u64, kind: i32, event: TrackEvent| TracePacket {
        timestamp: Some(contents.last_ns()),
        timestamp_clock_id: Some(clock::BOOTTIME),
        track_event: Some(TrackEvent {
            r#type: Some(kind),
            track_uuid: Some(track),
            ..event
        }),
        ..TracePacket::default()
    };
    for (&track, &open) in &contents.open_slices() {
        for _ in 0..open {
            put(event(track, event_type::SLICE_END, TrackEvent::default()));
        }
    }
    // A track of its own: a second descriptor of the one called `rsys` would have to know its parent.
    let track = 0x7273_7973_0000_0000 ^ contents.last_ns();
    put(TracePacket {
        sequence_flags: Some(schema::SEQ_INCREMENTAL_STATE_CLEARED),
        track_descriptor: Some(Box::new(TrackDescriptor {
            uuid: Some(track),
            name: Some("rsys recover".to_owned()),
            ..TrackDescriptor::default()
        })),
        ..TracePacket::default()
    });
    let number = |name: &str, value| DebugAnnotation {
        name: Some(name.to_owned()),
        uint_value: Some(value),
        ..DebugAnnotation::default()
    };
    let mut facts = vec![
        number("samples", contents.samples),
        number("slices", contents.slices),
        number("slices_closed", contents.open_slices().values().sum()),
        number("cut_bytes", cut_bytes),
    ];
    if let Some(damage) = damage {
        facts.push(DebugAnnotation {
            name: Some("damage".to_owned()),
            string_value: Some(damage.to_owned()),
            ..DebugAnnotation::default()
        });
    }
    let instant = TrackEvent {
        name: Some(RECOVERED.to_owned()),
        debug_annotations: facts,
        ..TrackEvent::default()
    };
    put(event(track, event_type::INSTANT, instant));
}

/// A process on this machine that has the file open for writing, as far as we may look.
///
/// Processes of our own program do not count: they are we ourselves, and what we just forked, which has our files until it executes its own.
fn writer_of(path: &Path) -> Option<u32> {
    let goal = path.canonicalize().ok()?;
    let own = std::env::current_exe().ok();
    for process in std::fs::read_dir("/proc").ok()?.flatten() {
        let Some(pid) = process
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        let Ok(descriptors) = std::fs::read_dir(process.path().join("fd")) else {
            continue;
        };
        let is_open = descriptors.flatten().any(|descriptor| {
            std::fs::read_link(descriptor.path()).is_ok_and(|target| target == goal)
                && is_open_for_writing(&process.path(), &descriptor.file_name())
        });
        let is_own = || own.is_some() && std::fs::read_link(process.path().join("exe")).ok() == own;
        if is_open && !is_own() {
            return Some(pid);
        }
    }
    None
}

fn is_open_for_writing(process: &Path, descriptor: &std::ffi::OsStr) -> bool {
    let about = std::fs::read_to_string(process.join("fdinfo").join(descriptor));
    // The lowest two bits of the flags, which are octal: 0 is reading only.
    about.is_ok_and(|about| {
        let mut lines = about.lines();
        let flags = lines.find_map(|line| line.strip_prefix("flags:"));
        flags
            .and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok())
            .is_some_and(|flags| flags & 3 != 0)
    })
}
