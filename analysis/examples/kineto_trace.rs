//! Writes a file as PyTorch's profiler does, of a program that launches kernels on two GPUs:
//! `kineto_trace FILE KERNELS`.
//!
//! Before each kernel come its operators, Python functions and call, and arrows between them: some
//! 2 kB of JSON in all. It is what the speed of `rsys-report` on such files is measured with.

use std::env;
use std::fs::File;
use std::io::{self, BufWriter, Write};

const PID: u32 = 4711;
const NAMES: u64 = 200;
const BASE_NS: u64 = 1_753_000_000_000_000_000;

fn main() -> io::Result<()> {
    let mut arguments = env::args().skip(1);
    let usage = || io::Error::other("kineto_trace FILE KERNELS");
    let path = arguments.next().ok_or_else(usage)?;
    let kernels = arguments
        .next()
        .and_then(|count| count.parse().ok())
        .ok_or_else(usage)?;
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    write!(
        out,
        r#"{{
  "schemaVersion": 1,
  "deviceProperties": [
    {{"id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206141652992}},
    {{"id": 1, "name": "AMD Instinct MI300X", "totalGlobalMem": 206141652992}}
  ],
  "distributedInfo": {{"backend": "nccl", "rank": 3, "world_size": 8}},
  "displayTimeUnit": "ms",
  "baseTimeNanoseconds": {BASE_NS},
  "traceEvents": ["#
    )?;
    for number in 0..kernels {
        launch(&mut out, number)?;
    }
    write!(
        out,
        r#"
  {{
    "name": "Record Window End", "ph": "i", "s": "g",
    "pid": "", "tid": "", "ts": {}
  }}
  ],
  "traceName": "trace.json"
}}"#,
        us(10_000 * kernels)
    )?;
    out.flush()
}

fn us(time_ns: u64) -> String {
    format!("{}.{:03}", time_ns / 1000, time_ns % 1000)
}

/// A deterministic number that looks random.
fn scramble(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 32
}

/// A kernel and what leads to it.
fn launch(out: &mut impl Write, number: u64) -> io::Result<()> {
    let random = scramble(number);
    let start_ns = 10_000 * number + 1_234;
    for (depth, name) in [
        "nn.Module: Linear_7",
        "torch/nn/modules/linear.py(114): forward",
    ]
    .iter()
    .enumerate()
    {
        let start_ns = start_ns + 100 * depth as u64;
        write!(
            out,
            r#"
  {{
    "ph": "X", "cat": "python_function", "name": "{name}", "pid": {PID}, "tid": {PID},
    "ts": {}, "dur": {},
    "args": {{
      "Python parent id": {number}, "Python id": {}, "Ev Idx": {number}
    }}
  }},"#,
            us(start_ns),
            us(8_000 - 200 * depth as u64),
            number + 1,
        )?;
    }
    for (depth, name) in ["aten::linear", "aten::addmm"].iter().enumerate() {
        let start_ns = start_ns + 300 + 100 * depth as u64;
        write!(
            out,
            r#"
  {{
    "ph": "X", "cat": "cpu_op", "name": "{name}", "pid": {PID}, "tid": {PID},
    "ts": {}, "dur": {},
    "args": {{
      "External id": {number},"Concrete Inputs": ["", "", "", "1", "1"], "Input type": ["c10::BFloat16", "c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"], "Input Dims": [[4096], [8192, 1024], [1024, 4096], [], []], "Ev Idx": {number}
    }}
  }},"#,
            us(start_ns),
            us(6_000 - 200 * depth as u64),
        )?;
    }
    let call_ns = start_ns + 1_000;
    let kernel_ns = call_ns + 4_000;
    let device = random % 2;
    let stream = 3 * (random / 2 % 2);
    write!(
        out,
        r#"
  {{
    "ph": "X", "cat": "cuda_runtime", "name": "hipExtModuleLaunchKernel", "pid": {PID}, "tid": {PID},
    "ts": {}, "dur": {},
    "args": {{
      "External id": {number},"cid": 75, "correlation": {number}, "kernel": "", "stream": "{stream}", "grid": [304, 1, 1], "block": [256, 1, 1]
    }}
  }},
  {{
    "ph": "s", "id": {number}, "pid": {PID}, "tid": {PID}, "ts": {},
    "cat": "ac2g", "name": "ac2g"
  }},
  {{
    "ph": "X", "cat": "kernel", "name": "Cijk_Ailk_Bljk_BBS_BH_Bias_HAS_SAV_UserArgs_MT256x{}x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1_AFEM1_ASEM1_CLR1_CADS0", "pid": {device}, "tid": {stream},
    "ts": {}, "dur": {},
    "args": {{
      "External id": {number},"device": {device}, "stream": {stream}, "correlation": {number}, "kind": "Dispatch Kernel", "grid": [{}, 1, 1], "block": [256, 1, 1]
    }}
  }},
  {{
    "ph": "f", "id": {number}, "pid": {device}, "tid": {stream}, "ts": {},
    "cat": "ac2g", "name": "ac2g", "bp": "e"
  }},"#,
        us(call_ns),
        us(3_000 + random % 500),
        us(call_ns),
        random / 4 % NAMES,
        us(kernel_ns),
        us(1_000 + random % 20_000),
        random % 300 + 4,
        us(kernel_ns),
    )
}
