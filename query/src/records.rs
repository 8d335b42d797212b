//! Tables of a store as SQLite sees them: virtual tables, whose columns are read where a query asks for them.

use std::borrow::Cow;
use std::cell::OnceCell;
use std::collections::HashMap;
use std::ffi::{CStr, CString, c_int};
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use rsys_tables::catalog::{Kind, Table};
use rsys_tables::store::StoreError;
use rsys_tables::view::{Values, View};
use rusqlite::types::{Null, ValueRef};
use rusqlite::vtab::{
    Context, Filters, IndexConstraintOp, IndexInfo, Module, VTab, VTabConnection, VTabCursor,
};
use rusqlite::{Connection, Error, Result, ffi};

use crate::order::{Order, ROWS_MAX};

/// Rows of an order are fetched in windows: one by one, each would wait for memory.
const WINDOW_ROWS: u64 = 1 << 14;

/// Makes a table known.
pub(crate) fn register(
    connection: &Connection,
    view: &Arc<View>,
    table: &'static Table,
) -> Result<()> {
    const MODULE: Module<'_, RecordTable> = Module::eponymous_only_module();
    let mut starts = vec![0];
    for &rows in view.parts(table) {
        starts.push(starts[starts.len() - 1] + u64::from(rows));
    }
    let records = Records {
        view: Arc::clone(view),
        table,
        starts,
        orders: Mutex::default(),
    };
    connection.create_module(table.name, &MODULE, Some(Arc::new(records)))
}

fn failed(error: StoreError) -> Error {
    Error::ModuleError(format!("the file of tables {error}"))
}

/// The rows of a table, and the orders of them that were asked for.
#[derive(Debug)]
struct Records {
    view: Arc<View>,
    table: &'static Table,
    /// The first row of each part, and the number of all rows.
    starts: Vec<u64>,
    orders: Mutex<HashMap<usize, Arc<Order>>>,
}

impl Records {
    fn rows(&self) -> u64 {
        self.starts.last().copied().unwrap_or_default()
    }

    /// How many rows have the same value in a column, about.
    fn rows_of_each(&self, column: usize) -> u64 {
        let column = &self.table.columns[column];
        let different = match column.of_table() {
            Some(other) if other.name != self.table.name => {
                let parts = self.view.parts(other).iter();
                parts.map(|&rows| u64::from(rows)).sum()
            }
            _ if column.kind == Kind::Text => 100,
            _ => self.rows(),
        };
        self.rows() / different.max(1) + 1
    }

    fn whole(&self, column: usize) -> Result<Arc<Values>> {
        let column = self.table.columns[column].name;
        self.view.whole(self.table.name, column).map_err(failed)
    }

    fn order(&self, column: usize) -> Result<Arc<Order>> {
        let orders = || {
            let orders = self.orders.lock();
            orders.unwrap_or_else(|poison| poison.into_inner())
        };
        if let Some(order) = orders().get(&column) {
            return Ok(Arc::clone(order));
        }
        let order = Order::of(self.whole(column)?);
        let order = order.ok_or_else(|| Error::ModuleError("too many rows".to_owned()))?;
        let order = Arc::new(order);
        orders().insert(column, Arc::clone(&order));
        Ok(order)
    }
}

/// How rows are gone through: in a number for SQLite, the lower bits of which are a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// As they stand.
    Scan,
    /// The one of a number.
    Number,
    /// Those with a value in a column.
    Equal(usize),
    /// In the order of a column.
    Sorted(usize),
    /// In the reverse order of a column.
    Reversed(usize),
}

impl Way {
    const COLUMN_BITS: c_int = 8;

    fn to_number(self) -> c_int {
        let (kind, column) = match self {
            Self::Scan => (0, 0),
            Self::Number => (1, 0),
            Self::Equal(column) => (2, column),
            Self::Sorted(column) => (3, column),
            Self::Reversed(column) => (4, column),
        };
        (kind << Self::COLUMN_BITS) | column as c_int
    }

    fn of_number(number: c_int) -> Self {
        let column = (number & ((1 << Self::COLUMN_BITS) - 1)) as usize;
        match number >> Self::COLUMN_BITS {
            1 => Self::Number,
            2 => Self::Equal(column),
            3 => Self::Sorted(column),
            4 => Self::Reversed(column),
            _ => Self::Scan,
        }
    }
}

/// A table.
#[repr(C)]
struct RecordTable {
    /// SQLite's own part, which has to be the first.
    base: ffi::sqlite3_vtab,
    records: Arc<Records>,
}

