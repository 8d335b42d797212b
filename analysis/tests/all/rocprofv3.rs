//! Files of rocprofv3, made by hand: JSON with several processes, tables, and both packed.

use std::io::Write;

use crate::common::{self, Scratch};
use rsys_traces::model::{Batch, HostKind, Kinds, Model, OpKind};
use rsys_traces::read;

/// What stands in front of the records of a process.
fn head(pid: u32, gpu_handle: u32) -> String {
    format!(
        r#""metadata": {{"pid": {pid}, "init_time": 5, "fini_time": 900, "node": {{"hostname": "n1"}}, "command": ["/opt/train", "-x"]}},
        "agents": [{{"id": {{"handle": 1}}, "type": 1, "logical_node_type_id": 0, "name": "EPYC"}},
                   {{"id": {{"handle": {gpu_handle}}}, "type": 2, "logical_node_type_id": 1, "name": "gfx942", "product_name": "MI300X"}}]"#
    )
}

const NAMES: &str = r#""strings": {"callback_records": [{"kind": "X", "operations": []}],
    "buffer_records": [{"kind": "NONE", "operations": ["NONE"]}, {"kind": "HIP_RUNTIME_API", "operations": ["NONE", "hipLaunchKernel"]},
        {"kind": "MARKER_CORE_API", "operations": ["NONE", "roctxMarkA", "roctxRangePushA", "roctxRangePop", "roctxRangeStartA"]},
        {"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE", "MEMORY_COPY_DEVICE_TO_HOST"]},
        {"kind": "MEMORY_ALLOCATION", "operations": ["NONE", "MEMORY_ALLOCATION_ALLOCATE"]},
        {"kind": "RCCL_API", "operations": ["NONE", "ncclAllReduce"]}],
    "marker_api": [{"key": 11, "value": "step \"1\""}, {"key": 12, "value": "now"}, {"key": 14, "value": "epoch"}],
    "correlation_id": {"external": [{"key": 7, "value": "renamed"}]}},
    "kernel_symbols": [{"kernel_id": 4, "kernel_name": "_Z4gemm.kd", "formatted_kernel_name": "gemm(float*)"}]"#;

/// Kernels, copies, calls, marks and an allocation.
fn records(gpu_handle: u32) -> String {
    let record = |kind: u32, operation: u32, correlation: u32, start: u32, end: u32, more: &str| {
        format!(
            r#"{{"size": 1, "kind": {kind}, "operation": {operation}, "correlation_id": {{"internal": {correlation}, "external": 0}},
            "thread_id": 77, "start_timestamp": {start}, "end_timestamp": {end}{more}}}"#
        )
    };
    let dispatch = format!(
        r#", "dispatch_info": {{"agent_id": {{"handle": {gpu_handle}}}, "queue_id": {{"handle": 9}}, "kernel_id": 4, "grid_size": {{"x": 64, "y": 2, "z": 1}}}}, "stream_id": {{"handle": 3}}"#
    );
    let copy = format!(
        r#", "dst_agent_id": {{"handle": 1}}, "src_agent_id": {{"handle": {gpu_handle}}}, "bytes": 4096, "stream_id": {{"handle": 3}}"#
    );
    let renamed =
        record(0, 0, 22, 300, 310, &dispatch).replace("\"external\": 0", "\"external\": 7");
    format!(
        r#""summary": [], "buffer_records": {{"kernel_dispatch": [{}, {renamed}], "hip_api": [{}], "marker_api": [{}, {}, {}, {}],
        "rccl_api": [{}], "memory_copy": [{}], "memory_allocation": [{}], "kfd": [{{"a": [1, 2]}}]}}"#,
        record(0, 0, 21, 100, 250, &dispatch),
        record(1, 1, 21, 90, 95, ""),
        record(2, 2, 11, 80, 400, ""),
        record(2, 1, 12, 85, 85, ""),
        record(2, 3, 13, 400, 400, ""),
        record(2, 4, 14, 60, 500, ""),
        record(5, 1, 31, 96, 98, ""),
        record(3, 2, 23, 400, 420, &copy),
        record(
            4,
            1,
            24,
            50,
            55,
            &format!(
                r#", "agent_id": {{"handle": {gpu_handle}}}, "address": "0x7f00", "allocation_size": 1024"#
            )
        ),
    )
}

