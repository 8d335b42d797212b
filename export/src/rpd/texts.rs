//! Texts of a database.

use std::collections::HashMap;

use rusqlite::{Connection, Statement, params};

/// Names, each once, and texts of arguments, which are not looked for.
pub(super) struct Texts<'d> {
    names: HashMap<String, i64>,
    add_name: Statement<'d>,
    arguments: i64,
    add_arguments: Statement<'d>,
}

/// The number of the empty text in both tables, as readers expect it.
pub(super) const EMPTY: i64 = 1;

impl<'d> Texts<'d> {
    pub(super) fn new(database: &'d Connection) -> rusqlite::Result<Self> {
        let mut texts = Self {
            names: HashMap::new(),
            add_name: database.prepare("insert into rocpd_string values (?, ?)")?,
            arguments: EMPTY,
            add_arguments: database.prepare("insert into rocpd_ustring values (?, ?)")?,
        };
        texts.name("")?;
        texts.add_arguments.execute(params![EMPTY, ""])?;
        Ok(texts)
    }

    /// The number of a name.
    pub(super) fn name(&mut self, text: &str) -> rusqlite::Result<i64> {
        if let Some(&id) = self.names.get(text) {
            return Ok(id);
        }
        let id = self.names.len() as i64 + EMPTY;
        self.add_name.execute(params![id, text])?;
        self.names.insert(text.to_owned(), id);
        Ok(id)
    }

    /// The number of the text of arguments.
    pub(super) fn arguments(&mut self, text: &str) -> rusqlite::Result<i64> {
        if text.is_empty() {
            return Ok(EMPTY);
        }
        self.arguments += 1;
        self.add_arguments.execute(params![self.arguments, text])?;
        Ok(self.arguments)
    }
}
