//! The arguments of events as annotations.

use std::borrow::Cow;

use rsys_proto::{Annotation, StringId, Value};
use rsys_wire::event::{Args, Key, Read};
use rsys_wire::kernel_counters::KernelCounts;

use crate::emit::learned::events::{EventTables, size3_text};
use crate::emit::output::Output;
use crate::kernel_counters::KernelCounters;

/// The arguments of one event, in memory that serves the next as well.
#[derive(Debug, Default)]
pub struct Annotations {
    held: Vec<Annotation<'static>>,
    /// Texts that will not come again, and their places in the list.
    texts: Vec<(usize, String)>,
}

impl Annotations {
    /// Begins with another event.
    pub fn clear(&mut self) {
        self.held.clear();
        self.texts.clear();
    }

    /// Adds the arguments of an event, but for its name and what is drawn otherwise.
    pub fn add(&mut self, args: Args<'_>, known: &EventTables, output: &mut Output) {
        for (key, value) in args {
            if matches!(
                key,
                Key::Name | Key::LaunchStack | Key::HolderStack | Key::Counters
            ) {
                continue;
            }
            if let (Key::Values, Read::Text(values)) = (key, &value) {
                self.push_values(values, output);
                continue;
            }
            // What a call sends or receives stands there where it is not what the call names.
            if matches!(key, Key::Sent | Key::Received)
                && args.get(Key::Bytes).as_ref() == Some(&value)
            {
                continue;
            }
            self.push(key, &value, known, output);
        }
    }

    /// Adds one argument.
    pub fn push(&mut self, key: Key, value: &Read, known: &EventTables, output: &mut Output) {
        let id = output.key(key);
        if self.held.iter().any(|held| held.key == id) {
            return;
        }
        let value = match value {
            Read::Uint(value) if key == Key::Blocking => Value::Bool(*value != 0),
            Read::Uint(value) => Value::Uint(*value),
            Read::Int(value) => Value::Int(*value),
            Read::Double(value) => Value::Double(*value),
            Read::Pointer(value) => Value::Pointer(*value),
            Read::Known(text) => match output.event_text(known, *text) {
                Some(text) => Value::Interned(text),
                None => return,
            },
            Read::Size3(size) => match output.size3(*size) {
                Some(text) => Value::Interned(text),
                None => self.text(size3_text(*size)),
            },
            Read::Text(text) => self.text(String::from_utf8_lossy(text).into_owned()),
        };
        self.held.push(Annotation::new(id, value));
    }

    /// Keeps a text for the next place.
    fn text(&mut self, text: String) -> Value<'static> {
        self.texts.push((self.held.len(), text));
        Value::Text("")
    }

    /// Adds a number under a name that the caller has interned.
    pub fn push_number(&mut self, key: StringId, value: u64) {
        self.held.push(Annotation::new(key, Value::Uint(value)));
    }

    /// Adds what hardware counters counted of a kernel; what makes no sense is left out.
    pub fn push_counters(&mut self, counts: &[u8], known: &KernelCounters, output: &mut Output) {
        let Some(counts) = KernelCounts::parse(counts) else {
            return;
        };
        for (name, value) in known.values(&counts) {
            let id = output.buffer().intern(name);
            // Up to here, whole numbers are told apart.
            let is_whole = value.fract() == 0.0 && (0.0..=9_007_199_254_740_992.0).contains(&value);
            let value = match is_whole {
                true => Value::Uint(value as u64),
                false => Value::Double(value),
            };
            self.held.push(Annotation::new(id, value));
        }
    }

    /// Adds values with names of the program's own; what makes no sense is left out.
    fn push_values(&mut self, values: &[u8], output: &mut Output) {
        for value in values.split(|byte| *byte == 0x1e) {
            let mut parts = value.splitn(2, |byte| *byte == 0x1f);
            let (Some(name), Some([kind, value @ ..])) = (parts.next(), parts.next()) else {
                continue;
            };
            let value = String::from_utf8_lossy(value);
            let number = || u64::from_str_radix(&value, 16).ok();
            let value = match kind {
                b'i' => number().map(|bits| Value::Int(bits.cast_signed())),
                b'u' => number().map(Value::Uint),
                b'd' => number().map(|bits| Value::Double(f64::from_bits(bits))),
                b'p' => number().map(Value::Pointer),
                b's' => Some(self.text(value.clone().into_owned())),
                _ => None,
            };
            let id = output.buffer().intern(&String::from_utf8_lossy(name));
            self.held
                .extend(value.map(|value| Annotation::new(id, value)));
        }
    }

    /// Adds a text under a name of ours, if there is one. It is written once: many events have the same.
    pub fn push_text(&mut self, name: &str, text: Option<String>, output: &mut Output) {
        if let Some(text) = text {
            let out = output.buffer();
            let (id, text) = (out.intern(name), out.intern(&text));
            self.held.push(Annotation::new(id, Value::Interned(text)));
        }
    }

    /// The annotations.
    pub fn list(&self) -> Cow<'_, [Annotation<'_>]> {
        if self.texts.is_empty() {
            return Cow::Borrowed(&self.held);
        }
        let mut list: Vec<Annotation<'_>> = self.held.clone();
        for (place, text) in &self.texts {
            list[*place].value = Value::Text(text);
        }
        Cow::Owned(list)
    }
}
