//! Exports of Nsight Systems, made by hand after the schema of its documentation.

use rsys_databases::OPENER;
use rsys_traces::model::{Activity, Batch, HostKind, Kinds, Model, OpKind};
use rusqlite::Connection;

/// Process 70, threads 70 and 71, as the file numbers them.
const PROCESS: i64 = (9 << 48) | (70 << 24);
const MAIN: i64 = PROCESS | 70;
const OTHER: i64 = PROCESS | 71;

fn read(name: &str, tables: &str) -> (Model, Batch) {
    let file = std::env::temp_dir().join(format!("rsys-nsys-{}-{name}.sqlite", std::process::id()));
    let database = Connection::open(&file).unwrap();
    database.execute_batch(tables).unwrap();
    drop(database);
    let (mut model, mut batch) = (Model::default(), Batch::default());
    let mut reader = (OPENER.open)(&file, Kinds::ALL).unwrap();
    while reader.read(&mut model, &mut batch) {}
    std::fs::remove_file(&file).unwrap();
    (model, batch)
}

#[test]
fn all_that_was_recorded_is_read() {
    let (model, batch) = read(
        "all",
        &format!(
            "
create table StringIds (id integer primary key, value text);
insert into StringIds values (1, 'cudaLaunchKernel_v7000'), (2, 'cudaMemcpyAsync_ptsz_v3020'), (3, 'void gemm<float>(float*)'), (4, 'gemm'),
    (5, 'poll'), (6, 'step 1'), (7, 'loader'), (8, 'ncclDevKernel_AllReduce_Sum_f32_RING_LL');
create table TARGET_INFO_SYSTEM_ENV (globalVid int, devStateName text, name text, nameEnum int, value text);
insert into TARGET_INFO_SYSTEM_ENV values (1, '', 'Hostname', 1, 'node07');
create table PROCESSES (globalPid int, pid int, name text);
insert into PROCESSES values ({PROCESS}, 70, 'python3');
create table ThreadNames (nameId int, priority int, globalTid int);
insert into ThreadNames values (7, 0, {OTHER});
create table TARGET_INFO_GPU (id int, name text);
insert into TARGET_INFO_GPU values (0, 'NVIDIA H100 80GB HBM3');
create table CUPTI_ACTIVITY_KIND_RUNTIME (start int, end int, eventClass int, globalTid int, correlationId int, nameId int, returnValue int);
insert into CUPTI_ACTIVITY_KIND_RUNTIME values (100, 110, 0, {MAIN}, 11, 1, 0), (120, 130, 0, {MAIN}, 12, 2, 0), (140, 150, 0, {MAIN}, 13, 1, 0);
create table OSRT_API (start int, end int, eventClass int, globalTid int, correlationId int, nameId int, returnValue int);
insert into OSRT_API values (50, 90, 27, {OTHER}, 3, 5, 0);
create table NVTX_EVENTS (start int, end int, eventType int, rangeId int, text text, globalTid int, textId int, domainId int);
insert into NVTX_EVENTS values (0, null, 75, null, 'NCCL', {MAIN}, null, 2), (90, 200, 59, null, null, {MAIN}, 6, 0), (140, 152, 59, null, 'ncclAllReduce', {MAIN}, null, 2),
    (160, null, 34, null, 'saved', {MAIN}, null, 0), (170, null, 60, 5, 'epoch', {MAIN}, null, 0);
create table CUPTI_ACTIVITY_KIND_KERNEL (start int, end int, deviceId int, contextId int, streamId int, correlationId int, globalPid int, demangledName int,
    shortName int, gridX int, gridY int, gridZ int);
insert into CUPTI_ACTIVITY_KIND_KERNEL values (115, 165, 0, 1, 7, 11, {PROCESS}, 3, 4, 8, 2, 1), (170, 190, 0, 1, 20, 13, {PROCESS}, 8, 8, 24, 1, 1),
    (300, 290, 0, 1, 7, 14, {PROCESS}, 3, 4, 8, 2, 1);
create table CUPTI_ACTIVITY_KIND_MEMCPY (start int, end int, deviceId int, contextId int, streamId int, correlationId int, globalPid int, bytes int, copyKind int);
insert into CUPTI_ACTIVITY_KIND_MEMCPY values (166, 168, 0, 1, 7, 12, {PROCESS}, 4096, 1);
create table CUPTI_ACTIVITY_KIND_MEMSET (start int, end int, deviceId int, contextId int, streamId int, correlationId int, globalPid int, bytes int);
insert into CUPTI_ACTIVITY_KIND_MEMSET values (192, 193, 0, 1, 7, 0, {PROCESS}, 64);
"
        ),
    );
    let [process] = model.processes.as_slice() else {
        panic!("{:?}", model.processes);
    };
    assert_eq!(
        (process.pid, process.name.as_str(), process.host.as_str()),
        (70, "python3", "node07")
    );
    assert_eq!(model.devices[0].name, "NVIDIA H100 80GB HBM3");
    let loader = model.threads.iter().find(|one| one.tid == 71).unwrap();
    assert_eq!(model.text(loader.name), "loader");

    let host: Vec<_> = batch
        .host
        .iter()
        .map(|one| {
            (
                one.start_ns,
                one.end_ns,
                one.kind,
                model.text(one.name),
                one.link,
            )
        })
        .collect();
    let expected = [
        (100, 110, HostKind::Runtime, "cudaLaunchKernel", 11),
        (120, 130, HostKind::Runtime, "cudaMemcpyAsync", 12),
        (140, 150, HostKind::Runtime, "cudaLaunchKernel", 13),
        (50, 90, HostKind::Wait, "poll", 0),
        (90, 200, HostKind::Range, "step 1", 0),
        (140, 152, HostKind::Collective, "ncclAllReduce", 0),
    ];
    assert_eq!(host, expected);
    let marks: Vec<_> = batch
        .marks
        .iter()
        .map(|one| (one.time_ns, model.text(one.name)))
        .collect();
    assert_eq!(marks, [(160, "saved"), (170, "epoch")]);

    let gpu: Vec<_> = batch
        .gpu
        .iter()
        .map(|one| {
            (
                one.start_ns,
                one.end_ns,
                one.kind,
                model.text(one.name),
                one.link,
                one.bytes,
            )
        })
        .collect();
    let expected = [
        (115, 165, OpKind::Kernel, "void gemm<float>(float*)", 11, 0),
        (
            170,
            190,
            OpKind::Kernel,
            "ncclDevKernel_AllReduce_Sum_f32_RING_LL",
            13,
            0,
        ),
        (166, 168, OpKind::Copy, "memcpy host to device", 12, 4096),
        (192, 193, OpKind::Fill, "memset", 0, 64),
    ];
    assert_eq!(gpu, expected);
    assert_eq!(batch.gpu[1].activity, Activity::Comm);
    assert_eq!(model.text(batch.gpu[0].grid), "8\u{d7}2\u{d7}1");
    assert_eq!(model.text(batch.gpu[2].direction), "host to device");
    let notices: Vec<&str> = model.notices.iter().map(|one| one.text.as_str()).collect();
    assert_eq!(
        notices,
        [
            "1 ranges of NVTX never ended: their starts are marks",
            "1 of CUPTI_ACTIVITY_KIND_KERNEL without times that make sense are left out, the first with id 300"
        ]
    );
}

