//! Texts of a database.

use std::collections::HashMap;

use crate::Failure;
use crate::sqlite::{Bulk, Rows};

/// Texts of arguments that are known at once. Most are those of a few streams, others are there once.
const KNOWN_ARGUMENTS: usize = 1 << 16;

/// Names, each once, and texts of arguments, of which the same may be there several times.
pub(super) struct Texts<'b> {
    names: HashMap<String, i64>,
    add_name: Rows<'b, 2>,
    arguments: HashMap<String, i64>,
    add_arguments: Rows<'b, 2>,
}

/// The number of the empty text in both tables, as readers expect it.
pub(super) const EMPTY: i64 = 1;

impl<'b> Texts<'b> {
    pub(super) fn new(bulk: &'b Bulk) -> Result<Self, Failure> {
        let rows = |table| bulk.rows(table, ["id", "string"]);
        let mut texts = Self {
            names: HashMap::new(),
            add_name: rows("rocpd_string")?,
            arguments: HashMap::new(),
            add_arguments: rows("rocpd_ustring")?,
        };
        texts.name("")?;
        texts.add_arguments.put([EMPTY.into(), "".into()])?;
        Ok(texts)
    }

    /// The number of a name.
    pub(super) fn name(&mut self, text: &str) -> Result<i64, Failure> {
        if let Some(&id) = self.names.get(text) {
            return Ok(id);
        }
        let id = self.names.len() as i64 + EMPTY;
        self.add_name.put([id.into(), text.into()])?;
        self.names.insert(text.to_owned(), id);
        Ok(id)
    }

    /// The number of the text of arguments.
    pub(super) fn arguments(&mut self, text: &str) -> Result<i64, Failure> {
        if text.is_empty() {
            return Ok(EMPTY);
        }
        if let Some(&id) = self.arguments.get(text) {
            return Ok(id);
        }
        if self.arguments.len() == KNOWN_ARGUMENTS {
            self.arguments.clear();
        }
        let id = self.add_arguments.next_id();
        self.add_arguments.put([id.into(), text.into()])?;
        self.arguments.insert(text.to_owned(), id);
        Ok(id)
    }

    /// All texts are there.
    pub(super) fn finish(self) {
        self.add_name.finish();
        self.add_arguments.finish();
    }
}
