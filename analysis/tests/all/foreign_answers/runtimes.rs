//! Calls of other runtimes than HIP's.

use super::{Trace, answer, findings, notes};
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

/// Copies that hold the host between kernels.
#[test]
fn what_is_advised_has_the_words_of_the_runtime() {
    for (launch, copy, word) in [
        ("cuLaunchKernel", "cudaMemcpy", "cudaMemcpyAsync"),
        ("hipLaunchKernel", "hipMemcpy", "hipMemcpyAsync"),
    ] {
        let advice = steps("cuda_runtime", launch, copy).answer("advice");
        let finding = &advice["findings"][0];
        let text = |key: &str| finding[key].as_str().unwrap_or("").to_owned();
        assert!(text("try").contains(word), "{advice:#}");
        assert!(!text("look").contains("CLOCK"), "{advice:#}");
    }
}

#[test]
fn calls_of_other_devices_are_calls() {
    let hip = judged(&steps(
        "cuda_runtime",
        "hipLaunchKernel",
        "hipStreamSynchronize",
    ));
    for (category, launch, wait) in [
        ("xpu_runtime", "urEnqueueKernelLaunch", "urQueueFinish"),
        (
            "xpu_driver",
            "zeCommandListAppendLaunchKernel",
            "zeCommandQueueSynchronize",
        ),
    ] {
        assert_eq!(judged(&steps(category, launch, wait)), hip, "{category}");
    }
    for category in [
        "privateuse1_runtime",
        "privateuse1_driver",
        "mtia_runtime",
        "glow_runtime",
    ] {
        let answer = steps(category, "launch", "wait").answer("calls");
        let names: Vec<_> = answer["calls"].as_array().expect("calls").iter().collect();
        assert!(names.iter().any(|row| row["name"] == "launch"), "{answer}");
    }
}

#[test]
fn categories_that_are_not_known_are_told() {
    let mut trace = steps("cuda_runtime", "hipLaunchKernel", "hipStreamSynchronize");
    trace.host("overhead", "Instrumentation", 1_000_000, 5, "");
    trace.host("cuda_sync", "Event Sync", 1_000_000, 5, "");
    assert!(!notes(&trace.answer("timeline")).contains("not known"));
    trace.host("npu_runtime", "launch", 1_000_000, 5, "");
    trace.host("npu_kernel", "matmul", 1_000_010, 5, "");
    let told = notes(&trace.answer("timeline"));
    let categories = "npu_kernel (1 event), npu_runtime (1 event)";
    assert!(told.contains(categories), "{told}");
}
