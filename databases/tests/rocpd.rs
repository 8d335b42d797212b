//! Databases of rocprofiler-sdk, made by hand: where rows say their place (3.x), where they have tracks (4.x), and of two processes in one file.

use std::path::PathBuf;

use rsys_databases::OPENER;
use rsys_traces::model::{Batch, HostKind, Kinds, Model};
use rusqlite::Connection;

/// Tables that all versions have. `#` stands for what is behind the names.
const COMMON: &str = "
create table rocpd_metadata# (id integer primary key, tag text, value text);
create table rocpd_string# (id integer primary key, guid text, string text);
create table rocpd_info_node# (id integer primary key, hostname text);
create table rocpd_info_process# (id integer primary key, nid integer, pid integer);
create table rocpd_info_thread# (id integer primary key, nid integer, pid integer, tid integer);
create table rocpd_info_agent# (id integer primary key, nid integer, pid integer, type text, logical_index integer, type_index integer);
create table rocpd_info_kernel_symbol# (id integer primary key, kernel_name text, display_name text);
create table rocpd_event# (id integer primary key, category_id integer, stack_id integer, parent_stack_id integer, correlation_id integer, extdata text);
insert into rocpd_metadata# values (1, 'schema_version', '3'), (2, 'guid', 'x');
insert into rocpd_string# values (1, 'g', 'HIP_RUNTIME_API'), (2, 'g', 'MARKER_CORE_API'), (3, 'g', 'hipLaunchKernel'), (4, 'g', 'roctxThreadRangeA'),
    (5, 'g', 'MEMORY_COPY_DEVICE_TO_HOST'), (6, 'g', 'roctxRangePop');
insert into rocpd_info_node# values (7, 'n1');
insert into rocpd_info_process# values (1, 7, @);
insert into rocpd_info_thread# values (1, 7, 1, 77);
insert into rocpd_info_agent# values (1, 7, 1, 'CPU', 0, 0), (2, 7, 1, 'GPU', 1, 0), (3, 7, 1, 'GPU', 2, 1);
insert into rocpd_info_kernel_symbol# values (1, '_Z4gemm', 'gemm(float*)'), (2, 'fill', null);
insert into rocpd_event# values (1, 1, 21, 0, 0, '{}'), (2, 2, 22, 0, 0, '{\"message\": \"step 1\"}'), (3, 1, 21, 0, 0, 'no JSON'), (4, 1, 23, 0, 0, '{}'),
    (5, 2, 24, 0, 0, '{}');
";

const VERSION_3: &str = "
create table rocpd_region# (id integer primary key, nid integer, pid integer, tid integer, start bigint, end bigint, name_id integer, event_id integer);
create table rocpd_kernel_dispatch# (id integer primary key, nid integer, pid integer, tid integer, agent_id integer, kernel_id integer, queue_id integer,
    stream_id integer, start bigint, end bigint, grid_size_x integer, grid_size_y integer, grid_size_z integer, event_id integer);
create table rocpd_memory_copy# (id integer primary key, nid integer, pid integer, tid integer, start bigint, end bigint, name_id integer,
    dst_agent_id integer, src_agent_id integer, size integer, queue_id integer, stream_id integer, event_id integer);
create table rocpd_memory_allocate# (id integer primary key, nid integer, pid integer, tid integer, agent_id integer, type text, level text,
    start bigint, end bigint, address integer, size integer, event_id integer);
insert into rocpd_region# values (1, 7, 1, 1, 90, 95, 3, 1), (2, 7, 1, 1, 80, 400, 4, 2), (3, 7, 1, 1, 400, 400, 6, 5);
insert into rocpd_kernel_dispatch# values (1, 7, 1, 1, 3, 1, 4, 2, 100, 250, 64, 2, 1, 3), (2, 7, 1, 1, 3, 2, 4, 0, 260, 255, 1, 1, 1, null),
    (3, 7, 1, 1, 2, 2, 4, 0, 260, 300, 1, 1, 1, null);
insert into rocpd_memory_copy# values (1, 7, 1, 1, 400, 420, 5, 1, 3, 4096, 4, 2, 4);
insert into rocpd_memory_allocate# values (1, 7, 1, 1, 3, 'ALLOC', 'REAL', 50, 55, 32512, 1024, null);
";

