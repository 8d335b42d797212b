//! What RCCL's proxies waited for: unions over channels for each rank, sums over ranks.

use crate::common::rows;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::job::collectives::Collectives;
use rsys_traces::model::{
    Batch, CollectiveCall, Model, Process, ProcessId, ProxyRecord, ProxyWork, ThreadId,
};
use serde_json::{Value, json};

/// Two ranks on two hosts, and what their proxies did.
struct Told {
    model: Model,
    batch: Batch,
}

/// An operation and its only step: waits of a step that sends are for GPU, peer and network; of one that receives for data, flush and GPU.
struct Proxy {
    rank: u64,
    name: &'static str,
    sequence: Option<u64>,
    channel: u64,
    is_send: bool,
    span: (u64, u64),
    waits_ns: [u64; 3],
}

impl Told {
    fn new() -> Self {
        let mut model = Model::default();
        for rank in 0..2_u32 {
            model.processes.push(Process {
                pid: 100 + rank,
                rank: Some(u64::from(rank) + 8),
                host: format!("node{rank}"),
                ..Process::default()
            });
        }
        Self {
            model,
            batch: Batch::default(),
        }
    }

    fn call(&mut self, rank: u64, name: &str, sequence: u64, peer: Option<u64>) {
        self.batch.collectives.push(CollectiveCall {
            link: 1 + self.batch.collectives.len() as u64,
            process: ProcessId::new(rank as usize),
            thread: ThreadId::new(rank as usize),
            name: self.model.texts.intern(name),
            communicator: self.model.texts.intern("comm"),
            data_type: self.model.texts.intern("float"),
            sequence: Some(sequence),
            bytes: 4096,
            rank: Some(rank),
            ranks: Some(2),
            peer,
            ..CollectiveCall::default()
        });
    }

    fn proxy(&mut self, proxy: &Proxy) {
        let texts = &mut self.model.texts;
        let operation = ProxyRecord {
            start_ns: proxy.span.0,
            end_ns: proxy.span.1,
            process: ProcessId::new(proxy.rank as usize),
            name: texts.intern(proxy.name),
            communicator: texts.intern("comm"),
            rank: Some(proxy.rank),
            sequence: proxy.sequence,
            channel: proxy.channel,
            peer: Some(1 - proxy.rank),
            is_send: proxy.is_send,
            ..ProxyRecord::default()
        };
        let [first, second, third] = proxy.waits_ns;
        let step = ProxyRecord {
            name: texts.intern("step"),
            work: ProxyWork::Step,
            ..operation
        };
        self.batch.proxies.push(match proxy.is_send {
            true => ProxyRecord {
                gpu_wait_ns: first,
                peer_wait_ns: second,
                network_ns: third,
                ..step
            },
            false => ProxyRecord {
                network_ns: first,
                flush_ns: second,
                gpu_wait_ns: third,
                ..step
            },
        });
        self.batch.proxies.push(operation);
    }

    fn table(&self) -> Vec<Value> {
        let mut collectives = Collectives::default();
        collectives.take(&self.batch);
        let answer = collectives.answer(&self.model, "test");
        match answer.tables.iter().any(|table| table.key == "proxies") {
            true => rows(&answer, "proxies"),
            false => Vec::new(),
        }
    }
}

const REDUCE: Proxy = Proxy {
    rank: 0,
    name: "ncclAllReduce",
    sequence: Some(0),
    channel: 0,
    is_send: true,
    span: (1_000, 2_000),
    waits_ns: [300, 200, 400],
};

/// Two all-reduces that overlap, on two channels and in both directions.
fn reduces() -> Told {
    let mut told = Told::new();
    for sequence in 0..2 {
        told.call(0, "ncclAllReduce", sequence, None);
        told.call(1, "ncclAllReduce", sequence, None);
    }
    told.proxy(&REDUCE);
    told.proxy(&Proxy {
        channel: 1,
        span: (1_200, 2_400),
        waits_ns: [300, 0, 600],
        ..REDUCE
    });
    told.proxy(&Proxy {
        is_send: false,
        span: (1_000, 1_500),
        waits_ns: [250, 50, 100],
        ..REDUCE
    });
    told.proxy(&Proxy {
        sequence: Some(1),
        span: (2_300, 2_500),
        waits_ns: [150, 0, 0],
        ..REDUCE
    });
    told.proxy(&Proxy {
        rank: 1,
        is_send: false,
        span: (1_000, 1_100),
        waits_ns: [60, 0, 30],
        ..REDUCE
    });
    told
}

#[test]
fn channels_that_wait_at_once_count_once() {
    let table = reduces().table();
    assert_eq!(table.len(), 1, "{table:#?}");
    let expected = json!({
        "operation": "ncclAllReduce",
        "data_type": "float",
        "message_bytes": 4096,
        "communicator": "comm",
        "ranks": 2,
        // 1,500 and 100.
        "work_ns": 1_600,
        // 1,000 to 1,500 and 2,300 to 2,450; 30.
        "gpu_wait_ns": 680,
        "peer_wait_ns": 200,
        // 1,500 to 2,100.
        "network_ns": 600,
        "data_wait_ns": 310,
        "flush_ns": 50,
        "slowest_peer": 1,
        "slowest": "rank 9 on node1",
        // 1,000 to 1,250 and 1,300 to 2,100.
        "slowest_wait_ns": 1_050,
    });
    let row = table[0].as_object().expect("an object");
    for (key, value) in expected.as_object().expect("an object") {
        assert_eq!(&row[key], value, "{key} of {row:#?}");
    }
    assert_eq!(row["gpu_wait_share"], 0.425);
}

#[test]
fn what_counts_separately_is_told_apart_by_its_name() {
    let mut told = reduces();
    let alone = told.table().remove(0);
    // A message that has the number of a collective.
    told.call(0, "ncclSend", 0, Some(1));
    told.proxy(&Proxy {
        name: "ncclSend",
        span: (5_000, 5_100),
        waits_ns: [40, 0, 0],
        ..REDUCE
    });
    // One whose call is not known, and one that has no number.
    for sequence in [Some(99), None] {
        told.proxy(&Proxy {
            name: "ncclRecv",
            sequence,
            is_send: false,
            span: (6_000, 6_100),
            waits_ns: [70, 0, 0],
            ..REDUCE
        });
    }
    let table = told.table();
    let all: Vec<_> = table
        .iter()
        .map(|row| (&row["operation"], &row["message_bytes"], &row["work_ns"]))
        .collect();
    assert_eq!(table[0], alone);
    assert_eq!(
        all[1..],
        [
            (&json!("ncclRecv"), &Value::Null, &json!(100)),
            (&json!("ncclSend"), &json!(4096), &json!(100)),
        ]
    );
}

#[test]
fn what_a_proxy_does_for_other_processes_is_left_out() {
    let mut told = reduces();
    let alone = told.table();
    told.proxy(&REDUCE);
    for record in told.batch.proxies.iter_mut().rev().take(2) {
        record.communicator = rsys_traces::model::TextId::EMPTY;
        record.end_ns += 10_000;
    }
    assert_eq!(told.table(), alone);
}

#[test]
fn nothing_is_said_where_proxies_were_not_recorded() {
    let mut told = reduces();
    told.batch.proxies.clear();
    assert!(told.table().is_empty());
}
