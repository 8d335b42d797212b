//! Rules on how well a GPU was used, on files whose operators have known rates: each with what it is to find, and the same program without the fault.

use rsys_analysis::advice::advise;
use rsys_analysis::measure::Named;
use rsys_analysis::measure::gpu::efficiency::Efficiency;
use rsys_analysis::measure::gpu::launch::Launch;
use rsys_analysis::measure::host::cost::profiling_cost;
use rsys_analysis::show::json;
use rsys_analysis::table::Answer;
use rsys_traces::model::Kinds;
use serde_json::Value;

use super::{document, event, kernel, read_bytes};
use crate::common;

/// A call of an operator: its name, types and dimensions, kernel and how long that runs, in microseconds.
#[derive(Clone, Copy)]
struct Call {
    name: &'static str,
    types: &'static str,
    dimensions: &'static str,
    kernel: &'static str,
    ran_us: u64,
}

const BF16: &str = r#"["c10::BFloat16", "c10::BFloat16"]"#;
const FP32: &str = r#"["float", "float"]"#;

/// A product of matrices.
fn product(types: &'static str, dimensions: &'static str, ran_us: u64) -> Call {
    Call {
        name: "aten::mm",
        types,
        dimensions,
        kernel: "Cijk_Ailk",
        ran_us,
    }
}

/// An elementwise operator of two tensors.
fn elementwise(name: &'static str, dimensions: &'static str, ran_us: u64) -> Call {
    Call {
        name,
        types: FP32,
        dimensions,
        kernel: "vectorized_elementwise_kernel",
        ran_us,
    }
}

