//! Databases of rocmProfileData, made by hand: whose operations are that are linked with no call.

use rsys_databases::OPENER;
use rsys_traces::model::{Batch, Kinds, Model};
use rusqlite::Connection;

const TABLES: &str = "
create table rocpd_string (id integer primary key, string text);
create table rocpd_api (id integer primary key, pid integer, tid integer, start integer, end integer, apiName_id integer, args_id integer);
create table rocpd_op (id integer primary key, gpuId integer, queueId integer, start integer, end integer, description_id integer, opType_id integer);
create table rocpd_api_ops (id integer primary key, api_id integer, op_id integer);
insert into rocpd_string values (1, ''), (2, 'hipLaunchKernel'), (3, 'KernelExecution'), (4, 'gemm');
";

/// Process and GPU of the operations in the order of their begins, with any kinds of records.
fn places(name: &str, rows: &str) -> Vec<(u32, u32)> {
    let file = std::env::temp_dir().join(format!("rsys-rpd-{}-{name}.rpd", std::process::id()));
    let database = Connection::open(&file).unwrap();
    database.execute_batch(&format!("{TABLES}{rows}")).unwrap();
    drop(database);
    let with_gpu = Kinds {
        gpu: true,
        ..Kinds::default()
    };
    let found = [with_gpu, Kinds::ALL].map(|kinds| {
        let (mut model, mut batch) = (Model::default(), Batch::default());
        let mut reader = (OPENER.open)(&file, kinds).unwrap();
        while reader.read(&mut model, &mut batch) {}
        batch.gpu.sort_by_key(|record| record.start_ns);
        let places = batch.gpu.iter().map(|record| {
            let pid = model.processes[record.process.index()].pid;
            (pid, model.devices[record.device.index()].ordinal)
        });
        places.collect::<Vec<_>>()
    });
    std::fs::remove_file(&file).unwrap();
    let [of_gpu, of_all] = found;
    assert_eq!(of_gpu, of_all, "what else is asked for changes nothing");
    of_all
}

#[test]
fn operations_without_a_call_are_of_who_used_their_gpu() {
    let rows = "
insert into rocpd_api values (1, 70, 70, 0, 1, 2, 1), (2, 71, 71, 0, 1, 2, 1), (3, 70, 70, 0, 1, 2, 1), (4, 71, 71, 0, 1, 2, 1);
insert into rocpd_op values (1, 1, 0, 10, 11, 4, 3), (2, 0, 0, 20, 21, 4, 3), (3, 1, 0, 30, 31, 4, 3), (4, 2, 0, 40, 41, 4, 3), (5, 2, 0, 50, 51, 4, 3),
    (6, 2, 0, 60, 61, 4, 3);
insert into rocpd_api_ops values (1, 1, 2), (2, 2, 3), (3, 3, 4), (4, 4, 5);
";
    let expected = [(71, 1), (70, 0), (71, 1), (70, 2), (71, 2), (0, 2)];
    assert_eq!(places("several", rows), expected);
    let rows = "
insert into rocpd_api values (1, 70, 70, 0, 1, 2, 1);
insert into rocpd_op values (1, 1, 0, 10, 11, 4, 3), (2, 0, 0, 20, 21, 4, 3);
insert into rocpd_api_ops values (1, 1, 2);
";
    assert_eq!(places("one", rows), [(70, 1), (70, 0)]);
}

#[test]
fn a_call_that_is_described_twice_has_its_operations_once() {
    let rows = "
create table rocpd_kernelapi (id integer primary key, api_id integer, gridX integer, gridY integer, gridZ integer);
insert into rocpd_api values (1, 70, 70, 0, 1, 2, 1);
insert into rocpd_op values (1, 0, 0, 10, 11, 4, 3);
insert into rocpd_api_ops values (1, 1, 1);
insert into rocpd_kernelapi values (1, 1, 8, 1, 1), (2, 1, 8, 1, 1);
";
    assert_eq!(places("twice", rows), [(70, 0)]);
}
