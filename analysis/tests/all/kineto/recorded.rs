//! What files of profilers say of operators and Python functions, as `launch`, `functions` and `gaps` answer it.
//!
//! `data/pytorch-2.15.json.gz` was written by PyTorch 2.15 without a GPU (a training step of a small model, with stacks and shapes), and
//! `data/jax-0.10.json.gz` by JAX 0.10 (three calls of a compiled function); values of arguments and strides were taken out of the first.

use std::collections::{BTreeSet, HashMap};
use std::io::Read;

use flate2::read::GzDecoder;
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::gpu::gaps::Gaps;
use rsys_analysis::measure::gpu::launch::Launch;
use rsys_analysis::measure::host::functions::{By, Functions};
use rsys_analysis::show;
use rsys_traces::model::{HostKind, HostSlice, Kinds};
use serde_json::{Value, json};

use super::{document, event, kernel, notices, read_bytes, read_text};
use crate::common::schema;

const PYTORCH: &[u8] = include_bytes!("data/pytorch-2.15.json.gz");
const JAX: &[u8] = include_bytes!("data/jax-0.10.json.gz");

/// The answer to a question about a file of these bytes.
fn answer(bytes: &[u8], mut measure: impl Measure) -> Value {
    let (model, batch) = read_bytes(bytes, measure.needs());
    measure.take(&batch);
    let answer = show::json(&measure.answer(&model, "run"));
    schema::judge(&answer);
    answer
}

fn rows<'a>(answer: &'a Value, table: &str) -> &'a [Value] {
    answer[table].as_array().map_or(&[], Vec::as_slice)
}

fn sum(rows: &[Value], key: &str) -> u64 {
    rows.iter().map(|row| row[key].as_u64().unwrap()).sum()
}

/// The rows of the tree, each with the names of those that it is below, the outermost first.
fn branches(answer: &Value) -> Vec<(Vec<String>, String)> {
    let mut above: Vec<String> = Vec::new();
    let mut branches = Vec::new();
    for row in rows(answer, "launch_tree") {
        above.truncate(row["depth"].as_u64().unwrap() as usize);
        let name = row["name"].as_str().unwrap().to_owned();
        branches.push((above.clone(), row["kind"].as_str().unwrap().to_owned()));
        above.push(name);
        branches.last_mut().unwrap().0 = above.clone();
    }
    branches
}

