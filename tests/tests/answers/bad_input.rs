//! What `rsys-report` makes of traces with something wrong: a line that says what and where, the answer from the rest, and its exit code.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Result, ensure};
use rsys_tests::simgpu::{Machine, Stack, hip_program};
use rsys_tests::{Run, Scratch, TestResult, report, skip_if_missing};

/// Exit code, and all that was said.
fn ask(words: &[&str], input: &Path) -> Result<(Option<i32>, String)> {
    let output = Command::new(report()?).args(words).arg(input).output()?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    ensure!(!said.contains("panicked"), "{said}");
    Ok((output.status.code(), said))
}

const QUESTIONS: [&str; 3] = ["timeline", "gaps", "summary"];

/// Each question ends with this code and says all of this.
#[track_caller]
fn expect(input: &Path, code: i32, expected: &[&str]) -> TestResult {
    for question in QUESTIONS {
        let (found, said) = ask(&[question], input)?;
        let all = expected.iter().all(|text| said.contains(text));
        ensure!(
            found == Some(code) && all,
            "{question}: {found:?}, not {code} {expected:?}\n{said}"
        );
    }
    Ok(())
}

#[test]
fn a_trace_of_gpus_with_something_wrong_is_answered_as_far_as_it_goes() -> TestResult {
    let stack = Stack::Debian12;
    skip_if_missing!(stack.missing());
    let machine = Machine::new(stack)?;
    let program = hip_program(stack, "hip_ops")?.args(["work", "50", "5"]);
    let outcome = Run::new()
        // In one compressed block, all would be lost with its end.
        .options(["-I", "rocm", "--compress=false"])
        .env("RANK", "1")
        .env("WORLD_SIZE", "4")
        .command(machine.run(program))
        .run()?;
    let trace = outcome.expect_success().trace_of("hip_ops")?;
    let whole = fs::read(trace.path())?;
    let ranks = "3 of the job's 4 ranks are not in these traces: 0, 2, 3";
    expect(trace.path(), 0, &[ranks, "idle"])?;
    ensure!(
        !ask(&["gaps"], trace.path())?.1.contains(": byte "),
        "nothing is wrong with it"
    );

    let scratch = Scratch::new("bad-input")?;
    let write = |name: &str, bytes: &[u8]| -> Result<_> {
        let path = scratch.path().join(name);
        fs::write(&path, bytes)?;
        Ok(path)
    };
    let cut = write("cut.proto", &whole[..whole.len() * 3 / 4 + 1])?;
    expect(&cut, 0, &["cut.proto: byte ", "left out", "idle"])?;
    let mut damaged = whole.clone();
    // At several places, for within a long text nothing would be seen of it; behind those that the file above has.
    for place in [26, 27, 28, 29, 30] {
        let middle = damaged.len() * place / 32;
        damaged[middle..middle + 100].fill(0xff);
    }
    let damaged = write("damaged.proto", &damaged)?;
    expect(&damaged, 0, &["damaged.proto: byte ", "left out", "idle"])?;

    // Of a newer version: packets, and fields of packets, that nobody knows yet.
    let unknown_field = [0xfa, 0xff, 0x3f, 0x02, b'h', b'i'];
    let packet = [&[0x0a, unknown_field.len() as u8][..], &unknown_field].concat();
    let newer = write("newer.proto", &[&packet[..], &whole, &packet].concat())?;
    for question in ["timeline", "gaps"] {
        let [same, found] =
            [trace.path(), &newer].map(|path| ask(&[question, "--label", "x"], path));
        ensure!(found? == same?, "{question} of a newer version");
    }

    // What is wrong with one file does not cost the others.
    write("no-trace.proto", b"this is text\n")?;
    fs::remove_file(&newer)?;
    fs::remove_file(&cut)?;
    let all = [
        "no-trace.proto: neither a Perfetto trace",
        "damaged.proto: byte ",
        "idle",
    ];
    expect(scratch.path(), 0, &all)
}

#[test]
fn what_holds_no_answer_has_a_line_and_a_code() -> TestResult {
    let scratch = Scratch::new("bad-input")?;
    let folder = scratch.path();
    expect(folder, 1, &[&format!("{}", folder.display())])?;
    let text = folder.join("text.proto");
    fs::write(&text, "this is text\n")?;
    expect(
        &text,
        1,
        &["text.proto: neither a Perfetto trace in protobuf form nor JSON or tables of a profiler"],
    )?;
    // What such a file does not hold goes without saying; nor does one without a byte, or one that ends in its first record.
    let empty = folder.join("empty.proto");
    fs::write(&empty, "")?;
    let begun = folder.join("begun.json");
    fs::write(&begun, r#"{"traceEvents": [{"ph": "X""#)?;
    for file in [&text, &empty, &begun] {
        for question in QUESTIONS {
            let (code, said) = ask(&[question], file)?;
            let is_plain = said.contains("nothing was recorded in what could be read")
                && !said.contains("in these traces")
                && !said.contains("profiling itself");
            ensure!(is_plain && code == Some(1), "{question}: {code:?} {said}");
        }
    }
    fs::remove_file(&empty)?;
    fs::remove_file(&begun)?;
    expect(&folder.join("absent.proto"), 1, &["absent.proto"])?;

    // A pipe without a writer: whoever opens it waits for ever.
    let pipe = folder.join("pipe.proto");
    let made = Command::new("mkfifo").arg(&pipe).status()?;
    ensure!(made.success(), "mkfifo: {made}");
    expect(&pipe, 1, &["pipe.proto: not a regular file"])?;
    let (code, said) = ask(&["cut", "-o", "/dev/null", "--force"], &pipe)?;
    ensure!(
        code == Some(1) && said.contains("not a regular file"),
        "cut: {code:?} {said}"
    );
    fs::rename(&text, folder.join("text"))?;
    expect(folder, 1, &["no traces in this folder"])?;

    // Operators, and no GPU.
    let operator = r#"{"ph": "X", "cat": "cpu_op", "name": "aten::add", "pid": 1, "tid": 1, "ts": 5, "dur": 2}"#;
    let json = folder.join("cpu.json");
    fs::write(&json, format!("{{\"traceEvents\": [{operator}]}}"))?;
    for (question, expected) in [("timeline", 1), ("gaps", 1), ("summary", 0)] {
        let (code, said) = ask(&[question], &json)?;
        ensure!(
            code == Some(expected) && said.contains("no operation of a GPU is in these traces"),
            "{question}: {code:?}\n{said}"
        );
    }

    // Clocks that contradict: what ends before it begins has no place in time.
    let kernel = |ts: &str, dur: &str| {
        format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": {ts}, "dur": {dur}, "args": {{"device": 0, "stream": 7}}}}"#
        )
    };
    let events = [
        kernel("100.5", "2"),
        kernel("110", "-3"),
        kernel("120", "4"),
    ];
    let document = format!("{{\"traceEvents\": [{}]}}", events.join(","));
    let at = format!(
        "backward.json: byte {}: ",
        document.find(&events[1]).unwrap_or(0)
    );
    let backward = folder.join("backward.json");
    fs::write(&backward, &document)?;
    expect(&backward, 0, &[&at, "left out", "idle"])?;

    for words in [
        &["gap"][..],
        &["gaps", "--nothing"],
        &["kernels", "--by", "colour"],
        &["gaps", "--json", "--csv"],
    ] {
        let (code, said) = ask(words, &backward)?;
        ensure!(
            code == Some(2) && said.contains("rror"),
            "{words:?}: {code:?} {said}"
        );
    }
    Ok(())
}
