//! Writing events into a ring.

use super::{
    ASYNC_BEGIN, ASYNC_END, AWAITED, Arg, BEGIN, Category, END, Encode, FACT, GPU, GpuOp, LABEL,
    Labelled, MARK, PLACE, SPAN, STACK, Stack, TEXT, THREAD,
};
use crate::ring::Producer;
use crate::words::{ThreadName, name_words};

/// The longest text or list of frames that is written, in words: a record must fit the smallest ring twice over.
pub const TEXT_WORDS_MAX: usize = 1024;

fn head(kind: u8, flags: u8, words: usize) -> u64 {
    u64::from(kind) | u64::from(flags) << 8 | (words as u64) << 32
}

/// Writes one record: fixed words and arguments. Returns whether there was room.
#[inline]
fn put(
    ring: &Producer<'_>,
    kind: u8,
    flags: u8,
    fixed: &[u64],
    args: &(impl Encode + ?Sized),
) -> bool {
    let words = 1_usize.wrapping_add(fixed.len()).wrapping_add(args.words());
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(head(kind, flags, words));
    record.put_all(fixed);
    args.put(&mut record);
    record.commit();
    true
}

fn cut(text: &[u8]) -> &[u8] {
    text.get(..TEXT_WORDS_MAX.wrapping_mul(8)).unwrap_or(text)
}

