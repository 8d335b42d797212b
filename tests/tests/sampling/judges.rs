//! The judges themselves, on a trace made by hand; and a real trace in the real user interface.

use std::fs;
use std::path::PathBuf;

use rsys_tests::{
    Judge, Run, Scratch, Summary, TestResult, Trace, screenshot, skip_if_missing, workload,
};

/// A few fields of Perfetto's packets, encoded on the spot.
#[derive(Default, Clone)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value > 0x7f {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn number(mut self, field: u64, value: u64) -> Self {
        self.varint(field << 3);
        self.varint(value);
        self
    }

    fn bytes(mut self, field: u64, bytes: &[u8]) -> Self {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    fn text(self, field: u64, text: &str) -> Self {
        self.bytes(field, text.as_bytes())
    }

    fn message(self, field: u64, message: &Self) -> Self {
        self.bytes(field, &message.0)
    }
}

fn message() -> Message {
    Message::default()
}

const PROCESS: u64 = 77;
const THREAD: u64 = 78;
const OURS: u64 = 79;

/// Ten samples of weights 1 to 10 in `_start > main` and `_start > main > hot` in turns; slices that say the same.
fn made_by_hand() -> Vec<u8> {
    let clock = |id, time| message().number(1, id).number(2, time);
    let mut packets = vec![
        message().message(
            6,
            &message()
                .message(1, &clock(6, 1000))
                .message(1, &clock(3, 900))
                .number(2, 6),
        ),
        message().number(10, 1).number(13, 1).message(
            60,
            &message()
                .number(1, PROCESS)
                .message(3, &message().number(1, 42).text(6, "demo")),
        ),
        message().number(10, 1).message(
            60,
            &message()
                .number(1, THREAD)
                .message(4, &message().number(1, 42).number(2, 42).text(5, "demo")),
        ),
        message().number(10, 1).message(
            60,
            &message().number(1, OURS).text(2, "rsys").number(5, PROCESS),
        ),
    ];
    let mut interned = message()
        .message(17, &message().number(1, 1).text(2, "demo"))
        .message(19, &message().number(1, 1).number(7, 1));
    for (id, name) in [(1, "_start"), (2, "main"), (3, "hot")] {
        interned = interned.message(5, &message().number(1, id).text(2, name));
        interned = interned.message(
            6,
            &message()
                .number(1, id)
                .number(2, id)
                .number(3, 1)
                .number(4, 16 * id),
        );
    }
    interned = interned.message(7, &message().number(1, 1).number(2, 1).number(2, 2));
    interned = interned.message(
        7,
        &message()
            .number(1, 2)
            .number(2, 1)
            .number(2, 2)
            .number(2, 3),
    );
    let time_base = message().message(1, &message().number(2, 100).text(10, "cpu-time"));
    packets.push(
        message()
            .number(10, 2)
            .number(13, 1)
            .message(59, &message().message(12, &time_base))
            .message(12, &interned),
    );
    for step in 0..10 {
        let sample = message()
            .number(2, 42)
            .number(3, 42)
            .number(4, 1 + step % 2)
            .number(5, 2)
            .number(6, step + 1);
        packets.push(
            message()
                .number(10, 2)
                .number(13, 2)
                .number(8, 2000 + 100 * step)
                .message(66, &sample),
        );
    }
    let mut event = |time, track, kind, name: &str| {
        let mut event = message().number(9, kind).number(11, track);
        if !name.is_empty() {
            event = event.text(23, name);
        }
        packets.push(message().number(10, 1).number(8, time).message(11, &event));
    };
    event(1900, THREAD, 1, "_start");
    event(1900, THREAD, 1, "main");
    for step in [1, 3, 5, 7, 9] {
        event(1900 + 100 * step, THREAD, 1, "hot");
        event(2000 + 100 * step, THREAD, 2, "");
    }
    event(2900, THREAD, 2, "");
    event(2900, THREAD, 2, "");
    let said = [
        ("samples", 10),
        ("weighted_samples", 55),
        ("dropped", 0),
        ("slices", 7),
    ];
    let mut summary = message().number(9, 3).number(11, OURS).text(23, "summary");
    for (name, value) in said {
        summary = summary.message(4, &message().text(10, name).number(3, value));
    }
    packets.push(
        message()
            .number(10, 1)
            .number(8, 3000)
            .message(11, &summary),
    );
    packets
        .iter()
        .fold(message(), |file, packet| file.message(1, packet))
        .0
}

