//! Which tables there are, and what their columns mean.
//!
//! Stored are numbers: the row of another table, the number of a text. A column that stands in a table says what it is made of.

mod columns;
mod tables;

pub use tables::TABLES;

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers, which may be negative in calculations; 64 bits.
    Integer,
    /// Identifiers of 64 bits; in SQL those above 2^63 - 1 are negative.
    Unsigned,
    /// Measured numbers.
    Number,
    /// Text.
    Text,
}

impl Kind {
    /// The name of the type in SQL.
    #[must_use]
    pub fn sql(self) -> &'static str {
        match self {
            Self::Integer | Self::Unsigned => "INTEGER",
            Self::Number => "REAL",
            Self::Text => "TEXT",
        }
    }
}

/// What a column is made of. Names are those of stored columns, unless said otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// The number of the row.
    Row,
    /// Numbers.
    Value(&'static str),
    /// Numbers, 0 being unknown.
    NonZero(&'static str),
    /// Numbers, the largest being unknown; rows of other tables too.
    Optional(&'static str),
    /// The sum of two columns.
    Sum(&'static str, &'static str),
    /// The second column less the first, where the second is known.
    Since(&'static str, &'static str),
    /// Numbers with a fraction.
    Float(&'static str),
    /// Texts; the empty one is none.
    Text(&'static str),
    /// One text for each number.
    Code(&'static str, &'static [&'static str]),
    /// The column of another table, as that has it, in the row that a stored column names.
    Of(&'static str, &'static str, &'static str),
    /// The place in the program that stands for the call stack that is the row.
    Place,
    /// The functions of the call stack that is the row, outermost first.
    Frames,
}

/// A column.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name, which ends in its unit.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// What it means.
    pub about: &'static str,
    pub(crate) source: Source,
}

/// A table.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// What a row is.
    pub about: &'static str,
    /// The columns.
    pub columns: &'static [Column],
}

impl Table {
    /// The column of a name, and its place.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<(usize, &'static Column)> {
        let mut columns = self.columns.iter().enumerate();
        columns.find(|(_, column)| column.name == name)
    }
}

impl Column {
    /// Whether it is the number of the row.
    #[must_use]
    pub fn is_row(&self) -> bool {
        matches!(self.source, Source::Row)
    }

    /// The table whose rows it says something of, or whose values it repeats: it has no more different values than that has rows.
    #[must_use]
    pub fn of_table(&self) -> Option<&'static Table> {
        if let Source::Of(_, other, _) = self.source {
            return table(other);
        }
        TABLES.iter().find(|table| {
            let first = table.columns.first();
            first.is_some_and(|first| first.is_row() && first.name == self.name)
        })
    }
}

/// The table of a name.
#[must_use]
pub fn table(name: &str) -> Option<&'static Table> {
    TABLES.iter().find(|table| table.name == name)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn columns_of_other_tables_are_there_and_of_the_same_kind() {
        for table in TABLES {
            let mut names = HashSet::new();
            for column in table.columns {
                let name = format!("{}.{}", table.name, column.name);
                assert!(names.insert(column.name), "{name} is there twice");
                assert!(column.about.len() >= 3, "{name} says nothing");
                let Source::Of(_, other, there) = column.source else {
                    continue;
                };
                let other = super::table(other).expect(&name);
                let (_, there) = other.column(there).expect(&name);
                assert_eq!(there.kind, column.kind, "{name}");
            }
        }
    }
}
