//! Rows of the tables, one after the other, with the columns that a writer asks for.

use std::hash::Hash;
use std::sync::Arc;

use rsys_proto::hashing::FastMap;
use rsys_tables::catalog::table;
use rsys_tables::store::StoreError;
use rsys_tables::view::{NO_WORD, Values, View, Words};

use crate::Failure;

/// A row. Columns are numbered in the order in which they were asked for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row<'c> {
    columns: &'c [Values],
    row: usize,
}

impl<'c> Row<'c> {
    /// A row of columns.
    pub(crate) fn of(columns: &'c [Values], row: usize) -> Self {
        Self { columns, row }
    }

    /// A whole number; `None` if it is unknown.
    #[inline]
    pub(crate) fn known(&self, column: usize) -> Option<u64> {
        match &self.columns[column] {
            Values::Integers(values, valid) => valid
                .is_valid(self.row)
                .then(|| values[self.row].cast_unsigned()),
            Values::Unsigned(values, valid) => valid.is_valid(self.row).then(|| values[self.row]),
            _ => None,
        }
    }

    /// A whole number, 0 if it is unknown.
    #[inline]
    pub(crate) fn number(&self, column: usize) -> u64 {
        self.known(column).unwrap_or(0)
    }

    /// A measured number.
    pub(crate) fn measured(&self, column: usize) -> f64 {
        match &self.columns[column] {
            Values::Numbers(values, valid) if valid.is_valid(self.row) => values[self.row],
            _ => self.number(column) as f64,
        }
    }

    /// A text, empty if it is unknown.
    #[inline]
    pub(crate) fn text(&self, column: usize) -> &'c str {
        match &self.columns[column] {
            Values::Texts(ids, words) => words.get(ids[self.row]).unwrap_or(""),
            _ => "",
        }
    }

    /// A text by its number.
    #[inline]
    pub(crate) fn word(&self, column: usize) -> Word<'c> {
        match &self.columns[column] {
            Values::Texts(ids, words) => Word(ids[self.row], Some(words)),
            _ => Word::NONE,
        }
    }

    /// The cell as it would be written; `None` if it is unknown.
    pub(crate) fn cell(&self, column: usize) -> Option<Cell<'c>> {
        match &self.columns[column] {
            Values::Integers(values, valid) => valid
                .is_valid(self.row)
                .then(|| Cell::Integer(values[self.row])),
            // As SQL has them.
            Values::Unsigned(values, valid) => valid
                .is_valid(self.row)
                .then(|| Cell::Integer(values[self.row].cast_signed())),
            Values::Numbers(values, valid) => valid
                .is_valid(self.row)
                .then(|| Cell::Number(values[self.row])),
            Values::Texts(ids, words) => words.get(ids[self.row]).map(Cell::Text),
        }
    }
}

/// A text by its number among others.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Word<'c>(u32, Option<&'c Arc<Words>>);

impl<'c> Word<'c> {
    /// That of a text that is not known.
    pub(crate) const NONE: Self = Self(NO_WORD, None);

    /// The text with this number.
    pub(crate) fn of(number: u32, words: &'c Arc<Words>) -> Self {
        Self(number, Some(words))
    }

    /// The text, empty if it is unknown.
    pub(crate) fn text(self) -> &'c str {
        self.1.and_then(|words| words.get(self.0)).unwrap_or("")
    }
}

/// What texts stand for, found without looking at the texts: most are met again and again.
#[derive(Debug)]
pub(crate) struct ByWord<K, T> {
    /// The texts of which the numbers are, kept so that they are no others' meanwhile.
    words: Option<Arc<Words>>,
    known: FastMap<(K, u32), T>,
}

impl<K, T> Default for ByWord<K, T> {
    fn default() -> Self {
        Self {
            words: None,
            known: FastMap::default(),
        }
    }
}

impl<K: Hash + Eq, T: Copy> ByWord<K, T> {
    /// What a text of an owner stands for; `find` is asked if that is not known.
    ///
    /// # Errors
    /// Those of `find`.
    #[inline]
    pub(crate) fn get<E>(
        &mut self,
        owner: K,
        word: Word<'_>,
        find: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, E> {
        if let Some(words) = word.1
            && !self
                .words
                .as_ref()
                .is_some_and(|known| Arc::ptr_eq(known, words))
        {
            self.words = Some(Arc::clone(words));
            self.known.clear();
        }
        let key = (owner, word.0);
        if let Some(&found) = self.known.get(&key) {
            return Ok(found);
        }
        let found = find(word.text())?;
        self.known.insert(key, found);
        Ok(found)
    }
}

/// A value of any kind.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cell<'c> {
    Integer(i64),
    Number(f64),
    Text(&'c str),
}

/// Hands each row of a table to `take`, in their order.
///
/// # Errors
/// When the store is damaged, or `take` fails.
pub(crate) fn each(
    view: &View,
    table_name: &str,
    columns: &[&str],
    mut take: impl FnMut(Row<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let of = table(table_name).ok_or(StoreError::Damaged)?;
    for (part, &rows) in view.parts(of).iter().enumerate() {
        let values = columns.iter().map(|name| {
            let (_, column) = of.column(name).ok_or(StoreError::Damaged)?;
            view.column(of, column, part)
        });
        let values = values.collect::<Result<Vec<Values>, StoreError>>()?;
        for row in 0..rows as usize {
            take(Row {
                columns: &values,
                row,
            })?;
        }
    }
    Ok(())
}
