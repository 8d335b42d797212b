//! Everything that can be said of one event.

use crate::fields::{annotation, event, interned};
use crate::strings::{DefinedSet, StringId, StringTable};
use crate::wire::{
    Short, put_bytes, put_f64, put_fixed64, put_i64, put_message, put_u64, short_bytes_key,
    short_varint_key, varint_key,
};

/// What kind of event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// Opens a slice.
    SliceBegin = 1,
    /// Closes the innermost open slice of the track.
    SliceEnd = 2,
    /// A point in time.
    Instant = 3,
    /// A value of a counter.
    Counter = 4,
}

/// The name of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Name<'a> {
    /// No name, as for ends and counter values.
    #[default]
    None,
    /// A name that comes again.
    Interned(StringId),
    /// A name that will not come again, so that keeping it would only take memory.
    Once(&'a str),
}

impl From<StringId> for Name<'_> {
    fn from(id: StringId) -> Self {
        Self::Interned(id)
    }
}

impl<'a> From<&'a str> for Name<'a> {
    fn from(text: &'a str) -> Self {
        Self::Once(text)
    }
}

/// The value of an annotation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// A text that will not come again.
    Text(&'a str),
    /// A text that comes again.
    Interned(StringId),
    /// Unsigned integer.
    Uint(u64),
    /// Signed integer.
    Int(i64),
    /// Floating point number.
    Double(f64),
    /// Truth value.
    Bool(bool),
    /// Address, shown in hexadecimal.
    Pointer(u64),
}

/// A key and a value on an event; SQL finds it as `extract_arg(arg_set_id, 'debug.<key>')`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Annotation<'a> {
    /// The key.
    pub key: StringId,
    /// The value.
    pub value: Value<'a>,
}

impl<'a> Annotation<'a> {
    /// An annotation.
    #[inline]
    pub fn new(key: StringId, value: Value<'a>) -> Self {
        Self { key, value }
    }
}

/// The value of a counter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum CounterValue {
    /// Integer.
    Int(i64),
    /// Floating point number.
    Double(f64),
}

impl From<i64> for CounterValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for CounterValue {
    fn from(value: f64) -> Self {
        Self::Double(value)
    }
}

/// The optional parts of an event; take what is needed over `..Event::default()`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Event<'a> {
    /// The name.
    pub name: Name<'a>,
    /// The category.
    pub category: Option<StringId>,
    /// A track other than the sequence's own.
    pub track: Option<u64>,
    /// Flows that start, pass or end here; use ids of [`ProcessNamespace::flow`](crate::ProcessNamespace::flow).
    pub flows: &'a [u64],
    /// Flows that end here, so that their ids may be used again.
    pub terminating_flows: &'a [u64],
    /// Groups slices that belong together; the UI then colours by it instead of by name.
    pub correlation_id: Option<u64>,
    /// Keys and values.
    pub annotations: &'a [Annotation<'a>],
    /// The value of a counter event.
    pub counter: Option<CounterValue>,
}

/// What a sequence has defined so far, by index.
#[derive(Debug, Default)]
pub(crate) struct Definitions {
    pub names: DefinedSet,
    categories: DefinedSet,
    keys: DefinedSet,
    values: DefinedSet,
}

impl Definitions {
    /// Whether all that `event` refers to is defined.
    pub fn cover(&self, event: &Event<'_>) -> bool {
        !matches!(event.name, Name::Interned(id) if !self.names.contains(id))
            && event.category.is_none_or(|id| self.categories.contains(id))
            && event.annotations.iter().all(|annotation| {
                self.keys.contains(annotation.key)
                    && !matches!(annotation.value, Value::Interned(id) if !self.values.contains(id))
            })
    }

    /// Appends an `InternedData` body with what `event` refers to and is not defined yet.
    pub fn put_missing(&mut self, body: &mut Vec<u8>, strings: &StringTable, event: &Event<'_>) {
        if let Name::Interned(id) = event.name {
            define(&mut self.names, body, strings, interned::EVENT_NAMES, id);
        }
        if let Some(id) = event.category {
            define(
                &mut self.categories,
                body,
                strings,
                interned::EVENT_CATEGORIES,
                id,
            );
        }
        for annotation in event.annotations {
            define(
                &mut self.keys,
                body,
                strings,
                interned::DEBUG_ANNOTATION_NAMES,
                annotation.key,
            );
            if let Value::Interned(id) = annotation.value {
                define(
                    &mut self.values,
                    body,
                    strings,
                    interned::DEBUG_ANNOTATION_STRING_VALUES,
                    id,
                );
            }
        }
    }
}

