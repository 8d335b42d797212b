use super::*;
use crate::waits::record::Completeness;
use proptest::prelude::*;

const MS: u64 = 1_000_000;

fn wait(label: &str, is_own: bool) -> Arc<Wait> {
    Arc::new(Wait {
        label: label.into(),
        words: Box::default(),
        completeness: Completeness::Complete,
        python: None,
        lock: None,
        is_own,
    })
}

fn look(tid: u32, seen_ns: u64, used: Used, wait: &Arc<Wait>) -> WaitRecord {
    WaitRecord::Begin {
        tid,
        time_ns: seen_ns,
        seen_ns,
        used,
        wait: Arc::clone(wait),
    }
}

fn off(tid: u32, begin_ns: u64, end_ns: u64) -> OffTime {
    OffTime {
        tid,
        begin_ns,
        end_ns,
        preempted: false,
    }
}

/// Label, begin, length and whether it was seen of all that was told.
fn told(out: &[WaitRecord]) -> Vec<(String, u64, u64, bool)> {
    let past = out.iter().filter_map(|record| match record {
        WaitRecord::Past(past) => Some((
            past.wait.label.to_string(),
            past.begin_ns,
            past.waited_ns,
            past.is_seen,
        )),
        _ => None,
    });
    past.collect()
}

#[test]
fn a_wait_is_as_long_as_the_switches_say() {
    let mut waits = ExactWaits::new(true, 0);
    let mut out = Vec::new();
    let sleep = wait("sleep", false);
    waits.look(
        vec![look(7, 8 * MS, Used::default(), &sleep)],
        9 * MS,
        &mut out,
    );
    waits.switch([off(7, 5 * MS, 20 * MS)].into_iter(), &[]);
    waits.settle(30 * MS, &mut out);
    assert_eq!(told(&out), [], "looks before 20 ms may not be known yet");
    waits.finish(&mut out);
    assert_eq!(told(&out), [("sleep".to_owned(), 5 * MS, 15 * MS, true)]);
}

#[test]
fn what_a_thread_needed_to_come_back_is_no_wait() {
    let mut waits = ExactWaits::new(true, 0);
    let mut out = Vec::new();
    let sleep = wait("sleep", false);
    let used = |cpu_ns, delay_ns| Used { cpu_ns, delay_ns };
    // Awake at 10 ms, on a processor at 12; that was recorded at 13; blocked again at 20.
    let looks = [
        look(7, 8 * MS, used(0, 0), &sleep),
        look(7, 22 * MS, used(8 * MS, 2 * MS), &sleep),
    ];
    waits.look(looks.to_vec(), 40 * MS, &mut out);
    waits.switch(
        [off(7, 5 * MS, 13 * MS), off(7, 20 * MS, 30 * MS)].into_iter(),
        &[],
    );
    waits.settle(40 * MS, &mut out);
    assert_eq!(told(&out), [("sleep".to_owned(), 5 * MS, 5 * MS, true)]);
    let woken = WaitRecord::Woken {
        tid: 7,
        begin_ns: 11 * MS,
        end_ns: 13 * MS,
    };
    assert!(out.contains(&woken), "{out:?}");
}

/// Where others keep the processors busy, a thread may come back late from one wait and at once from the next: what a short wait cannot lose, a longer
/// one does.
#[test]
fn what_a_short_wait_cannot_lose_a_longer_one_does() {
    let mut waits = ExactWaits::new(true, 0);
    let mut out = Vec::new();
    let sleep = wait("sleep", false);
    let used = |cpu_ns, delay_ns| Used { cpu_ns, delay_ns };
    // Blocked for 2 ms each time; back at once from the first, and 36 ms late from the second.
    let looks = [
        look(7, MS, used(0, 0), &sleep),
        look(7, 43 * MS, used(2 * MS, 36 * MS), &sleep),
    ];
    waits.look(looks.to_vec(), 60 * MS, &mut out);
    let times = [
        off(7, 0, 2 * MS),
        off(7, 3 * MS, 41 * MS),
        off(7, 42 * MS, 44 * MS),
    ];
    waits.switch(times.into_iter(), &[]);
    waits.finish(&mut out);
    let lengths: Vec<u64> = told(&out).iter().map(|one| one.2).collect();
    // Of the first one, what lies before the first look is certain. How late the last one came back is not known: as late as the others on average.
    assert!(
        lengths.contains(&MS) && lengths.contains(&(3 * MS)),
        "{out:?}"
    );
}

