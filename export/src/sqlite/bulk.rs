//! Tables to which rows are added, each in the order of its row ids.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};

use super::node::{Kind, PAGE_BYTES};
use super::pages::Pages;
use super::record::Encoder;
use super::tree::Tree;
use super::value::Value;
use crate::Failure;

/// A file that is not finished goes away, so nothing need be durable before; what is written refers to rows that come later.
const PRAGMAS: &str = "pragma journal_mode = off; pragma synchronous = off; pragma locking_mode = exclusive; pragma foreign_keys = off; begin;";

/// Where the value of a column comes from.
#[derive(Debug, Clone)]
enum Origin {
    /// It is the row id, which stands elsewhere.
    RowId,
    /// The value at this place of what is added.
    Given(usize),
    /// What the table says for all rows.
    Integer(i64),
    Real(f64),
    Text(String),
    Null,
}

/// A table of the schema.
#[derive(Debug)]
struct Layout {
    /// Names, what stands in them where nothing is said, and whether they are the row id.
    columns: Vec<(String, Origin)>,
    is_counted: bool,
}

/// A database, of which the tables are there.
pub(crate) struct Bulk {
    path: PathBuf,
    layouts: Layouts,
    pages: RefCell<Pages>,
    /// The roots of tables and indexes to which nobody has added.
    roots: RefCell<Roots>,
    /// Trees to which nobody adds at the moment.
    trees: RefCell<BTreeMap<String, Tree>>,
}

impl Bulk {
    /// Makes a database with these tables, and indexes that are to be filled with [`Bulk::index`].
    ///
    /// # Errors
    /// When there is something at `path`, or it cannot be written.
    pub(crate) fn create(path: &Path, schema: &str) -> Result<Self, Failure> {
        // Nothing that is there is written over.
        drop(std::fs::File::create_new(path)?);
        let database = Connection::open(path)?;
        database.execute_batch(&format!(
            "pragma page_size = {PAGE_BYTES}; {PRAGMAS} {schema}; commit;"
        ))?;
        let (layouts, roots) = schema_of(&database)?;
        database.close().map_err(|(_, error)| error)?;
        Ok(Self {
            pages: RefCell::new(Pages::new(path)?),
            path: path.to_path_buf(),
            layouts,
            roots: RefCell::new(roots),
            trees: RefCell::default(),
        })
    }

    fn take(&self, name: &str) -> Result<Tree, Failure> {
        let begun = self.trees.borrow_mut().remove(name);
        let new = || self.roots.borrow_mut().remove(name);
        let tree = begun.or_else(|| new().map(|(root, kind)| Tree::new(root, kind)));
        tree.ok_or_else(|| Failure::Database(format!("{name} is not there, or being written")))
    }

    /// Rows for a table that nobody adds to, with values for these columns.
    ///
    /// # Errors
    /// When there is no such table or column.
    pub(crate) fn rows<const N: usize>(
        &self,
        table: &str,
        columns: [&str; N],
    ) -> Result<Rows<'_, N>, Failure> {
        let layout = self.layouts.get(table);
        let layout = layout.ok_or_else(|| Failure::Database(format!("{table} is not there")))?;
        let mut id = None;
        let mut left: Vec<&str> = columns.to_vec();
        let origins = layout.columns.iter().map(|(name, origin)| {
            left.retain(|column| column != name);
            let given = columns.iter().position(|column| column == name);
            match (origin, given) {
                (Origin::RowId, given) => {
                    id = given;
                    Origin::RowId
                }
                (_, Some(place)) => Origin::Given(place),
                (origin, None) => origin.clone(),
            }
        });
        let origins = origins.collect();
        if let Some(column) = left.first() {
            return Err(Failure::Database(format!("{table} has no column {column}")));
        }
        Ok(Rows {
            bulk: self,
            tree: self.take(table)?,
            table: table.to_owned(),
            origins,
            id,
            encoder: Encoder::default(),
            row: Vec::new(),
        })
    }

    /// Entries for an index of numbers.
    ///
    /// # Errors
    /// When there is no such index.
    pub(crate) fn index(&self, name: &str) -> Result<IndexRows<'_>, Failure> {
        Ok(IndexRows {
            bulk: self,
            tree: self.take(name)?,
            name: name.to_owned(),
            encoder: Encoder::default(),
            entry: Vec::new(),
        })
    }

    /// Writes what is left; returns the database with a transaction that has begun, for SQLite to add the rest.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn finish(self) -> Result<Connection, Failure> {
        let mut pages = self.pages.into_inner();
        let mut counts = Vec::new();
        let mut outcome = Ok(());
        for (name, tree) in self.trees.into_inner() {
            let is_counted = self
                .layouts
                .get(&name)
                .is_some_and(|layout| layout.is_counted);
            if is_counted && tree.last() > 0 {
                counts.push((name, tree.last()));
            }
            outcome = outcome.and_then(|()| tree.finish(&mut pages));
        }
        // What the thread that writes says is the reason, where both have failed.
        pages.finish()?;
        outcome?;
        let database = Connection::open(&self.path)?;
        database.execute_batch(PRAGMAS)?;
        let mut add = database.prepare("insert into sqlite_sequence (name, seq) values (?, ?)");
        for (name, last) in counts {
            match &mut add {
                Ok(add) => add.execute(params![name, last])?,
                Err(error) => return Err(Failure::Database(error.to_string())),
            };
        }
        drop(add);
        Ok(database)
    }
}

