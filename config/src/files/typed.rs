//! TOML: keys are settings in any case, tables only group.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Entry, Place, SyntaxError};

/// Whether the text is TOML beyond doubt: it parses and has a table.
pub(super) fn has_tables(text: &str) -> bool {
    text.lines().any(|line| line.trim_start().starts_with('['))
        && DeTable::parse(text).is_ok_and(|document| {
            document
                .get_ref()
                .values()
                .any(|value| matches!(value.get_ref(), DeValue::Table(_)))
        })
}

/// Reads all entries in the order of the text.
pub(super) fn read(text: &str) -> (Vec<Entry>, Vec<SyntaxError>) {
    let document = match DeTable::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let span = error.span().unwrap_or(0..0);
            let error = SyntaxError {
                place: Place::of_bytes(text, &span),
                message: format!("this is not TOML: {}", error.message()),
                remedy: "texts need quotes; lists are written [\"a\", \"b\"]",
            };
            return (Vec::new(), vec![error]);
        }
    };
    let mut found = Found::default();
    collect(text, document.get_ref(), "", &mut found);
    found.entries.sort_by_key(|(start, _)| *start);
    let entries = found.entries.into_iter().map(|(_, entry)| entry).collect();
    (entries, found.errors)
}

#[derive(Default)]
struct Found {
    entries: Vec<(usize, Entry)>,
    errors: Vec<SyntaxError>,
}

fn collect(text: &str, table: &DeTable<'_>, group: &str, found: &mut Found) {
    for (key, value) in table {
        let name = key.get_ref();
        let grouped = if group.is_empty() {
            name.to_string()
        } else {
            format!("{group}_{name}")
        };
        if let DeValue::Table(inner) = value.get_ref() {
            collect(text, inner, &grouped, found);
            continue;
        }
        let value_place = Place::of_bytes(text, &value.span());
        match text_of(value) {
            Some(plain) => found.entries.push((
                key.span().start,
                Entry {
                    key: name.to_string(),
                    key_place: Place::of_bytes(text, &key.span()),
                    value: plain,
                    value_place,
                    grouped_key: (!group.is_empty()).then_some(grouped),
                },
            )),
            None => found.errors.push(SyntaxError {
                place: value_place,
                message: format!("'{name}' has a value of a kind that no setting takes"),
                remedy: "write a text, a number, true or false, or a list of texts",
            }),
        }
    }
}

/// The value as it would stand in the permissive syntax.
fn text_of(value: &Spanned<DeValue<'_>>) -> Option<String> {
    match value.get_ref() {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str().to_owned()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number.to_string()),
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Array(items) => items
            .iter()
            .map(text_of)
            .collect::<Option<Vec<_>>>()
            .map(|items| items.join(",")),
        DeValue::Table(_) | DeValue::Datetime(_) => None,
    }
}
