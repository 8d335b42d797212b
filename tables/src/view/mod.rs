//! Columns as the catalog has them.

mod values;
mod words;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};

use crate::catalog::{self, Column, Kind, Source, Table};
use crate::record::NONE;
use crate::store::{Store, StoreError};

pub use values::{Validity, Values};
pub use words::{NO_WORD, Words};

type Outcome<T> = Result<T, StoreError>;
type Key = (&'static str, &'static str);

/// The tables of a store. Threads may read at once.
#[derive(Debug)]
pub struct View {
    store: Store,
    texts: OnceLock<Arc<Words>>,
    /// Columns that others refer to.
    whole: Mutex<HashMap<Key, Arc<Values>>>,
}

impl View {
    /// The tables of a store.
    #[must_use]
    pub fn new(store: Store) -> Self {
        Self {
            store,
            texts: OnceLock::new(),
            whole: Mutex::default(),
        }
    }

    /// The rows of each part of a table.
    #[must_use]
    pub fn parts(&self, table: &Table) -> &[u32] {
        self.store.parts(table.name)
    }

    /// A column of one part of a table.
    ///
    /// # Errors
    /// When the store is damaged or cannot be read.
    pub fn column(&self, table: &Table, column: &Column, part: usize) -> Outcome<Values> {
        let stored = |name: &str| self.store.column(table.name, name, part);
        let integers = |name: &str, none: Option<u64>| {
            let values = stored(name)?;
            Ok(match column.kind {
                Kind::Unsigned => Values::unsigned(values, none),
                _ => Values::integers(values, none),
            })
        };
        match column.source {
            Source::Row => {
                let parts = self.parts(table);
                let before: u64 = parts[..part].iter().map(|&rows| u64::from(rows)).sum();
                let rows = before..before + u64::from(parts[part]);
                Ok(Values::integers(rows.collect(), None))
            }
            Source::Value(name) => integers(name, None),
            Source::NonZero(name) => integers(name, Some(0)),
            Source::Optional(name) => integers(name, Some(NONE)),
            Source::Sum(first, second) => {
                let (mut sums, more) = (stored(first)?, stored(second)?);
                for (sum, more) in sums.iter_mut().zip(more) {
                    *sum = sum.saturating_add(more);
                }
                Ok(Values::integers(sums, None))
            }
            Source::Since(from, to) => {
                let (from, mut to) = (stored(from)?, stored(to)?);
                let valid = from.iter().map(|&from| from != NONE).collect();
                for (to, from) in to.iter_mut().zip(from) {
                    *to = to.wrapping_sub(from);
                }
                let differences = to.into_iter().map(u64::cast_signed).collect();
                Ok(Values::Integers(differences, Validity::of(valid)))
            }
            Source::Float(name) => {
                let values = stored(name)?.into_iter().map(f64::from_bits);
                Ok(Values::Numbers(values.collect(), Validity::default()))
            }
            Source::Text(name) => {
                let words = self.texts()?;
                let ids = stored(name)?.into_iter().map(|id| words.present(id));
                Ok(Values::Texts(ids.collect(), words))
            }
            Source::Code(name, words) => {
                let words = Arc::new(Words::new(words.iter().copied()));
                let ids = stored(name)?.into_iter().map(|id| words.present(id));
                Ok(Values::Texts(ids.collect(), words))
            }
            Source::Of(name, other, there) => {
                let values = self.whole(other, there)?;
                Ok(values.gather(&stored(name)?))
            }
            Source::Place => self.places(table, part),
            Source::Frames => self.frames(part),
        }
    }

    /// All rows of a column, which are kept.
    ///
    /// # Errors
    /// As [`View::column`], and when there is no such column.
    pub fn whole(&self, table: &'static str, column: &'static str) -> Outcome<Arc<Values>> {
        let known = |view: &Self| {
            let whole = view.whole.lock();
            let whole = whole.unwrap_or_else(|poison| poison.into_inner());
            whole.get(&(table, column)).cloned()
        };
        if let Some(values) = known(self) {
            return Ok(values);
        }
        let found = catalog::table(table).and_then(|one| Some((one, one.column(column)?.1)));
        let (of, one) = found.ok_or(StoreError::Damaged)?;
        let parts = 0..self.parts(of).len();
        let parts = parts.map(|part| self.column(of, one, part));
        let values = Arc::new(Values::joined(one.kind, parts.collect::<Outcome<_>>()?));
        let whole = self.whole.lock();
        let mut whole = whole.unwrap_or_else(|poison| poison.into_inner());
        whole.insert((table, column), Arc::clone(&values));
        Ok(values)
    }

    fn texts(&self) -> Outcome<Arc<Words>> {
        if let Some(texts) = self.texts.get() {
            return Ok(Arc::clone(texts));
        }
        let mut words = Words::default();
        self.store.texts(|text| words.push(text))?;
        Ok(Arc::clone(self.texts.get_or_init(|| Arc::new(words))))
    }

    /// `function (file:line)`.
    fn places(&self, table: &Table, part: usize) -> Outcome<Values> {
        let stored = |name: &str| self.store.column(table.name, name, part);
        let texts = self.texts()?;
        let (functions, sources) = (stored("own_function")?, stored("own_source")?);
        let mut words = Words::default();
        let mut ids = Vec::with_capacity(functions.len());
        for ((function, source), line) in functions.iter().zip(sources).zip(stored("own_line")?) {
            let function = texts.get(texts.present(*function));
            let source = texts.get(texts.present(source));
            let place = match (function, source, line) {
                (None, ..) => {
                    ids.push(NO_WORD);
                    continue;
                }
                (Some(function), None, _) => function.to_owned(),
                (Some(function), Some(source), 0) => format!("{function} ({source})"),
                (Some(function), Some(source), line) => format!("{function} ({source}:{line})"),
            };
            ids.push(words.len());
            words.push(&place);
        }
        Ok(Values::Texts(ids, Arc::new(words)))
    }

    /// All functions of stacks, outermost first.
    fn frames(&self, part: usize) -> Outcome<Values> {
        let callers = self.whole("stacks", "caller_id")?;
        let functions = self.whole("stacks", "function")?;
        let (Values::Integers(callers, _), Values::Texts(functions, names)) =
            (&*callers, &*functions)
        else {
            return Err(StoreError::Damaged);
        };
        let parts = self.store.parts("stacks");
        let first: usize = parts[..part].iter().map(|&rows| rows as usize).sum();
        let mut words = Words::default();
        let mut ids = Vec::new();
        let mut stack = Vec::new();
        for row in first..first + parts[part] as usize {
            let mut at = row;
            stack.clear();
            while at > 0 {
                let function = functions.get(at).copied().unwrap_or(NO_WORD);
                stack.push(names.get(function).unwrap_or("?"));
                let caller = callers.get(at).and_then(|&at| usize::try_from(at).ok());
                // Callers have smaller numbers, so this ends.
                let Some(caller) = caller.filter(|&caller| caller < at) else {
                    return Err(StoreError::Damaged);
                };
                at = caller;
            }
            if stack.is_empty() {
                ids.push(NO_WORD);
                continue;
            }
            stack.reverse();
            ids.push(words.len());
            words.push(&stack.join(";"));
        }
        Ok(Values::Texts(ids, Arc::new(words)))
    }
}