#[test]
fn waits_without_a_look_are_called_as_others_of_their_length() {
    let mut waits = ExactWaits::new(true, 0);
    let mut out = Vec::new();
    let (short, long) = (wait("short", false), wait("long", false));
    let used = Used::default();
    let (mut looks, mut times) = (Vec::new(), Vec::new());
    for round in 0..20 {
        let from_ns = round * 100 * MS;
        // Every second is seen.
        if round % 2 == 0 {
            looks.push(look(7, from_ns + MS / 2, used, &short));
            looks.push(look(7, from_ns + 50 * MS, used, &long));
        }
        times.push(off(7, from_ns, from_ns + MS));
        times.push(off(7, from_ns + 40 * MS, from_ns + 60 * MS));
    }
    // Of no length that was seen, and of another thread.
    times.push(off(7, 2_000 * MS, 2_005 * MS));
    times.push(off(8, 0, MS));
    waits.look(looks, 3_000 * MS, &mut out);
    waits.switch(times.into_iter(), &[]);
    waits.finish(&mut out);
    let sum = |label: &str, seen: bool| -> u64 {
        let told = told(&out).into_iter();
        let these = told.filter(|one| one.0 == label && one.3 == seen);
        these.map(|one| one.2).sum()
    };
    assert_eq!(
        (sum("short", true), sum("short", false)),
        (10 * MS, 10 * MS)
    );
    assert_eq!(
        (sum("long", true), sum("long", false)),
        (200 * MS, 200 * MS)
    );
    assert_eq!(sum("not looked at", false), 6 * MS);
}

#[test]
fn waits_of_the_profiler_are_nobodys() {
    let mut waits = ExactWaits::new(true, 0);
    let mut out = Vec::new();
    let own = wait("futex", true);
    waits.look(
        vec![look(7, 2 * MS, Used::default(), &own)],
        9 * MS,
        &mut out,
    );
    waits.switch(
        [off(7, MS, 3 * MS), off(7, 4 * MS, 6 * MS)].into_iter(),
        &[],
    );
    waits.finish(&mut out);
    assert_eq!(told(&out), [], "neither that nor one like it");
    let mut waits = ExactWaits::new(false, 0);
    waits.look(
        vec![look(7, 2 * MS, Used::default(), &own)],
        9 * MS,
        &mut out,
    );
    waits.finish(&mut out);
    assert!(out.is_empty(), "{out:?}");
}

#[test]
fn without_switches_waits_are_those_of_the_looks() {
    let mut waits = ExactWaits::new(true, 0);
    let mut out = Vec::new();
    let begin = look(7, 2 * MS, Used::default(), &wait("read", false));
    let end = WaitRecord::End {
        tid: 7,
        time_ns: 5 * MS,
    };
    waits.look(vec![begin.clone(), end.clone()], 9 * MS, &mut out);
    waits.switch(std::iter::empty(), &[]);
    waits.settle(9 * MS, &mut out);
    assert_eq!(out, [begin, end], "the kernel does not record this process");
}

#[test]
fn a_long_wait_is_shown_before_it_ends() {
    let mut waits = ExactWaits::new(true, 0);
    let mut out = Vec::new();
    let sleep = wait("sleep", false);
    waits.look(
        vec![look(7, 50 * MS, Used::default(), &sleep)],
        400 * MS,
        &mut out,
    );
    waits.switch(std::iter::empty(), &[(7, 10 * MS)]);
    waits.settle(400 * MS, &mut out);
    assert!(
        matches!(out[..], [WaitRecord::Begin { time_ns, .. }, WaitRecord::Continue { .. }] if time_ns == 10 * MS),
        "{out:?}"
    );
    waits.look(vec![WaitRecord::Gone { tid: 7 }], 600 * MS, &mut out);
    waits.switch([off(7, 10 * MS, 500 * MS)].into_iter(), &[]);
    waits.settle(900 * MS, &mut out);
    let end = WaitRecord::End {
        tid: 7,
        time_ns: 500 * MS,
    };
    assert_eq!(out[2..], [end, WaitRecord::Gone { tid: 7 }]);
}