fn pytorch() -> Value {
    let mut text = String::new();
    GzDecoder::new(PYTORCH).read_to_string(&mut text).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// A function's name without the address in it.
fn plain(name: &str) -> String {
    match name.rsplit_once(" at 0x") {
        Some((name, _)) => format!("{name}>"),
        None => name.to_owned(),
    }
}

#[test]
fn frames_nest_as_pytorch_says() {
    let mut file = pytorch();
    let events = file["traceEvents"].as_array().unwrap();
    let frames: Vec<Value> = events
        .iter()
        .filter(|event| event["cat"] == "python_function")
        .cloned()
        .collect();
    assert!(frames.len() > 200, "{}", frames.len());
    let by_id: HashMap<u64, &Value> = frames
        .iter()
        .map(|frame| (frame["args"]["Python id"].as_u64().unwrap(), frame))
        .collect();
    // A kernel is launched when each frame begins.
    let mut expected = BTreeSet::new();
    let list = file["traceEvents"].as_array_mut().unwrap();
    for frame in &frames {
        let id = frame["args"]["Python id"].as_u64().unwrap();
        let (mut chain, mut next) = (Vec::new(), Some(id));
        while let Some(frame) = next.and_then(|id| by_id.get(&id)) {
            chain.insert(0, plain(frame["name"].as_str().unwrap()));
            next = frame["args"]["Python parent id"].as_u64();
        }
        chain.push(format!("kernel {id}"));
        expected.insert(chain);
        let args = json!({"correlation": id, "device": 0, "stream": 7});
        let launch = json!({"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": frame["pid"], "tid": frame["tid"],
            "ts": frame["ts"], "dur": 0, "args": args});
        let work = json!({"ph": "X", "cat": "kernel", "name": format!("kernel {id}"), "pid": 0, "tid": 7,
            "ts": frame["ts"].as_f64().unwrap() + id as f64, "dur": 1, "args": args});
        list.extend([launch, work]);
    }
    let answer = answer(file.to_string().as_bytes(), Launch::default());
    let operators: BTreeSet<&str> = rows(&answer, "gpu_operators")
        .iter()
        .filter_map(|row| row["operator"].as_str())
        .collect();
    let found: BTreeSet<Vec<String>> = branches(&answer)
        .into_iter()
        .filter(|(_, kind)| kind == "kernel")
        .map(|(mut chain, _)| {
            chain.retain(|name| !operators.contains(name.as_str()));
            chain
        })
        .collect();
    assert_eq!(found, expected);
    for table in [
        "gpu_operators",
        "gpu_functions",
        "launch_tree",
        "launch_calls",
    ] {
        let total_ns = sum(rows(&answer, table), "exclusive_ns");
        assert_eq!(total_ns, frames.len() as u64 * 1_000, "{table}");
    }
}

#[test]
fn recorded_times_add_up_and_have_shapes() {
    let by = By {
        line: true,
        shapes: true,
        ..By::default()
    };
    let answer = answer(PYTORCH, Functions::new(by));
    let found = rows(&answer, "recorded");
    let file = pytorch();
    let events = file["traceEvents"].as_array().unwrap().iter();
    let recorded = events.filter(|one| {
        ["cpu_op", "python_function"].contains(&one["cat"].as_str().unwrap_or_default())
    });
    assert_eq!(sum(found, "count"), recorded.count() as u64);
    // All that was recorded stands in the frame of the module.
    let whole = found
        .iter()
        .find(|row| row["function"] == "<module>")
        .unwrap();
    let whole_ns = whole["total_ns"].as_u64().unwrap();
    let outside_ns = sum(found, "self_ns") - whole_ns;
    assert!(outside_ns < whole_ns / 10, "{outside_ns} {whole_ns}");
    assert_eq!(
        (&whole["source"], &whole["line"], &whole["language"]),
        (&json!("prof1.py"), &json!(11), &json!("Python"))
    );
    let linear = |row: &&Value| {
        row["function"] == "aten::linear"
            && row["shapes"] == "float[32, 64], float[128, 64], float[128]"
    };
    let linear = found.iter().find(linear).unwrap();
    assert_eq!(
        (&linear["kind"], &linear["count"]),
        (&json!("operator"), &json!(1))
    );
    assert!(linear["self_ns"].as_u64() < linear["total_ns"].as_u64());
    // Who does not ask for shapes has them together.
    let plain = self::answer(PYTORCH, Functions::default());
    let linear: Vec<&Value> = rows(&plain, "recorded")
        .iter()
        .filter(|row| row["function"] == "aten::linear")
        .collect();
    assert_eq!((linear.len(), &linear[0]["count"]), (1, &json!(2)));
}

/// A file with an operator in a Python function, a call in it, and two kernels of which one has no call.
fn small() -> String {
    let args =
        r#""External id": 5, "Input Dims": [[2, 3], [3, 4]], "Input type": ["float", "float"]"#;
    document(&[
        event(
            "python_function",
            "train.py(7): step",
            "10",
            "100",
            r#""Python id": 1"#,
        ),
        event("cpu_op", "aten::mm", "20", "40", args),
        event(
            "cuda_runtime",
            "hipLaunchKernel",
            "30",
            "5",
            r#""correlation": 9"#,
        ),
        kernel("gemm", "50", "7", 0, 7, r#", "correlation": 9"#),
        kernel("lost", "60", "3", 0, 7, r#", "correlation": 11"#),
        event(
            "cuda_runtime",
            "hipLaunchKernel",
            "120",
            "5",
            r#""correlation": 12"#,
        ),
        kernel("later", "130", "2", 0, 7, r#", "correlation": 12"#),
    ])
}

#[test]
fn the_time_of_kernels_is_below_frames_and_operators() {
    for (by_shapes, operator) in [
        (false, "aten::mm"),
        (true, "aten::mm(float[2, 3], float[3, 4])"),
    ] {
        let answer = answer(small().as_bytes(), Launch::new(by_shapes));
        let found: Vec<(u64, &str, &str, u64, u64)> = rows(&answer, "launch_tree")
            .iter()
            .map(|row| {
                let number = |key: &str| row[key].as_u64().unwrap();
                let text = |key: &str| row[key].as_str().unwrap();
                (
                    number("depth"),
                    text("kind"),
                    text("name"),
                    number("inclusive_ns"),
                    number("exclusive_ns"),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                (0, "function", "train.py(7): step", 7_000, 0),
                (1, "operator", operator, 7_000, 0),
                (2, "kernel", "gemm", 7_000, 7_000),
                (0, "none", "(no call stack)", 3_000, 3_000),
                (0, "none", "(no operator)", 2_000, 0),
                (1, "kernel", "later", 2_000, 2_000),
            ]
        );
        let functions: Vec<(&str, Option<&str>, u64)> = rows(&answer, "gpu_functions")
            .iter()
            .map(|row| {
                (
                    row["function"].as_str().unwrap(),
                    row["module"].as_str(),
                    row["exclusive_ns"].as_u64().unwrap(),
                )
            })
            .collect();
        assert_eq!(
            functions,
            [
                ("step", Some("train.py:7"), 7_000),
                ("(no call stack)", None, 5_000)
            ]
        );
        let shapes = &rows(&answer, "gpu_operators")[0]["shapes"];
        assert_eq!(
            shapes.as_str(),
            by_shapes.then_some("float[2, 3], float[3, 4]")
        );
    }
}

#[test]
fn idle_times_have_the_operator_that_the_thread_was_in() {
    let text = document(&[
        event(
            "cuda_runtime",
            "hipLaunchKernel",
            "10",
            "1",
            r#""correlation": 1"#,
        ),
        kernel("a", "20", "10", 0, 7, r#", "correlation": 1"#),
        event("python_function", "data.py(3): load", "12", "5000", ""),
        event("cpu_op", "aten::stack", "100", "4000", ""),
        event(
            "cuda_runtime",
            "hipLaunchKernel",
            "5100",
            "1",
            r#""correlation": 2"#,
        ),
        kernel("b", "5110", "10", 0, 7, r#", "correlation": 2"#),
    ]);
    let answer = answer(text.as_bytes(), Gaps::default());
    let causes = answer["runs"][0]["devices"][0]["causes"].as_array();
    let causes = causes.unwrap_or_else(|| panic!("{answer:#}"));
    let time = |place: &str| {
        let of_place = causes
            .iter()
            .filter(|row| row["where"].as_str().is_some_and(|one| one.contains(place)));
        of_place
            .map(|row| row["idle_ns"].as_u64().unwrap())
            .sum::<u64>()
    };
    assert_eq!(time("aten::stack"), 4_000_000, "{answer:#}");
    assert_eq!(time("load"), 70_000 + 912_000, "{answer:#}");
}

/// The same in the form of JAX's and TensorFlow's profilers, whose events have no categories.
const WITHOUT_CATEGORIES: &str = r#"{"displayTimeUnit":"ns","metadata":{"highres-ticks":true},"traceEvents":[
{"ph":"M","pid":1,"name":"process_name","args":{"name":"/device:GPU:3"}},
{"ph":"M","pid":1,"tid":14,"name":"thread_name","args":{"name":"Stream #14(Kernel,MemcpyH2D)"}},
{"ph":"M","pid":1,"tid":99,"name":"thread_name","args":{"name":"XLA Ops"}},
{"ph":"M","pid":701,"name":"process_name","args":{"name":"/host:CPU"}},
{"ph":"M","pid":701,"tid":5,"name":"thread_name","args":{"name":"python3"}},
{"ph":"X","pid":701,"tid":5,"ts":10,"dur":90,"name":"$train.py:7 step"},
{"ph":"X","pid":701,"tid":5,"ts":12,"dur":80,"name":"train","args":{"step_num":"0"}},
{"ph":"X","pid":701,"tid":5,"ts":20,"dur":60,"name":"PjitFunction(f)"},
{"ph":"X","pid":701,"tid":5,"ts":30,"dur":5.0000000000000001,"name":"hipLaunchKernel","args":{"correlation_id":"77"}},
{"ph":"X","pid":1,"tid":14,"ts":50,"dur":7,"name":"gemm_fusion","args":{"correlation_id":"77","hlo_op":"dot.1","hlo_module":"jit_f"}},
{"ph":"X","pid":1,"tid":99,"ts":50,"dur":7,"name":"dot.1","args":{"hlo_module":"jit_f"}},
{"ph":"X","pid":1,"tid":14,"ts":60,"dur":2,"name":"MemcpyH2D","args":{"memcpy_details":"kind_src:pageable kind_dst:device size:4096 dest:3 async:1"}},
{"ph":"X","pid":1,"tid":14,"ts":70},
{}]}"#;

#[test]
fn events_without_categories_are_known_by_their_threads() {
    let (model, batch) = read_text(WITHOUT_CATEGORIES);
    let found: Vec<_> = batch
        .gpu
        .iter()
        .map(|one| {
            (
                model.text(one.name),
                one.start_ns,
                one.end_ns,
                one.bytes,
                model.text(one.direction),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("gemm_fusion", 50_000, 57_000, 0, ""),
            ("MemcpyH2D", 60_000, 62_000, 4096, "host to device"),
            ("", 70_000, 70_000, 0, ""),
        ]
    );
    assert_eq!(model.devices.len(), 1);
    assert_eq!(model.devices[0].ordinal, 3);
    assert_eq!(model.processes.len(), 1);
    let kinds: Vec<_> = batch.host.iter().map(|slice| slice.kind).collect();
    assert_eq!(
        kinds,
        [
            HostKind::Function,
            HostKind::Range,
            HostKind::Function,
            HostKind::Runtime
        ]
    );
    let answer = answer(WITHOUT_CATEGORIES.as_bytes(), Launch::default());
    let gemm = branches(&answer)
        .into_iter()
        .find(|(chain, _)| chain.last().is_some_and(|name| name == "gemm_fusion"));
    assert_eq!(
        gemm.unwrap().0,
        ["$train.py:7 step", "PjitFunction(f)", "gemm_fusion"]
    );
}

#[test]
fn operators_are_of_the_framework_whose_profiler_recorded_them() {
    let xla = WITHOUT_CATEGORIES.replace(
        r#""name":"PjitFunction(f)""#,
        r#""name":"call.1","args":{"hlo_op":"call.1"}"#,
    );
    for (text, operator, framework) in [(small(), "aten::mm", "PyTorch"), (xla, "call.1", "XLA")] {
        let answer = answer(text.as_bytes(), Launch::default());
        let mut found = rows(&answer, "gpu_operators").iter();
        let row = found.find(|row| row["operator"] == operator).unwrap();
        assert_eq!(row["framework"], framework);
    }
}

#[test]
fn a_function_without_a_line_has_its_source_alone() {
    let text = WITHOUT_CATEGORIES.replace("$train.py:7 step", "$<unknown> __exit__");
    let answer = answer(text.as_bytes(), Launch::default());
    let mut found = rows(&answer, "gpu_functions").iter();
    let row = found.find(|row| row["function"] == "__exit__").unwrap();
    assert_eq!(row["module"], "<unknown>");
}

#[test]
fn a_file_of_jax_has_its_functions_and_operators() {
    let answer = answer(JAX, Functions::default());
    let found = rows(&answer, "recorded");
    let row = |name: &str| found.iter().find(|row| row["function"] == name).unwrap();
    assert_eq!(
        (&row("step")["source"], &row("step")["count"]),
        (&json!("jx.py"), &json!(3))
    );
    // It calls itself.
    assert_eq!(row("PjitFunction(f)")["count"], 6);
    assert!(row("PjitFunction(f)")["total_ns"].as_u64() < row("step")["total_ns"].as_u64());
    assert_eq!(
        (&row("wrapped_tanh")["kind"], &row("wrapped_tanh")["count"]),
        (&json!("operator"), &json!(3))
    );
    let (model, batch) = read_bytes(JAX, Kinds::ALL);
    let steps = batch
        .host
        .iter()
        .filter(|slice| slice.kind == HostKind::Range);
    assert_eq!(steps.count(), 3);
    assert!(
        notices(&model)[0]
            .1
            .starts_with("no operations of GPUs, but"),
        "{:?}",
        notices(&model)
    );
}

#[test]
fn who_asks_for_recorded_slices_has_no_others() {
    let kinds = Kinds {
        recorded: true,
        ..Kinds::default()
    };
    let (_, batch) = read_bytes(PYTORCH, kinds);
    let is_recorded =
        |slice: &HostSlice| matches!(slice.kind, HostKind::Operator | HostKind::Function);
    assert!(batch.host.iter().all(is_recorded) && batch.len() == batch.host.len());
    let (_, all) = read_bytes(PYTORCH, Kinds::ALL);
    assert_eq!(
        batch.host.len(),
        all.host.iter().filter(|slice| is_recorded(slice)).count()
    );
}

#[test]
fn older_and_damaged_forms_are_answered() {
    // Versions before 1.12, ids as texts, no `External id`, no `args`.
    let old = r#"[{"ph":"X","cat":"Operator","name":"aten::mm","pid":"7","tid":"main thread","ts":"20","dur":"40"},
        {"ph":"X","cat":"Runtime","name":"hipLaunchKernel","pid":"7","tid":"main thread","ts":"30","dur":"5","args":{"correlation":"9"}},
        {"ph":"X","cat":"Kernel","name":"gemm","pid":"0","tid":"stream 7","ts":"50","dur":"7","args":{"correlation":"9"}},
        {"ph":"X","cat":"Kernel","name":"free","pid":"0","tid":"stream 7","ts":"60","dur":"1"},
        {"ph":"X","cat":"Kernel","name":"free","pid":"0","tid":"stream 7","ts":"62","dur":"0"}]"#;
    let answer = answer(old.as_bytes(), Launch::default());
    let found: Vec<Vec<String>> = branches(&answer)
        .into_iter()
        .map(|(chain, _)| chain)
        .collect();
    assert_eq!(
        found,
        [
            vec!["aten::mm"],
            vec!["aten::mm", "gemm"],
            vec!["(no call stack)"]
        ]
    );

    let launching = |mut events: Vec<String>| {
        let args = r#""correlation": 9"#;
        events.push(event("cuda_runtime", "hipLaunchKernel", "12", "1", args));
        events.push(kernel("gemm", "300", "9", 0, 7, &format!(", {args}")));
        document(&events)
    };
    for (what, text, kernels_ns) in [
        (
            "shapes that are no lists",
            small().replace("[[2, 3], [3, 4]]", "{\"a\": [}]"),
            12_000,
        ),
        (
            "a function that begins again and again",
            launching(vec![
                event("python_function", "f.py(1): f", "10", "5", "");
                200
            ]),
            9_000,
        ),
        (
            "frames that cross",
            launching(
                (0..200)
                    .map(|at| {
                        event(
                            "python_function",
                            &format!("f.py({at}): f"),
                            &at.to_string(),
                            "50",
                            "",
                        )
                    })
                    .collect(),
            ),
            9_000,
        ),
        (
            "an operator of no time",
            launching(vec![event("cpu_op", "aten::mm", "10", "0", "")]),
            9_000,
        ),
    ] {
        let launch = self::answer(text.as_bytes(), Launch::new(true));
        let functions = self::answer(
            text.as_bytes(),
            Functions::new(By {
                shapes: true,
                ..By::default()
            }),
        );
        for table in ["gpu_operators", "gpu_functions", "launch_tree"] {
            let total_ns = sum(rows(&launch, table), "exclusive_ns");
            assert_eq!(total_ns, kernels_ns, "{what}: {table}");
        }
        assert!(!rows(&functions, "recorded").is_empty(), "{what}");
        let covered_ns = sum(rows(&functions, "recorded"), "self_ns");
        assert!(covered_ns <= 300_000, "{what}: {covered_ns}");
    }
}
