//! Small valid files of every format that is read.

use std::fs;
use std::path::Path;

use rsys_synthetic::Job;
use rusqlite::Connection;

/// A file that is damaged.
pub struct Seed {
    pub name: &'static str,
    /// Its name, as some formats want it.
    pub file: &'static str,
    pub bytes: Vec<u8>,
}

/// A file of each format.
pub fn all(scratch: &Path) -> Vec<Seed> {
    let seed = |name, file, bytes| Seed { name, file, bytes };
    vec![
        seed("perfetto", "one.proto", perfetto(scratch)),
        seed("kineto", "one.json", KINETO.into()),
        seed("chrome", "two.json", CHROME.into()),
        seed("rocprofv3-json", "out_results.json", ROCPROFV3.into()),
        seed("kernels-csv", "1_kernel_trace.csv", KERNELS.into()),
        seed("calls-csv", "1_hip_api_trace.csv", CALLS.into()),
        seed(
            "rocpd",
            "one.db",
            database(scratch, &[ROCPD_COMMON, ROCPD].concat()),
        ),
        seed(
            "rocpd-tracks",
            "two.db",
            database(scratch, &[ROCPD_COMMON, ROCPD_TRACKS].concat()),
        ),
        seed("rpd", "one.rpd", database(scratch, RPD)),
        seed("rocm-trace-lite", "two.rpd", database(scratch, LITE)),
    ]
}

/// A rank of a job, as `rsys-sample` writes it.
fn perfetto(scratch: &Path) -> Vec<u8> {
    let folder = scratch.join("job");
    fs::create_dir_all(&folder).unwrap();
    let job = Job {
        ranks: 1,
        iterations: 2,
        buckets: 2,
        ..Job::default()
    };
    rsys_synthetic::write(&job, &folder).unwrap();
    let files = fs::read_dir(&folder).unwrap().flatten();
    let mut traces = files.map(|entry| entry.path());
    let trace = traces.find(|path| path.extension().is_some_and(|end| end == "proto"));
    let bytes = fs::read(trace.unwrap()).unwrap();
    fs::remove_dir_all(&folder).unwrap();
    bytes
}

/// The bytes of a database that these statements make.
fn database(scratch: &Path, sql: &str) -> Vec<u8> {
    let path = scratch.join("seed.db");
    let made = Connection::open(&path).unwrap();
    made.execute_batch("pragma page_size = 512; pragma journal_mode = off;")
        .unwrap();
    made.execute_batch(sql).unwrap();
    drop(made);
    let bytes = fs::read(&path).unwrap();
    fs::remove_file(&path).unwrap();
    bytes
}

const KINETO: &str = r#"{"schemaVersion": 1, "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8}, "deviceProperties": [{"id": 0, "name": "MI300X"}],
"baseTimeNanoseconds": 1712000000000000000, "displayTimeUnit": "ms", "traceEvents": [
{"ph": "M", "name": "process_name", "pid": 11, "tid": 0, "ts": 1.000, "args": {"name": "python"}},
{"ph": "M", "name": "process_labels", "pid": 0, "tid": 0, "ts": 1.000, "args": {"labels": "GPU 0"}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 11, "tid": 11, "ts": 100.125, "dur": 50.5, "args": {"External id": 1, "Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"], "Sequence number": 7}},
{"ph": "X", "cat": "python_function", "name": "train.py(7): step", "pid": 11, "tid": 11, "ts": 90, "dur": 90, "args": {"Python id": 1, "Python parent id": null}},
{"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": 11, "tid": 11, "ts": 110, "dur": 5, "args": {"External id": 1, "correlation": 21, "cbid": 211}},
{"ph": "s", "id": 21, "pid": 11, "tid": 11, "ts": 110, "cat": "ac2g", "name": "ac2g"},
{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 120.001, "dur": 30.002, "args": {"External id": 1, "correlation": 21, "device": 0, "stream": 7, "grid": [64, 1, 1], "block": [256, 1, 1]}},
{"ph": "f", "id": 21, "pid": 0, "tid": 7, "ts": 120.001, "cat": "ac2g", "name": "ac2g", "bp": "e"},
{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_Generic", "pid": 0, "tid": 8, "ts": "155", "dur": 10, "args": {"correlation": 22, "device": 0, "stream": 8, "Collective name": "allreduce", "In msg nelems": 1024, "Out msg nelems": 1024, "Group size": 8, "dtype": "Float", "Process Group Name": "0", "seq": 5}},
{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Host -> Device)", "pid": 0, "tid": 7, "ts": 160, "dur": 2, "args": {"correlation": 23, "bytes": 4096, "device": 0, "stream": 7}},
{"ph": "X", "cat": "user_annotation", "name": "step \u00e9\n1", "pid": 11, "tid": 11, "ts": 80, "dur": 120},
{"ph": "i", "cat": "cpu_instant_event", "name": "mark", "s": "t", "pid": 11, "tid": 11, "ts": 81}
], "traceName": "a.json"}"#;

