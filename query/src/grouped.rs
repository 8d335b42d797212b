//! Rows of a table in groups, with the sums of each: read column by column, where SQLite would look at row after row.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use rsys_tables::store::StoreError;
use rsys_tables::view::{NO_WORD, Values, View, Words};
use rusqlite::Connection;
use rusqlite::types::Value;

use crate::shape::{Comparison, GROUPS, Grouping, Sum, Test, sum_name};

/// With more groups than this, SQLite does as well.
const GROUPS_MAX: usize = 1 << 16;

/// The values of a key in the rows of a part, as numbers: equal ones have the same.
#[derive(Debug, Default)]
struct Key {
    /// The values by number.
    values: Vec<Value>,
    unknown: Option<u32>,
    texts: HashMap<String, u32>,
    integers: HashMap<i64, u32, BuildHasherDefault<Mix>>,
    /// The texts of the part before, and the number of each that was met.
    words: Option<(Arc<Words>, Vec<u32>)>,
}

/// Not met so far.
const NEW: u32 = u32::MAX;

/// Spreads numbers.
#[derive(Debug, Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64((*byte).into()));
    }

    fn write_i64(&mut self, value: i64) {
        self.write_u64(value.cast_unsigned());
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        self.0 = mixed ^ mixed >> 32;
    }
}

impl Key {
    fn add(values: &mut Vec<Value>, value: Value) -> u32 {
        values.push(value);
        values.len() as u32 - 1
    }

    /// The number of each row's value; `None` if they are too many, or no keys.
    fn numbers(&mut self, column: &Values) -> Option<Vec<u32>> {
        if self.values.len() > GROUPS_MAX {
            return None;
        }
        match column {
            Values::Integers(values, valid) => {
                self.of_integers(values.len(), |row| valid.is_valid(row).then(|| values[row]))
            }
            Values::Unsigned(values, valid) => self.of_integers(values.len(), |row| {
                valid.is_valid(row).then(|| values[row].cast_signed())
            }),
            Values::Texts(ids, words) => Some(self.of_texts(ids, words)),
            Values::Numbers(..) => None,
        }
    }

    fn unknown(&mut self) -> u32 {
        let values = &mut self.values;
        *self
            .unknown
            .get_or_insert_with(|| Self::add(values, Value::Null))
    }

    fn of_integers(
        &mut self,
        rows: usize,
        value: impl Fn(usize) -> Option<i64>,
    ) -> Option<Vec<u32>> {
        let mut numbers = Vec::with_capacity(rows);
        for row in 0..rows {
            let number = match value(row) {
                None => self.unknown(),
                Some(value) => {
                    let values = &mut self.values;
                    let known = self.integers.entry(value);
                    *known.or_insert_with(|| Self::add(values, Value::Integer(value)))
                }
            };
            if number as usize > GROUPS_MAX {
                return None;
            }
            numbers.push(number);
        }
        Some(numbers)
    }

    fn of_texts(&mut self, ids: &[u32], words: &Arc<Words>) -> Vec<u32> {
        let known = self.words.take();
        let known = known.filter(|(known, _)| Arc::ptr_eq(known, words));
        let mut met = match known {
            Some((_, met)) => met,
            None => vec![NEW; words.len() as usize],
        };
        let numbers = ids.iter().map(|&id| {
            let Some(number) = met.get_mut(id as usize).filter(|_| id != NO_WORD) else {
                return self.unknown();
            };
            if *number == NEW {
                let text = words.get(id).unwrap_or_default();
                let values = &mut self.values;
                *number = match self.texts.get(text) {
                    Some(number) => *number,
                    None => {
                        let number = Self::add(values, Value::Text(text.to_owned()));
                        self.texts.insert(text.to_owned(), number);
                        number
                    }
                };
            }
            *number
        });
        let numbers = numbers.collect();
        self.words = Some((Arc::clone(words), met));
        numbers
    }
}

/// A sum of the rows of a group.
#[derive(Debug, Clone, Copy, Default)]
struct Summed {
    count: i64,
    total: i64,
    least: i64,
    greatest: i64,
}

impl Summed {
    /// `None` when the total is too large.
    #[inline]
    fn add(&mut self, value: i64) -> Option<()> {
        (self.least, self.greatest) = match self.count {
            0 => (value, value),
            _ => (self.least.min(value), self.greatest.max(value)),
        };
        self.count += 1;
        self.total = self.total.checked_add(value)?;
        Some(())
    }

    fn value(self, sum: Sum) -> Value {
        match (sum, self.count) {
            (Sum::Rows | Sum::Known(_), count) => Value::Integer(count),
            (_, 0) => Value::Null,
            (Sum::Total(_), _) => Value::Integer(self.total),
            (Sum::Mean(_), count) => Value::Real(self.total as f64 / count as f64),
            (Sum::Least(_), _) => Value::Integer(self.least),
            (Sum::Greatest(_), _) => Value::Integer(self.greatest),
        }
    }
}

