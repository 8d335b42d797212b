//! What is known of threads from outside of their process.

use super::*;

/// `tid` in glibc's `struct pthread`.
const GLIBC_TID: u64 = 720;

#[test]
fn a_thread_is_found_from_outside_by_its_id() {
    const TID: u32 = 4711;
    const NATIVE_ID: u64 = 160;
    let mut words = python_3_14(false);
    words.put(THREAD + 0x1000 + 16, INTERPRETER);
    let known = interpreter(&words);
    let states = |words: &Words| {
        let mut states = Vec::new();
        let whole = thread::list(words, &known, |interpreter, thread| {
            states.push((interpreter, thread));
            Some(())
        });
        (states, whole.is_some())
    };
    let all = [THREAD + 0x1000, THREAD, 0].map(|thread| (INTERPRETER, thread));
    assert_eq!(states(&words), (all.to_vec(), true));
    let belongs = |words: &Words| outside::belongs_to(words, &known, THREAD, TID);
    assert!(!belongs(&words));
    words.put(THREAD + NATIVE_ID, u64::from(TID));
    assert!(belongs(&words));
    // What C code has forked notes the id that its parent had; the C library knows better.
    words.put(THREAD + NATIVE_ID, 7);
    words.put(OWN_ID & !7, 0);
    words.put(OWN_ID + GLIBC_TID, u64::from(TID));
    assert!(belongs(&words));
    // Unlinked: its memory still says what it said.
    words.put(THREAD + 0x1000 + 8, 0);
    assert!(!belongs(&words));
}

#[test]
fn the_lock_is_that_of_the_interpreter() {
    const LOCK: u64 = 0x80_0000;
    let mut words = python_3_14(false);
    // interpreter: ceval.gil
    words.put(RUNTIME + 15 * 8, 0x38);
    let known = interpreter(&words);
    assert_eq!(outside::lock(&words, &known, INTERPRETER), None);
    words.put(INTERPRETER + 0x38, LOCK);
    let lock = outside::lock(&words, &known, INTERPRETER).expect("a lock");
    // The conditions and mutexes follow four words.
    assert!(lock.contains(&(LOCK + 32)) && lock.contains(&(LOCK + 207)));
    assert!(!lock.contains(&(LOCK - 8)) && !lock.contains(&(LOCK + 208)));
    let older = Interpreter {
        layout: layout::of_version(0x030b_02f0, &words, RUNTIME).expect("3.11 is known"),
        ..known
    };
    let lock = outside::lock(&words, &older, 0).expect("in the runtime");
    assert_eq!(lock.start, RUNTIME + 360);
}

#[test]
fn where_c_entered_python_last_is_known_by_its_stack() {
    let mut words = python_3_14(false);
    put_frames(
        &mut words,
        false,
        &[(Some(2), 7, 0, 0), (Some(1), 5, 0, 0), (None, 0, 0, 0)],
    );
    let known = interpreter(&words);
    assert_eq!(stack::entered(&words, &known, THREAD), Some(0x60_0200));
    put_frames(&mut words, false, &[(Some(2), 7, 0, 0)]);
    assert_eq!(stack::entered(&words, &known, THREAD), None);
    // In 3.15 the outermost frame is one in the thread's state, of which no call of C knows.
    words.put(0x60_0000 + 8, THREAD + 0x100);
    words.put_bytes(THREAD + 0x100 + 74, &[3]);
    assert_eq!(stack::entered(&words, &known, THREAD), None);
}
