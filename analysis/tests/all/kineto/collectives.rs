//! What kernels of collectives say of their operation, as PyTorch writes it.

use rsys_analysis::measure::Measure;
use rsys_analysis::measure::job::iterations::Iterations;
use rsys_analysis::show;
use rsys_traces::model::CollectiveCall;

use super::{document, event, kernel, read_bytes, read_text};
use crate::common::schema;

/// A kernel of an operation of rank 5, the second of its group.
fn operation(name: &str, ts: u32, more: &str) -> String {
    let more = format!(
        r#", "Collective name": "{name}", "dtype": "Float", "In msg nelems": 8, "Group size": 3, "Process Group Name": "7", "Process Group Ranks": "[4, 5, 9]"{more}"#
    );
    kernel("ncclDevKernel_Generic", &ts.to_string(), "1", 0, 7, &more)
}

fn of_rank_5(events: &[String]) -> Vec<CollectiveCall> {
    let text = document(events).replacen('{', r#"{"distributedInfo": {"rank": 5}, "#, 1);
    let (_, mut batch) = read_text(&text);
    batch.collectives.sort_by_key(|call| call.start_ns);
    assert_eq!(batch.collectives.len(), batch.gpu.len());
    batch.collectives
}

#[test]
fn kernels_without_numbers_count_by_time_and_messages_by_the_other_side() {
    let send = |ts, rank| operation("send", ts, &format!(r#", "Dst Rank": {rank}, "Seq": {ts}"#));
    let receive =
        |ts, rank| operation("recv", ts, &format!(r#", "Src Rank": {rank}, "Seq": {ts}"#));
    let found = of_rank_5(&[
        operation("allreduce", 9, ""),
        operation("allreduce", 1, ""),
        receive(8, 4),
        send(2, 9),
        send(3, 4),
        receive(4, 4),
        operation("allreduce", 5, ""),
        send(6, 9),
    ]);
    let found: Vec<_> = found
        .iter()
        .map(|call| (call.start_ns / 1_000, call.sequence, call.rank, call.peer))
        .collect();
    let expected = [
        (1, 0, None),
        (2, 0, Some(2)),
        (3, 0, Some(0)),
        (4, 0, Some(0)),
        (5, 1, None),
        (6, 1, Some(2)),
        (8, 1, Some(0)),
        (9, 2, None),
    ];
    let expected = expected.map(|(us, sequence, peer)| (us, Some(sequence), Some(1), peer));
    assert_eq!(found, expected);
}

/// RCCL's call says how much goes to each rank; PyTorch counts what goes to all, but for operations whose parts differ.
#[test]
fn exchanges_have_the_bytes_of_each_rank() {
    let found = of_rank_5(&[
        operation("allreduce", 1, ""),
        operation("all_to_all", 2, ""),
        operation("all_to_allv", 3, ""),
    ]);
    let bytes: Vec<u64> = found.iter().map(|call| call.bytes).collect();
    assert_eq!(bytes, [32, 10, 32]);
}

/// PyTorch's `Rank` is the root of a broadcast, and the other side of a message.
#[test]
fn the_rank_that_a_kernel_names_is_not_always_the_callers() {
    let names = ["allreduce", "broadcast", "_reduce_oop", "send"];
    let events = names.map(|name| {
        let text = operation(name, 1, r#", "Rank": 2, "Seq": 1"#);
        text.replace(r#""[4, 5, 9]""#, r#""""#)
    });
    let (_, batch) = read_text(&document(&events));
    let mut found: Vec<_> = batch
        .collectives
        .iter()
        .map(|call| (call.rank, call.peer))
        .collect();
    found.sort_unstable();
    let nobody = (None, None);
    assert_eq!(found, [nobody, nobody, (None, Some(2)), (Some(2), None)]);
}

#[test]
fn iterations_know_the_operation_that_a_kernel_names() {
    let mut events = vec![event("user_annotation", "ProfilerStep#1", "0", "100", "")];
    for (link, name, begin) in [
        (1, "allreduce", 20),
        (2, "_reduce_scatter_base", 40),
        (3, "_allgather_base", 60),
    ] {
        let link = format!(r#""correlation": {link}"#);
        events.push(event("cuda_runtime", "hipLaunchKernel", "1", "1", &link));
        events.push(operation(
            name,
            begin,
            &format!(r#", {link}, "Seq": {begin}"#),
        ));
    }
    events.push(event(
        "cuda_runtime",
        "hipLaunchKernel",
        "1",
        "1",
        r#""correlation": 4"#,
    ));
    events.push(kernel("gemm", "10", "80", 0, 3, r#", "correlation": 4"#));
    let mut measure = Iterations::default();
    let (model, batch) = read_bytes(document(&events).as_bytes(), measure.needs());
    measure.take(&batch);
    let answer = show::json(&measure.answer(&model, "run"));
    schema::judge(&answer);
    let row = &answer["overlap_ranks"][0];
    assert_eq!(row["compute_allreduce_ns"], 1_000, "{answer:#}");
    assert_eq!(row["compute_reducescatter_ns"], 1_000, "{answer:#}");
    assert_eq!(row["overlap_ratio"], 2.0 / 80.0, "{answer:#}");
}
