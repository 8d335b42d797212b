//! Profiles of JAX and TensorFlow in XPlane form, made by hand as XLA's profiler writes them for GPUs.

use rsys_analysis::show;
use rsys_proto::message::{put_bytes, put_message, put_u64};
use rsys_traces::model::{Activity, HostKind, OpKind};

use crate::common::{Scratch, asked, judge, read};

/// A value of a property.
enum Value<'v> {
    Number(u64),
    Text(&'v str),
    /// The name of another property stands for the text.
    Reference(u64),
}

/// Names of properties, by their numbers from 1 on.
const STATS: [&str; 7] = [
    "correlation_id",
    "hlo_op",
    "memcpy_details",
    "kernel_details",
    "step_num",
    "fusion.1",
    "hlo_module",
];

fn stat(out: &mut Vec<u8>, field: u32, name: u64, value: &Value<'_>) {
    put_message(out, field, |stat| {
        put_u64(stat, 1, name);
        match value {
            Value::Number(number) => put_u64(stat, 3, *number),
            Value::Text(text) => put_bytes(stat, 5, text.as_bytes()),
            Value::Reference(number) => put_u64(stat, 7, *number),
        }
    });
}

type Event<'e> = (u64, u64, u64, &'e [(u64, Value<'e>)]);

/// A line with events: name by number, begin and duration in picoseconds, properties.
fn line(out: &mut Vec<u8>, id: u64, name: &str, time_ns: u64, events: &[Event<'_>]) {
    put_message(out, 3, |line| {
        put_u64(line, 1, id);
        put_bytes(line, 2, name.as_bytes());
        put_u64(line, 3, time_ns);
        for (name, offset_ps, duration_ps, stats) in events {
            put_message(line, 4, |event| {
                put_u64(event, 1, *name);
                put_u64(event, 2, *offset_ps);
                put_u64(event, 3, *duration_ps);
                stats
                    .iter()
                    .for_each(|(name, value)| stat(event, 4, *name, value));
            });
        }
    });
}

fn plane(
    out: &mut Vec<u8>,
    id: u64,
    name: &str,
    events: &[&str],
    lines: impl FnOnce(&mut Vec<u8>),
) {
    put_message(out, 1, |plane| {
        if id > 0 {
            put_u64(plane, 1, id);
        }
        put_bytes(plane, 2, name.as_bytes());
        lines(plane);
        for (field, names) in [(4, events), (5, &STATS[..])] {
            for (number, name) in (1..).zip(names) {
                put_message(plane, field, |entry| {
                    put_u64(entry, 1, number);
                    put_message(entry, 2, |about| {
                        put_u64(about, 1, number);
                        put_bytes(about, 2, name.as_bytes());
                    });
                });
            }
        }
    });
}

fn space() -> Vec<u8> {
    let mut out = Vec::new();
    let gpu = ["gemm_fusion", "MemcpyH2D"];
    plane(&mut out, 1, "/device:GPU:0", &gpu, |out| {
        let link = |number| (1, Value::Number(number));
        let of = (2, Value::Reference(6));
        let grid = (
            4,
            Value::Text("regs:32 static_shared:0 grid:16,2,1 block:256,1,1"),
        );
        let size = (
            3,
            Value::Text("kind_src:pinned kind_dst:device size:4096 async:1"),
        );
        let stream = [
            (1, 10_000_000, 5_000_500, &[link(1), of, grid][..]),
            (2, 20_000_000, 1_000_000, &[link(2), size]),
        ];
        line(out, 14, "Stream #14(Compute,MemcpyH2D)", 1_000_000, &stream);
        // What is drawn of that once more.
        line(
            out,
            15,
            "XLA Ops",
            1_000_000,
            &[(1, 10_000_000, 5_000_500, &[])],
        );
    });
    let host = [
        "hipModuleLaunchKernel",
        "hipMemcpyAsync",
        "train",
        "$train.py:7 step",
    ];
    plane(&mut out, 0, "/host:CPU", &host, |out| {
        let step = [(5, Value::Number(3))];
        let events = [
            (4, 0, 40_000_000, &[][..]),
            (3, 1_000_000, 30_000_000, &step[..]),
            (1, 2_000_000, 1_000_000, &[(1, Value::Text("1"))]),
            (2, 4_000_000, 1_000_000, &[(1, Value::Number(2))]),
        ];
        line(out, 77, "python3", 1_000_000, &events);
    });
    put_bytes(&mut out, 4, b"node7");
    out
}

#[test]
fn operations_calls_steps_and_operators_are_read() {
    let scratch = Scratch::new();
    let path = scratch.write("node7.xplane.pb", &space());
    let (model, batch) = read(&path);
    assert_eq!(model.processes[0].host, "node7");
    assert!(model.notices.is_empty(), "{:?}", model.notices);
    let told: Vec<_> = batch
        .gpu
        .iter()
        .map(|one| {
            (
                model.text(one.name),
                one.kind,
                one.start_ns,
                one.end_ns,
                one.link,
                one.bytes,
            )
        })
        .collect();
    let expected = [
        ("gemm_fusion", OpKind::Kernel, 1_010_000, 1_015_000, 1, 0),
        ("MemcpyH2D", OpKind::Copy, 1_020_000, 1_021_000, 2, 4096),
    ];
    assert_eq!(told, expected);
    assert_eq!(model.text(batch.gpu[0].grid), "16\u{d7}2\u{d7}1");
    assert_eq!(model.text(batch.gpu[1].direction), "host to device");
    assert_eq!(batch.gpu[0].activity, Activity::Compute);
    let told: Vec<_> = batch
        .host
        .iter()
        .map(|one| (model.text(one.name), one.kind, one.start_ns))
        .collect();
    let expected = [
        ("$train.py:7 step", HostKind::Function, 1_000_000),
        ("train", HostKind::Range, 1_001_000),
        ("fusion.1", HostKind::Operator, 1_002_000),
        ("hipModuleLaunchKernel", HostKind::Runtime, 1_002_000),
        ("hipMemcpyAsync", HostKind::Runtime, 1_004_000),
    ];
    assert_eq!(told, expected);
}

#[test]
fn kernels_belong_to_operators_of_xla() {
    let scratch = Scratch::new();
    // By its content, whatever it is called.
    let path = scratch.write("profile.pb", &space());
    let all = asked(&[path]);
    for (_, answer) in &all {
        judge(&show::json(answer));
    }
    let (_, launch) = all.iter().find(|(name, _)| *name == "launch").unwrap();
    let rows = &show::json(launch)["gpu_operators"];
    assert_eq!(rows[0]["operator"], "fusion.1");
    assert_eq!(rows[0]["framework"], "XLA");
    assert_eq!(rows[0]["exclusive_ns"], 5_000);
}

#[test]
fn a_file_that_is_cut_off_counts_up_to_there() {
    let scratch = Scratch::new();
    let whole = space();
    for length in (0..whole.len()).step_by(7) {
        let path = scratch.write("cut.xplane.pb", &whole[..length]);
        let (model, _) = read(&path);
        let is_told = |text: &str| text.contains("what begins here is left out");
        let told = model
            .notices
            .iter()
            .filter(|one| is_told(&one.text))
            .count();
        assert!(told <= 1, "{length}: {:?}", model.notices);
    }
    let path = scratch.write("cut.xplane.pb", &whole[..whole.len() - 3]);
    let (model, batch) = read(&path);
    assert_eq!(batch.gpu.len(), 2);
    let notice = &model.notices[0];
    assert!(
        notice.text.contains("left out") && notice.offset.is_some(),
        "{notice}"
    );
}