const VERSION_4: &str = "
create table rocpd_track# (id integer primary key, nid integer, pid integer, tid integer, agent_id integer, queue_id integer, stream_id integer, name_id integer);
create table rocpd_info_category# (id integer primary key, name text);
create table rocpd_region# (id integer primary key, track_id integer, name_id integer, start bigint, end bigint, event_id integer);
create table rocpd_kernel_dispatch# (id integer primary key, track_id integer, kernel_id integer, start bigint, end bigint, grid_size_x integer,
    grid_size_y integer, grid_size_z integer, event_id integer);
create table rocpd_memory_copy# (id integer primary key, track_id integer, start bigint, end bigint, name_id integer, dst_agent_id integer,
    src_agent_id integer, size integer, event_id integer);
create table rocpd_memory_allocate# (id integer primary key, track_id integer, type text, level text, start bigint, end bigint, address integer, size integer,
    event_id integer);
insert into rocpd_track# values (1, 7, 1, 1, null, null, null, null), (2, 7, 1, 1, 3, 4, 2, null), (3, 7, 1, 1, 2, 4, 0, null);
insert into rocpd_info_category# values (1, 'HIP_RUNTIME_API'), (2, 'MARKER_CORE_API');
insert into rocpd_region# values (1, 1, 3, 90, 95, 1), (2, 1, 4, 80, 400, 2), (3, 1, 6, 400, 400, 5);
insert into rocpd_kernel_dispatch# values (1, 2, 1, 100, 250, 64, 2, 1, 3), (2, 2, 2, 260, 255, 1, 1, 1, null), (3, 3, 2, 260, 300, 1, 1, 1, null);
insert into rocpd_memory_copy# values (1, 2, 400, 420, 5, 1, 3, 4096, 4);
insert into rocpd_memory_allocate# values (1, 1, 'ALLOC', 'REAL', 50, 55, 32512, 1024, null);
";

/// A database that these statements make.
fn database(name: &str, sql: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("rsys-rocpd-{}-{name}.db", std::process::id()));
    std::fs::remove_file(&path).ok();
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    path
}

fn read(path: &PathBuf) -> (Model, Batch) {
    let (mut model, mut batch) = (Model::default(), Batch::default());
    let mut reader = (OPENER.open)(path, Kinds::ALL).unwrap();
    while reader.read(&mut model, &mut batch) {}
    std::fs::remove_file(path).ok();
    (model, batch)
}

fn check(model: &Model, batch: &Batch, pids: &[u32]) {
    let found: Vec<u32> = model.processes.iter().map(|process| process.pid).collect();
    assert_eq!(found, pids);
    assert!(model.processes.iter().all(|process| process.host == "n1"));
    for number in 0..pids.len() {
        let operations: Vec<_> = batch
            .gpu
            .iter()
            .filter(|record| record.process.index() == number)
            .map(|record| {
                let device = model.device(record.device).ordinal;
                let place = (device, model.text(model.queues[record.queue.index()].name));
                let times = (record.start_ns, record.end_ns, record.link);
                let direction = model.text(record.direction);
                (
                    model.text(record.name),
                    place,
                    times,
                    record.bytes,
                    model.text(record.grid),
                    direction,
                )
            })
            .collect();
        assert_eq!(
            operations,
            [
                (
                    "gemm(float*)",
                    (1, "queue 2"),
                    (100, 250, 21),
                    0,
                    "64\u{d7}2\u{d7}1",
                    ""
                ),
                (
                    "fill",
                    (0, "queue 4"),
                    (260, 300, 0),
                    0,
                    "1\u{d7}1\u{d7}1",
                    ""
                ),
                (
                    "MEMORY_COPY_DEVICE_TO_HOST",
                    (1, "queue 2"),
                    (400, 420, 23),
                    4096,
                    "",
                    "device to host"
                ),
            ]
        );
        let host: Vec<_> = batch
            .host
            .iter()
            .filter(|slice| slice.process.index() == number)
            .map(|slice| {
                let tid = model.threads[slice.thread.index()].tid;
                (
                    model.text(slice.name),
                    slice.kind,
                    slice.link,
                    tid,
                    slice.start_ns,
                    slice.bytes,
                    slice.address,
                )
            })
            .collect();
        assert_eq!(
            host,
            [
                ("hipLaunchKernel", HostKind::Runtime, 21, 77, 90, 0, 0),
                ("step 1", HostKind::Range, 0, 77, 80, 0, 0),
                (
                    "MEMORY_ALLOCATION_ALLOCATE",
                    HostKind::Hsa,
                    0,
                    77,
                    50,
                    1024,
                    32512
                ),
            ]
        );
    }
    // A kernel that ends before it begins.
    assert_eq!(model.notices.len(), pids.len(), "{:?}", model.notices);
    let said = &model.notices[0].text;
    assert!(
        said.contains("1 of rocpd_kernel_dispatch") && said.contains("id 2"),
        "{said}"
    );
}

