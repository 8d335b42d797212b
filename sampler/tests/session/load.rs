//! More threads, and more data, than there is room for.

use super::*;

/// Many threads that follow each other in few rings, faster than they are read at times.
pub fn storm() {
    let agent = FakeAgent::new(1, 4, RING_WORDS);
    agent.announce();
    let base = fake::boot_time_ns();
    put_module(&agent.ring(0), base);
    for thread in 0..4_000_u64 {
        let ring = agent.ring((thread % 4) as u32);
        let start = base + thread * MILLISECOND;
        let tid = 100_000 + thread as u32;
        while ring.begin(64).is_none() {
            std::thread::sleep(Duration::from_millis(1));
        }
        put_start(&ring, start, tid, "short");
        assert!(record::put_sample(
            &ring,
            start + MILLISECOND,
            1,
            0,
            0,
            &[at(0x20 + thread % 50), at(0x10)]
        ));
        put_end(&ring, start + MILLISECOND, 10 * MILLISECOND, "short");
    }
}

#[test]
fn many_threads_share_few_rings() {
    let folder = Folder::new("storm");
    let output = sampler(&folder)
        .args(["-f", "100"])
        .args(fake_command("storm"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", stderr(&output));
    let trace = Trace::read(&folder.traces()[0]);
    assert_eq!(
        (
            trace.end("threads"),
            trace.end("samples"),
            trace.samples.len()
        ),
        (4_000, 4_000, 4_000)
    );
    assert_eq!(trace.threads.len(), 4_000);
    assert_eq!(trace.slices.len(), 8_000);
}

/// Samples that differ all, about a megabyte of trace.
pub fn stream() {
    let agent = FakeAgent::new(1, 1, RING_WORDS);
    agent.announce();
    let ring = agent.ring(0);
    let base = fake::boot_time_ns();
    put_module(&ring, base);
    put_start(&ring, base, std::process::id(), "stream");
    for sample in 0..12_000 {
        let frames = [at(0x1000 + sample * 16), at(0x20)];
        let time = base + sample * MILLISECOND;
        while !record::put_sample(&ring, time, 1, 0, 0, &frames) {
            std::thread::sleep(Duration::from_millis(1));
        }
        if sample % 160 == 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn a_full_disk_ends_the_trace_and_not_the_run() {
    let folder = Folder::new("full");
    let words = fake_command("stream")
        .iter()
        .map(|word| format!("'{word}'"))
        .collect::<Vec<_>>()
        .join(" ");
    let words = format!("sh -c \"ulimit -S -f unlimited; exec {words}\"");
    let program = env!("CARGO_BIN_EXE_rsys-sample");
    // Room for a block of packets, and not for all. The limit is for our files, not for the memory
    // of the target.
    let script = format!(
        "ulimit -S -f 800; exec '{program}' -c none --compress=false -o '{}' -f 100 -- {words}",
        folder.path().display()
    );
    let mut command = Command::new("sh");
    for (name, value) in sampler(&folder).get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    let output = command.args(["-c", &script]).output().unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert_eq!(
        text.matches("cannot be written further").count(),
        1,
        "{text}"
    );
    assert!(text.contains("incomplete"), "{text}");
    let trace = Trace::read(&folder.traces()[0]);
    assert!(
        !trace.truncated && !trace.samples.is_empty() && trace.samples.len() < 12_000,
        "{}",
        trace.samples.len()
    );
}