// SAFETY: `base` is the first field of a `repr(C)` struct.
unsafe impl<'vtab> VTab<'vtab> for RecordTable {
    type Aux = Arc<Records>;
    type Cursor = Cursor<'vtab>;

    fn connect(
        _: &mut VTabConnection,
        records: Option<&Self::Aux>,
        _module: &[u8],
        _database: &[u8],
        _table: &[u8],
        _arguments: &[&[u8]],
    ) -> Result<(Cow<'static, CStr>, Self)> {
        let records = records.ok_or_else(|| Error::ModuleError("no records".to_owned()))?;
        let columns = records.table.columns.iter();
        let columns = columns.map(|column| format!("{} {}", column.name, column.kind.sql()));
        let sql = format!(
            "create table records({})",
            columns.collect::<Vec<_>>().join(", ")
        );
        let table = Self {
            base: ffi::sqlite3_vtab::default(),
            records: Arc::clone(records),
        };
        Ok((Cow::Owned(CString::new(sql)?), table))
    }

    fn best_index(&self, info: &mut IndexInfo) -> Result<bool> {
        let records = &*self.records;
        let columns = records.table.columns;
        let rows = records.rows();
        // A way, the constraint that it needs, and how many rows it leads to.
        let mut best: Option<(Way, usize, u64)> = None;
        let constraints: Vec<_> = info.constraints().enumerate().collect();
        for (place, constraint) in constraints {
            let is_equal = constraint.operator() == IndexConstraintOp::SQLITE_INDEX_CONSTRAINT_EQ;
            if !constraint.is_usable() || !is_equal {
                continue;
            }
            let column = usize::try_from(constraint.column()).ok();
            let found = match column.map(|column| (column, &columns[column])) {
                None => (Way::Number, place, 1),
                Some((_, column)) if column.is_row() => (Way::Number, place, 1),
                Some((_, column)) if column.kind == Kind::Number => continue,
                // To sort for a single value would take longer than to look at all rows.
                Some(_) if rows > ROWS_MAX || matches!(info.rhs_value(place), Ok(Some(_))) => {
                    continue;
                }
                Some((column, _)) => (Way::Equal(column), place, records.rows_of_each(column)),
            };
            if best.is_none_or(|best| found.2 < best.2) {
                best = Some(found);
            }
        }
        if let Some((way, place, rows)) = best {
            info.constraint_usage(place).set_argv_index(1);
            info.set_idx_num(way.to_number());
            info.set_estimated_cost(10.0 + rows as f64);
            info.set_estimated_rows(i64::try_from(rows).unwrap_or(i64::MAX));
            return Ok(true);
        }
        let mut orders = info.order_bys();
        let order = match (orders.next(), orders.next()) {
            (Some(order), None) => Some((order.column(), order.is_order_by_desc())),
            _ => None,
        };
        let order = order.and_then(|(column, is_reversed)| {
            let column = usize::try_from(column).ok()?;
            Some((column, columns.get(column)?, is_reversed))
        });
        let way = match order {
            Some((_, column, false)) if column.is_row() => Some(Way::Scan),
            Some((at, column, false)) if column.kind == Kind::Text && rows <= ROWS_MAX => {
                Some(Way::Sorted(at))
            }
            Some((at, column, true)) if column.kind == Kind::Text && rows <= ROWS_MAX => {
                Some(Way::Reversed(at))
            }
            _ => None,
        };
        info.set_order_by_consumed(way.is_some());
        info.set_idx_num(way.unwrap_or(Way::Scan).to_number());
        info.set_estimated_cost(10.0 + rows as f64);
        info.set_estimated_rows(i64::try_from(rows).unwrap_or(i64::MAX));
        Ok(true)
    }

    fn open(&'vtab mut self) -> Result<Self::Cursor> {
        let columns = self.records.table.columns.len();
        Ok(Cursor {
            base: ffi::sqlite3_vtab_cursor::default(),
            records: Arc::clone(&self.records),
            order: None,
            places: 0..0,
            is_reversed: false,
            window: 0..0,
            part: 0,
            columns: (0..columns).map(|_| OnceCell::new()).collect(),
            table: PhantomData,
        })
    }
}

/// A place in a table.
#[repr(C)]
struct Cursor<'vtab> {
    /// SQLite's own part, which has to be the first.
    base: ffi::sqlite3_vtab_cursor,
    records: Arc<Records>,
    /// The order that rows are gone through in, if it is not their own.
    order: Option<Arc<Order>>,
    /// The places in that order, or rows, that are yet to come.
    places: Range<u64>,
    is_reversed: bool,
    /// The places that `columns` are of: a part of the table, or as many places of an order.
    window: Range<u64>,
    part: usize,
    /// The columns that were asked for.
    columns: Vec<OnceCell<Values>>,
    table: PhantomData<&'vtab RecordTable>,
}

