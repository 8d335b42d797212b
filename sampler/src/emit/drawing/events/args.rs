//! The arguments of events as annotations.

use rsys_proto::{Annotation, StringId, Value};
use rsys_wire::event::{Args, Key, Read};

use crate::emit::learned::events::EventTables;
use crate::emit::output::Output;

/// The arguments of one event, with the memory that their values need.
#[derive(Debug, Default)]
pub struct Annotations {
    held: Vec<(StringId, Held)>,
}

/// A value that annotations can borrow from.
#[derive(Debug)]
enum Held {
    Uint(u64),
    Int(i64),
    Double(f64),
    Pointer(u64),
    Interned(StringId),
    Text(String),
}

impl Annotations {
    /// Adds the arguments of an event, but for its name and what is drawn otherwise.
    pub fn add(&mut self, args: Args<'_>, known: &EventTables, output: &mut Output) {
        for (key, value) in args {
            if matches!(key, Key::Name | Key::LaunchStack | Key::HolderStack) {
                continue;
            }
            if let (Key::Values, Read::Text(values)) = (key, &value) {
                self.push_values(values, output);
                continue;
            }
            self.push(key, &value, known, output);
        }
    }

    /// Adds one argument.
    pub fn push(&mut self, key: Key, value: &Read, known: &EventTables, output: &mut Output) {
        let id = output.buffer().intern(key.name());
        if self.held.iter().any(|(held, _)| *held == id) {
            return;
        }
        let held = match value {
            Read::Uint(value) => Held::Uint(*value),
            Read::Int(value) => Held::Int(*value),
            Read::Double(value) => Held::Double(*value),
            Read::Pointer(value) => Held::Pointer(*value),
            Read::Known(text) => match output.event_text(known, *text) {
                Some(text) => Held::Interned(text),
                None => return,
            },
            Read::Size3(_) | Read::Text(_) => Held::Text(known.plain(value)),
        };
        self.held.push((id, held));
    }

    /// Adds a number under a name of ours.
    pub fn push_number(&mut self, name: &str, value: u64, output: &mut Output) {
        let id = output.buffer().intern(name);
        self.held.push((id, Held::Uint(value)));
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
            let held = match kind {
                b'i' => number().map(|bits| Held::Int(bits.cast_signed())),
                b'u' => number().map(Held::Uint),
                b'd' => number().map(|bits| Held::Double(f64::from_bits(bits))),
                b'p' => number().map(Held::Pointer),
                b's' => Some(Held::Text(value.clone().into_owned())),
                _ => None,
            };
            let id = output.buffer().intern(&String::from_utf8_lossy(name));
            self.held.extend(held.map(|held| (id, held)));
        }
    }

    /// Adds a text under a name of ours, if there is one. It is written once: many events have the same.
    pub fn push_text(&mut self, name: &str, text: Option<String>, output: &mut Output) {
        if let Some(text) = text {
            let out = output.buffer();
            let (id, text) = (out.intern(name), out.intern(&text));
            self.held.push((id, Held::Interned(text)));
        }
    }

    /// The annotations.
    pub fn list(&self) -> Vec<Annotation<'_>> {
        self.held
            .iter()
            .map(|(key, held)| {
                let value = match held {
                    Held::Uint(value) => Value::Uint(*value),
                    Held::Int(value) => Value::Int(*value),
                    Held::Double(value) => Value::Double(*value),
                    Held::Pointer(value) => Value::Pointer(*value),
                    Held::Interned(id) => Value::Interned(*id),
                    Held::Text(text) => Value::Text(text),
                };
                Annotation::new(*key, value)
            })
            .collect()
    }
}
