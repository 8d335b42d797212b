//! Traces in memory, made of records that are written as an agent writes them.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex};

use rsys_config::Numbers;
use rsys_config::rank::Rank;
use rsys_proto::reader::PacketReader;
use rsys_wire::event::{Category, put_mark};
use rsys_wire::record::{put_sample, put_thread_start};
use rsys_wire::ring::{Consumer, Producer, RingHeader};

use super::*;
use crate::emit::account::{AgentCounts, End};
use crate::emit::outcome::ProcessSummary;
use crate::emit::output::sink::{Opened, Sink, Sinks};
use crate::resolve::{CacheLocation, Resolver, ResolverOptions};
use crate::run::layout::FileId;

/// A sink whose bytes a test can read, with room for `room` of them.
#[derive(Debug, Clone)]
struct Memory {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut kept = self.bytes.lock().expect("no panic");
        let taken = bytes.len().min(self.room - kept.len());
        kept.extend_from_slice(&bytes[..taken]);
        match taken {
            0 if !bytes.is_empty() => Err(io::ErrorKind::StorageFull.into()),
            taken => Ok(taken),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink for Memory {
    fn cut_to(&mut self, bytes: u64) -> io::Result<()> {
        let mut kept = self.bytes.lock().expect("no panic");
        kept.truncate(usize::try_from(bytes).expect("it fits"));
        Ok(())
    }

    fn close(self: Box<Self>) -> io::Result<()> {
        Ok(())
    }
}

/// Opens the same memory for each process, and counts how often.
#[derive(Debug)]
struct Memories {
    memory: Memory,
    opened: usize,
}

impl Sinks for Memories {
    fn announce(&mut self, _: &Identity, _: &RunContext) {}

    fn open(&mut self, _: &Identity, _: &RunContext) -> io::Result<Opened> {
        self.opened += 1;
        Ok(Opened {
            sink: Box::new(self.memory.clone()),
            path: None,
            id: FileId::default(),
        })
    }

    fn open_further(&mut self, id: FileId, _: &Identity, _: &RunContext) -> io::Result<Opened> {
        self.opened += 1;
        Ok(Opened {
            sink: Box::new(self.memory.clone()),
            path: None,
            id,
        })
    }

    fn open_shared(&mut self, identity: &Identity, run: &RunContext) -> io::Result<Option<Opened>> {
        self.open(identity, run).map(Some)
    }
}

/// The trace of a process that wrote `words`, in a sink with `room`: its bytes, how often it was
/// opened, and what became of it.
fn traced(
    run: &RunContext,
    rank: Option<Rank>,
    words: Vec<u64>,
    room: usize,
) -> (Vec<u8>, usize, ProcessSummary) {
    let memory = Memory {
        bytes: Arc::default(),
        room,
    };
    let mut sinks = Memories {
        memory: memory.clone(),
        opened: 0,
    };
    let resolver = Resolver::new(ResolverOptions {
        cache: CacheLocation::Disabled,
        ..ResolverOptions::default()
    });
    let mut tools = Tools {
        run,
        resolver: &resolver,
        sinks: &mut sinks,
        heartbeat: &AtomicU64::new(0),
        hurry: &AtomicBool::new(false),
    };
    let identity = Identity {
        pid: 7,
        host_pid: 0,
        start_time_ns: 1,
        rank,
        ..Identity::default()
    };
    let mut trace = ProcessTrace::new(identity, run);
    let ring = RingWords {
        ring: 0,
        words,
        after_damage: false,
    };
    let batch = Batch {
        words: vec![ring],
        later: Vec::new(),
    };
    trace.take(batch, &mut tools);
    let summary = trace.finish(End::Process, AgentCounts::default(), &mut tools);
    let bytes = memory.bytes.lock().expect("no panic").clone();
    (bytes, sinks.opened, summary)
}

/// What `write` puts into a ring.
fn words(write: impl FnOnce(&Producer<'_>)) -> Vec<u64> {
    let header = RingHeader::new();
    let words: Vec<AtomicU64> = (0..1 << 16).map(|_| AtomicU64::new(0)).collect();
    write(&Producer::new(&header, &words).expect("a power of two"));
    let mut out = Vec::new();
    Consumer::new(&header, &words)
        .expect("a power of two")
        .drain(&mut out);
    out
}

/// A thread and `count` samples of it, each with a stack of its own.
fn samples(count: u64) -> Vec<u64> {
    words(|ring| {
        assert!(put_thread_start(
            ring,
            2,
            8,
            0,
            b"worker\0\0\0\0\0\0\0\0\0\0",
            0
        ));
        for sample in 0..count {
            let frames = [0x1000 + sample];
            assert!(put_sample(ring, 10 + sample, 1, 0, 0, &frames));
        }
    })
}

fn packets(bytes: &[u8]) -> usize {
    let mut reader = PacketReader::new(bytes);
    let mut count = 0;
    while reader.next_packet().expect("a valid trace").is_some() {
        count += 1;
    }
    assert_eq!(reader.truncation(), None);
    count
}

#[test]
fn a_trace_goes_wherever_its_sink_leads() {
    let (bytes, opened, summary) = traced(&RunContext::everything(), None, samples(50), 1 << 20);
    assert_eq!((opened, summary.tally.samples), (1, 50));
    assert!(packets(&bytes) > 50, "{}", packets(&bytes));
    assert_eq!(summary.trouble, None);
}

#[test]
fn a_sink_that_is_full_keeps_whole_packets() {
    let (all, ..) = traced(&RunContext::everything(), None, samples(2000), 1 << 20);
    let room = all.len() - 5;
    let (bytes, opened, summary) = traced(&RunContext::everything(), None, samples(2000), room);
    assert_eq!(opened, 1, "it is not opened again");
    assert!(bytes.len() <= room);
    packets(&bytes);
    let trouble = summary.trouble.expect("it is said");
    assert!(trouble.contains("cannot be written further"), "{trouble}");
}

#[test]
fn ranks_that_are_not_selected_open_no_trace() {
    let run = RunContext {
        ranks: Numbers::parse("0").expect("a number"),
        ..RunContext::everything()
    };
    let rank = |rank| {
        Some(Rank {
            rank,
            source: "RANK",
            size: None,
            local_rank: None,
            local_size: None,
            node: None,
            restart: 0,
        })
    };
    let recorded: [fn() -> Vec<u64>; 2] = [
        || samples(50),
        || words(|ring| assert!(put_mark(ring, 10, Category::Roctx, 0, 0, &[]))),
    ];
    for recorded in recorded {
        let (_, opened, _) = traced(&run, rank(0), recorded(), 1 << 20);
        assert_eq!(opened, 1);
        let (_, opened, _) = traced(&run, rank(1), recorded(), 1 << 20);
        assert_eq!(opened, 0);
    }
}
