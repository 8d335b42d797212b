//! Counters, and whose they are.

use rsys_traces::model::{Kinds, Model};

use super::{document, event, kernel, read_bytes, read_text};

/// A value of a counter of a process; `more` stands among the members of the event.
fn counter(name: &str, pid: u32, more: &str) -> String {
    format!(
        r#"{{"ph": "C", "name": "{name}", "pid": {pid}, "tid": 0, "ts": 1{more}, "args": {{"value": 2}}}}"#
    )
}

fn processes(model: &Model) -> Vec<(Option<u64>, u32)> {
    let processes = model.processes.iter();
    processes.map(|one| (one.rank, one.pid)).collect()
}

#[test]
fn counters_in_front_are_of_the_process() {
    let events = [
        counter("power", 4711, ""),
        event("cpu_op", "aten::mm", "1", "1", ""),
        kernel("k", "2", "1", 0, 7, ""),
    ];
    let text = format!(
        r#"{{"distributedInfo": {{"rank": 3, "world_size": 8}}, "traceEvents": [{}]}}"#,
        events.join(",")
    );
    let (model, batch) = read_text(&text);
    assert_eq!(processes(&model), [(Some(3), 4711)]);
    assert_eq!(model.processes[0].rank_count, Some(8));
    assert_eq!(batch.counters.len(), 1);
}

/// Two ranks in a file of ours: counters say the process id alone.
#[test]
fn counters_are_of_the_ranks_with_their_process_ids() {
    let slice = |rank: u32| {
        let args = format!(r#""pid_raw": 50, "rank": {rank}, "correlation": {rank}"#);
        let slice = event("cuda_runtime", "hipLaunchKernel", "1", "1", &args);
        slice.replace("4711", &(50 + 1000 * rank).to_string())
    };
    let name = |rank: u32| {
        let pid = 50 + 1000 * rank;
        format!(
            r#"{{"ph": "M", "name": "process_name", "pid": {pid}, "tid": 0, "ts": 0, "args": {{"name": "x", "pid_raw": 50, "rank": {rank}}}}}"#
        )
    };
    let gpu = |rank: u32| {
        let args = format!(r#", "rank": {rank}, "pid_raw": 50"#);
        kernel("k", "1", "1", rank, 7, &args)
    };
    let counters = [counter("power", 50, ""), counter("power", 1050, "")];
    let slices = [slice(0), slice(1)];
    let names = [name(0), name(1)];
    let gpus = [gpu(0), gpu(1)];
    let sensors = Kinds {
        counters: true,
        ..Kinds::default()
    };
    let with_gpu = Kinds {
        gpu: true,
        ..sensors
    };
    for events in [
        [&gpus, &slices, &counters],
        [&counters, &slices, &gpus],
        [&slices, &counters, &gpus],
        [&names, &counters, &gpus],
        [&counters, &names, &gpus],
    ] {
        let events: Vec<String> = events.into_iter().flatten().cloned().collect();
        let text = document(&events);
        for kinds in [sensors, with_gpu, Kinds::ALL] {
            let (model, batch) = read_bytes(text.as_bytes(), kinds);
            let expected = [(Some(0), 50), (Some(1), 50)];
            assert_eq!(processes(&model), expected, "{kinds:?}: {text}");
            let of = batch.counters.iter().map(|one| one.counter.index());
            let of: Vec<_> = of.map(|id| model.counters[id].process.index()).collect();
            assert_eq!(of, [0, 1], "{kinds:?}: {text}");
        }
    }
}

#[test]
fn counters_differ_in_category_and_id() {
    let of = |category: &str, name: &str, id: &str| {
        counter(name, 4711, &format!(r#", "cat": "{category}"{id}"#))
    };
    let events = [
        of("A", "A B C", ""),
        of("A B", "A B C", ""),
        of("A", "A B C", r#", "id": "0x1""#),
        of("A", "A B C", r#", "id": 2"#),
        of("A", "A B C", ""),
    ];
    let (model, batch) = read_text(&document(&events));
    let found = model.counters.iter().map(|one| {
        let text = |id| model.text(id);
        (text(one.group), text(one.name))
    });
    let expected = [
        ("A", "B C"),
        ("A B", "C"),
        ("A", "B C[0x1]"),
        ("A", "B C[2]"),
    ];
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let of = batch.counters.iter().map(|one| one.counter.index());
    assert_eq!(of.collect::<Vec<_>>(), [0, 1, 2, 3, 0]);
}