fn check(model: &Model, batch: &Batch, processes: usize) {
    assert_eq!(model.notices, [], "{:?}", model.notices);
    assert_eq!(model.processes.len(), processes);
    assert_eq!(batch.gpu.len(), 3 * processes);
    for (number, process) in model.processes.iter().enumerate() {
        assert_eq!(process.pid, 4711 + number as u32);
        assert_eq!(
            (process.host.as_str(), process.name.as_str()),
            ("n1", "train")
        );
        let of_process: Vec<_> = batch
            .gpu
            .iter()
            .filter(|record| record.process.index() == number)
            .map(|record| {
                let device = model.device(record.device);
                assert_eq!((device.ordinal, device.name.as_str()), (1, "MI300X"));
                let queue = model.queues[record.queue.index()].name;
                assert_eq!(model.text(queue), "stream 3");
                let (name, grid) = (model.text(record.name), model.text(record.grid));
                let times = (record.start_ns, record.end_ns, record.link);
                (
                    name,
                    grid,
                    times,
                    record.kind,
                    record.bytes,
                    model.text(record.direction),
                )
            })
            .collect();
        assert_eq!(
            of_process,
            [
                (
                    "gemm(float*)",
                    "64\u{d7}2\u{d7}1",
                    (100, 250, 21),
                    OpKind::Kernel,
                    0,
                    ""
                ),
                (
                    "renamed",
                    "64\u{d7}2\u{d7}1",
                    (300, 310, 22),
                    OpKind::Kernel,
                    0,
                    ""
                ),
                (
                    "MEMORY_COPY_DEVICE_TO_HOST",
                    "",
                    (400, 420, 23),
                    OpKind::Copy,
                    4096,
                    "device to host"
                ),
            ]
        );
        let host: Vec<_> = batch
            .host
            .iter()
            .filter(|slice| slice.process.index() == number)
            .map(|slice| {
                (
                    model.text(slice.name),
                    slice.kind,
                    slice.link,
                    slice.start_ns,
                    slice.bytes,
                    slice.address,
                )
            })
            .collect();
        assert_eq!(
            host,
            [
                ("hipLaunchKernel", HostKind::Runtime, 21, 90, 0, 0),
                ("step \"1\"", HostKind::Range, 0, 80, 0, 0),
                ("epoch", HostKind::Range, 0, 60, 0, 0),
                ("ncclAllReduce", HostKind::Collective, 0, 96, 0, 0),
                (
                    "MEMORY_ALLOCATION_ALLOCATE",
                    HostKind::Hsa,
                    24,
                    50,
                    1024,
                    0x7f00
                ),
            ]
        );
    }
    let marks = batch
        .marks
        .iter()
        .map(|mark| (mark.time_ns, model.text(mark.name)));
    assert!(marks.eq((0..processes).map(|_| (85, "now"))));
}

fn document() -> String {
    let process = |pid, handle| format!("{{{}, {NAMES}, {}}}", head(pid, handle), records(handle));
    // Another program has put the names of the second behind its records.
    let other = format!("{{{}, {}, {NAMES}}}", head(4712, 8), records(8));
    format!(
        "{{\n  \"rocprofiler-sdk-tool\": [{},\n{other}]\n}}",
        process(4711, 6)
    )
}

#[test]
fn json_has_all_processes_and_agents_wherever_names_stand() {
    let scratch = Scratch::new();
    let path = scratch.write("4711_results.json", document().as_bytes());
    let (model, batch) = common::read(&path);
    check(&model, &batch, 2);
}

#[test]
fn packed_files_are_read_whatever_their_names_are() {
    let scratch = Scratch::new();
    let document = document();
    let frame = |text: &str| zstd::stream::encode_all(text.as_bytes(), 3).unwrap();
    // Several frames, as parallel packers write them, and one that is to be skipped.
    let (one, other) = document.split_at(document.len() / 2);
    let skipped = [
        &[0x50, 0x2A, 0x4D, 0x18, 2, 0, 0, 0, 1, 2][..],
        &frame(one),
        &frame(other),
    ]
    .concat();
    for (name, bytes) in [("a.json", frame(&document)), ("b", skipped)] {
        let (model, batch) = common::read(&scratch.write(name, &bytes));
        check(&model, &batch, 2);
    }
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(document.as_bytes()).unwrap();
    let path = scratch.write("c.zst", &packed.finish().unwrap());
    let (model, batch) = common::read(&path);
    check(&model, &batch, 2);
    // What is cut off is read as far as it goes.
    let second = frame(other);
    let cut = [&frame(one)[..], &second[..second.len() - 5]].concat();
    let (model, batch) = common::read(&scratch.write("d.json.zst", &cut));
    assert!(!batch.gpu.is_empty());
    assert!(
        model.notices.iter().any(|notice| notice.offset.is_some()),
        "{:?}",
        model.notices
    );
}