#[test]
fn threads_that_were_never_looked_at_are_forgotten() {
    let mut waits = ExactWaits::new(true, 0);
    let mut out = Vec::new();
    for tid in 0..1000 {
        let begin_ns = u64::from(tid) * 10 * MS;
        waits.look(Vec::new(), begin_ns + 10 * MS, &mut out);
        waits.switch([off(tid, begin_ns, begin_ns + MS)].into_iter(), &[]);
        waits.settle(begin_ns + 10 * MS, &mut out);
    }
    assert!(waits.threads.len() < 250, "{}", waits.threads.len());
    waits.finish(&mut out);
    let sum_ns: u64 = told(&out).iter().map(|one| one.2).sum();
    assert_eq!(sum_ns, 1000 * MS);
}

proptest! {
    /// A thread runs and waits for random times, and is looked at now and then: what is told of its waits is what they took, whatever the looks hit.
    #[test]
    fn told_waits_add_up(
        rounds in prop::collection::vec((1..5_000_000_u64, 1..9_000_000_u64, 0..3_u8, 0..40_000_u64), 1..200),
        settles in 1..20_usize,
    ) {
        let mut waits = ExactWaits::new(true, 100_000);
        let mut out = Vec::new();
        let places = ["a", "b", "c"].map(|label| wait(label, false));
        let (mut now_ns, mut cpu_ns, mut waited_ns, mut last_back_ns) = (1_000_000, 0, 0, 0);
        let (mut looks, mut times) = (Vec::new(), Vec::new());
        let mut is_seen_last = false;
        for (number, &(runs_ns, waits_ns, looked_at, back_ns)) in rounds.iter().enumerate() {
            now_ns += runs_ns;
            cpu_ns += runs_ns;
            let begin_ns = now_ns;
            is_seen_last = looked_at > 0;
            if is_seen_last {
                let used = Used { cpu_ns, delay_ns: 0 };
                let place = &places[number % places.len()];
                looks.push(look(7, begin_ns + waits_ns / 2, used, place));
            }
            // It takes some time of the processor before its return is recorded.
            now_ns += waits_ns + back_ns;
            cpu_ns += back_ns;
            waited_ns += waits_ns;
            last_back_ns = back_ns;
            times.push(off(7, begin_ns, now_ns));
            if number % settles == 0 {
                waits.look(std::mem::take(&mut looks), now_ns, &mut out);
                waits.switch(std::mem::take(&mut times).into_iter(), &[]);
                waits.settle(now_ns, &mut out);
            }
        }
        waits.look(looks, now_ns, &mut out);
        waits.switch(times.into_iter(), &[]);
        waits.finish(&mut out);
        let sum_ns: u64 = told(&out).iter().map(|one| one.2).sum();
        // Before the first look and behind the last, it is not known how long it took to come back.
        let backs: u64 = rounds.iter().map(|one| one.3).sum();
        prop_assert!(sum_ns <= waited_ns + backs);
        // What it took once is taken off where it is not known: of waits of microseconds, all of them.
        let longest_back: u64 = rounds.iter().map(|one| one.3).max().unwrap_or(0);
        let taken_off = longest_back * rounds.len() as u64;
        prop_assert!(sum_ns + taken_off >= waited_ns, "{sum_ns} of {waited_ns}");
        if is_seen_last && rounds.iter().all(|one| one.2 > 0 && one.1 > 40_000) {
            let rounding_ns = rounds.len() as u64;
            prop_assert!(sum_ns.abs_diff(waited_ns) <= 2 * last_back_ns.max(40_000) + rounding_ns, "{sum_ns} of {waited_ns}");
        }
    }
}