fn define(
    defined: &mut DefinedSet,
    body: &mut Vec<u8>,
    strings: &StringTable,
    field: u32,
    id: StringId,
) {
    if defined.insert(id) {
        put_message(body, field, |entry| {
            put_u64(entry, interned::IID, u64::from(id.get()));
            put_bytes(entry, interned::TEXT, strings.text(id).as_bytes());
        });
    }
}

/// Bytes of a `TrackEvent` body that is built on the stack.
pub(crate) const SHORT_BYTES: usize = 256;
/// So many annotations, of at most 20 bytes each, and one flow fit beside the rest.
const SHORT_ANNOTATIONS: usize = 9;

/// A `TrackEvent` body as [`put_event`] makes it, built on the stack; `None` for an event that is long, or may be: with texts, or of rare kinds.
#[inline]
pub(crate) fn short_event(kind: EventKind, details: &Event<'_>) -> Option<Short<SHORT_BYTES>> {
    let is_rare = details.track.is_some()
        || details.counter.is_some()
        || details.correlation_id.is_some()
        || !details.terminating_flows.is_empty();
    if is_rare || details.flows.len() > 1 || details.annotations.len() > SHORT_ANNOTATIONS {
        return None;
    }
    let mut body = Short::new();
    body.byte(const { short_varint_key(event::TYPE) });
    body.byte(kind as u8);
    match details.name {
        Name::None => {}
        Name::Interned(id) => {
            body.byte(const { short_varint_key(event::NAME_IID) });
            body.varint(u64::from(id.get()));
        }
        Name::Once(_) => return None,
    }
    if let Some(id) = details.category {
        body.byte(const { short_varint_key(event::CATEGORY_IIDS) });
        body.varint(u64::from(id.get()));
    }
    for &flow in details.flows {
        body.varint(const { (event::FLOW_IDS << 3 | 1) as u64 });
        for byte in flow.to_le_bytes() {
            body.byte(byte);
        }
    }
    for annotation in details.annotations {
        let (field, value) = match annotation.value {
            Value::Interned(id) => (annotation::STRING_VALUE_IID, u64::from(id.get())),
            Value::Uint(value) => (annotation::UINT_VALUE, value),
            Value::Int(value) => (annotation::INT_VALUE, value.cast_unsigned()),
            Value::Bool(value) => (annotation::BOOL_VALUE, u64::from(value)),
            Value::Pointer(value) => (annotation::POINTER_VALUE, value),
            Value::Text(_) | Value::Double(_) => return None,
        };
        body.byte(const { short_bytes_key(event::DEBUG_ANNOTATIONS) });
        let length = body.len();
        body.byte(0);
        body.byte(const { short_varint_key(annotation::NAME_IID) });
        body.varint(u64::from(annotation.key.get()));
        body.varint(u64::from(varint_key(field)));
        body.varint(value);
        body.set(length, (body.len() - length - 1) as u8);
    }
    Some(body)
}

/// Appends a `TrackEvent` body.
pub(crate) fn put_event(body: &mut Vec<u8>, kind: EventKind, details: &Event<'_>) {
    put_u64(body, event::TYPE, kind as u64);
    match details.name {
        Name::None => {}
        Name::Interned(id) => put_u64(body, event::NAME_IID, u64::from(id.get())),
        Name::Once(text) => put_bytes(body, event::NAME, text.as_bytes()),
    }
    if let Some(id) = details.category {
        put_u64(body, event::CATEGORY_IIDS, u64::from(id.get()));
    }
    if let Some(uuid) = details.track {
        put_u64(body, event::TRACK_UUID, uuid);
    }
    match details.counter {
        None => {}
        Some(CounterValue::Int(value)) => put_i64(body, event::COUNTER_VALUE, value),
        Some(CounterValue::Double(value)) => put_f64(body, event::DOUBLE_COUNTER_VALUE, value),
    }
    for &flow in details.flows {
        put_fixed64(body, event::FLOW_IDS, flow);
    }
    for &flow in details.terminating_flows {
        put_fixed64(body, event::TERMINATING_FLOW_IDS, flow);
    }
    if let Some(id) = details.correlation_id {
        put_u64(body, event::CORRELATION_ID, id);
    }
    for annotation in details.annotations {
        put_message(body, event::DEBUG_ANNOTATIONS, |body| {
            put_annotation(body, annotation)
        });
    }
}