fn statements(suffix: &str, pid: u32, version: &str) -> String {
    let sql = COMMON.to_owned() + version;
    sql.replace('#', suffix).replace('@', &pid.to_string())
}

#[test]
fn both_versions_hold_the_same() {
    for (name, version) in [("three", VERSION_3), ("four", VERSION_4)] {
        for suffix in ["", "_0190ab_cd"] {
            let path = database(
                &format!("{name}{suffix}"),
                &statements(suffix, 4711, version),
            );
            let (model, batch) = read(&path);
            check(&model, &batch, &[4711]);
        }
    }
}

#[test]
fn processes_of_one_file_stay_apart() {
    let sql = statements("_a", 4711, VERSION_3)
        + &statements("_b", 4712, VERSION_4)
        + "create view rocpd_info_process as select * from rocpd_info_process_a union all select * from rocpd_info_process_b;";
    let (model, batch) = read(&database("both", &sql));
    check(&model, &batch, &[4711, 4712]);
}

/// Files of several hosts, attached to one: equal process ids are those of different processes where the hosts are different ones. Ranks are as rsys writes them.
#[test]
fn equal_process_ids_of_different_hosts_stay_apart() {
    let sql = statements("_a", 4711, VERSION_3)
        + &statements("_b", 4711, VERSION_4)
        + "update rocpd_info_node_b set hostname = 'n2';
        alter table rocpd_info_process_b add column extdata text;
        update rocpd_info_process_b set extdata = '{\"rank\": 3}';";
    let (model, batch) = read(&database("hosts", &sql));
    let found: Vec<_> = model
        .processes
        .iter()
        .map(|process| (process.pid, process.host.as_str(), process.rank))
        .collect();
    assert_eq!(found, [(4711, "n1", None), (4711, "n2", Some(3))]);
    let of = |number: usize| {
        let records = batch.gpu.iter();
        records
            .filter(|record| record.process.index() == number)
            .count()
    };
    assert_eq!([of(0), of(1)], [3, 3]);
}

#[test]
fn what_is_missing_costs_nothing_else() {
    let sql = statements("_a", 4711, VERSION_3)
        + "drop table rocpd_event_a; drop table rocpd_info_kernel_symbol_a;";
    let (model, batch) = read(&database("missing", &sql));
    assert!(
        batch.host.is_empty() && !model.notices.is_empty(),
        "{:?}",
        model.notices
    );
    let sql = statements("_a", 4711, VERSION_3)
        + "drop table rocpd_memory_copy_a; drop table rocpd_memory_allocate_a;";
    let (_, batch) = read(&database("fewer", &sql));
    assert_eq!((batch.gpu.len(), batch.host.len()), (2, 2));
}

#[test]
fn a_call_that_allocates_is_there_once() {
    let sql = statements("_a", 4711, VERSION_3)
        + "insert into rocpd_string_a values (9, 'g', 'hipMalloc');
        insert into rocpd_region_a values (9, 7, 1, 1, 50, 55, 9, 1), (10, 7, 1, null, 50, 55, 9, 1), (11, 7, 1, 1, 50, null, 9, 1);";
    let (model, batch) = read(&database("once", &sql));
    let allocations: Vec<_> = batch
        .host
        .iter()
        .filter(|slice| slice.start_ns == 50)
        .map(|slice| (model.text(slice.name), slice.bytes, slice.address))
        .collect();
    assert_eq!(
        allocations,
        [("hipMalloc", 1024, 32512), ("hipMalloc", 0, 0)]
    );
}
