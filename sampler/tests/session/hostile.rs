//! Announcements and shared memory that make no sense.

use super::*;

/// Announcements and memory that lie, then honest work.
pub fn noise() {
    use std::os::fd::AsRawFd;
    let honest = FakeAgent::new(5, 1, RING_WORDS);
    let bytes = honest.hello.to_bytes();
    let good = fake::memory(honest.hello.segment_bytes, true);
    let unsealed = fake::memory(honest.hello.segment_bytes, false);
    let small = fake::memory(4096, true);
    let null = std::fs::File::open("/dev/null").unwrap();
    fake::send(b"", &[]);
    fake::send(b"nonsense", &[]);
    fake::send(&[0xff; 48], &[good.as_raw_fd()]);
    fake::send(&[0; 4000], &[]);
    fake::send(&bytes, &[]);
    fake::send(&bytes, &[good.as_raw_fd(), good.as_raw_fd()]);
    fake::send(&bytes, &[unsealed.as_raw_fd()]);
    fake::send(&bytes, &[small.as_raw_fd()]);
    fake::send(&bytes, &[null.as_raw_fd()]);
    for (count, words, size) in [
        (0, 8192, 0),
        (u32::MAX, 8192, u64::MAX),
        (1, 3, 65_536),
        (1, 8192, 1),
    ] {
        let mut hello = honest.hello;
        (hello.ring_count, hello.ring_words, hello.segment_bytes) = (count, words, size);
        fake::send(&hello.to_bytes(), &[good.as_raw_fd()]);
    }
    let mut orphan = honest.hello;
    (orphan.kind, orphan.segment, orphan.instance) = (2, 1, 1234);
    fake::send(&orphan.to_bytes(), &[good.as_raw_fd()]);
    drop(work(true));
}

#[test]
fn odd_announcements_are_refused_and_harmless() {
    let folder = Folder::new("noise");
    let output = sampler(&folder)
        .args(["-f", "100", "-vv"])
        .args(fake_command("noise"))
        .output()
        .unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert_work(&Trace::read(&folder.traces()[0]));
    assert_eq!(text.matches("warning: refused").count(), 1, "{text}");
    assert!(text.contains("13 datagrams were refused"), "{text}");
}

/// Rings full of random words, with heads that jump, and one honest ring among them.
pub fn hostile() {
    let agent = FakeAgent::new(1, 8, RING_WORDS);
    agent.announce();
    // In the future: no gap between our samples then looks like a thread that is idle now, however
    // slow this machine is.
    let base = fake::boot_time_ns() + 60_000 * MILLISECOND;
    put_start(&agent.ring(0), base, std::process::id(), "honest");
    put_module(&agent.ring(0), base);
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    };
    for round in 0..200_u64 {
        assert!(record::put_sample(
            &agent.ring(0),
            base + round * 10 * MILLISECOND,
            1,
            0,
            0,
            &[at(0x100)]
        ));
        for index in 1..8 {
            let ring = agent.ring(index);
            let words = agent.segment.ring_words(index).unwrap();
            for word in words {
                // Often a header that looks right.
                let value = next();
                let plausible =
                    (value % 7) | (((value >> 20) & 0xff) << 8) | (((value >> 40) & 0x1f) << 32);
                word.store(
                    if value.is_multiple_of(3) {
                        plausible
                    } else {
                        value
                    },
                    std::sync::atomic::Ordering::Relaxed,
                );
            }
            let head = &ring.header().head;
            let step = if next().is_multiple_of(10) {
                next()
            } else {
                next() % u64::from(RING_WORDS)
            };
            head.fetch_add(step, std::sync::atomic::Ordering::Release);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    put_end(&agent.ring(0), base + 3000 * MILLISECOND, 1, "honest");
}

#[test]
fn hostile_memory_costs_its_own_data_only() {
    let folder = Folder::new("hostile");
    let output = sampler(&folder)
        .args(["-f", "100"])
        .args(fake_command("hostile"))
        .output()
        .unwrap();
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    let trace = Trace::read(&folder.traces()[0]);
    let honest = trace
        .slices
        .iter()
        .filter(|slice| trace.threads[&slice.tid] == "honest")
        .count();
    assert_eq!(honest, 1, "its samples are neighbours with one frame");
    assert!(trace.end("corrupt_records") > 0);
}
