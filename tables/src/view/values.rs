//! The values of a column.

use std::sync::Arc;

use super::words::{NO_WORD, Words};
use crate::catalog::Kind;

/// Which values are known; `None`: all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Validity(pub Option<Vec<bool>>);

impl Validity {
    pub(super) fn of(valid: Vec<bool>) -> Self {
        Self(valid.contains(&false).then_some(valid))
    }

    /// Whether the value of a row is known.
    #[must_use]
    pub fn is_valid(&self, row: usize) -> bool {
        self.0.as_ref().is_none_or(|valid| valid[row])
    }
}

/// The values of a column, by its kind.
#[derive(Debug, Clone, PartialEq)]
pub enum Values {
    /// Whole numbers.
    Integers(Vec<i64>, Validity),
    /// Whole numbers without sign.
    Unsigned(Vec<u64>, Validity),
    /// Measured numbers.
    Numbers(Vec<f64>, Validity),
    /// Texts, by their numbers; [`NO_WORD`] is unknown.
    Texts(Vec<u32>, Arc<Words>),
}

fn integer(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn valid(values: &[u64], none: Option<u64>) -> Validity {
    let Some(none) = none else {
        return Validity::default();
    };
    Validity::of(values.iter().map(|&value| value != none).collect())
}

impl Values {
    pub(super) fn integers(values: Vec<u64>, none: Option<u64>) -> Self {
        let valid = valid(&values, none);
        Self::Integers(values.into_iter().map(integer).collect(), valid)
    }

    pub(super) fn unsigned(values: Vec<u64>, none: Option<u64>) -> Self {
        let valid = valid(&values, none);
        Self::Unsigned(values, valid)
    }

    /// The values in these rows; those that are not there are unknown.
    #[must_use]
    pub fn gather<R: Copy + Into<u64>>(&self, rows: &[R]) -> Self {
        fn take<T: Copy + Default, R: Copy + Into<u64>>(
            values: &[T],
            valid: &Validity,
            rows: &[R],
        ) -> (Vec<T>, Validity) {
            let row = |row: &R| usize::try_from((*row).into()).unwrap_or(usize::MAX);
            let are_valid = rows.iter().map(row);
            let are_valid = are_valid.map(|row| row < values.len() && valid.is_valid(row));
            let validity = Validity::of(are_valid.collect());
            let found = rows.iter().map(row);
            let found = found.map(|row| values.get(row).copied().unwrap_or_default());
            (found.collect(), validity)
        }
        match self {
            Self::Integers(values, valid) => {
                let (values, valid) = take(values, valid, rows);
                Self::Integers(values, valid)
            }
            Self::Unsigned(values, valid) => {
                let (values, valid) = take(values, valid, rows);
                Self::Unsigned(values, valid)
            }
            Self::Numbers(values, valid) => {
                let (values, valid) = take(values, valid, rows);
                Self::Numbers(values, valid)
            }
            Self::Texts(ids, words) => {
                let id = |row: &R| {
                    let row = usize::try_from((*row).into()).ok();
                    row.and_then(|row| ids.get(row)).map_or(NO_WORD, |id| *id)
                };
                Self::Texts(rows.iter().map(id).collect(), Arc::clone(words))
            }
        }
    }

    /// The values of all parts of a column.
    pub(super) fn joined(kind: Kind, parts: Vec<Self>) -> Self {
        if parts.len() == 1
            && let Some(only) = parts.first()
        {
            return only.clone();
        }
        let (mut integers, mut unsigned, mut numbers) = (Vec::new(), Vec::new(), Vec::new());
        let (mut ids, mut words) = (Vec::new(), Words::default());
        let mut shared: Option<Arc<Words>> = None;
        let mut validity = Vec::new();
        for part in parts {
            let (rows, valid) = match part {
                Self::Integers(mut values, valid) => {
                    let rows = values.len();
                    integers.append(&mut values);
                    (rows, valid)
                }
                Self::Unsigned(mut values, valid) => {
                    let rows = values.len();
                    unsigned.append(&mut values);
                    (rows, valid)
                }
                Self::Numbers(mut values, valid) => {
                    let rows = values.len();
                    numbers.append(&mut values);
                    (rows, valid)
                }
                Self::Texts(values, of_part) => {
                    // Most parts share their texts.
                    let first = shared.get_or_insert_with(|| Arc::clone(&of_part));
                    if Arc::ptr_eq(first, &of_part) {
                        ids.extend(values);
                        continue;
                    }
                    if words.len() == 0 {
                        (0..first.len()).for_each(|id| words.push(first.get(id).unwrap_or("")));
                    }
                    let before = words.len();
                    (0..of_part.len()).for_each(|id| words.push(of_part.get(id).unwrap_or("")));
                    ids.extend(values.into_iter().map(|id| match id {
                        NO_WORD => NO_WORD,
                        id => id + before,
                    }));
                    continue;
                }
            };
            validity.extend((0..rows).map(|row| valid.is_valid(row)));
        }
        let validity = Validity::of(validity);
        match kind {
            Kind::Integer => Self::Integers(integers, validity),
            Kind::Unsigned => Self::Unsigned(unsigned, validity),
            Kind::Number => Self::Numbers(numbers, validity),
            Kind::Text => {
                let words = match (words.len(), shared) {
                    (0, Some(shared)) => shared,
                    _ => Arc::new(words),
                };
                Self::Texts(ids, words)
            }
        }
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        match self {
            Self::Integers(values, _) => values.len(),
            Self::Unsigned(values, _) => values.len(),
            Self::Numbers(values, _) => values.len(),
            Self::Texts(values, _) => values.len(),
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
