//! The order of what a file lists says nothing: any order gives the same answers, byte for byte.

use std::path::{Path, PathBuf};

use rsys_analysis::show;

use crate::common::{Scratch, asked, judge};

/// The answers to all questions, as text and as JSON, which is as its schema says.
fn all_answers(file: &Path) -> Vec<String> {
    let mut written = Vec::new();
    for (_, answer) in asked(&[file.to_path_buf()]) {
        let json = show::json(&answer);
        judge(&json);
        written.push(show::text(&answer));
        written.push(format!("{json:#}"));
    }
    written
}

/// Brings a list into another order for each seed.
fn shuffle<T>(list: &mut [T], seed: u64) {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    for last in (1..list.len()).rev() {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        list.swap(last, (state >> 33) as usize % (last + 1));
    }
}

/// So many orders are tried of each file.
const ORDERS: u64 = 12;

/// Writes a file in many orders and compares all answers with those of the first. `write` gets the number of the order, 0 for the first.
fn same_in_any_order(write: impl Fn(&Scratch, u64) -> PathBuf) {
    let scratch = Scratch::new();
    let expected = all_answers(&write(&scratch, 0));
    for seed in 1..=ORDERS {
        let found = all_answers(&write(&scratch, seed));
        for (found, expected) in found.iter().zip(&expected) {
            if found != expected {
                let mut lines = found.lines().zip(expected.lines());
                let first = lines.find(|(one, other)| one != other);
                panic!("order {seed}: {first:#?} in\n{found}\ninstead of\n{expected}");
            }
        }
    }
}