/// A file of an MI300X that makes the calls so many times. The GPU works without a pause.
fn file(calls: &[Call], times: u64) -> String {
    let mut events = Vec::new();
    let (mut number, mut end_us) = (1, 1_000);
    for call in calls.iter().cycle().take(calls.len() * times as usize) {
        let args = format!(
            r#""Input type": {}, "Input Dims": {}, "Concrete Inputs": ["", ""]"#,
            call.types, call.dimensions
        );
        let start = number * 3;
        events.push(event("cpu_op", call.name, &start.to_string(), "2", &args));
        let link = format!(r#""correlation": {number}"#);
        let launch = format!("{start}.500");
        events.push(event(
            "cuda_runtime",
            "hipLaunchKernel",
            &launch,
            "1",
            &link,
        ));
        let (begin, ran) = (end_us.to_string(), call.ran_us.to_string());
        let link = format!(", {link}");
        events.push(kernel(call.kernel, &begin, &ran, 0, 7, &link));
        end_us += call.ran_us;
        number += 1;
    }
    let head = r#"{"deviceProperties": [{"id": 0, "name": "AMD Instinct MI300X"}], "#;
    document(&events).replacen('{', head, 1)
}

fn advised(text: &str) -> Value {
    let mut measures: Vec<Named> = common::advice_measures();
    measures.push(("efficiency", Box::<Efficiency>::default()));
    json(&advise_on(text, measures, None))
}

/// Advice on a file, from what is measured and an answer beside that.
fn advise_on(
    text: &str,
    mut measures: Vec<Named>,
    beside: Option<(&'static str, Answer)>,
) -> Answer {
    let needs = measures
        .iter()
        .fold(Kinds::default(), |all, (_, one)| all.or(one.needs()));
    let (model, batch) = read_bytes(text.as_bytes(), needs);
    let answers = measures.iter_mut().map(|(name, measure)| {
        measure.take(&batch);
        (*name, measure.answer(&model, "run"))
    });
    let answers: Vec<_> = answers.chain(beside).collect();
    let advice = advise(&answers, &profiling_cost(&model));
    common::judge(&json(&advice));
    advice
}

/// How many rules say that they lack shapes and types.
fn lacking(advised: &Value) -> usize {
    let not_judged = advised["not_judged"].as_array().into_iter().flatten();
    not_judged
        .filter(|one| one["lacks"] == "shapes and types of operators")
        .count()
}

/// The findings of the rules on efficiency: rule, place and what would be saved.
fn found(advised: &Value) -> Vec<(String, String, u64)> {
    let rules = [
        "single_precision",
        "odd_dimensions",
        "small_products",
        "unfused_operators",
        "far_below_roofline",
    ];
    let findings = advised["findings"].as_array().cloned().unwrap_or_default();
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or("").to_owned();
    let found = findings.iter().map(|one| {
        let saves_ns = one["saves_ns"].as_u64().unwrap_or(0);
        (text(one, "rule"), text(one, "place"), saves_ns)
    });
    found
        .filter(|(rule, ..)| rules.contains(&rule.as_str()))
        .collect()
}

/// Two files: what is found in the first, and that nothing is found in the second.
fn planted_and_healthy(planted: &str, healthy: &str, rule: &str, place: &str, saves_ns: f64) {
    let advised_on = advised(planted);
    let found_in = found(&advised_on);
    let [(of_rule, of_place, of_ns)] = &found_in[..] else {
        panic!("{found_in:?} {advised_on:#}");
    };
    assert_eq!((of_rule.as_str(), of_place.as_str()), (rule, place));
    let off = (*of_ns as f64 - saves_ns).abs();
    assert!(off <= saves_ns * 0.001 + 2.0, "{of_ns} for {saves_ns}");
    let advised_on = advised(healthy);
    assert!(found(&advised_on).is_empty(), "{advised_on:#}");
}

/// 2·4096³ operations are 105 µs at the peak of bf16 and 841 µs at that of fp32; 210 µs at that of tf32.
const SQUARE: &str = "[[4096, 4096], [4096, 4096]]";

#[test]
fn an_operator_far_below_the_roofline_is_found() {
    let least_us = 2.0 * 4096_f64.powi(3) / 1307.4e6;
    planted_and_healthy(
        &file(&[product(BF16, SQUARE, 1_000)], 20),
        &file(&[product(BF16, SQUARE, 200)], 20),
        "far_below_roofline",
        "aten::mm [4096, 4096], [4096, 4096] bf16",
        20.0 * 1e3 * (1_000.0 - least_us / 0.7),
    );
    // What takes less time than a GPU needs to be filled is not judged by its rate.
    let short = elementwise("aten::mul", "[[64, 64], [64, 64]]", 5);
    let other = product(BF16, "[[64, 64], [64, 64]]", 5);
    let advised_on = advised(&file(&[short, other], 200));
    assert!(found(&advised_on).is_empty(), "{advised_on:#}");
}

#[test]
fn products_in_fp32_are_found_where_the_gpu_is_faster_in_tf32() {
    let ran_us = 1_100;
    let as_tf32 = Call {
        kernel: "Cijk_Ailk_xf32",
        ran_us: 400,
        ..product(FP32, SQUARE, 0)
    };
    planted_and_healthy(
        &file(&[product(FP32, SQUARE, ran_us)], 20),
        &file(&[as_tf32], 20),
        "single_precision",
        "aten::mm [4096, 4096], [4096, 4096] fp32",
        20.0 * 1e3 * ran_us as f64 * (1.0 - 163.4 / 653.7),
    );
}

#[test]
fn a_dimension_one_off_a_multiple_is_found_against_even_ones() {
    let odd = "[[4096, 4096], [4096, 4097]]";
    let shares =
        |dimensions: f64, ran_us: f64| 2.0 * dimensions * 4096_f64.powi(2) / 1307.4e6 / ran_us;
    let even = product(BF16, SQUARE, 150);
    planted_and_healthy(
        &file(&[even, product(BF16, odd, 300)], 20),
        &file(&[even, product(BF16, odd, 152)], 20),
        "odd_dimensions",
        "aten::mm [4096, 4096], [4096, 4097] bf16",
        20.0 * 300e3 * (1.0 - shares(4097.0, 300.0) / shares(4096.0, 150.0)),
    );
    // An odd number of rows is no matter.
    let rows = "[[4097, 4096], [4096, 4096]]";
    let advised_on = advised(&file(&[even, product(BF16, rows, 300)], 20));
    assert!(found(&advised_on).is_empty(), "{advised_on:#}");
    // Nothing to compare with.
    let advised_on = advised(&file(&[product(BF16, odd, 300)], 20));
    assert!(found(&advised_on).is_empty(), "{advised_on:#}");
}

#[test]
fn equal_small_products_in_a_row_are_found() {
    let small = product(BF16, "[[128, 128], [128, 128]]", 10);
    let large = product(BF16, SQUARE, 150);
    let mut calls = vec![large];
    calls.extend([small; 30]);
    // Another operator between any two of them: they are no loop over equal parts.
    let mut apart = vec![large];
    let between = elementwise("aten::mul", "[[128, 128], [128, 128]]", 1);
    apart.extend((0..30).flat_map(|_| [small, between]));
    planted_and_healthy(
        &file(&calls, 20),
        &file(&apart, 20),
        "small_products",
        "aten::mm [128, 128], [128, 128] bf16",
        20.0 * 290e3,
    );
}

#[test]
fn elementwise_operators_over_one_tensor_are_found() {
    const LARGE: &str = "[[8192, 8192], [8192, 8192]]";
    // Three times 3 tensors of 256 MiB are read and written; of the two in between 4 times one tensor is not.
    let chain = ["aten::mul", "aten::add", "aten::sub"].map(|name| elementwise(name, LARGE, 250));
    // A product between any two: nothing to fuse.
    let apart = chain.map(|one| [one, product(BF16, SQUARE, 150)]).concat();
    let text = file(&[&chain[..], &[product(BF16, SQUARE, 150)]].concat(), 20);
    planted_and_healthy(
        &text,
        &file(&apart, 20),
        "unfused_operators",
        "aten::mul \u{2192} aten::add \u{2192} aten::sub [8192, 8192], [8192, 8192] fp32",
        20.0 * 750e3 * 4.0 / 9.0,
    );
    let evidence = &advised(&text)["findings"][0]["evidence"];
    let tensor = 4 * 8192 * 8192_u64;
    assert_eq!(evidence["saved_bytes"].as_u64(), Some(20 * 4 * tensor));
    // Other shapes in between are other tensors.
    let other = elementwise("aten::add", "[[8192, 8191], [8192, 8191]]", 250);
    let advised_on = advised(&file(&[chain[0], other], 20));
    assert!(found(&advised_on).is_empty(), "{advised_on:#}");
}

#[test]
fn a_loop_over_equal_tensors_in_place_is_no_chain() {
    const LARGE: &str = "[[8192, 8192], [8192, 8192]]";
    // Gradients of equal layers: 768 MiB for each are 152 µs at the peak.
    let add = elementwise("aten::add_", LARGE, 200);
    let advised_on = advised(&file(&[add; 30], 20));
    assert!(found(&advised_on).is_empty(), "{advised_on:#}");
    // Several operators in place on one tensor are one, as an optimiser without fused=True has them.
    let scale = elementwise("aten::mul_", LARGE, 200);
    let advised_on = advised(&file(&[scale, add, add], 20));
    let found_in = found(&advised_on);
    let places: Vec<&str> = found_in
        .iter()
        .map(|(_, place, _)| place.as_str())
        .collect();
    let of = "[8192, 8192], [8192, 8192] fp32";
    let whole = format!("aten::add_ \u{2192} aten::mul_ \u{2192} aten::add_ {of}");
    assert_eq!(places, [whole], "{advised_on:#}");
}

#[test]
fn without_shapes_nothing_is_judged_and_that_is_said() {
    let text = file(&[product(BF16, SQUARE, 1_000)], 20);
    let without = text.replace("\"Input Dims\"", "\"Others\"");
    let advised_on = advised(&without);
    assert!(found(&advised_on).is_empty(), "{advised_on:#}");
    assert_eq!(lacking(&advised_on), 5, "{advised_on:#}");
    // Bytes of copies are not those of operators.
    let copy = r#"[{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD (Host -> Device)", "pid": 0, "tid": 9, "ts": 90000, "dur": 4, "args": {"device": 0, "stream": 9, "bytes": 64000}}, "#;
    let (head, events) = without.split_once(r#""traceEvents": ["#).unwrap();
    let with_copy = format!(r#"{head}"traceEvents": {copy}{events}"#);
    assert_eq!(lacking(&advised(&with_copy)), 5);
    // A GPU whose peaks nobody knows is not judged either.
    let unknown = text.replace("MI300X", "of tomorrow");
    assert!(found(&advised(&unknown)).is_empty());
}

#[test]
fn of_traces_without_types_nothing_is_judged_and_that_is_said_where_operators_ran() {
    let text = file(&[product(BF16, SQUARE, 1_000)], 20);
    let without = text.replace("\"cpu_op\"", "\"others\"");
    for (text, rules) in [(&text, 5), (&without, 0)] {
        let mut measures: Vec<Named> = common::advice_measures();
        measures.push(("launch", Box::<Launch>::default()));
        let beside = ("efficiency", Answer::default());
        let advised_on = json(&advise_on(text, measures, Some(beside)));
        assert_eq!(lacking(&advised_on), rules, "{advised_on:#}");
        assert!(found(&advised_on).is_empty(), "{advised_on:#}");
    }
}
