//! CPU time by function.

use crate::common::{batch, model, row, rows, stack, sum, thread};
use rsys_analysis::measure::Measure;
use rsys_analysis::measure::host::functions::{By, Functions};
use rsys_traces::model::{Basis, Model, Sample, StackId};
use serde_json::Value;

fn sample(index: usize, stack: StackId, weight: u64, basis: Basis) -> Sample {
    Sample {
        weight,
        thread: thread(index),
        stack,
        basis,
        ..Sample::default()
    }
}

fn measured(by: By) -> (Functions, Model) {
    let mut model = model();
    let recursion = stack(&mut model, &["main", "fact", "fact", "multiply"]);
    let python = stack(&mut model, &["main", "step@/home/me/train.py"]);
    let waiting = stack(
        &mut model,
        &[
            "[waiting]@",
            "main",
            "read@/lib/libc.so.6",
            "read(pipe)@/[kernel]",
        ],
    );
    let mut functions = Functions::new(by);
    functions.take(&batch(|batch| {
        batch.samples = vec![
            sample(0, recursion, 5, Basis::CpuTime),
            sample(1, recursion, 2, Basis::CpuTime),
            sample(0, python, 10, Basis::CpuTime),
            sample(0, StackId::ROOT, 3, Basis::CpuTime),
            sample(0, waiting, 40, Basis::WaitTime),
            sample(0, recursion, 1000, Basis::GpuTime),
            sample(0, recursion, 1000, Basis::Event),
        ];
    }));
    (functions, model)
}

#[test]
fn recursion_counts_once_and_own_times_add_up() {
    let (mut functions, model) = measured(By::default());
    let answer = functions.answer(&model, "");
    let found = rows(&answer, "functions");
    assert_eq!(sum(&found, "self_ns"), 20);
    let time = |name: &str| {
        let row = row(&found, "function", name);
        (row["self_ns"].clone(), row["total_ns"].clone())
    };
    assert_eq!(time("main"), (0.into(), 17.into()));
    assert_eq!(time("fact"), (0.into(), 7.into()));
    assert_eq!(time("multiply"), (7.into(), 7.into()));
    assert_eq!(time("[no stack]"), (3.into(), 3.into()));
    assert_eq!(row(&found, "function", "step")["language"], "Python");
    assert_eq!(row(&found, "function", "main")["language"], "native");
    assert!(
        answer
            .notes
            .iter()
            .any(|note| note.starts_with("1 samples count events"))
    );
}

#[test]
fn lines_and_threads_tell_rows_apart() {
    let by = By {
        line: true,
        thread: true,
        ..By::default()
    };
    let (mut functions, model) = measured(by);
    let found = rows(&functions.answer(&model, ""), "functions");
    assert_eq!(sum(&found, "self_ns"), 20);
    let of_thread = |tid: u64| {
        let multiply = |row: &&Value| row["function"] == "multiply" && row["thread"] == tid;
        found
            .iter()
            .find(multiply)
            .map(|row| (row["line"].clone(), row["self_ns"].clone()))
    };
    assert_eq!(of_thread(10), Some((4.into(), 5.into())));
    assert_eq!(of_thread(11), Some((4.into(), 2.into())));
}

#[test]
fn waits_are_named_by_what_and_where() {
    let (mut functions, model) = measured(By::default());
    let answer = functions.answer(&model, "");
    let waits = rows(&answer, "waits");
    assert_eq!(waits.len(), 1);
    assert_eq!(waits[0]["waited_for"], "read(pipe)");
    assert_eq!(waits[0]["function"], "main");
    assert_eq!(waits[0]["wait_ns"], 40);
    let threads = rows(&answer, "threads");
    assert_eq!(
        (sum(&threads, "cpu_ns"), sum(&threads, "wait_ns")),
        (20, 40)
    );
    assert_eq!(sum(&rows(&answer, "processes"), "cpu_ns"), 20);
}

#[test]
fn looks_divide_the_waits_of_a_thread() {
    let mut model = model();
    model.processes[0].wait_frequency_hz = 100;
    let place = |model: &mut Model, name: &str| {
        stack(model, &["[waiting]@", "main", name, "read@/[kernel]"])
    };
    let (often, seldom) = (place(&mut model, "often"), place(&mut model, "seldom"));
    let mut functions = Functions::new(By::default());
    functions.take(&batch(|batch| {
        batch.samples = vec![
            sample(0, often, 9_000_000_000, Basis::WaitTime),
            sample(0, seldom, 1_000_000_000, Basis::WaitTime),
        ];
    }));
    let answer = functions.answer(&model, "");
    let found = rows(&answer, "waits");
    // A tenth of a thousand looks, and the root of 100 x 0.9 looks of 10 ms.
    let error = |name: &str| row(&found, "function", name)["error_ns"].clone();
    assert_eq!(error("seldom"), Value::from(94_868_330));
    assert_eq!(error("often"), Value::from(94_868_330));
}