#[test]
fn a_bad_record_costs_that_record() {
    let scratch = Scratch::new();
    for (good, bad, said) in [
        (
            "\"start_timestamp\": 100",
            "\"start_timestamp\": -5",
            "their times are no numbers",
        ),
        (
            "\"start_timestamp\": 100",
            "\"start_timestamp\": \"soon\"",
            "their times are no numbers",
        ),
        (
            "\"start_timestamp\": 100",
            "\"start_timestamp\": 251",
            "end before they begin",
        ),
        (
            "\"start_timestamp\": 100",
            "\"start_timestamp\" 100",
            "no JSON",
        ),
    ] {
        let document = format!(
            "{{\"rocprofiler-sdk-tool\": [{{{}, {NAMES}, {}}}]}}",
            head(1, 6),
            records(6)
        );
        let path = scratch.write("bad.json", document.replacen(good, bad, 1).as_bytes());
        let (model, batch) = common::read(&path);
        assert_eq!(batch.gpu.len(), 2, "{bad}");
        let notice = &model.notices[0];
        assert_eq!(model.notices.len(), 1, "{:?}", model.notices);
        assert!(notice.text.contains(said), "{bad}: {notice}");
        let at = notice.offset.unwrap() as usize;
        assert!(
            document[at..].starts_with("{\"size\": 1, \"kind\": 0"),
            "{bad}: {notice}"
        );
    }
    // Times as texts and with fractions are times.
    let document = format!(
        "{{\"rocprofiler-sdk-tool\": [{{{}, {NAMES}, {}}}]}}",
        head(4711, 6),
        records(6)
    );
    let document = document.replacen(
        "\"start_timestamp\": 100",
        "\"start_timestamp\": \"100\"",
        1,
    );
    let document = document.replacen("\"end_timestamp\": 250", "\"end_timestamp\": 2.5e2", 1);
    let (model, batch) = common::read(&scratch.write("texts.json", document.as_bytes()));
    check(&model, &batch, 1);
}

#[test]
fn a_file_that_is_cut_off_or_damaged_anywhere_ends() {
    let scratch = Scratch::new();
    let document = document();
    let whole = document.as_bytes();
    for length in (0..whole.len()).step_by(41).filter(|&length| length > 30) {
        let (_, batch) = common::read(&scratch.write("cut.json", &whole[..length]));
        assert!(batch.gpu.len() <= 6);
    }
    for at in (40..whole.len()).step_by(61) {
        for byte in [b'"', b'{', b']', b'}', 0, b','] {
            let mut damaged = whole.to_vec();
            damaged[at] = byte;
            let (_, batch) = common::read(&scratch.write("damaged.json", &damaged));
            assert!(batch.gpu.len() <= 6);
        }
    }
}

const KERNELS: &str = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Stream_Id\",\"Thread_Id\",\"Dispatch_Id\",\"Kernel_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\",\"Grid_Size_X\",\"Grid_Size_Y\",\"Grid_Size_Z\"
\"KERNEL_DISPATCH\",\"Agent 4\",9,3,77,1,4,\"gemm<int, 2>(float*)\",21,100,250,64,2,1
\"KERNEL_DISPATCH\",\"Agent 5\",9,3,77,2,4,\"gemm<int, 2>(float*)\",22,260,240,64,2,1
\"KERNEL_DISPATCH\",\"Agent 5\",9,0,77,3,4,\"say \"\"hi\"\"\",22,300,310,64,2,1
\"KERNEL_DISPATCH\",\"Agent 5\",9
";
const API: &str = "\"Domain\",\"Function\",\"Process_Id\",\"Thread_Id\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n";

