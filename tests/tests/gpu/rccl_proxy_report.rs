//! `rsys-report collectives` on what RCCL's proxies waited for: the sums of what the trace draws, of a stand-in that plays the library.

use std::collections::BTreeMap;

use anyhow::Context;
use rsys_tests::simgpu::standin as compiled;
use rsys_tests::{Invocation, Run, Scratch, TestResult, Trace, answer, answer_with};

/// The stand-in for the library, and the program that opens it.
fn standin() -> anyhow::Result<Invocation> {
    let library = compiled("rccl_standin", "librccl_standin.so", &["-shared"])?;
    let program = compiled("rccl_standin", "rccl_standin", &["-DPROGRAM"])?;
    Ok(Invocation::new(program).arg(library))
}

/// The length of a union of times.
fn union_ns(mut times: Vec<(i64, i64)>) -> i64 {
    times.sort_unstable();
    let (mut sum, mut until) = (0, i64::MIN);
    for (begin, end) in times {
        sum += (end - begin.max(until)).max(0);
        until = until.max(end);
    }
    sum
}

/// Keys and values of a row of `rsys-report`.
type Row = BTreeMap<&'static str, i64>;

/// What a table of `rsys-report` has to say, by function. It is found from what the trace draws.
fn waited(trace: &Trace) -> anyhow::Result<BTreeMap<String, Row>> {
    let rows = trace.query(
        "with all_slices as (
           select *, coalesce(extract_arg(arg_set_id, 'debug.sequence'), -1) || ' ' || extract_arg(arg_set_id, 'debug.rank') || ' '
             || extract_arg(arg_set_id, 'debug.channel') || extract_arg(arg_set_id, 'debug.direction') as key
           from slice where category = 'rccl_proxy')
         select operation.name as function, extract_arg(operation.arg_set_id, 'debug.rank') as rank, 'work' as part, operation.ts as ts, operation.dur as dur
         from all_slices operation where extract_arg(operation.arg_set_id, 'debug.steps') is not null and operation.key is not null
         union all
         select operation.name, extract_arg(operation.arg_set_id, 'debug.rank'), part.name, part.ts, part.dur
         from slice part join all_slices step on part.parent_id = step.id
           join all_slices operation on operation.key = step.key and extract_arg(operation.arg_set_id, 'debug.steps') is not null
             and step.ts >= operation.ts and step.ts + step.dur <= operation.ts + operation.dur",
    )?;
    let mut times = BTreeMap::<_, Vec<(i64, i64)>>::new();
    for row in rows.iter() {
        let (function, begin) = (row.text("function")?.to_owned(), row.int("ts")?);
        let span = (begin, begin + row.int("dur")?);
        let (part, is_peers) = match row.text("part")? {
            "work" => ("work_ns", false),
            "wait for GPU" => ("gpu_wait_ns", false),
            "flush" => ("flush_ns", false),
            "wait for peer" => ("peer_wait_ns", true),
            "network" => ("network_ns", true),
            "wait for data" => ("data_wait_ns", true),
            other => anyhow::bail!("a part {other}"),
        };
        let keys = [part].into_iter().chain(is_peers.then_some("peers_ns"));
        for key in keys {
            let place = (function.clone(), key, row.int("rank")?);
            times.entry(place).or_default().push(span);
        }
    }
    let mut found: BTreeMap<String, Row> = BTreeMap::new();
    for ((function, key, rank), times) in times {
        let of_function = found.entry(function).or_default();
        let ns = union_ns(times);
        if key != "peers_ns" {
            *of_function.entry(key).or_default() += ns;
        } else if ns >= of_function.get("slowest_wait_ns").copied().unwrap_or(1) {
            // Of two that waited as long, the smaller rank is named: that of the later row.
            of_function.insert("slowest_wait_ns", ns);
            // Each of the two has the other as its peer.
            of_function.insert("slowest_peer", 1 - rank);
        }
    }
    Ok(found)
}

/// `rsys-report collectives` sums up, for each function, what is drawn, also of parts of the job that were read apart.
#[test]
fn reports_say_what_each_collective_waited_for() -> TestResult {
    let run = |version: &str| {
        Run::new()
            .options(["-I", "rccl-proxy"])
            .env("RCCL_STANDIN_NEWEST", version)
            .command(standin()?)
            .run()
    };
    let outcome = run("6")?;
    let expected = waited(&outcome.expect_success().trace()?)?;
    let whole = answer("collectives", &outcome.files())?;
    let table = whole["proxies"].as_array().context("no table")?;
    let functions: Vec<_> = table.iter().map(|row| row["operation"].as_str()).collect();
    assert_eq!(
        functions,
        [Some("ncclAllReduce"), Some("ncclRecv"), Some("ncclSend")]
    );
    for (row, (function, expected)) in table.iter().zip(&expected) {
        assert_eq!(row["operation"], function.as_str(), "{row:#}");
        assert!(expected.len() >= 5, "{expected:?}");
        for (key, value) in expected {
            assert_eq!(row[key], *value, "{key} of {row:#}\n{expected:?}");
        }
        assert_eq!(row["ranks"], 2, "{row:#}");
        let slowest = format!("rank {} of the communicator", row["slowest_peer"]);
        let named = row["slowest"].as_str().unwrap_or_default();
        assert!(named.starts_with(&slowest), "{row:#}");
    }
    assert_eq!(table[0]["message_bytes"], 64, "{:#}", table[0]);
    assert_eq!(table[2]["data_wait_ns"], 0, "{:#}", table[2]);
    let parts = Scratch::new("rccl-proxy")?;
    let folder = parts.path().to_str().context("a path")?;
    for _ in 0..2 {
        let again = answer_with("collectives", &["--parts", folder], &outcome.files())?;
        assert_eq!(again["proxies"], whole["proxies"]);
    }
    // Version 1 names no communicator that others have, and so no collective.
    let outcome = run("1")?;
    let oldest = answer("collectives", &outcome.expect_success().files())?;
    assert!(oldest.get("proxies").is_none(), "{oldest:#}");
    Ok(())
}