fn put_annotation(body: &mut Vec<u8>, note: &Annotation<'_>) {
    put_u64(body, annotation::NAME_IID, u64::from(note.key.get()));
    match note.value {
        Value::Text(text) => put_bytes(body, annotation::STRING_VALUE, text.as_bytes()),
        Value::Interned(id) => put_u64(body, annotation::STRING_VALUE_IID, u64::from(id.get())),
        Value::Uint(value) => put_u64(body, annotation::UINT_VALUE, value),
        Value::Int(value) => put_i64(body, annotation::INT_VALUE, value),
        Value::Double(value) => put_f64(body, annotation::DOUBLE_VALUE, value),
        Value::Bool(value) => put_u64(body, annotation::BOOL_VALUE, u64::from(value)),
        Value::Pointer(value) => put_u64(body, annotation::POINTER_VALUE, value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events of all kinds and sizes that are built on the stack.
    #[test]
    fn both_ways_write_the_same() {
        let mut strings = StringTable::default();
        let ids: Vec<StringId> = (0..300).map(|n| strings.intern(&n.to_string())).collect();
        let (small, large) = (ids[0], StringId::MAX);
        let values = [
            Value::Interned(large),
            Value::Uint(u64::MAX),
            Value::Uint(0),
            Value::Int(-1),
            Value::Bool(true),
            Value::Pointer(0x7fff_ffff_f000),
            Value::Interned(ids[200]),
        ];
        let flows = [u64::MAX - 5];
        for count in 0..=SHORT_ANNOTATIONS {
            for (key, flows) in [(small, &flows[..]), (large, &flows[..]), (ids[299], &[])] {
                for name in [Name::None, Name::Interned(small), Name::Interned(large)] {
                    for turn in 0..values.len() {
                        let values = values.iter().cycle().skip(turn).take(count);
                        let annotations: Vec<Annotation<'_>> =
                            values.map(|value| Annotation::new(key, *value)).collect();
                        let event = Event {
                            name,
                            category: (count % 2 == 0).then_some(key),
                            flows,
                            annotations: &annotations,
                            ..Event::default()
                        };
                        let mut expected = Vec::new();
                        put_event(&mut expected, EventKind::SliceBegin, &event);
                        let short = short_event(EventKind::SliceBegin, &event);
                        assert_eq!(short.expect("it fits").as_bytes(), expected);
                    }
                }
            }
        }
        // The largest of all fits: no byte was written over another.
        let annotations = [Annotation::new(large, Value::Uint(u64::MAX)); SHORT_ANNOTATIONS];
        let event = Event {
            name: Name::Interned(large),
            category: Some(large),
            flows: &flows,
            annotations: &annotations,
            ..Event::default()
        };
        let short = short_event(EventKind::SliceEnd, &event).expect("it fits");
        assert!(short.len() <= SHORT_BYTES);
        let mut expected = Vec::new();
        put_event(&mut expected, EventKind::SliceEnd, &event);
        assert_eq!(short.as_bytes(), expected);
    }

    #[test]
    fn what_may_be_long_is_not_built_on_the_stack() {
        let mut strings = StringTable::default();
        let id = strings.intern("a");
        let text = [Annotation::new(id, Value::Text("b"))];
        let many = [Annotation::new(id, Value::Uint(1)); SHORT_ANNOTATIONS + 1];
        for event in [
            Event {
                name: Name::Once("c"),
                ..Event::default()
            },
            Event {
                annotations: &text,
                ..Event::default()
            },
            Event {
                annotations: &many,
                ..Event::default()
            },
            Event {
                flows: &[1, 2],
                ..Event::default()
            },
            Event {
                counter: Some(CounterValue::Int(1)),
                ..Event::default()
            },
        ] {
            assert!(
                short_event(EventKind::Instant, &event).is_none(),
                "{event:?}"
            );
        }
    }
}