/// The groups of a table and their sums.
#[derive(Debug)]
struct Groups {
    keys: Vec<Key>,
    /// By two numbers: of the group by the keys in front, and of the value of the next key.
    joined: Vec<HashMap<u64, u32, BuildHasherDefault<Mix>>>,
    /// The numbers of the keys' values, by group.
    of_groups: Vec<Vec<u32>>,
    /// By sum, and by group.
    sums: Vec<Vec<Summed>>,
}

/// Makes the groups. `None` if SQLite has to: there are too many, or a sum is too large.
///
/// # Errors
/// When the store is damaged or cannot be read.
pub(crate) fn groups(
    view: &View,
    grouping: &Grouping,
) -> Result<Option<Vec<Vec<Value>>>, StoreError> {
    let mut groups = Groups {
        keys: grouping.keys.iter().map(|_| Key::default()).collect(),
        joined: grouping.keys.iter().map(|_| HashMap::default()).collect(),
        of_groups: Vec::new(),
        sums: vec![Vec::new(); grouping.sums.len()],
    };
    if grouping.keys.is_empty() {
        groups.begin(Vec::new());
    }
    for (part, rows) in view.parts(grouping.table).iter().enumerate() {
        if groups.part(view, grouping, part, *rows as usize)?.is_none() {
            return Ok(None);
        }
    }
    Ok(Some(groups.rows(grouping)))
}

impl Groups {
    fn begin(&mut self, of_group: Vec<u32>) -> u32 {
        self.of_groups.push(of_group);
        self.sums
            .iter_mut()
            .for_each(|sums| sums.push(Summed::default()));
        self.of_groups.len() as u32 - 1
    }