impl Cursor<'_> {
    /// The place that it is at.
    fn place(&self) -> Option<u64> {
        match self.is_reversed {
            _ if self.places.is_empty() => None,
            true => Some(self.places.end - 1),
            false => Some(self.places.start),
        }
    }

    /// Moves the window to the place that it is at.
    fn enter(&mut self) {
        let Some(place) = self.place().filter(|place| !self.window.contains(place)) else {
            return;
        };
        self.window = match (&self.order, self.is_reversed) {
            (None, _) => {
                let starts = &self.records.starts;
                self.part = starts.partition_point(|&start| start <= place) - 1;
                starts[self.part]..starts[self.part + 1]
            }
            (Some(_), true) => place.saturating_sub(WINDOW_ROWS - 1)..place + 1,
            (Some(_), false) => place..self.places.end.min(place + WINDOW_ROWS),
        };
        self.columns
            .iter_mut()
            .for_each(|column| drop(column.take()));
    }

    fn values(&self, column: usize) -> Result<&Values> {
        let cell = &self.columns[column];
        if let Some(values) = cell.get() {
            return Ok(values);
        }
        let records = &self.records;
        let values = match &self.order {
            None => {
                let of = &records.table.columns[column];
                let values = records.view.column(records.table, of, self.part);
                values.map_err(failed)?
            }
            Some(order) => {
                let window = self.window.start as usize..self.window.end as usize;
                records.whole(column)?.gather(&order.rows[window])
            }
        };
        Ok(cell.get_or_init(|| values))
    }
}

// SAFETY: `base` is the first field of a `repr(C)` struct.
unsafe impl VTabCursor for Cursor<'_> {
    fn filter(&mut self, way: c_int, _: Option<&str>, arguments: &Filters<'_>) -> Result<()> {
        let count = self.records.rows();
        let way = Way::of_number(way);
        let all = (None, 0..count);
        let (order, places) = match way {
            Way::Scan => all,
            Way::Number => match arguments.iter().next() {
                Some(ValueRef::Integer(row)) => match u64::try_from(row) {
                    Ok(row) if row < count => (None, row..row + 1),
                    _ => (None, 0..0),
                },
                Some(ValueRef::Null) => (None, 0..0),
                // SQLite compares again, and knows what else is equal to a number.
                _ => all,
            },
            Way::Equal(column) => {
                let order = self.records.order(column)?;
                let found = arguments.iter().next().and_then(|value| order.equal(value));
                match found {
                    Some(places) => (Some(order), places.start as u64..places.end as u64),
                    None => all,
                }
            }
            Way::Sorted(column) | Way::Reversed(column) => {
                (Some(self.records.order(column)?), 0..count)
            }
        };
        // A window of rows is as good for a further look at the table, one of an order is not.
        if self.order.is_some() || order.is_some() {
            self.window = 0..0;
        }
        self.order = order;
        self.places = places;
        self.is_reversed = matches!(way, Way::Reversed(_));
        self.enter();
        Ok(())
    }

    fn next(&mut self) -> Result<()> {
        match self.is_reversed {
            true => self.places.end -= 1,
            false => self.places.start += 1,
        }
        self.enter();
        Ok(())
    }

    fn eof(&self) -> bool {
        self.places.is_empty()
    }

    fn column(&self, context: &mut Context, column: c_int) -> Result<()> {
        let (Some(place), Ok(column)) = (self.place(), usize::try_from(column)) else {
            return context.set_result(Null);
        };
        let row = (place - self.window.start) as usize;
        match self.values(column)? {
            Values::Integers(values, valid) if valid.is_valid(row) => {
                context.set_result(values[row])
            }
            Values::Unsigned(values, valid) if valid.is_valid(row) => {
                context.set_result(values[row].cast_signed())
            }
            Values::Numbers(values, valid) if valid.is_valid(row) => {
                context.set_result(values[row])
            }
            Values::Texts(ids, words) => context.set_result(words.get(ids[row])),
            _ => context.set_result(Null),
        }
    }

    fn rowid(&self) -> Result<i64> {
        let place = self.place().unwrap_or_default();
        let row = match &self.order {
            Some(order) => order.rows[place as usize].into(),
            None => place,
        };
        Ok(row.cast_signed())
    }
}