type Layouts = HashMap<String, Layout>;
type Roots = HashMap<String, (u32, Kind)>;

/// The tables and indexes of a database, but those that SQLite makes for itself.
fn schema_of(database: &Connection) -> rusqlite::Result<(Layouts, Roots)> {
    let (mut layouts, mut roots) = (HashMap::new(), HashMap::new());
    let mut all = database.prepare(
        "select name, type, rootpage, sql from sqlite_schema where rootpage > 0 and sql is not null and name not like 'sqlite_%'",
    )?;
    let mut all = all.query([])?;
    while let Some(row) = all.next()? {
        let (name, kind): (String, String) = (row.get(0)?, row.get(1)?);
        let (root, sql): (u32, String) = (row.get(2)?, row.get(3)?);
        let kind = match kind.as_str() {
            "table" => Kind::TableLeaf,
            _ => Kind::IndexLeaf,
        };
        if kind == Kind::TableLeaf {
            let layout = Layout {
                columns: columns(database, &name)?,
                is_counted: sql.contains("autoincrement"),
            };
            layouts.insert(name.clone(), layout);
        }
        roots.insert(name, (root, kind));
    }
    Ok((layouts, roots))
}

/// The columns of a table.
fn columns(database: &Connection, table: &str) -> rusqlite::Result<Vec<(String, Origin)>> {
    let mut columns = database
        .prepare("select name, type, pk, dflt_value from pragma_table_info(?) order by cid")?;
    let columns = columns.query_map([table], |row| {
        let (name, kind): (String, String) = (row.get(0)?, row.get(1)?);
        let (key, default): (u64, Option<String>) = (row.get(2)?, row.get(3)?);
        if key == 1 && kind.eq_ignore_ascii_case("integer") {
            return Ok((name, Origin::RowId));
        }
        let Some(default) = default else {
            return Ok((name, Origin::Null));
        };
        let default = database.query_row(&format!("select {default}"), [], |row| {
            Ok(match row.get_ref(0)? {
                ValueRef::Integer(number) => Origin::Integer(number),
                // As SQLite does: a whole one takes fewer bytes, and is a measured number again in such a column.
                ValueRef::Real(number) if number as i64 as f64 == number => {
                    Origin::Integer(number as i64)
                }
                ValueRef::Real(number) => Origin::Real(number),
                ValueRef::Text(text) => Origin::Text(String::from_utf8_lossy(text).into_owned()),
                ValueRef::Null | ValueRef::Blob(_) => Origin::Null,
            })
        })?;
        Ok((name, default))
    })?;
    columns.collect()
}

/// A table to which rows of `N` values are added. They are there after [`Rows::finish`].
pub(crate) struct Rows<'b, const N: usize> {
    bulk: &'b Bulk,
    tree: Tree,
    table: String,
    origins: Vec<Origin>,
    /// The place of the row id among the values.
    id: Option<usize>,
    encoder: Encoder,
    row: Vec<u8>,
}

impl<const N: usize> Rows<'_, N> {
    /// The id that a row gets which has none.
    pub(crate) fn next_id(&self) -> i64 {
        self.tree.last() + 1
    }

    /// Adds a row. Texts stand in columns of texts, numbers in those of numbers: nothing is converted.
    ///
    /// # Errors
    /// When the id is not above all others, or a page cannot be written.
    #[inline]
    pub(crate) fn put(&mut self, row: [Value<'_>; N]) -> Result<(), Failure> {
        let id = match self.id.map(|place| row[place]) {
            Some(Value::Integer(id)) => id,
            _ => self.next_id(),
        };
        for origin in &self.origins {
            self.encoder.value(match origin {
                Origin::Given(place) => row[*place],
                Origin::RowId | Origin::Null => Value::Null,
                Origin::Integer(number) => Value::Integer(*number),
                Origin::Real(number) => Value::Number(*number),
                Origin::Text(text) => Value::Text(text),
            });
        }
        self.row.clear();
        self.encoder.finish(&mut self.row);
        Ok(self
            .tree
            .row(id, &self.row, &mut self.bulk.pages.borrow_mut())?)
    }

    /// Lets others add rows to the table.
    pub(crate) fn finish(self) {
        self.bulk.trees.borrow_mut().insert(self.table, self.tree);
    }
}

/// An index of numbers, to which entries are added in their order. They are there after [`IndexRows::finish`].
pub(crate) struct IndexRows<'b> {
    bulk: &'b Bulk,
    tree: Tree,
    name: String,
    encoder: Encoder,
    entry: Vec<u8>,
}

impl IndexRows<'_> {
    /// Adds the values of the columns, and the row id behind them.
    ///
    /// # Errors
    /// When a page cannot be written.
    pub(crate) fn put<const N: usize>(&mut self, entry: [i64; N]) -> Result<(), Failure> {
        entry
            .into_iter()
            .for_each(|number| self.encoder.value(Value::Integer(number)));
        self.entry.clear();
        self.encoder.finish(&mut self.entry);
        Ok(self
            .tree
            .entry(&self.entry, &mut self.bulk.pages.borrow_mut())?)
    }

    /// The index is whole.
    pub(crate) fn finish(self) {
        self.bulk.trees.borrow_mut().insert(self.name, self.tree);
    }
}
