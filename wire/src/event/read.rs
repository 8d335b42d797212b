//! Reading events.

use super::{
    ASYNC_BEGIN, ASYNC_END, AWAITED, Args, BEGIN, Category, END, Event, FACT, GPU, GpuOp, LABEL,
    Labelled, MARK, OpKind, PLACE, SPAN, STACK, Stack, TEXT, THREAD,
};
use crate::words::{bytes_of, name_of};

/// Whether a kind of record is an event's.
pub(crate) fn is_event(kind: u8) -> bool {
    (THREAD..48).contains(&kind)
}

/// Reads the body of an event's record.
pub(crate) fn parse(kind: u8, flags: u8, body: &[u64]) -> Option<Event<'_>> {
    let category = || Category::from_flags(flags);
    Some(match (kind, body) {
        (THREAD, [time_ns, tid, name @ ..]) if name.len() == 2 => Event::Thread {
            time_ns: *time_ns,
            tid: u32::try_from(*tid).ok()?,
            name: name_of(name)?,
        },
        (TEXT, [key, bytes, text @ ..]) => Event::Text {
            key: *key,
            text: bytes_of(text, usize::try_from(*bytes).ok()?)?,
        },
        (PLACE, [key, address, bytes, text @ ..]) => Event::Place {
            key: *key,
            address: *address,
            text: bytes_of(text, usize::try_from(*bytes).ok()?)?,
        },
        (BEGIN, [time_ns, name, correlation, words @ ..]) => Event::Begin {
            time_ns: *time_ns,
            category: Category::from_flags(flags & !AWAITED)?,
            name: *name,
            correlation: *correlation,
            awaited: flags & AWAITED != 0,
            args: Args { words },
        },
        (END, [time_ns, words @ ..]) => Event::End {
            time_ns: *time_ns,
            category: category()?,
            args: Args { words },
        },
        (MARK, [time_ns, name, correlation, words @ ..]) => Event::Mark {
            time_ns: *time_ns,
            category: category()?,
            name: *name,
            correlation: *correlation,
            args: Args { words },
        },
        (SPAN, [begin_ns, end_ns, name, words @ ..]) => Event::Span {
            begin_ns: *begin_ns,
            end_ns: *end_ns,
            category: category()?,
            name: *name,
            args: Args { words },
        },
        (ASYNC_BEGIN, [time_ns, id, name, words @ ..]) => Event::AsyncBegin {
            time_ns: *time_ns,
            category: category()?,
            id: *id,
            name: *name,
            args: Args { words },
        },
        (ASYNC_END, [time_ns, id]) => Event::AsyncEnd {
            time_ns: *time_ns,
            category: category()?,
            id: *id,
        },
        (
            GPU,
            [
                start_ns,
                end_ns,
                correlation,
                device,
                queue,
                stream,
                name,
                words @ ..,
            ],
        ) => Event::Gpu {
            op: GpuOp {
                kind: OpKind::from_flags(flags)?,
                start_ns: *start_ns,
                end_ns: *end_ns,
                correlation: *correlation,
                device: u32::try_from(*device).ok()?,
                queue: *queue,
                stream: *stream,
                name: *name,
            },
            args: Args { words },
        },
        (STACK, [id, split, frames @ ..]) => {
            let (frames, python) = frames.split_at_checked((*split as u32) as usize)?;
            Event::Stack(Stack {
                id: *id,
                flags,
                frames,
                python_flags: (split >> 32) as u8,
                python,
            })
        }
        (LABEL, [id, bytes, rest @ ..]) => {
            let bytes = usize::try_from(*bytes).ok()?;
            let words = rest.get(bytes.div_ceil(8)..)?;
            Event::Label {
                what: Labelled::from_flags(flags)?,
                id: *id,
                text: bytes_of(rest, bytes)?,
                args: Args { words },
            }
        }
        (FACT, [lengths, text @ ..]) => {
            let key_bytes = (*lengths as u32) as usize;
            let value_bytes = (lengths >> 32) as usize;
            Event::Fact {
                key: bytes_of(text, key_bytes)?,
                value: bytes_of(text.get(key_bytes.div_ceil(8)..)?, value_bytes)?,
            }
        }
        _ => return None,
    })
}
