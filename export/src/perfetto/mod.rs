//! Perfetto's traces with the packets that newer viewers have types for: operations as render stages of GPUs (since v55), samples as stack samples
//! (v58). What `rsys-sample` writes is read by older viewers too, and is what they should be given.
//!
//! | file | holds |
//! |---|---|
//! | `message` | the messages |
//! | `interned` | texts, call stacks, queues and so on, each written once |
//! | `records` | operations, marks, samples, counters |
//! | `slices` | calls and ranges |
//! | `archive` | many traces in one file |

mod archive;
mod interned;
mod message;
mod records;
mod slices;

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::Path;

use prost::Message;
use serde_json::json;

use crate::Failure;
use crate::rows::each;
use crate::run::Run;
use archive::Archive;
use interned::Interned;
use message::{Defaults, Packet, Process, StackSampleDefaults, Thread, TrackDescriptor};

/// All packets are of one sequence.
const SEQUENCE: u32 = 1;
/// Bits of `sequence_flags`: what was interned before is forgotten; what was interned is needed.
const CLEARED: u32 = 1;
const NEEDS_INTERNED: u32 = 2;

/// The field `packet` of a trace, with a length.
const PACKET: u8 = 0x0A;

/// A trace while it is written.
struct Trace<'r> {
    run: &'r Run<'r>,
    interned: Interned,
    /// How many tracks there are beside those of processes, threads and counters.
    tracks_beside: u64,
    bytes: Vec<u8>,
    out: &'r mut dyn Write,
}

/// The track of a process.
fn process_track(process: u64) -> u64 {
    (process + 1) << 32
}

/// The track of a thread; ids of threads have less than 32 bits.
fn thread_track(process: u64, tid: u64) -> u64 {
    process_track(process) | (tid + 1) & u64::from(u32::MAX)
}

/// Writes a trace.
///
/// # Errors
/// When the store is damaged, or `out` fails.
pub(crate) fn write(run: &Run<'_>, out: &mut dyn Write) -> Result<(), Failure> {
    let mut trace = Trace {
        run,
        interned: Interned::default(),
        tracks_beside: 0,
        bytes: Vec::new(),
        out,
    };
    trace.head()?;
    let submitted = match run.only.gpu {
        true => trace.operations()?,
        false => run.rows(),
    };
    if run.only.gpu || run.only.rccl {
        trace.calls(&submitted)?;
    }
    if run.only.ranges {
        trace.ranges()?;
        trace.marks()?;
    }
    if run.only.samples {
        trace.samples()?;
    }
    if run.only.sensors {
        trace.counters()?;
    }
    Ok(())
}

/// Writes an archive with a trace for each rank and a manifest that says on which host each ran.
///
/// # Errors
/// When the store is damaged, or the archive cannot be written.
pub(crate) fn write_archive(run: &Run<'_>, path: &Path) -> Result<(), Failure> {
    let mut archive = Archive::new(File::create_new(path)?);
    let mut files = Vec::new();
    let parts = run.by_rank();
    for (name, ids) in &parts {
        let path = format!("{name}.pftrace");
        let first = run.processes().find(|(id, _)| ids.contains(id));
        match first.map(|(_, process)| process.host.as_str()) {
            None | Some("") => files.push(json!({ "path": path })),
            Some(host) => files.push(json!({ "path": path, "machine": { "name": host } })),
        }
    }
    let manifest = json!({
        "perfetto_manifest": { "version": 1, "trace_time": { "clock": "BOOTTIME" }, "files": files },
    });
    archive.add("perfetto_manifest.json", |out| {
        Ok(writeln!(out, "{manifest}")?)
    })?;
    for (name, ids) in &parts {
        let part = run.part(ids);
        archive.add(&format!("{name}.pftrace"), |out| write(&part, out))?;
    }
    Ok(archive.finish()?)
}

impl Trace<'_> {
    /// Writes a packet, with what it refers to and was not written yet.
    fn put(&mut self, mut packet: Packet) -> Result<(), Failure> {
        packet.trusted_packet_sequence_id = SEQUENCE;
        packet.sequence_flags |= NEEDS_INTERNED;
        packet.interned_data = self.interned.take();
        self.bytes.clear();
        self.bytes.push(PACKET);
        packet
            .encode_length_delimited(&mut self.bytes)
            .map_err(std::io::Error::other)?;
        Ok(self.out.write_all(&self.bytes)?)
    }

    /// Processes and threads.
    fn head(&mut self) -> Result<(), Failure> {
        self.put(Packet {
            sequence_flags: CLEARED,
            defaults: Some(Defaults {
                stack_sample: Some(StackSampleDefaults {
                    source: "rsys".to_owned(),
                }),
            }),
            ..Packet::default()
        })?;
        let run = self.run;
        for (id, process) in run.processes() {
            self.describe(TrackDescriptor {
                uuid: process_track(id as u64),
                process: Some(Process {
                    pid: process.pid as i32,
                    process_name: process.title(),
                }),
                ..TrackDescriptor::default()
            })?;
        }
        let mut known = BTreeSet::new();
        each(
            run.view,
            "threads",
            &["process_id", "thread", "name"],
            |row| {
                let (id, tid) = (row.number(0), row.number(1));
                let Some(process) = run.process(id).filter(|_| known.insert((id, tid))) else {
                    return Ok(());
                };
                self.describe(TrackDescriptor {
                    uuid: thread_track(id, tid),
                    parent_uuid: Some(process_track(id)),
                    thread: Some(Thread {
                        pid: process.pid as i32,
                        tid: tid.cast_signed(),
                        thread_name: row.text(2).to_owned(),
                    }),
                    ..TrackDescriptor::default()
                })
            },
        )
    }

    fn describe(&mut self, track: TrackDescriptor) -> Result<(), Failure> {
        self.put(Packet {
            track_descriptor: Some(track),
            ..Packet::default()
        })
    }
}
