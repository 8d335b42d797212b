//! What is concluded from files of other profilers: each time one with a fault that is planted, and one that is healthy.

mod files;
mod idle;
mod iterations;
mod ranks;
mod runtimes;
mod unrecorded;

use std::path::PathBuf;

use rsys_analysis::show::json;
use serde_json::Value;

use crate::common::{Scratch, asked, judge};

/// A trace as PyTorch's profiler writes it, in microseconds.
#[derive(Default)]
struct Trace {
    events: Vec<String>,
    links: u64,
}

impl Trace {
    fn host(&mut self, category: &str, name: &str, start: u64, duration: u64, args: &str) {
        self.events.push(format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":100,"tid":100,"ts":{start},"dur":{duration},"args":{{{args}}}}}"#
        ));
    }

    fn gpu(&mut self, name: &str, stream: u64, start: u64, duration: u64, link: u64) {
        self.events.push(format!(
            r#"{{"ph":"X","cat":"kernel","name":"{name}","pid":0,"tid":{stream},"ts":{start},"dur":{duration},"args":{{"device":0,"stream":{stream},"correlation":{link}}}}}"#
        ));
    }

    /// A call, and the kernel that it launches.
    fn launch(&mut self, name: &str, (at, call): (u64, u64), (start, duration): (u64, u64)) {
        self.links += 1;
        let link = format!(r#""correlation":{}"#, self.links);
        self.host("cuda_runtime", "hipLaunchKernel", at, call, &link);
        self.gpu(name, 7, start, duration, self.links);
    }

    fn written(&self, scratch: &Scratch, name: &str, head: &str) -> PathBuf {
        let events = self.events.join(",\n");
        let text = format!(r#"{{"schemaVersion":1,{head}"traceEvents":[{events}]}}"#);
        scratch.write(name, text.as_bytes())
    }

    /// The answer to a question.
    fn answer(&self, question: &str) -> Value {
        let scratch = Scratch::new();
        answer(&[self.written(&scratch, "trace.json", "")], question)
    }

    fn advice(&self) -> Vec<(String, String, u64)> {
        findings(&self.answer("advice"))
    }
}

fn answer(files: &[PathBuf], question: &str) -> Value {
    let all = asked(files);
    let found = all.iter().find(|(name, _)| *name == question);
    let value = json(&found.expect("a question").1);
    judge(&value);
    value
}

fn findings(advice: &Value) -> Vec<(String, String, u64)> {
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or("").to_owned();
    let findings = advice["findings"].as_array().expect("findings");
    let found = findings.iter();
    found
        .map(|one| {
            let saves_ns = one["saves_ns"].as_u64().unwrap_or(0);
            (text(one, "rule"), text(one, "place"), saves_ns)
        })
        .collect()
}

fn notes(answer: &Value) -> String {
    answer["notes"].to_string()
}

/// Operators of these names in turn, each in front of a kernel: how long they take, and how long the kernel.
fn operators(names: &[&str], rounds: u64, (code, kernel): (u64, u64)) -> Trace {
    let mut trace = Trace::default();
    let mut now = 1_000_000;
    for _ in 0..rounds {
        for name in names {
            trace.host("cpu_op", name, now, code, "");
            now += code;
            trace.launch("gemm", (now, 5), (now + 10, kernel));
            now += kernel;
        }
    }
    trace
}
