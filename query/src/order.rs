//! Rows of a table in the order of one of their columns: joins find rows by it, and groups need no sorting.

use std::cmp::Ordering;
use std::ops::Range;
use std::sync::Arc;

use rsys_tables::view::{NO_WORD, Values, Words};
use rusqlite::types::ValueRef;

/// Tables with more rows are scanned: the numbers of their rows, and whole columns, would need too much memory.
pub(crate) const ROWS_MAX: u64 = 1 << 27;

/// The rows of a column, sorted as SQL sorts: those without value first.
#[derive(Debug)]
pub(crate) struct Order {
    values: Arc<Values>,
    pub(crate) rows: Vec<u32>,
    /// So many have no value.
    unknown: usize,
}

impl Order {
    /// Sorts; `None` for columns of measured numbers, which nobody looks up.
    pub(crate) fn of(values: Arc<Values>) -> Option<Self> {
        let count = u32::try_from(values.len()).ok()?;
        let mut rows: Vec<u32> = (0..count).collect();
        let (known, unknown): (Vec<u32>, Vec<u32>) =
            rows.drain(..).partition(|&row| is_known(&values, row));
        let mut sorted = unknown;
        let unknown = sorted.len();
        match &*values {
            Values::Integers(keys, _) => sorted.extend(by_key(known, |row| keys[row as usize])),
            Values::Unsigned(keys, _) => {
                sorted.extend(by_key(known, |row| keys[row as usize].cast_signed()));
            }
            Values::Texts(ids, words) => sorted.extend(by_text(&known, ids, words)),
            Values::Numbers(..) => return None,
        }
        Some(Self {
            values,
            rows: sorted,
            unknown,
        })
    }

    /// Where in [`Order::rows`] those with a value are; `None` if it is of another kind than the column.
    pub(crate) fn equal(&self, key: ValueRef<'_>) -> Option<Range<usize>> {
        let compare: Box<dyn Fn(u32) -> Ordering + '_> = match (&*self.values, key) {
            (Values::Integers(keys, _), ValueRef::Integer(key)) => {
                Box::new(move |row| keys[row as usize].cmp(&key))
            }
            (Values::Unsigned(keys, _), ValueRef::Integer(key)) => {
                Box::new(move |row| keys[row as usize].cast_signed().cmp(&key))
            }
            (Values::Texts(ids, words), ValueRef::Text(key)) => Box::new(move |row| {
                let text = words.get(ids[row as usize]).unwrap_or_default();
                text.as_bytes().cmp(key)
            }),
            (_, ValueRef::Null) => return Some(0..0),
            _ => return None,
        };
        let known = &self.rows[self.unknown..];
        let first = known.partition_point(|&row| compare(row) == Ordering::Less);
        let behind = known.partition_point(|&row| compare(row) != Ordering::Greater);
        Some(self.unknown + first..self.unknown + behind)
    }
}

fn is_known(values: &Values, row: u32) -> bool {
    let row = row as usize;
    match values {
        Values::Integers(_, valid) | Values::Unsigned(_, valid) | Values::Numbers(_, valid) => {
            valid.is_valid(row)
        }
        Values::Texts(ids, _) => ids[row] != NO_WORD,
    }
}

fn by_key(mut rows: Vec<u32>, key: impl Fn(u32) -> i64) -> Vec<u32> {
    // Times are nearly always in order.
    rows.sort_by_key(|&row| key(row));
    rows
}

/// Few texts stand in many rows: those are counted, not compared.
fn by_text(rows: &[u32], ids: &[u32], words: &Words) -> Vec<u32> {
    let mut places = vec![0_u32; words.len() as usize];
    for &row in rows {
        places[ids[row as usize] as usize] += 1;
    }
    let mut used: Vec<u32> = (0..words.len())
        .filter(|&id| places[id as usize] > 0)
        .collect();
    used.sort_by_key(|&id| words.get(id));
    let mut next = 0;
    for id in used {
        let count = places[id as usize];
        places[id as usize] = next;
        next += count;
    }
    let mut sorted = vec![0; rows.len()];
    for &row in rows {
        let place = &mut places[ids[row as usize] as usize];
        sorted[*place as usize] = row;
        *place += 1;
    }
    sorted
}

#[cfg(test)]
mod tests {
    use rsys_tables::view::Validity;

    use super::*;

    #[test]
    fn rows_are_found_by_their_values() {
        let valid = Validity(Some(vec![true, false, true, true, true]));
        let values = Values::Integers(vec![7, 0, -3, 7, 9], valid);
        let order = Order::of(Arc::new(values)).expect("whole numbers");
        assert_eq!(order.rows, [1, 2, 0, 3, 4]);
        let found = |key| Some(order.rows[order.equal(key)?].to_vec());
        assert_eq!(found(ValueRef::Integer(7)), Some(vec![0, 3]));
        assert_eq!(found(ValueRef::Integer(0)), Some(vec![]));
        assert_eq!(found(ValueRef::Null), Some(vec![]));
        assert_eq!(found(ValueRef::Text(b"7")), None);
    }

    #[test]
    fn equal_texts_stand_together_in_the_order_of_texts() {
        let words = Arc::new(Words::new(["b", "a", "unused", "b"].into_iter()));
        let ids = vec![0, 1, NO_WORD, 3, 1];
        let order = Order::of(Arc::new(Values::Texts(ids, words))).expect("texts");
        assert_eq!(order.rows, [2, 1, 4, 0, 3]);
        let found = order.equal(ValueRef::Text(b"b"));
        assert_eq!(found, Some(3..5));
    }
}
