//! Which ranks are called stragglers: those that others have waited for, not all whose time before a collective was long.

use crate::common::rows;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::job::collectives::Collectives;
use rsys_traces::model::{
    Activity, Batch, CollectiveCall, GpuRecord, HostKind, HostSlice, Model, Process, ProcessId,
    ProxyRecord, ProxyWork, ThreadId,
};
use serde_json::Value;

const RANKS: u64 = 4;
const MICROSECOND: u64 = 1_000;

/// Ranks of one host, and what they did.
struct Told {
    model: Model,
    batch: Batch,
    links: u64,
}

impl Told {
    fn new() -> Self {
        let mut model = Model::default();
        for rank in 0..RANKS {
            model.processes.push(Process {
                pid: 100 + rank as u32,
                rank: Some(rank),
                host: "node0".to_owned(),
                boot_id: "b00t".to_owned(),
                ..Process::default()
            });
        }
        Self {
            model,
            batch: Batch::default(),
            links: 0,
        }
    }

    /// An all-reduce of some ranks: each with its begin; all end at once. Microseconds.
    fn collective(&mut self, communicator: &str, sequence: u64, begins: &[(u64, u64)], end: u64) {
        for (of_communicator, &(rank, begin)) in (0..).zip(begins) {
            self.links += 2;
            let (link, start_ns) = (self.links, begin * MICROSECOND);
            let (process, thread) = (ProcessId::new(rank as usize), ThreadId::new(rank as usize));
            self.batch.collectives.push(CollectiveCall {
                start_ns: start_ns - 10,
                end_ns: start_ns - 5,
                link,
                process,
                thread,
                name: self.model.texts.intern("ncclAllReduce"),
                communicator: self.model.texts.intern(communicator),
                data_type: self.model.texts.intern("bfloat16"),
                sequence: Some(sequence),
                bytes: 1 << 20,
                rank: Some(of_communicator),
                ranks: Some(begins.len() as u64),
                ..CollectiveCall::default()
            });
            // The launch ends in the call, and so before it.
            for (kind, link, at_ns) in [
                (HostKind::Runtime, link + 1, start_ns - 9),
                (HostKind::Collective, link, start_ns - 10),
            ] {
                self.batch.host.push(HostSlice {
                    start_ns: at_ns,
                    end_ns: start_ns - 5,
                    link,
                    process,
                    thread,
                    kind,
                    ..HostSlice::default()
                });
            }
            self.batch.gpu.push(GpuRecord {
                start_ns,
                end_ns: end * MICROSECOND,
                link: link + 1,
                process,
                activity: Activity::Comm,
                ..GpuRecord::default()
            });
        }
    }

    fn tables(&self) -> [Vec<Value>; 2] {
        let mut collectives = Collectives::default();
        collectives.take(&self.batch);
        let answer = collectives.answer(&self.model, "test");
        ["ranks", "stragglers"].map(|table| rows(&answer, table))
    }
}

/// Rank 2 is in fewer collectives than the others, so that the time from its last one to the next is long. It comes first or last to that.
fn with_a_long_segment(arrives: u64) -> Told {
    let mut told = Told::new();
    for step in 0..20 {
        let at = 1_000 + 1_000 * step;
        told.collective("some", step, &[(0, at), (1, at), (3, at)], at + 400);
        let late = at + arrives;
        let begins = [(0, at + 500), (1, at + 501), (2, late), (3, at + 502)];
        told.collective("all", step, &begins, at + 600);
    }
    told
}

fn of_rank_2(ranks: &[Value], key: &str) -> u64 {
    let row = ranks.iter().find(|row| row["rank"] == 2);
    row.and_then(|row| row[key].as_u64()).unwrap_or_default()
}

#[test]
fn a_rank_that_nobody_waited_for_is_no_straggler() {
    let [ranks, stragglers] = with_a_long_segment(450).tables();
    // By its segments alone it would stand out.
    assert!(of_rank_2(&ranks, "late_ns") > 2_000_000, "{ranks:#?}");
    assert_eq!(of_rank_2(&ranks, "blame_ns"), 0, "{ranks:#?}");
    assert!(stragglers.is_empty(), "{stragglers:#?}");
}

#[test]
fn the_same_rank_is_one_when_others_wait_for_it() {
    let [ranks, stragglers] = with_a_long_segment(560).tables();
    assert!(of_rank_2(&ranks, "blame_ns") > 0, "{ranks:#?}");
    assert_eq!(stragglers.len(), 1, "{stragglers:#?}");
    assert_eq!(stragglers[0]["rank"], 2);
}

/// An operation of the proxies of a rank with the one that is late, whose only step waited for data.
fn waited_for_rank_2(told: &mut Told, by: u64, data_wait_ns: u64) {
    let operation = ProxyRecord {
        start_ns: 1_000_000,
        end_ns: 2_000_000,
        process: ProcessId::new(by as usize),
        name: told.model.texts.intern("ncclAllReduce"),
        communicator: told.model.texts.intern("all"),
        rank: Some(by),
        sequence: Some(0),
        peer: Some(2),
        ..ProxyRecord::default()
    };
    told.batch.proxies.push(ProxyRecord {
        work: ProxyWork::Step,
        network_ns: data_wait_ns,
        ..operation
    });
    told.batch.proxies.push(operation);
}

#[test]
fn what_proxies_waited_for_a_straggler_is_told_where_it_is_telling() {
    let words = |told: &Told| told.tables()[1][0]["words"].to_string();
    let mut told = with_a_long_segment(560);
    assert!(!words(&told).contains("proxies"), "{}", words(&told));
    // What its own proxies waited for does not count.
    waited_for_rank_2(&mut told, 2, 900_000);
    waited_for_rank_2(&mut told, 1, 9_000);
    assert!(!words(&told).contains("proxies"), "{}", words(&told));
    waited_for_rank_2(&mut told, 3, 600_000);
    let expected = "RCCL's proxies of other ranks waited 609.0 \u{b5}s for transfers with it, 30 % of their time; most those of rank 3: 600.0 \u{b5}s";
    assert!(words(&told).contains(expected), "{}", words(&told));
}
