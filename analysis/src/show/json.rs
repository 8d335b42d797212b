//! Answers as JSON.

use serde_json::{Map, Value, json};

use crate::table::{Answer, Cell, Row, SCHEMA_VERSION, Table};

/// An object with `schema_version`, each table as an array of objects under its key, the answers that it is made of as objects under the names
/// of their questions, and `notes`.
#[must_use]
pub fn json(answer: &Answer) -> Value {
    let mut object = Map::new();
    object.insert("schema_version".to_owned(), json!(SCHEMA_VERSION));
    object.extend(tables(answer));
    if let Some(closing) = &answer.closing {
        object.insert(closing.key.to_owned(), rows(closing));
    }
    object.insert("notes".to_owned(), json!(answer.notes));
    Value::Object(object)
}

fn tables(answer: &Answer) -> Map<String, Value> {
    let tables = answer.tables.iter();
    let tables = tables.map(|table| (table.key.to_owned(), rows(table)));
    let parts = answer.parts.iter();
    let parts =
        parts.map(|(question, part)| ((*question).to_owned(), Value::Object(self::tables(part))));
    tables.chain(parts).collect()
}

fn rows(table: &Table) -> Value {
    table.rows.iter().map(|row| object(table, row)).collect()
}

fn object(table: &Table, row: &Row) -> Value {
    let mut object = Map::new();
    for (column, cell) in table.columns.iter().zip(&row.cells) {
        let value = value(cell);
        match column.key.split_once('.') {
            None => _ = object.insert(column.key.to_owned(), value),
            Some((outer, inner)) => {
                let nested = object.entry(outer).or_insert_with(|| json!({}));
                nested[inner] = value;
            }
        }
    }
    for below in &row.below {
        object.insert(below.key.to_owned(), rows(below));
    }
    Value::Object(object)
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Text(text) => json!(text),
        Cell::Count(count) => json!(count),
        Cell::Number(number) => json!(number),
        Cell::Named(values) => {
            let values = values.iter();
            let values = values.map(|(key, cell)| ((*key).to_owned(), value(cell)));
            Value::Object(values.collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::Column;

    #[test]
    fn tables_nest_and_dots_make_objects() {
        let mut inner = Table::new("causes", "", &[Column::ns("idle_ns", "")]);
        inner.push(vec![Cell::Count(3)]);
        let columns = [Column::plain("records.compute", ""), Column::plain("x", "")];
        let mut outer = Table::new("devices", "", &columns);
        outer.push(Row {
            cells: vec![Cell::Count(1), Cell::Null],
            below: vec![inner],
        });
        let answer = Answer {
            tables: vec![outer],
            notes: vec!["a".to_owned()],
            ..Answer::default()
        };
        assert_eq!(
            json(&answer),
            json!({
                "schema_version": 1,
                "devices": [{"records": {"compute": 1}, "x": null, "causes": [{"idle_ns": 3}]}],
                "notes": ["a"],
            })
        );
    }

    #[test]
    fn equal_tables_of_several_questions_are_apart() {
        let mut table = Table::new("runs", "", &[Column::plain("x", "")]);
        table.push(vec![Cell::Count(1)]);
        let part = Answer {
            tables: vec![table],
            notes: vec!["a".to_owned()],
            ..Answer::default()
        };
        let both = Answer::joined([("timeline", part.clone()), ("gaps", part)]);
        assert_eq!(
            json(&both),
            json!({
                "schema_version": 1,
                "timeline": {"runs": [{"x": 1}]},
                "gaps": {"runs": [{"x": 1}]},
                "notes": ["a"],
            })
        );
    }
}
