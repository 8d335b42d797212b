//! The thread that asks, and what its frames are told from.

use super::*;

#[test]
fn what_is_no_frame_is_refused() {
    let mut words = python_3_14(false);
    put_frames(&mut words, false, &[(Some(2), 7, 0, 0), (Some(1), 5, 0, 0)]);
    // A code object of another type.
    let mut other = words.clone();
    other.put(0x50_1000 + 8, CODE_TYPE + 8);
    assert_eq!(walk(&other, 10).1, End::Broken);
    assert_eq!(walk(&other, 10).0.len(), 1);
    // A chain that bites its tail.
    let mut cycle = words.clone();
    cycle.put(0x60_0100 + 8, 0x60_0000);
    let (frames, end) = walk(&cycle, 50);
    assert_eq!((frames.len(), end), (50, End::Truncated));
    // An instruction before the first.
    words.put(0x60_0000 + 56, 0x50_2000);
    assert_eq!(walk(&words, 10).0[0].1, None);
}

#[test]
fn only_the_own_thread_is_found_and_only_while_it_is_listed() {
    let mut words = python_3_14(false);
    let known = interpreter(&words);
    assert!(matches!(known.layout.thread.lookup, ThreadLookup::Lists));
    assert_eq!(own_thread(&words, &known), Some(THREAD));
    let mut cached = 0;
    let find = |words: &Words, id: u64, cached: &mut u64| {
        thread::find(words, &known, &Key::new(), id, |_| 0, cached)
    };
    assert_eq!(find(&words, OWN_ID, &mut cached), Some(THREAD));
    assert_eq!(cached, THREAD);
    assert_eq!(find(&words, OWN_ID + 7, &mut cached), None);
    // Unlinked, as when it ended: its memory still says what it said.
    cached = THREAD;
    words.put(THREAD + 0x1000 + 8, 0);
    assert_eq!(find(&words, OWN_ID, &mut cached), None);
}

/// A function of C calls Python back again and again. In the first instructions of the interpreter's function the thread state leads
/// to what the call before has left, and the new frame bears no mark yet.
#[test]
fn a_frame_of_3_11_is_an_entry_before_it_is_marked() {
    const CFRAMES: [u64; 3] = [0x70_0000, 0x70_1000, 0x70_2000];
    const FRAMES: [u64; 3] = [0x71_0000, 0x71_1000, 0x71_2000];
    const CODES: [u64; 3] = [0x72_0000, 0x72_1000, 0x72_2000];
    let no_memory = Words::default();
    let interpreter = Interpreter {
        version: 0x030b_02f0,
        runtime: RUNTIME,
        code_type: CODE_TYPE,
        layout: layout::of_version(0x030b_02f0, &no_memory, RUNTIME).expect("3.11 is known"),
    };
    let mut words = Words::default();
    words.zeros(THREAD, THREAD + 0x200);
    words.put(THREAD + 56, CFRAMES[0]);
    // Innermost first: what C called last, not marked yet; what called C; the outermost.
    for (number, marked) in [0, 0, 1].into_iter().enumerate() {
        let code = CODES[number];
        words.zeros(code, code + 0x200);
        words.put(code + 8, CODE_TYPE);
        let frame = FRAMES[number];
        words.zeros(frame, frame + 0x80);
        words.put(frame + 32, code);
        words.put(frame + 48, FRAMES.get(number + 1).copied().unwrap_or(0));
        words.put_bytes(frame + 68, &[marked]);
    }
    // The first call of the interpreter's function runs the two outer frames, the second one the innermost. Behind them: the root.
    for (cframe, current, previous) in [
        (CFRAMES[0], FRAMES[0], CFRAMES[1]),
        (CFRAMES[1], FRAMES[1], CFRAMES[2]),
        (CFRAMES[2], 0, 0),
    ] {
        words.zeros(cframe, cframe + 24);
        words.put(cframe + 8, current);
        words.put(cframe + 16, previous);
    }
    let mut buffer = [0; 8];
    let walked = stack::walk(&words, &interpreter, THREAD, &mut buffer, |_, _| {});
    assert_eq!((walked.count, walked.end), (3, End::Complete));
    let entries = buffer[..3].iter().map(|word| word & stack::ENTRY != 0);
    assert_eq!(entries.collect::<Vec<bool>>(), [true, false, true]);
}

/// The key of the thread-specific storage is found where it is expected or elsewhere, by what it leads to.
#[test]
fn the_key_proves_itself() {
    let no_memory = Words::default();
    let layout = layout::of_version(0x030b_02f0, &no_memory, RUNTIME).expect("3.11 is known");
    let interpreter = Interpreter {
        version: 0x030b_02f0,
        runtime: RUNTIME,
        code_type: CODE_TYPE,
        layout,
    };
    for place in [592_u64, 1000] {
        let mut words = Words::default();
        words.zeros(RUNTIME, RUNTIME + 16 * 1024);
        words.zeros(THREAD, THREAD + 0x200);
        words.put(THREAD + 152, OWN_ID);
        // Another key of the runtime, with something else behind it.
        words.put(RUNTIME + 800, 1 | 4 << 32);
        words.put(RUNTIME + place, 1 | 5 << 32);
        let specific = |key: u32| match key {
            4 => THREAD + 8,
            5 => THREAD,
            _ => 0,
        };
        let key = Key::new();
        let found = thread::find(&words, &interpreter, &key, OWN_ID, specific, &mut 0);
        assert_eq!(found, Some(THREAD), "at {place}");
        // A thread that never ran Python.
        let found = thread::find(&words, &interpreter, &key, OWN_ID + 1, |_| 0, &mut 0);
        assert_eq!(found, None);
        // The interpreter started again, under another key: one sample later it is found.
        let mut again = words.clone();
        again.put(RUNTIME + place, 1 | 6 << 32);
        let moved = |key: u32| if key == 6 { THREAD } else { 0 };
        let find = |key: &Key| thread::find(&again, &interpreter, key, OWN_ID, moved, &mut 0);
        let other = Key::new();
        assert_eq!(
            thread::find(&words, &interpreter, &other, OWN_ID, specific, &mut 0),
            Some(THREAD)
        );
        assert_eq!((find(&other), find(&other)), (None, Some(THREAD)));
        // The state that holds the GIL, of the same thread, in another interpreter.
        words.zeros(THREAD + 0x1000, THREAD + 0x1200);
        words.put(THREAD + 0x1000 + 152, OWN_ID);
        words.put(RUNTIME + place - 16, THREAD + 0x1000);
        let found = thread::find(&words, &interpreter, &key, OWN_ID, specific, &mut 0);
        assert_eq!(found, Some(THREAD + 0x1000));
    }
}