fn missing_judge() -> Option<String> {
    let none: [PathBuf; 0] = [];
    Judge::load(&none)
        .err()
        .map(|error| format!("the trace processor: {error:#}"))
}

fn hand_made(scratch: &Scratch, bytes: &[u8]) -> anyhow::Result<Trace> {
    let path = scratch.path().join("perfetto-trace-42.proto");
    fs::write(&path, bytes)?;
    let line = format!(
        "rsys: {}: 10 samples (55 weighted), 1 thread, 0 dropped, pid 42 (demo)",
        path.display()
    );
    Trace::load(&path, Summary::parse(&line))
}

#[test]
fn a_correct_trace_passes() -> TestResult {
    skip_if_missing!(missing_judge());
    let scratch = Scratch::new("judge")?;
    let trace = hand_made(&scratch, &made_by_hand())?;
    trace.assert_clean();
    let shares = trace.shares_of("demo")?;
    assert_eq!((shares.samples, shares.weight), (10, 55.0));
    assert_eq!(
        (shares.self_share("hot"), shares.total_share("main")),
        (30.0 / 55.0, 1.0)
    );
    let (timeline, samples) = (trace.timeline()?, trace.samples()?);
    assert_eq!(
        (samples.rooted_share(), timeline.agreement(&samples)),
        (1.0, 1.0)
    );
    assert_eq!((timeline.len(), timeline.covered_ns("demo")), (7, 1000));
    assert!(trace.shares_of("nobody").is_err() && trace.query("select nonsense").is_err());
    Ok(())
}

#[test]
fn faults_are_found() -> TestResult {
    skip_if_missing!(missing_judge().or_else(rsys_tests::missing_schema));
    let scratch = Scratch::new("judge")?;
    let good = made_by_hand();
    let clean = |bytes: &[u8]| -> anyhow::Result<bool> {
        let trace = hand_made(&scratch, bytes)?;
        Ok(std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| trace.assert_clean())).is_ok())
    };
    assert!(clean(&good)?);
    // Cut off: a torn packet. One sample more than said. A slice that is never closed.
    assert!(!clean(&good[..good.len() - 3])?);
    let sample = message()
        .number(10, 2)
        .number(13, 2)
        .number(8, 2950)
        .message(
            66,
            &message()
                .number(2, 42)
                .number(3, 42)
                .number(4, 1)
                .number(6, 1),
        );
    assert!(!clean(
        &[good.clone(), message().message(1, &sample).0].concat()
    )?);
    let open = message().number(10, 1).number(8, 3100).message(
        11,
        &message().number(9, 1).number(11, THREAD).text(23, "open"),
    );
    assert!(!clean(
        &[good.clone(), message().message(1, &open).0].concat()
    )?);
    // A field that a newer Perfetto might know is a mistake too.
    let unheard = message().message(60, &message().number(1, PROCESS).number(999, 1));
    assert!(!clean(&[good, message().message(1, &unheard).0].concat())?);
    Ok(())
}

#[test]
fn the_user_interface_shows_a_trace_made_by_hand() -> TestResult {
    skip_if_missing!(missing_judge().or_else(rsys_tests::missing_browser));
    let scratch = Scratch::new("judge")?;
    let trace = hand_made(&scratch, &made_by_hand())?;
    assert!(screenshot(trace.path(), "made-by-hand")?.is_file());
    Ok(())
}

#[test]
fn the_user_interface_shows_a_real_trace() -> TestResult {
    skip_if_missing!(missing_judge().or_else(rsys_tests::missing_browser));
    let outcome = Run::new().freq(1000).command(workload("imagery")).run()?;
    let trace = outcome.expect_success().trace()?;
    trace.assert_clean();
    assert!(screenshot(trace.path(), "imagery")?.is_file());
    Ok(())
}