/// Older versions and narrow exports lack columns and tables.
#[test]
fn what_is_missing_costs_nothing_else() {
    let (model, batch) = read(
        "little",
        &format!(
            "
create table StringIds (id integer primary key, value text);
insert into StringIds values (1, 'cuLaunchKernel'), (4, 'gemm');
create table CUPTI_ACTIVITY_KIND_RUNTIME (start int, end int, globalTid int, correlationId int, nameId int);
insert into CUPTI_ACTIVITY_KIND_RUNTIME values (100, 110, {MAIN}, 11, 1);
create table NVTX_EVENTS (start int, end int, text text, globalTid int);
insert into NVTX_EVENTS values (90, 200, 'step', {MAIN});
create table CUPTI_ACTIVITY_KIND_KERNEL (start int, end int, deviceId int, streamId int, correlationId int, shortName int);
insert into CUPTI_ACTIVITY_KIND_KERNEL values (115, 165, 0, 7, 11, 4);
create table CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start int, end int, deviceId int, streamId int, correlationId int, graphId int);
insert into CUPTI_ACTIVITY_KIND_GRAPH_TRACE values (215, 265, 0, 7, 21, 3);
"
        ),
    );
    assert_eq!(model.processes.len(), 1, "{:?}", model.processes);
    assert_eq!(model.processes[0].pid, 70);
    let names: Vec<&str> = batch.gpu.iter().map(|one| model.text(one.name)).collect();
    assert_eq!(names, ["gemm", "graph 3"]);
    assert_eq!(batch.host.len(), 2);
    assert!(model.notices.is_empty(), "{:?}", model.notices);
}

/// The driver's call within one of the runtime has its number; the outer one made the operation, whatever the order of rows is.
#[test]
fn operations_are_of_the_outer_call() {
    let calls = [
        format!("(100, 140, {MAIN}, 11, 1)"),
        format!("(110, 130, {MAIN}, 11, 2)"),
    ];
    for order in [[0, 1], [1, 0]] {
        let rows = order.map(|number: usize| calls[number].as_str()).join(", ");
        let (model, batch) = read(
            "nested",
            &format!(
                "
create table StringIds (id integer primary key, value text);
insert into StringIds values (1, 'cudaLaunchKernel_v7000'), (2, 'cuLaunchKernel');
create table CUPTI_ACTIVITY_KIND_RUNTIME (start int, end int, globalTid int, correlationId int, nameId int);
insert into CUPTI_ACTIVITY_KIND_RUNTIME values {rows};
create table CUPTI_ACTIVITY_KIND_KERNEL (start int, end int, deviceId int, streamId int, correlationId int, shortName int);
insert into CUPTI_ACTIVITY_KIND_KERNEL values (115, 165, 0, 7, 11, 77);
"
            ),
        );
        let mut links: Vec<_> = batch
            .host
            .iter()
            .map(|one| (model.text(one.name), one.link))
            .collect();
        links.sort_unstable();
        assert_eq!(links, [("cuLaunchKernel", 0), ("cudaLaunchKernel", 11)]);
        assert_eq!(model.text(batch.gpu[0].name), "[unknown]");
    }
}

/// Nothing but ranges and calls of the system was recorded.
#[test]
fn an_export_without_cuda_is_one() {
    let (_, batch) = read(
        "ranges",
        &format!(
            "
create table StringIds (id integer primary key, value text);
create table NVTX_EVENTS (start int, end int, eventType int, text text, globalTid int);
insert into NVTX_EVENTS values (90, 200, 59, 'step', {MAIN});
"
        ),
    );
    assert_eq!(batch.host.len(), 1);
}
