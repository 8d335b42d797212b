//! Calls of other runtimes than HIP's.

use super::{Trace, answer, findings};
use crate::common::Scratch;
use serde_json::Value;

/// Steps that launch a kernel of 10 ms and wait for it, by these calls of this category.
fn steps(category: &str, launch: &str, wait: &str) -> Trace {
    let mut trace = Trace::default();
    for step in 0..5 {
        let at = 1_000_000 + 11_100 * step;
        let name = format!("ProfilerStep#{step}");
        trace.host("user_annotation", &name, at, 11_050, "");
        trace.links += 1;
        let link = format!(r#""correlation":{}"#, trace.links);
        trace.host(category, launch, at, 5, &link);
        trace.gpu("gemm", 7, at + 10, 10_000, trace.links);
        trace.host(category, wait, at + 20, 10_000, "");
    }
    trace
}

/// What binds the steps, the causes of idle time, and the rules that find something.
fn judged(trace: &Trace) -> (Vec<String>, Vec<String>, Vec<String>) {
    let scratch = Scratch::new();
    let file = [trace.written(&scratch, "trace.json", "")];
    let texts = |rows: &Value, key: &str| -> Vec<String> {
        let rows = rows.as_array().expect("a table").iter();
        rows.map(|row| row[key].as_str().unwrap_or("").to_owned())
            .collect()
    };
    let path = answer(&file, "critical path");
    let gaps = answer(&file, "gaps");
    let rules = findings(&answer(&file, "advice"));
    (
        texts(&path["critical_paths"], "bound_by"),
        texts(&gaps["runs"][0]["devices"][0]["causes"], "cause"),
        rules.into_iter().map(|one| one.0).collect(),
    )
}

#[test]
fn calls_of_the_driver_of_cuda_wait() {
    let hip = judged(&steps(
        "cuda_runtime",
        "hipLaunchKernel",
        "hipStreamSynchronize",
    ));
    assert_eq!(hip.0, ["GPU"; 2]);
    assert!(hip.2.contains(&"sync_in_loop".to_owned()), "{hip:?}");
    for (launch, wait) in [
        ("cuLaunchKernel", "cuStreamSynchronize"),
        ("cudaLaunchKernel_ptsz", "cudaStreamSynchronize_ptsz"),
        ("cuLaunchKernelEx", "cuCtxSynchronize"),
    ] {
        assert_eq!(judged(&steps("cuda_driver", launch, wait)), hip, "{wait}");
    }
}