const CHROME: &str = r#"[{"ph":"B","cat":"kernel","name":"a","ts":1,"pid":0,"tid":0},{"ph":"B","cat":"kernel","name":"b","ts":2,"pid":0,"tid":0},
{"ph":"E","ts":3,"pid":0,"tid":0},{"ph":"E","ts":4.5,"pid":0,"tid":0},{"ph":"b","cat":"x","id":"0x1","name":"n","ts":5,"pid":1,"tid":1},
{"ph":"e","cat":"x","id":"0x1","name":"n","ts":6,"pid":1,"tid":1},{"ph":"C","name":"power","ts":7,"pid":1,"args":{"W":300.5}},
{"ph":"X","cat":"kernel","name":"c","ts":8,"dur":1,"pid":"GPU 1","tid":"stream"},{"ph":"X","cat":"cpu_op","name":"o","ts":8,"dur":9,"pid":1,"tid":1}]"#;

const ROCPROFV3: &str = r#"{"rocprofiler-sdk-tool": [{"metadata": {"pid": 4711, "init_time": 5, "fini_time": 900, "node": {"hostname": "n1"}, "command": ["/opt/train", "-x"]},
"agents": [{"id": {"handle": 1}, "type": 1, "logical_node_type_id": 0, "name": "EPYC"}, {"id": {"handle": 2}, "type": 2, "logical_node_type_id": 1, "name": "gfx942", "product_name": "MI300X"}],
"strings": {"callback_records": [], "buffer_records": [{"kind": "NONE", "operations": ["NONE"]}, {"kind": "HIP_RUNTIME_API", "operations": ["NONE", "hipLaunchKernel"]},
{"kind": "MARKER_CORE_API", "operations": ["NONE", "roctxMarkA", "roctxRangePushA"]}, {"kind": "MEMORY_COPY", "operations": ["NONE", "MEMORY_COPY_HOST_TO_DEVICE"]}],
"marker_api": [{"key": 11, "value": "step \"1\""}], "correlation_id": {"external": [{"key": 7, "value": "renamed"}]}},
"kernel_symbols": [{"kernel_id": 4, "kernel_name": "_Z4gemm.kd", "formatted_kernel_name": "gemm(float*)"}],
"summary": [], "buffer_records": {"kernel_dispatch": [{"size": 1, "kind": 0, "operation": 0, "correlation_id": {"internal": 21, "external": 7}, "thread_id": 77, "start_timestamp": 100, "end_timestamp": 250,
"dispatch_info": {"agent_id": {"handle": 2}, "queue_id": {"handle": 9}, "kernel_id": 4, "grid_size": {"x": 64, "y": 2, "z": 1}}, "stream_id": {"handle": 3}}],
"hip_api": [{"kind": 1, "operation": 1, "correlation_id": {"internal": 21, "external": 0}, "thread_id": 77, "start_timestamp": 90, "end_timestamp": 95}],
"marker_api": [{"kind": 2, "operation": 2, "correlation_id": {"internal": 11, "external": 0}, "thread_id": 77, "start_timestamp": 80, "end_timestamp": 400}],
"memory_copy": [{"kind": 3, "operation": 1, "correlation_id": {"internal": 23, "external": 0}, "thread_id": 77, "start_timestamp": 400, "end_timestamp": 420, "dst_agent_id": {"handle": 2}, "src_agent_id": {"handle": 1}, "bytes": 4096, "stream_id": {"handle": 3}}]}}]}"#;

const KERNELS: &str = "\"Kind\",\"Agent_Id\",\"Queue_Id\",\"Stream_Id\",\"Thread_Id\",\"Dispatch_Id\",\"Kernel_Id\",\"Kernel_Name\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\",\"Grid_Size_X\",\"Grid_Size_Y\",\"Grid_Size_Z\"
\"KERNEL_DISPATCH\",\"Agent 1\",9,3,77,1,4,\"gemm(float*, \"\"x\"\")\",21,100,250,64,2,1
\"KERNEL_DISPATCH\",\"Agent 2\",9,0,77,2,5,\"two
lines\",22,300,310,64,1,1
";

const CALLS: &str =
    "\"Domain\",\"Function\",\"Process_Id\",\"Thread_Id\",\"Correlation_Id\",\"Start_Timestamp\",\"End_Timestamp\"
\"HIP_RUNTIME_API\",\"hipLaunchKernel\",4711,77,21,90,95
\"MARKER_CORE_API\",\"step, 1\",4711,77,0,80,400
\"HIP_RUNTIME_API\",\"hipDeviceSynchronize\",4711,77,22,96,120
";

/// What both schemas of rocpd have.
const ROCPD_COMMON: &str = include_str!("rocpd_common.sql");
const ROCPD: &str = include_str!("rocpd.sql");
const ROCPD_TRACKS: &str = include_str!("rocpd_tracks.sql");
const RPD: &str = include_str!("rpd.sql");
const LITE: &str = include_str!("rocm_trace_lite.sql");
