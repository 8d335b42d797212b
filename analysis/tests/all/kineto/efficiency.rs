//! How well the time of GPUs was used, on files whose operators have known rates.

use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::efficiency::{By, Efficiency, Options};
use rsys_analysis::measure::gpu::timeline::Timeline;
use serde_json::Value;

use super::{document, event, kernel, read_bytes};
use crate::common::{Scratch, batch, model, row, rows, sum, thread};
use rsys_analysis::pass;
use rsys_traces::model::{GpuRecord, HostKind, HostSlice};

/// A file of a GPU with this name.
fn file(gpu: &str, events: &[String]) -> String {
    let whole = document(events);
    let head = format!(r#"{{"deviceProperties": [{{"id": 0, "name": "{gpu}"}}], "#);
    whole.replacen('{', &head, 1)
}

/// An operator with types, dimensions and values, a call within it that launches a kernel, and the kernel. Times are microseconds.
fn operator(
    number: u64,
    name: &str,
    lists: [&str; 3],
    at: u64,
    kernels: &[(u64, u64)],
) -> Vec<String> {
    let [types, dimensions, values] = lists;
    let args = format!(
        r#""Input type": {types}, "Input Dims": {dimensions}, "Concrete Inputs": {values}"#
    );
    let mut events = vec![event("cpu_op", name, &format!("{at}.000"), "50.000", &args)];
    for (place, (start, duration)) in (0..).zip(kernels) {
        let link = format!(r#""correlation": {}"#, number * 10 + place + 1);
        let call = (at + place + 1).to_string();
        events.push(event("cuda_runtime", "hipLaunchKernel", &call, "1", &link));
        let kernel_name = format!("kernel of {name}");
        events.push(kernel(
            &kernel_name,
            &start.to_string(),
            &duration.to_string(),
            0,
            place as u32,
            &format!(", {link}"),
        ));
    }
    events
}

const TWO: &str = r#"["c10::BFloat16", "c10::BFloat16"]"#;
const NO_VALUES: &str = r#"["", ""]"#;

fn answered(text: &str, options: Options) -> (Vec<Value>, u64) {
    let mut efficiency = Efficiency::new(options);
    let mut timeline = Timeline::default();
    let (model, batch) = read_bytes(text.as_bytes(), efficiency.needs().or(timeline.needs()));
    efficiency.take(&batch);
    timeline.take(&batch);
    let busy_ns = timeline
        .divisions(&model)
        .iter()
        .map(|(_, division)| division.busy_ns())
        .sum();
    (
        rows(&efficiency.answer(&model, "run"), "efficiency"),
        busy_ns,
    )
}

fn near(value: &Value, expected: f64) {
    let found = value.as_f64().unwrap_or(f64::NAN);
    assert!(
        (found - expected).abs() <= expected * 1e-9,
        "{found} for {expected}"
    );
}

#[test]
fn an_operator_at_a_known_rate_has_that_rate() {
    // 2·1024³ operations in 10 µs, twice: 214.7 TFLOP/s, of 1307.4.
    let product = [TWO, "[[1024, 1024], [1024, 1024]]", NO_VALUES];
    let mut events = operator(1, "aten::mm", product, 0, &[(100, 10)]);
    events.extend(operator(2, "aten::mm", product, 60, &[(200, 10)]));
    // 4 MiB read and 4 MiB written in 8 µs, by two kernels: 1.05 TB/s, of 5.3.
    let values = r#"[""]"#;
    events.extend(operator(
        3,
        "aten::relu",
        [r#"["float"]"#, "[[1024, 1024]]", values],
        120,
        &[(300, 3), (303, 5)],
    ));
    let (rows, busy_ns) = answered(&file("AMD Instinct MI300X", &events), Options::default());
    assert_eq!(busy_ns, 28_000);
    assert_eq!(sum(&rows, "busy_ns"), busy_ns);
    let mm = row(&rows, "operator", "aten::mm");
    assert_eq!(
        (mm["count"].as_u64(), mm["operations"].as_u64()),
        (Some(2), Some(2))
    );
    assert_eq!(mm["flop"].as_u64(), Some(2 * 2 * 1024 * 1024 * 1024));
    assert_eq!(mm["moved_bytes"].as_u64(), Some(2 * 3 * 2 * 1024 * 1024));
    let rate = 2.0 * 1024_f64.powi(3) / 10e-6;
    near(&mm["tflop_per_s"], rate / 1e12);
    near(&mm["roofline_share"], rate / 1307.4e12);
    assert_eq!(
        (mm["bound"].as_str(), mm["types"].as_str()),
        (Some("compute"), Some("bf16"))
    );
    let relu = row(&rows, "operator", "aten::relu");
    assert_eq!(
        (relu["count"].as_u64(), relu["operations"].as_u64()),
        (Some(1), Some(2))
    );
    let rate = 2.0 * 4.0 * 1024.0 * 1024.0 / 8e-6;
    near(&relu["bytes_per_s"], rate);
    near(&relu["roofline_share"], rate / 5.3e12);
    assert_eq!(relu["bound"], "memory");
    let at_peak = 8_000.0 * (1.0 - rate / 5.3e12);
    assert_eq!(
        relu["give_back_at_peak_ns"].as_u64(),
        Some(at_peak.round() as u64)
    );
    // At half of the roofline it would take twice as long as at the peak.
    let half = Options {
        target: Some(0.5),
        ..Options::default()
    };
    let (rows, _) = answered(&file("AMD Instinct MI300X", &events), half);
    let relu = row(&rows, "operator", "aten::relu");
    let at_half = 8_000.0 * (1.0 - 2.0 * rate / 5.3e12);
    assert_eq!(relu["give_back_ns"].as_u64(), Some(at_half.round() as u64));
}

#[test]
fn every_busy_nanosecond_is_in_one_row_whatever_tells_rows_apart() {
    let product = [TWO, "[[64, 64], [64, 64]]", NO_VALUES];
    let other = [TWO, "[[64, 32], [32, 64]]", NO_VALUES];
    // Kernels of three operators overlap on several streams.
    let mut events = operator(1, "aten::mm", product, 0, &[(100, 40), (110, 50)]);
    events.extend(operator(2, "aten::mm", other, 60, &[(120, 90), (130, 10)]));
    events.extend(operator(
        3,
        "custom::nobody_knows",
        product,
        120,
        &[(205, 20)],
    ));
    // Without a call, without an operator, a copy, and a collective.
    events.push(kernel("lonely", "400", "7", 0, 3, ""));
    events.push(event(
        "cuda_runtime",
        "hipLaunchKernel",
        "500",
        "1",
        r#""correlation": 99"#,
    ));
    events.push(kernel(
        "outside",
        "510",
        "3",
        0,
        3,
        r#", "correlation": 99"#,
    ));
    events.push(kernel("ncclDevKernel_AllReduce", "504", "12", 0, 4, ""));
    let copy = event(
        "gpu_memcpy",
        "Memcpy HtoD (Host -> Device)",
        "600",
        "4",
        r#""device": 0, "stream": 5, "bytes": 64000"#,
    );
    events.push(copy);
    let text = file("AMD Instinct MI300X", &events);
    for by in [
        By::Shapes,
        By::Operator,
        By::Category,
        By::Kernel,
        By::Rank,
        By::Module,
        By::Line,
    ] {
        let options = Options {
            by,
            ..Options::default()
        };
        let (rows, busy_ns) = answered(&text, options);
        assert_eq!(busy_ns, 125_000 + 7_000 + 12_000 + 4_000);
        assert_eq!(sum(&rows, "busy_ns"), busy_ns, "{by:?} {rows:#?}");
        assert_eq!(sum(&rows, "operations"), 9, "{by:?}");
    }
    let (rows, _) = answered(&text, Options::default());
    for (operator, busy_ns, words) in [
        ("custom::nobody_knows", 15_000, "no model"),
        (
            "lonely",
            7_000,
            "the call that launched it is not in the trace",
        ),
        ("outside", 0, "outside of operators"),
        ("ncclDevKernel_AllReduce", 12_000, "rsys-report collectives"),
    ] {
        let row = row(&rows, "operator", operator);
        assert_eq!(row["busy_ns"].as_u64(), Some(busy_ns), "{row}");
        assert!(
            row["why"].as_str().is_some_and(|why| why.contains(words)),
            "{row}"
        );
    }
    let copy = row(&rows, "operator", "Memcpy HtoD (Host -> Device)");
    near(&copy["bytes_per_s"], 16e9);
    near(&copy["roofline_share"], 0.25);
    assert_eq!(copy["bound"], "link");
}

/// Lengths that change with each batch make a chain of each.
#[test]
fn of_many_chains_those_that_save_most_are_kept() {
    const FLOATS: &str = r#"["float", "float"]"#;
    let mut events = Vec::new();
    for number in 1..=250 {
        let dimensions = format!("[[{number}, 64], [{number}, 64]]");
        let lists = [FLOATS, &dimensions, NO_VALUES];
        for (half, name) in ["aten::mul", "aten::add"].into_iter().enumerate() {
            let at = number * 200 + half as u64 * 60;
            let ran = [(100_000 + at, number)];
            events.extend(operator(number * 2 + half as u64, name, lists, at, &ran));
        }
    }
    let mut efficiency = Efficiency::default();
    let (model, batch) = read_bytes(
        file("AMD Instinct MI300X", &events).as_bytes(),
        efficiency.needs(),
    );
    efficiency.take(&batch);
    let chains = rows(&efficiency.answer(&model, "run"), "efficiency_chains");
    let shapes: Vec<&str> = chains
        .iter()
        .filter_map(|row| row["shapes"].as_str())
        .collect();
    assert_eq!((shapes.len(), shapes[0]), (200, "[250, 64], [250, 64]"));
    assert_eq!(shapes[199], "[51, 64], [51, 64]");
}

#[test]
fn bad_shapes_have_a_row_that_says_why_and_the_rest_stands() {
    let mut events = operator(
        1,
        "aten::mm",
        [TWO, "[[64, 64], [64, 64]]", NO_VALUES],
        0,
        &[(1_000, 10)],
    );
    let cases = [
        ("[[64, 64], [63, 64]]", TWO, "contradict"),
        ("[[-64, 64], [64, 64]]", TWO, "negative"),
        ("[[64, 64]]", TWO, "differ in length"),
        (
            "[[18446744073709551615, 18446744073709551615], [18446744073709551615, 9]]",
            TWO,
            "too large",
        ),
        (
            "[[64, 64], [64, 64]]",
            r#"["c10::Odd", "c10::Odd"]"#,
            "c10::Odd",
        ),
        ("[[0, 64], [64, 0]]", TWO, "dimensions is 0"),
        (r#""[[64, 64]""#, TWO, "cannot be read"),
    ];
    for (number, (dimensions, types, _)) in (2..).zip(cases) {
        let lists = [types, dimensions, NO_VALUES];
        events.extend(operator(
            number,
            "aten::mm",
            lists,
            number * 60,
            &[(1_000 + number * 20, 10)],
        ));
    }
    // Nothing was recorded of it.
    let at = (60 * 20).to_string();
    events.push(event(
        "cpu_op",
        "aten::mm",
        &format!("{at}.0"),
        "50.0",
        r#""External id": 3"#,
    ));
    events.push(event(
        "cuda_runtime",
        "hipLaunchKernel",
        &format!("{}", 60 * 20 + 1),
        "1",
        r#""correlation": 777"#,
    ));
    events.push(kernel(
        "last",
        "5000",
        "10",
        0,
        0,
        r#", "correlation": 777"#,
    ));
    let (rows, busy_ns) = answered(&file("AMD Instinct MI300X", &events), Options::default());
    assert_eq!(sum(&rows, "busy_ns"), busy_ns);
    let reasons: Vec<&str> = rows.iter().filter_map(|row| row["why"].as_str()).collect();
    for words in cases
        .map(|(.., words)| words)
        .into_iter()
        .chain(["not recorded"])
    {
        assert!(
            reasons.iter().any(|reason| reason.contains(words)),
            "{words}: {reasons:#?}"
        );
    }
    let good = rows.iter().find(|row| row["why"].is_null());
    assert_eq!(
        good.and_then(|row| row["flop"].as_u64()),
        Some(2 * 64 * 64 * 64),
        "{rows:#?}"
    );
    // A file that is cut off has the rows of what is there.
    let whole = file("AMD Instinct MI300X", &events);
    for end in (100..whole.len()).step_by(97) {
        let (rows, busy_ns) = answered(&whole[..end], Options::default());
        assert_eq!(sum(&rows, "busy_ns"), busy_ns);
    }
}

/// An operator without a model is part of the one around it that has one, unless that has further operators with models.
#[test]
fn the_innermost_operator_with_a_model_has_the_work_once() {
    let product = [TWO, "[[64, 64], [64, 64]]", NO_VALUES];
    let nested = |number: u64, at: u64, inner: &[&str]| {
        let mut events = operator(number, "aten::mm", product, at, &[]);
        for (place, name) in (0..).zip(inner) {
            let args = format!(
                r#""Input type": {TWO}, "Input Dims": [[64, 64], [64, 64]], "Concrete Inputs": {NO_VALUES}"#
            );
            let start = at + 10 * place + 1;
            events.push(event(
                "cpu_op",
                name,
                &format!("{start}.000"),
                "8.000",
                &args,
            ));
            let link = format!(r#""correlation": {}"#, number * 10 + place);
            events.push(event(
                "cuda_runtime",
                "hipLaunchKernel",
                &(start + 1).to_string(),
                "1",
                &link,
            ));
            events.push(kernel(
                "any",
                &(1_000 + at + 10 * place).to_string(),
                "5",
                0,
                0,
                &format!(", {link}"),
            ));
        }
        events
    };
    let mut events = nested(1, 0, &["custom::gemm"]);
    events.extend(nested(2, 100, &["custom::gemm", "aten::add"]));
    let (rows, busy_ns) = answered(&file("AMD Instinct MI300X", &events), Options::default());
    assert_eq!((busy_ns, sum(&rows, "busy_ns")), (15_000, 15_000));
    let count = |name: &str| row(&rows, "operator", name)["count"].as_u64();
    assert_eq!(
        (count("aten::mm"), count("custom::gemm"), count("aten::add")),
        (Some(1), Some(1), Some(1))
    );
}

#[test]
fn a_gpu_that_is_not_known_has_rates_and_no_roofline() {
    let product = [TWO, "[[64, 64], [64, 64]]", NO_VALUES];
    let events = operator(1, "aten::mm", product, 0, &[(100, 10)]);
    let (rows, _) = answered(&file("Voodoo", &events), Options::default());
    let mm = row(&rows, "operator", "aten::mm");
    near(&mm["tflop_per_s"], 2.0 * 64.0_f64.powi(3) / 10e-6 / 1e12);
    assert!(mm["roofline_share"].is_null() && mm["bound"].is_null());
    assert!(
        mm["why"].as_str().is_some_and(|why| why.contains("Voodoo")),
        "{mm}"
    );
}

/// Forty shapes of each of some operators, as PyTorch 2.15's profiler has recorded them on a processor, made by `tests/workloads/operator_work.py`: kernels that are called after
/// what is true, `case OPERATOR #NUMBER OPERATIONS BYTES`, were put into them. (`tests/tests/answers/efficiency.rs` does the same with the PyTorch that is there.)
#[test]
fn operations_and_bytes_are_those_that_pytorch_has_counted() {
    let file = include_bytes!("data/operators-2.15.json.gz");
    let by_kernel = Options {
        by: By::Kernel,
        ..Options::default()
    };
    let mut efficiency = Efficiency::new(by_kernel);
    let (model, batch) = read_bytes(file, efficiency.needs());
    efficiency.take(&batch);
    let rows = rows(&efficiency.answer(&model, "run"), "efficiency");
    let mut operators = std::collections::BTreeSet::new();
    for row in &rows {
        let kernel = row["kernels"].as_str().unwrap();
        let words: Vec<&str> = kernel.split(' ').collect();
        let ["case", operator, _, operations, bytes] = words[..] else {
            panic!("{kernel}");
        };
        operators.insert(operator);
        let counted = [&row["flop"], &row["moved_bytes"]].map(|count| count.as_u64());
        let told = [operations, bytes].map(|count| count.parse().ok());
        assert_eq!(counted, told, "{kernel}: {}", row["why"]);
    }
    assert!(
        rows.len() >= 1_320 && operators.len() > 40,
        "{} {operators:?}",
        rows.len()
    );
    assert_eq!(sum(&rows, "busy_ns"), 5_000 * rows.len() as u64);
}

/// Traces of rsys have the dimensions of tensors alone: operations and rates are known, bytes and the roofline are not.
#[test]
fn dimensions_alone_give_operations() {
    let mut model = model();
    model.devices[0].name = "AMD Instinct MI300X".to_owned();
    let [mm, convolution, kernel] =
        ["aten::mm", "aten::conv2d", "Cijk"].map(|name| model.texts.intern(name));
    let shapes = model.texts.intern("[64, 32] [32, 16]");
    let batch = batch(|batch| {
        for (number, name) in (1..).zip([mm, convolution]) {
            let slice = HostSlice {
                start_ns: 100 * number,
                end_ns: 100 * number + 50,
                thread: thread(0),
                ..HostSlice::default()
            };
            batch.host.push(HostSlice {
                kind: HostKind::Operator,
                name,
                arguments: shapes,
                ..slice
            });
            batch.host.push(HostSlice {
                kind: HostKind::Runtime,
                start_ns: slice.start_ns + 10,
                end_ns: slice.start_ns + 20,
                link: number,
                ..slice
            });
            batch.gpu.push(GpuRecord {
                start_ns: 1_000 * number,
                end_ns: 1_000 * number + 64,
                link: number,
                name: kernel,
                ..GpuRecord::default()
            });
        }
    });
    let mut efficiency = Efficiency::default();
    efficiency.take(&batch);
    let rows = rows(&efficiency.answer(&model, "run"), "efficiency");
    let mm = row(&rows, "operator", "aten::mm");
    assert_eq!(mm["flop"].as_u64(), Some(2 * 64 * 32 * 16));
    near(&mm["tflop_per_s"], 1.024);
    assert!(
        mm["moved_bytes"].is_null() && mm["roofline_share"].is_null(),
        "{mm}"
    );
    assert!(
        mm["why"].as_str().is_some_and(|why| why.contains("types")),
        "{mm}"
    );
    let convolution = row(&rows, "operator", "aten::conv2d");
    assert!(
        convolution["flop"].is_null() && convolution["tflop_per_s"].is_null(),
        "{convolution}"
    );
    assert_eq!(sum(&rows, "busy_ns"), 128);
}

/// Rows of files that are read together.
fn of_files(texts: &[String], options: Options) -> Vec<Value> {
    let scratch = Scratch::new();
    let files: Vec<_> = (0..)
        .zip(texts)
        .map(|(rank, text)| {
            let head = format!(r#"{{"distributedInfo": {{"rank": {rank}, "world_size": 9}}, "#);
            let text = text.replacen('{', &head, 1);
            scratch.write(&format!("rank{rank}.pt.trace.json"), text.as_bytes())
        })
        .collect();
    let mut measures: Vec<Box<dyn Measure>> = vec![Box::new(Efficiency::new(options))];
    let model = pass(&files, &mut measures);
    rows(&measures[0].answer(&model, "run"), "efficiency")
}

/// Texts have numbers of their own in each file.
#[test]
fn operators_of_each_rank_keep_their_own_shapes() {
    let product = |number: u64, size: u64| {
        let shapes = format!("[[{size}, {size}], [{size}, {size}]]");
        let name = format!(
            "aten::{}",
            if number.is_multiple_of(2) {
                "mm"
            } else {
                "add"
            }
        );
        let lists = [TWO, &shapes, NO_VALUES];
        operator(
            number,
            &name,
            lists,
            100 * number,
            &[(100 * number + 60, 10)],
        )
    };
    let rank = |rank: u64| {
        let events: Vec<String> = (1..5)
            .flat_map(|number| product(number, 64 * (10 * rank + number)))
            .collect();
        file("AMD Instinct MI300X", &events)
    };
    let texts: Vec<String> = (1..5).map(rank).collect();
    let together = of_files(&texts, Options::default());
    for (number, text) in (0..).zip(&texts) {
        let alone = answered(text, Options::default()).0;
        let told = |row: &Value| {
            [
                &row["operator"],
                &row["shapes"],
                &row["flop"],
                &row["moved_bytes"],
            ]
            .map(ToString::to_string)
        };
        let mut here: Vec<_> = together
            .iter()
            .filter(|row| row["rank"] == number)
            .map(told)
            .collect();
        let mut expected: Vec<_> = alone.iter().map(told).collect();
        here.sort();
        expected.sort();
        assert_eq!(here, expected, "rank {number}");
        assert_eq!(here.len(), 4);
    }
}

/// Each row: what it is called with, and the reason that is expected of it.
#[test]
fn work_without_its_own_time_has_no_figure() {
    let product = [TWO, "[[512, 512], [512, 512]]", NO_VALUES];
    // One kernel has no duration.
    let mut events = operator(1, "aten::mm", product, 0, &[(1_000, 10), (1_020, 0)]);
    let (rows, busy_ns) = answered(&file("AMD Instinct MI300X", &events), Options::default());
    assert_eq!((sum(&rows, "busy_ns"), busy_ns), (10_000, 10_000));
    assert!(rows[0]["flop"].is_null(), "{rows:#?}");
    assert!(
        rows[0]["why"]
            .as_str()
            .is_some_and(|why| why.contains("no duration"))
    );
    // A whole call beside it has its figures.
    events.extend(operator(2, "aten::mm", product, 100, &[(1_100, 10)]));
    let (rows, _) = answered(&file("AMD Instinct MI300X", &events), Options::default());
    let figures: Vec<_> = rows.iter().filter_map(|row| row["flop"].as_u64()).collect();
    assert_eq!(figures, [2 * 512 * 512 * 512]);
}

#[test]
fn an_operator_around_one_of_its_family_has_no_work_of_its_own() {
    let product = [TWO, "[[1, 64, 64], [1, 64, 64]]", NO_VALUES];
    for (inner, has_work) in [("aten::mm", false), ("aten::add", true)] {
        // The outer one has a kernel of its own, in front of the inner one.
        let mut events = operator(1, "aten::bmm", product, 0, &[(1_000, 5)]);
        let args = format!(
            r#""Input type": {TWO}, "Input Dims": [[64, 64], [64, 64]], "Concrete Inputs": {NO_VALUES}"#
        );
        events.push(event("cpu_op", inner, "20.000", "8.000", &args));
        let link = r#""correlation": 77"#;
        events.push(event("cuda_runtime", "hipLaunchKernel", "22", "1", link));
        events.push(kernel("inner", "1010", "5", 0, 0, &format!(", {link}")));
        let (rows, busy_ns) = answered(&file("AMD Instinct MI300X", &events), Options::default());
        assert_eq!(sum(&rows, "busy_ns"), busy_ns);
        let outer = row(&rows, "operator", "aten::bmm");
        assert_eq!(!outer["flop"].is_null(), has_work, "{inner}: {rows:#?}");
        let of_inner = row(&rows, "operator", inner);
        assert!(!of_inner["flop"].is_null(), "{rows:#?}");
    }
}

#[test]
fn copies_over_the_link_are_apart_from_those_in_memory() {
    let floats = r#"["float", "float", ""]"#;
    let copy = [
        floats,
        "[[500, 500], [500, 500], []]",
        r#"["", "", "False"]"#,
    ];
    let mut events = operator(1, "aten::copy_", copy, 0, &[(1_000, 5)]);
    let args = format!(
        r#""Input type": {floats}, "Input Dims": [[500, 500], [500, 500], []], "Concrete Inputs": ["", "", "False"]"#
    );
    events.push(event("cpu_op", "aten::copy_", "100.000", "50.000", &args));
    let link = r#""correlation": 99"#;
    events.push(event("cuda_runtime", "hipMemcpyAsync", "102", "1", link));
    let memcpy = kernel(
        "Memcpy HtoD (Pinned -> Device)",
        "1100",
        "5",
        0,
        0,
        &format!(r#", {link}, "bytes": 1000000"#),
    );
    events.push(memcpy.replace(r#""cat": "kernel""#, r#""cat": "gpu_memcpy""#));
    for by in [By::Shapes, By::Operator] {
        let options = Options {
            by,
            ..Options::default()
        };
        let (rows, _) = answered(&file("AMD Instinct MI300X", &events), options);
        let mut bounds: Vec<_> = rows.iter().map(|row| row["bound"].as_str()).collect();
        bounds.sort_unstable();
        assert_eq!(bounds, [Some("link"), Some("memory")], "{rows:#?}");
    }
}

#[test]
fn the_best_of_a_family_is_that_of_a_row() {
    // The same product at 52.6 and at 26.3 % of the roofline, on two GPUs of two files.
    let product = [TWO, "[[4096, 4096], [4096, 4096]]", NO_VALUES];
    let rank = |duration| {
        file(
            "AMD Instinct MI300X",
            &operator(1, "aten::mm", product, 0, &[(1_000, duration)]),
        )
    };
    let rows = of_files(&[rank(200), rank(400)], Options::default());
    let slow = rows.iter().find(|row| row["ran_ns"] == 400_000).unwrap();
    assert_eq!(slow["give_back_ns"].as_u64(), Some(200_000), "{rows:#?}");
    // Many shapes of equal time: the best is still one of them.
    let events: Vec<String> = (1..300_u64)
        .flat_map(|number| {
            let shapes = format!("[[1024, {}], [{}, 1024]]", 1024 + number, 1024 + number);
            operator(
                number,
                "aten::mm",
                [TWO, &shapes, NO_VALUES],
                100 * number,
                &[(100 * number + 60, 10)],
            )
        })
        .collect();
    let (rows, _) = answered(&file("AMD Instinct MI300X", &events), Options::default());
    let shares: Vec<f64> = rows
        .iter()
        .filter_map(|row| row["roofline_share"].as_f64())
        .collect();
    let best = shares.iter().copied().fold(0.0, f64::max);
    let worst = rows
        .iter()
        .min_by(|one, other| {
            one["roofline_share"]
                .as_f64()
                .unwrap()
                .total_cmp(&other["roofline_share"].as_f64().unwrap())
        })
        .unwrap();
    let share = worst["roofline_share"].as_f64().unwrap();
    let expected = 10_000.0 * (1.0 - share / best);
    assert_eq!(
        worst["give_back_ns"].as_u64(),
        Some(expected.round() as u64)
    );
}

#[test]
fn a_row_of_which_a_part_has_figures_says_which() {
    let mut events = operator(
        1,
        "aten::mm",
        [TWO, "[[512, 512], [512, 512]]", NO_VALUES],
        0,
        &[(1_000, 10)],
    );
    events.extend(operator(
        2,
        "my::op",
        [TWO, "[[512, 512], [512, 512]]", NO_VALUES],
        100,
        &[(1_100, 90)],
    ));
    let options = Options {
        by: By::Rank,
        ..Options::default()
    };
    let (rows, _) = answered(&file("AMD Instinct MI300X", &events), options);
    let why = rows[0]["why"].as_str().unwrap_or_default();
    assert_eq!(
        why,
        "for 90.0 % of the busy time: no model of this operator"
    );
}

/// A frame of Python or of a module.
fn frame(name: &str, at: u64, duration: u64) -> String {
    event(
        "python_function",
        name,
        &format!("{at}.000"),
        &format!("{duration}.000"),
        "",
    )
}

/// Gradients are computed by a thread without frames, and belong to the modules of the operators that have their numbers.
#[test]
fn gradients_belong_to_the_modules_of_their_operators() {
    let of_autograd = |name: &str, tid: u32, at: u64, number: i64| {
        let args = format!(r#""Sequence number": {number}, "Fwd thread id": 0"#);
        let one = event("cpu_op", name, &format!("{at}.000"), "40.000", &args);
        one.replace("4712", &tid.to_string())
    };
    let launch = |tid: u32, at: u64, link: u64, ran: u64| {
        let args = format!(r#""correlation": {link}"#);
        let call = event(
            "cuda_runtime",
            "hipLaunchKernel",
            &format!("{at}.000"),
            "1.000",
            &args,
        );
        let begin = (10_000 + at).to_string();
        let more = format!(", {args}");
        let ran = kernel("any", &begin, &ran.to_string(), 0, 0, &more);
        [call.replace("4712", &tid.to_string()), ran]
    };
    let backward = "autograd::engine::evaluate_function: MmBackward0";
    let mut events = vec![
        frame("nn.Module: Model_0", 0, 500),
        frame("nn.Module: Linear_0", 100, 100),
        // It has no gradient, and so the number of the next one that has.
        of_autograd("aten::arange", 4712, 10, 7),
        of_autograd("aten::mm", 4712, 110, 7),
        of_autograd("aten::sum", 4712, 300, 8),
        // Not in a module.
        of_autograd("aten::mse_loss", 4712, 600, 9),
        of_autograd(backward, 4713, 1_000, 9),
        of_autograd(backward, 4713, 1_100, 8),
        of_autograd(backward, 4713, 1_200, 7),
        // An operator of the forward pass on another thread has the number of another one.
        of_autograd("aten::add", 4713, 1_300, 7),
    ];
    for (tid, at, link, ran) in [
        (4712, 120, 1, 10),
        (4713, 1_010, 2, 3),
        (4713, 1_110, 3, 4),
        (4713, 1_210, 4, 20),
        (4713, 1_310, 5, 5),
    ] {
        events.extend(launch(tid, at, link, ran));
    }
    let options = Options {
        by: By::Module,
        ..Options::default()
    };
    let (rows, busy_ns) = answered(&file("AMD Instinct MI300X", &events), options);
    assert_eq!(busy_ns, 42_000);
    for (module, busy_ns) in [("Model / Linear", 30_000), ("Model", 4_000)] {
        let row = row(&rows, "module", module);
        assert_eq!(row["busy_ns"].as_u64(), Some(busy_ns), "{rows:#?}");
    }
    let outside = rows.iter().find(|row| row["module"].is_null());
    assert_eq!(outside.and_then(|row| row["busy_ns"].as_u64()), Some(8_000));
}

/// Two calls of a model: each of its layers has two products, of 10 µs and more; the model itself one.
#[test]
fn modules_are_a_tree_whose_layers_are_together() {
    let product = [TWO, "[[64, 64], [64, 64]]", NO_VALUES];
    let (mut events, mut number, mut at, mut gpu_at) = (Vec::new(), 1, 0, 10_000);
    let mut mm = |at: u64, ran: u64, events: &mut Vec<String>| {
        events.extend(operator(number, "aten::mm", product, at, &[(gpu_at, ran)]));
        number += 1;
        gpu_at += ran;
    };
    for _ in 0..2 {
        events.push(frame("train.py(7): step", at, 1_000));
        events.push(frame("nn.Module: Model_0", at + 1, 900));
        for layer in 0..3 {
            let begin = at + 10 + layer * 200;
            events.push(frame(&format!("nn.Module: Layer_{layer}"), begin, 190));
            for linear in 0..2 {
                let inner = begin + 5 + linear * 80;
                let name = format!("nn.Module: Linear_{}", 2 * layer + linear);
                events.push(frame(&name, inner, 70));
                events.push(frame(
                    "torch/nn/modules/linear.py(113): forward",
                    inner + 1,
                    60,
                ));
                mm(inner + 2, 10 + layer, &mut events);
            }
        }
        mm(at + 800, 7, &mut events);
        at += 2_000;
    }
    // Without a module.
    mm(at, 5, &mut events);
    let text = file("AMD Instinct MI300X", &events);
    let asked = |by| {
        let mut efficiency = Efficiency::new(Options {
            by,
            ..Options::default()
        });
        let (model, batch) = read_bytes(text.as_bytes(), efficiency.needs());
        efficiency.take(&batch);
        efficiency.answer(&model, "run")
    };
    let answer = asked(By::Module);
    let tree = rows(&answer, "efficiency_modules");
    let seen: Vec<_> = tree
        .iter()
        .map(|row| {
            let number = |key: &str| row[key].as_u64().unwrap_or(u64::MAX);
            (
                row["module"].as_str().unwrap_or(""),
                ["instances", "count", "total_ns", "own_ns"].map(number),
                row["worst"].as_str(),
            )
        })
        .collect();
    let linears = 2 * 2 * (10 + 11 + 12) * 1_000;
    let whole = linears + 14_000;
    assert_eq!(
        seen,
        [
            ("Model", [1, 2, whole, 14_000], None),
            ("  3 \u{d7} Layer", [3, 6, linears, 0], Some("Layer_2")),
            (
                "    6 \u{d7} Linear",
                [6, 12, linears, linears],
                Some("Linear_4")
            ),
        ]
    );
    near(&tree[1]["mean_ns"], linears as f64 / 3.0);
    assert_eq!(tree[1]["worst_ns"].as_u64(), Some(48_000));
    let flop = 2.0 * 64_f64.powi(3) * 12.0;
    near(&tree[2]["tflop_per_s"], flop / linears as f64 / 1e3);
    // Rows have what was launched in the innermost module.
    let by_module = rows(&answer, "efficiency");
    let linear = row(&by_module, "module", "Model / Layer / Linear");
    assert_eq!(linear["busy_ns"].as_u64(), Some(linears));
    let outside = by_module.iter().find(|row| row["module"].is_null());
    assert_eq!(outside.and_then(|row| row["busy_ns"].as_u64()), Some(5_000));
    let by_line = rows(&asked(By::Line), "efficiency");
    let step = row(&by_line, "function", "step (train.py:7)");
    assert_eq!(step["busy_ns"].as_u64(), Some(whole));
    assert_eq!(sum(&by_line, "busy_ns"), whole + 5_000);
}
