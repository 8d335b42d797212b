//! Arguments of a call, gathered on the stack.

use rsys_wire::event::{Arg, Key, Value};

use crate::events;

/// No call has more.
const MOST: usize = 16;

/// A list of arguments.
#[derive(Debug)]
pub struct Arguments<'a> {
    list: [Arg<'a>; MOST],
    length: usize,
}

impl<'a> Arguments<'a> {
    /// No arguments.
    #[inline]
    pub fn new() -> Self {
        Arguments {
            list: [(Key::Name, Value::Uint(0)); MOST],
            length: 0,
        }
    }

    /// One more.
    #[inline]
    pub fn put(&mut self, key: Key, value: Value<'a>) {
        if let Some(place) = self.list.get_mut(self.length) {
            *place = (key, value);
            self.length = self.length.wrapping_add(1);
        }
    }

    /// One more: a text that does not come again.
    pub fn put_text(&mut self, key: Key, text: &[u8]) {
        self.put(key, Value::Known(events::text(text)));
    }

    /// All of them.
    #[inline]
    pub fn as_slice(&self) -> &[Arg<'a>] {
        self.list.get(..self.length).unwrap_or(&[])
    }
}