/// Events of a small training: frames of another process, operators, calls, kernels, a copy, a collective, ranges, counters, memory, begins and ends.
fn pytorch() -> Vec<String> {
    let mut events = vec![
        r#"{"ph":"M","name":"process_name","pid":100,"args":{"name":"python"}}"#.to_owned(),
        r#"{"ph":"M","name":"process_labels","pid":0,"args":{"labels":"GPU 0"}}"#.to_owned(),
        r#"{"ph":"M","name":"thread_name","pid":100,"tid":101,"args":{"name":"loader"}}"#.to_owned(),
        r#"{"ph":"X","cat":"python_function","name":"<string>(1): <module>","pid":0,"tid":0,"ts":999000,"dur":90000,"args":{}}"#.to_owned(),
    ];
    let host = |cat: &str, name: &str, ts: u64, dur: u64, args: &str| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":100,"tid":100,"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        )
    };
    let gpu = |cat: &str, name: &str, stream: u64, ts: u64, dur: u64, args: &str| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":0,"tid":{stream},"ts":{ts},"dur":{dur},"args":{{"device":0,"stream":{stream},{args}}}}}"#
        )
    };
    for step in 0..6_u64 {
        let start = 1_000_000 + 10_000 * step;
        events.push(host(
            "user_annotation",
            &format!("ProfilerStep#{step}"),
            start,
            9_900,
            "",
        ));
        events.push(host(
            "python_function",
            "train.py(10): step",
            start,
            9_900,
            "",
        ));
        events.push(host("user_annotation", "forward", start + 100, 4_000, ""));
        for call in 0..5 {
            let (at, link) = (start + 200 + 600 * call, 100 * step + call + 1);
            let args = format!(r#""correlation":{link}"#);
            // Of equal times: their numbers tell which is the outer one.
            events.push(host(
                "cpu_op",
                "aten::linear",
                at,
                300,
                &format!(r#""External id":{link}"#),
            ));
            events.push(host(
                "cpu_op",
                "aten::addmm",
                at,
                300,
                &format!(r#""External id":{}"#, link + 1),
            ));
            events.push(host("cuda_runtime", "hipLaunchKernel", at + 50, 8, &args));
            events.push(gpu(
                "kernel",
                &format!("gemm{}", call % 2),
                7,
                at + 70,
                200,
                &args,
            ));
        }
        // It begins with the first of these, and its launch is not in the file.
        events.push(gpu(
            "kernel",
            "probe",
            9,
            start + 270,
            200,
            r#""grid":[1,1,1]"#,
        ));
        let link = 100 * step + 50;
        let args = format!(r#""correlation":{link},"bytes":65536"#);
        events.push(host(
            "cuda_runtime",
            "hipMemcpyAsync",
            start + 5_000,
            10,
            &args,
        ));
        events.push(gpu(
            "gpu_memcpy",
            "Memcpy HtoD (Pinned -> Device)",
            8,
            start + 5_020,
            100,
            &args,
        ));
        let args = format!(r#""correlation":{}"#, link + 1);
        events.push(host(
            "cuda_runtime",
            "hipLaunchKernel",
            start + 5_100,
            10,
            &args,
        ));
        let args = format!(
            r#"{args},"Collective name":"allreduce","dtype":"Float","In msg nelems":1024,"Out msg nelems":1024,"Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]""#
        );
        events.push(gpu(
            "kernel",
            "ncclDevKernel_Generic",
            20,
            start + 5_200,
            700,
            &args,
        ));
        events.push(host(
            "cuda_runtime",
            "hipDeviceSynchronize",
            start + 6_000,
            500,
            "",
        ));
        let (begin, end) = (start + 7_000, start + 8_000);
        events.push(format!(
            r#"{{"ph":"B","cat":"cpu_op","name":"load","pid":100,"tid":101,"ts":{begin}}}"#
        ));
        events.push(format!(
            r#"{{"ph":"B","cat":"cpu_op","name":"decode","pid":100,"tid":101,"ts":{}}}"#,
            begin + 100
        ));
        events.push(format!(
            r#"{{"ph":"E","pid":100,"tid":101,"ts":{}}}"#,
            end - 100
        ));
        events.push(format!(r#"{{"ph":"E","pid":100,"tid":101,"ts":{end}}}"#));
        events.push(format!(
            r#"{{"ph":"C","name":"GPU Clock [0]","pid":100,"ts":{start},"args":{{"MHz":{}}}}}"#,
            2_000 + 10 * step
        ));
        events.push(format!(
            r#"{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":100,"tid":100,"ts":{},"args":{{"Bytes":4096,"Addr":{},"Device Type":1,"Device Id":0,"Total Allocated":{},"Total Reserved":1048576}}}}"#,
            start + 210, 4096 * (step + 1), 4096 * (step + 1)
        ));
        events.push(format!(r#"{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"checkpoint","pid":100,"tid":100,"ts":{}}}"#, start + 9_000));
    }
    events
}

#[test]
fn events_of_pytorch_come_in_any_order() {
    same_in_any_order(|scratch, seed| {
        let mut events = pytorch();
        if seed > 0 {
            shuffle(&mut events, seed);
        }
        let text = format!(
            r#"{{"schemaVersion":1,"traceEvents":[{}]}}"#,
            events.join(",\n")
        );
        scratch.write("trace.json", text.as_bytes())
    });
}

#[test]
fn rows_of_rocprofv3_come_in_any_order() {
    let kernels = (0..30_u64).map(|one| {
        format!(
            r#""KERNEL_DISPATCH","Agent 1",1,1,100,{one},{},"gemm{}",{},{},{},0,0,8,0,16,64,1,1,1024,1,1"#,
            one % 3,
            one % 3,
            one + 1,
            2_000_000 + 1_000 * one,
            2_000_700 + 1_000 * one
        )
    });
    let kernels: Vec<String> = kernels.collect();
    let calls = (0..30_u64).map(|one| {
        format!(
            r#""HIP_RUNTIME_API","hipLaunchKernel",100,100,{},{},{}"#,
            one + 1,
            1_000_000 + 1_000 * one,
            1_000_300 + 1_000 * one
        )
    });
    let calls: Vec<String> = calls.collect();
    same_in_any_order(|scratch, seed| {
        let (mut kernels, mut calls) = (kernels.clone(), calls.clone());
        if seed > 0 {
            shuffle(&mut kernels, seed);
            shuffle(&mut calls, seed);
        }
        let head = r#""Kind","Agent_Id","Queue_Id","Stream_Id","Thread_Id","Dispatch_Id","Kernel_Id","Kernel_Name","Correlation_Id","Start_Timestamp","End_Timestamp","LDS_Block_Size","Scratch_Size","VGPR_Count","Accum_VGPR_Count","SGPR_Count","Workgroup_Size_X","Workgroup_Size_Y","Workgroup_Size_Z","Grid_Size_X","Grid_Size_Y","Grid_Size_Z""#;
        let text = format!("{head}\n{}\n", kernels.join("\n"));
        let path = scratch.write("100_kernel_trace.csv", text.as_bytes());
        let head = r#""Domain","Function","Process_Id","Thread_Id","Correlation_Id","Start_Timestamp","End_Timestamp""#;
        let text = format!("{head}\n{}\n", calls.join("\n"));
        scratch.write("100_hip_api_trace.csv", text.as_bytes());
        path
    });
}

/// Numbers that look random, and are the same for each seed.
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    fn one_of<'t>(&mut self, texts: &[&'t str]) -> &'t str {
        texts[self.below(texts.len() as u64) as usize]
    }
}

/// An event of any kind, at one of twelve times, with one of six numbers: many are equal in all that orders them usually.
fn one_of_many_equal(draws: &mut Draws) -> String {
    let (ts, dur) = (1_000 + 10 * draws.below(12), 10 * draws.below(4));
    let (tid, stream, device) = (100 + draws.below(2), 7 + draws.below(2), draws.below(2));
    let link = match draws.below(6) {
        0 => String::new(),
        link => format!(r#","correlation":{link}"#),
    };
    let host = |cat: &str, name: &str, args: &str| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":100,"tid":{tid},"ts":{ts},"dur":{dur},"args":{{"x":0{args}}}}}"#
        )
    };
    let gpu = |cat: &str, name: &str, args: &str| {
        format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{device},"tid":{stream},"ts":{ts},"dur":{dur},"args":{{"device":{device},"stream":{stream}{link}{args}}}}}"#
        )
    };
    match draws.below(12) {
        0..3 => {
            let grid = draws.one_of(&["[1,1,1]", "[2,1,1]"]);
            let name = draws.one_of(&["gemm", "relu", "softmax"]);
            gpu("kernel", name, &format!(r#","grid":{grid}"#))
        }
        3 => {
            let name = draws.one_of(&[
                "Memcpy HtoD (Pinned -> Device)",
                "Memcpy DtoH (Device -> Pageable)",
            ]);
            gpu("gpu_memcpy", name, r#","bytes":64"#)
        }
        4 | 5 => {
            let calls = [
                "hipLaunchKernel",
                "hipMemcpy",
                "hipDeviceSynchronize",
                "hipMalloc",
                "hipGraphLaunch",
                "hipStreamWaitEvent",
            ];
            host("cuda_runtime", draws.one_of(&calls), &link)
        }
        6 => {
            let id = draws.one_of(&[
                r#","External id":1"#,
                r#","External id":2,"Input Dims":[[2,3],[3,4]],"Input type":["float","float"]"#,
                "",
            ]);
            host("cpu_op", draws.one_of(&["aten::mm", "aten::add"]), id)
        }
        7 => {
            let name = draws.one_of(&["train.py(10): step", "train.py(20): f"]);
            host("python_function", name, "")
        }
        8 => {
            let name = draws.one_of(&["forward", "ProfilerStep#1", "ProfilerStep#2"]);
            host("user_annotation", name, "")
        }
        9 => {
            let (name, value) = (draws.one_of(&["GPU Clock [0]", "load"]), draws.below(3));
            format!(r#"{{"ph":"C","name":"{name}","pid":100,"ts":{ts},"args":{{"MHz":{value}}}}}"#)
        }
        10 => {
            let (bytes, address) = (4096 * (draws.below(3)) as i64 - 4096, draws.below(2) + 1);
            format!(
                r#"{{"ph":"i","s":"t","name":"[memory]","pid":100,"tid":{tid},"ts":{ts},"args":{{"Bytes":{bytes},"Addr":{address},"Device Type":1,"Device Id":0,"Total Allocated":{},"Total Reserved":9000}}}}"#,
                draws.below(3)
            )
        }
        _ => {
            let name = draws.one_of(&["allreduce", "allgather"]);
            let args = format!(
                r#","Collective name":"{name}","dtype":"Float","In msg nelems":10,"Out msg nelems":10,"Group size":2,"Process Group Name":"0","Process Group Ranks":"[0, 1]""#
            );
            gpu("kernel", "ncclDevKernel_Generic", &args)
        }
    }
}

#[test]
fn events_of_equal_times_and_numbers_come_in_any_order() {
    for file in 0..8 {
        let mut draws = Draws(file);
        let events: Vec<String> = (0..70).map(|_| one_of_many_equal(&mut draws)).collect();
        same_in_any_order(|scratch, seed| {
            let mut events = events.clone();
            if seed > 0 {
                shuffle(&mut events, seed);
            }
            let text = format!(
                r#"{{"distributedInfo":{{"rank":0,"world_size":2}},"traceEvents":[{}]}}"#,
                events.join(",\n")
            );
            scratch.write("trace.json", text.as_bytes())
        });
    }
}

#[test]
fn begins_and_ends_of_equal_times_come_in_any_order() {
    // `outer` ends when `next` begins, which ends at once; `inner` begins and ends with `outer`.
    let edge = |phase: &str, name: &str, ts: u64, id: u64| {
        format!(
            r#"{{"ph":"{phase}","cat":"cpu_op","name":"{name}","pid":100,"tid":100,"ts":{ts},"args":{{"External id":{id}}}}}"#
        )
    };
    let events = [
        edge("B", "outer", 1_000, 1),
        edge("B", "inner", 1_000, 2),
        edge("E", "inner", 2_000, 2),
        edge("E", "outer", 2_000, 1),
        edge("B", "next", 2_000, 3),
        edge("E", "next", 2_000, 3),
        edge("B", "last", 2_500, 4),
        edge("E", "last", 3_000, 4),
    ];
    same_in_any_order(|scratch, seed| {
        let mut events = events.clone();
        if seed > 0 {
            shuffle(&mut events, seed);
        }
        let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(",\n"));
        scratch.write("trace.json", text.as_bytes())
    });
}