/// Writes whose events follow. Returns whether there was room; so do all functions below, which store into the ring and do nothing else.
#[must_use]
pub fn put_thread(ring: &Producer<'_>, time_ns: u64, tid: u32, name: &ThreadName) -> bool {
    let [first, second] = name_words(name);
    put(
        ring,
        THREAD,
        0,
        &[time_ns, u64::from(tid), first, second],
        &[] as &[Arg<'_>],
    )
}

/// Writes a text. Longer ones than [`TEXT_WORDS_MAX`] are cut.
#[must_use]
pub fn put_text(ring: &Producer<'_>, key: u64, text: &[u8]) -> bool {
    let text = cut(text);
    let words = 3_usize.wrapping_add(text.len().div_ceil(8));
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(head(TEXT, 0, words));
    record.put(key);
    record.put(text.len() as u64);
    record.put_bytes(text);
    record.commit();
    true
}

/// Writes a text that names a place in the code: what happens at the call that returns to `address`.
#[must_use]
pub fn put_place(ring: &Producer<'_>, key: u64, address: u64, text: &[u8]) -> bool {
    let text = cut(text);
    let words = 4_usize.wrapping_add(text.len().div_ceil(8));
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(head(PLACE, 0, words));
    record.put_all(&[key, address, text.len() as u64]);
    record.put_bytes(text);
    record.commit();
    true
}

/// Writes the beginning of a call or range; see [`super::Event::Begin`]. With `awaited`, its operations are recorded later.
#[inline]
#[must_use]
pub fn put_begin(
    ring: &Producer<'_>,
    time_ns: u64,
    category: Category,
    name: u64,
    (correlation, awaited): (u64, bool),
    args: &(impl Encode + ?Sized),
) -> bool {
    let flags = category as u8 | if awaited { AWAITED } else { 0 };
    put(ring, BEGIN, flags, &[time_ns, name, correlation], args)
}

/// Writes the end of a call or range; see [`super::Event::End`].
#[inline]
#[must_use]
pub fn put_end(
    ring: &Producer<'_>,
    time_ns: u64,
    category: Category,
    args: &(impl Encode + ?Sized),
) -> bool {
    put(ring, END, category as u8, &[time_ns], args)
}

/// Writes the beginning and the end of what is over already: both, or nothing if there is no room for both. `when_ns` are their times.
#[must_use]
pub fn put_slice(
    ring: &Producer<'_>,
    when_ns: [u64; 2],
    category: Category,
    name: u64,
    args: &(impl Encode + ?Sized),
) -> bool {
    let [begin_ns, end_ns] = when_ns;
    let begin_words = 4_usize.wrapping_add(args.words());
    let end_words = 2_usize;
    let Some(mut records) = ring.begin(begin_words.wrapping_add(end_words)) else {
        return false;
    };
    records.put(head(BEGIN, category as u8, begin_words));
    records.put_all(&[begin_ns, name, 0]);
    args.put(&mut records);
    records.put(head(END, category as u8, end_words));
    records.put(end_ns);
    records.commit();
    true
}

/// Writes what is over already and that no thread did; see [`super::Event::Span`]. `when_ns` are the times of its beginning and its end.
#[must_use]
pub fn put_span(
    ring: &Producer<'_>,
    when_ns: [u64; 2],
    category: Category,
    name: u64,
    args: &(impl Encode + ?Sized),
) -> bool {
    let [begin_ns, end_ns] = when_ns;
    put(ring, SPAN, category as u8, &[begin_ns, end_ns, name], args)
}

/// Writes a point in time; see [`super::Event::Mark`].
#[must_use]
pub fn put_mark(
    ring: &Producer<'_>,
    time_ns: u64,
    category: Category,
    name: u64,
    correlation: u64,
    args: &[Arg<'_>],
) -> bool {
    put(
        ring,
        MARK,
        category as u8,
        &[time_ns, name, correlation],
        args,
    )
}

/// Writes the beginning of a range that any thread may end.
#[must_use]
pub fn put_async_begin(
    ring: &Producer<'_>,
    time_ns: u64,
    category: Category,
    id: u64,
    name: u64,
    args: &[Arg<'_>],
) -> bool {
    put(
        ring,
        ASYNC_BEGIN,
        category as u8,
        &[time_ns, id, name],
        args,
    )
}

/// Writes the end of such a range.
#[must_use]
pub fn put_async_end(ring: &Producer<'_>, time_ns: u64, category: Category, id: u64) -> bool {
    put(
        ring,
        ASYNC_END,
        category as u8,
        &[time_ns, id],
        &[] as &[Arg<'_>],
    )
}

/// Writes what a GPU did.
#[inline]
#[must_use]
pub fn put_gpu(ring: &Producer<'_>, op: &GpuOp, args: &(impl Encode + ?Sized)) -> bool {
    put(
        ring,
        GPU,
        op.kind as u8,
        &[
            op.start_ns,
            op.end_ns,
            op.correlation,
            u64::from(op.device),
            op.queue,
            op.stream,
            op.name,
        ],
        args,
    )
}

/// Writes a call stack.
#[must_use]
pub fn put_stack(ring: &Producer<'_>, stack: &Stack<'_>) -> bool {
    let words = 3_usize
        .wrapping_add(stack.frames.len())
        .wrapping_add(stack.python.len());
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(head(STACK, stack.flags, words));
    record.put(stack.id);
    record.put(stack.frames.len() as u64 | u64::from(stack.python_flags) << 32);
    for frame in stack.frames.iter().chain(stack.python) {
        record.put(*frame);
    }
    record.commit();
    true
}

/// Writes the name of something.
#[must_use]
pub fn put_label(
    ring: &Producer<'_>,
    what: Labelled,
    id: u64,
    text: &[u8],
    args: &[Arg<'_>],
) -> bool {
    let text = cut(text);
    let words = 3_usize
        .wrapping_add(text.len().div_ceil(8))
        .wrapping_add(args.words());
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(head(LABEL, what as u8, words));
    record.put(id);
    record.put(text.len() as u64);
    record.put_bytes(text);
    args.put(&mut record);
    record.commit();
    true
}

/// Writes something to know about the process.
#[must_use]
pub fn put_fact(ring: &Producer<'_>, key: &[u8], value: &[u8]) -> bool {
    let (key, value) = (cut(key), cut(value));
    let words = 2_usize
        .wrapping_add(key.len().div_ceil(8))
        .wrapping_add(value.len().div_ceil(8));
    let Some(mut record) = ring.begin(words) else {
        return false;
    };
    record.put(head(FACT, 0, words));
    record.put(key.len() as u64 | (value.len() as u64) << 32);
    record.put_bytes(key);
    record.put_bytes(value);
    record.commit();
    true
}