    /// Takes in the rows of a part.
    fn part(
        &mut self,
        view: &View,
        grouping: &Grouping,
        part: usize,
        rows: usize,
    ) -> Result<Option<()>, StoreError> {
        let column = |place: usize| {
            let column = &grouping.table.columns[place];
            view.column(grouping.table, column, part)
        };
        let mut stays: Option<Vec<bool>> = None;
        for (place, test) in &grouping.tests {
            let stays = stays.get_or_insert_with(|| vec![true; rows]);
            sift(&column(*place)?, test, stays);
        }
        let mut numbers = Vec::new();
        for (key, place) in self.keys.iter_mut().zip(&grouping.keys) {
            let Some(of_key) = key.numbers(&column(*place)?) else {
                return Ok(None);
            };
            numbers.push(of_key);
        }
        let is_there = |row: usize| stays.as_ref().is_none_or(|stays| stays[row]);
        let Some(of_rows) = self.number(&numbers, rows, is_there) else {
            return Ok(None);
        };
        for (sums, sum) in self.sums.iter_mut().zip(&grouping.sums) {
            let summed = match *sum {
                Sum::Rows => {
                    let groups = of_rows.iter().filter(|group| **group != NEW);
                    groups.for_each(|group| sums[*group as usize].count += 1);
                    Some(())
                }
                Sum::Known(place)
                | Sum::Total(place)
                | Sum::Mean(place)
                | Sum::Least(place)
                | Sum::Greatest(place) => {
                    let is_counted = matches!(sum, Sum::Known(_));
                    summed(&column(place)?, is_counted, &of_rows, sums)
                }
            };
            if summed.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// The group of each row; [`NEW`] for those that are left out. `None` if there are too many groups.
    fn number(
        &mut self,
        numbers: &[Vec<u32>],
        rows: usize,
        is_there: impl Fn(usize) -> bool,
    ) -> Option<Vec<u32>> {
        let mut of_rows = Vec::with_capacity(rows);
        for row in 0..rows {
            if !is_there(row) {
                of_rows.push(NEW);
                continue;
            }
            let mut group = 0;
            for (place, of_key) in numbers.iter().enumerate() {
                let is_last = place + 1 == numbers.len();
                let both = u64::from(group) << 32 | u64::from(of_key[row]);
                group = match self.joined[place].get(&both) {
                    Some(group) => *group,
                    None => {
                        let group = match is_last {
                            true => self.begin(numbers.iter().map(|key| key[row]).collect()),
                            false => self.joined[place].len() as u32,
                        };
                        self.joined[place].insert(both, group);
                        group
                    }
                };
            }
            if self.of_groups.len() > GROUPS_MAX {
                return None;
            }
            of_rows.push(group);
        }
        Some(of_rows)
    }

    /// The rows of the answer in the order of their keys, those without value first.
    fn rows(&self, grouping: &Grouping) -> Vec<Vec<Value>> {
        let ranks: Vec<Vec<u32>> = self.keys.iter().map(Key::ranks).collect();
        let mut order: Vec<usize> = (0..self.of_groups.len()).collect();
        let rank = |group: usize| -> Vec<u32> {
            let of_keys = self.of_groups[group].iter().zip(&ranks);
            of_keys
                .map(|(value, ranks)| ranks[*value as usize])
                .collect()
        };
        order.sort_by_cached_key(|group| rank(*group));
        let row = |group: usize| {
            let of_keys = self.of_groups[group].iter().zip(&self.keys);
            let keys = of_keys.map(|(value, key)| key.values[*value as usize].clone());
            let sums = self.sums.iter().zip(&grouping.sums);
            let sums = sums.map(|(sums, sum)| sums[group].value(*sum));
            keys.chain(sums).collect()
        };
        order.into_iter().map(row).collect()
    }
}

impl Key {
    /// Where each value stands among all of them.
    fn ranks(&self) -> Vec<u32> {
        let mut order: Vec<usize> = (0..self.values.len()).collect();
        order.sort_by(
            |one, other| match (&self.values[*one], &self.values[*other]) {
                (Value::Integer(one), Value::Integer(other)) => one.cmp(other),
                (Value::Text(one), Value::Text(other)) => one.as_bytes().cmp(other.as_bytes()),
                (one, other) => (one != &Value::Null).cmp(&(other != &Value::Null)),
            },
        );
        let mut ranks = vec![0; order.len()];
        for (rank, value) in order.into_iter().enumerate() {
            ranks[value] = rank as u32;
        }
        ranks
    }
}

/// Adds the values of a column to the sums of their groups; where they are only counted, of any kind.
fn summed(column: &Values, is_counted: bool, of_rows: &[u32], sums: &mut [Summed]) -> Option<()> {
    let groups = of_rows.iter().enumerate();
    let groups = groups.filter(|(_, group)| **group != NEW);
    for (row, group) in groups {
        let sum = &mut sums[*group as usize];
        let value = match column {
            Values::Integers(values, valid) => valid.is_valid(row).then(|| values[row]),
            Values::Unsigned(values, valid) => {
                valid.is_valid(row).then(|| values[row].cast_signed())
            }
            Values::Numbers(_, valid) => valid.is_valid(row).then_some(0),
            Values::Texts(ids, _) => (ids[row] != NO_WORD).then_some(0),
        };
        match value {
            Some(_) if is_counted => sum.count += 1,
            Some(value) => sum.add(value)?,
            None => {}
        }
    }
    Some(())
}

fn holds(comparison: Comparison, order: std::cmp::Ordering) -> bool {
    match comparison {
        Comparison::Equal => order.is_eq(),
        Comparison::Different => order.is_ne(),
        Comparison::Less => order.is_lt(),
        Comparison::LessOrEqual => order.is_le(),
        Comparison::Greater => order.is_gt(),
        Comparison::GreaterOrEqual => order.is_ge(),
    }
}

/// Leaves out the rows that do not pass a test.
fn sift(column: &Values, test: &Test, stays: &mut [bool]) {
    let is_known = |row: usize| match column {
        Values::Integers(_, valid) | Values::Unsigned(_, valid) | Values::Numbers(_, valid) => {
            valid.is_valid(row)
        }
        Values::Texts(ids, _) => ids[row] != NO_WORD,
    };
    let mut keep = |passes: &mut dyn FnMut(usize) -> bool| {
        let rows = stays.iter_mut().enumerate().filter(|(_, stays)| **stays);
        rows.for_each(|(row, stays)| *stays = passes(row));
    };
    match (test, column) {
        (Test::IsKnown, _) => keep(&mut |row| is_known(row)),
        (Test::IsUnknown, _) => keep(&mut |row| !is_known(row)),
        (Test::Number(comparison, number), Values::Integers(values, _)) => {
            keep(&mut |row| is_known(row) && holds(*comparison, values[row].cmp(number)));
        }
        (Test::Number(comparison, number), Values::Unsigned(values, _)) => keep(&mut |row| {
            is_known(row) && holds(*comparison, values[row].cast_signed().cmp(number))
        }),
        (Test::Text(comparison, text), Values::Texts(ids, words)) => {
            let mut met: Vec<Option<bool>> = vec![None; words.len() as usize];
            keep(&mut |row| {
                let id = ids[row];
                let known = met.get_mut(id as usize);
                known.is_some_and(|known| {
                    *known.get_or_insert_with(|| {
                        let own = words.get(id).unwrap_or_default();
                        holds(*comparison, own.as_bytes().cmp(text.as_bytes()))
                    })
                })
            });
        }
        // Tests are made for the kind of their column.
        _ => keep(&mut |_| false),
    }
}

/// Puts groups into a table of a database.
pub(crate) fn store(
    connection: &mut Connection,
    grouping: &Grouping,
    groups: Vec<Vec<Value>>,
) -> rusqlite::Result<()> {
    let columns = grouping.table.columns;
    let keys = grouping.keys.iter();
    let keys = keys.map(|place| format!("{} {}", columns[*place].name, columns[*place].kind.sql()));
    let names: Vec<String> = keys.chain((0..grouping.sums.len()).map(sum_name)).collect();
    connection.execute(&format!("create table {GROUPS} ({})", names.join(", ")), [])?;
    let places = vec!["?"; names.len()].join(", ");
    let transaction = connection.transaction()?;
    let mut insert = transaction.prepare(&format!("insert into {GROUPS} values ({places})"))?;
    for group in groups {
        insert.execute(rusqlite::params_from_iter(group))?;
    }
    drop(insert);
    transaction.commit()
}