#[test]
fn tables_of_a_process_are_read_together() {
    let scratch = Scratch::new();
    let kernels = scratch.write("4711_kernel_trace.csv", KERNELS.as_bytes());
    let calls = format!("{API}\"HIP_RUNTIME_API\",\"hipLaunchKernel\",4711,77,21,90,95\r\n");
    let calls = scratch.write("4711_hip_api_trace.csv", calls.as_bytes());
    let markers = format!(
        "{API}\"MARKER_CORE_RANGE_API\",\"step, 1\",4711,77,11,80,400\n\"MARKER_CORE_API\",\"roctxRangePop\",4711,77,12,400,400\n\"MARKER_CORE_API\",\"now\",4711,77,12,85,85\n"
    );
    scratch.write("4711_marker_api_trace.csv", markers.as_bytes());
    let agents = "\"Node_Id\",\"Logical_Node_Id\",\"Agent_Type\",\"Name\",\"Product_Name\"\n0,0,\"CPU\",\"EPYC\",\"\"\n4,1,\"GPU\",\"gfx942\",\"MI300X\"\n5,2,\"GPU\",\"gfx942\",\"MI300X\"\n";
    scratch.write("4711_agent_info.csv", agents.as_bytes());
    scratch.write(
        "4711_memory_copy_trace.csv",
        "\"Kind\",\"Direction\",\"Stream_Id\",\"Source_Agent_Id\",\"Destination_Agent_Id\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"\n\"MEMORY_COPY\",\"MEMORY_COPY_HOST_TO_DEVICE\",3,\"Agent 0\",\"Agent 5\",23,400,420\n".as_bytes(),
    );
    // Of another process.
    scratch.write("4712_kernel_trace.csv", KERNELS.as_bytes());
    assert_eq!(read::further_parts(&kernels).len(), 4);
    for path in [kernels, calls] {
        let (model, batch) = common::read(&path);
        assert_eq!(model.processes.len(), 1);
        assert_eq!(model.processes[0].pid, 4711);
        let operations: Vec<_> = batch
            .gpu
            .iter()
            .map(|record| {
                let queue = model.queues[record.queue.index()].name;
                let device = model.device(record.device).ordinal;
                (
                    model.text(record.name),
                    device,
                    model.text(queue),
                    record.start_ns,
                    record.end_ns,
                    record.link,
                )
            })
            .collect();
        assert_eq!(
            operations,
            [
                ("gemm<int, 2>(float*)", 0, "stream 3", 100, 250, 21),
                ("say \"hi\"", 1, "queue 9", 300, 310, 22),
                ("MEMORY_COPY_HOST_TO_DEVICE", 1, "stream 3", 400, 420, 23),
            ]
        );
        let names: Vec<_> = batch
            .host
            .iter()
            .map(|slice| model.text(slice.name))
            .collect();
        assert_eq!(names, ["hipLaunchKernel", "step, 1"]);
        assert_eq!(batch.host[0].link, 21);
        assert_eq!(batch.marks.len(), 1);
        let said: Vec<_> = model.notices.iter().map(ToString::to_string).collect();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(
            said.iter()
                .all(|line| line.contains("4711_kernel_trace.csv: byte")),
            "{said:?}"
        );
    }
    let mut reader = read::open(
        &scratch.write("4713_hip_api_trace.csv", API.as_bytes()),
        Kinds::GPU,
    )
    .unwrap();
    assert!(!reader.read(&mut Model::default(), &mut Batch::default()));
}

/// A folder is read by the first table of each process, which may be the one that is empty or no table.
#[test]
fn a_table_that_is_empty_or_damaged_costs_nothing_of_the_others() {
    for calls in ["", "\u{0}\u{1}no table"] {
        let scratch = Scratch::new();
        let calls = scratch.write("4711_hip_api_trace.csv", calls.as_bytes());
        let kernels = scratch.write("4711_kernel_trace.csv", KERNELS.as_bytes());
        let (whole, of_kernels) = common::read(&kernels);
        let (model, batch) = common::read(&calls);
        assert!(!of_kernels.gpu.is_empty());
        assert_eq!(batch.gpu, of_kernels.gpu);
        assert_eq!(model.processes.len(), whole.processes.len());
        let mut notices = model.notices.iter();
        assert!(
            notices.any(|one| one.file.ends_with("4711_hip_api_trace.csv")),
            "{:?}",
            model.notices
        );
    }
}

#[test]
fn tables_of_counters_have_their_kernels_and_values() {
    let scratch = Scratch::new();
    let table = "Correlation_Id,Dispatch_Id,Agent_Id,Queue_Id,Process_Id,Thread_Id,Grid_Size,Kernel_Name,Counter_Name,Counter_Value,Start_Timestamp,End_Timestamp
1,1,GPU 1,9,50,77,64,gemm,SQ_WAVES,4,100,200
1,1,GPU 1,9,50,77,64,gemm,GRBM_COUNT,1.5e3,100,200
2,2,GPU 1,9,50,77,64,gemm,SQ_WAVES,5,300,400
";
    let (model, batch) = common::read(&scratch.write("counter_collection.csv", table.as_bytes()));
    assert_eq!((model.processes.len(), model.processes[0].pid), (1, 50));
    assert_eq!(batch.gpu.len(), 2);
    assert_eq!(model.devices[0].ordinal, 1);
    let values: Vec<_> = batch
        .counters
        .iter()
        .map(|value| {
            let counter = &model.counters[value.counter.index()];
            (
                model.text(counter.name),
                model.text(counter.group),
                value.time_ns,
                value.value,
            )
        })
        .collect();
    assert_eq!(
        values,
        [
            ("SQ_WAVES", "Counters of GPU 1", 100, 4.0),
            ("GRBM_COUNT", "Counters of GPU 1", 100, 1500.0),
            ("SQ_WAVES", "Counters of GPU 1", 300, 5.0),
        ]
    );
}
