//! XML, as the original's `avail -G` writes it: below an element `settings`, one element per setting that holds a `value`.

use roxmltree::{Document, Node};

use super::{Entry, Place, SyntaxError};

const SYNTAX: &str = "write <rsys><settings><NAME><value>...</value></NAME></settings></rsys>";

/// Reads all entries in the order of the text.
pub(super) fn read(text: &str) -> (Vec<Entry>, Vec<SyntaxError>) {
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(error) => {
            let position = error.pos();
            let error = SyntaxError {
                place: Place {
                    line: position.row.max(1) as usize,
                    column: position.col.max(1) as usize,
                    width: 1,
                },
                message: format!("this is not XML: {}", without_place(&error.to_string())),
                remedy: SYNTAX,
            };
            return (Vec::new(), vec![error]);
        }
    };
    let settings = document
        .descendants()
        .find(|node| node.has_tag_name("settings"))
        .unwrap_or_else(|| document.root_element());
    let mut entries = Vec::new();
    let mut errors = Vec::new();
    for node in settings.children().filter(Node::is_element) {
        match entry(text, node) {
            Ok(entry) => entries.push(entry),
            Err(error) => errors.push(error),
        }
    }
    (entries, errors)
}

fn entry(text: &str, node: Node<'_, '_>) -> Result<Entry, SyntaxError> {
    let name = node.tag_name().name();
    // The name without its bracket.
    let start = node.range().start + 1;
    let key_place = Place::of_bytes(text, &(start..start + name.len()));
    let mut inner = node.children().filter(Node::is_element).peekable();
    let value = match inner.peek() {
        None => Some(node),
        Some(_) => inner.find(|child| child.has_tag_name("value")),
    };
    let Some(value) = value else {
        return Err(SyntaxError {
            place: key_place,
            message: format!("'{name}' has no <value>"),
            remedy: SYNTAX,
        });
    };
    let texts: Vec<Node<'_, '_>> = value.descendants().filter(Node::is_text).collect();
    let trimmed: Vec<&str> = texts
        .iter()
        .filter_map(Node::text)
        .map(str::trim)
        .filter(|text| !text.is_empty())
        .collect();
    let value_place = texts
        .iter()
        .find(|node| node.text().is_some_and(|text| !text.trim().is_empty()))
        .map_or(key_place, |node| {
            let bytes = node.range();
            let raw = text.get(bytes.clone()).unwrap_or("");
            let start = bytes.start + raw.len() - raw.trim_start().len();
            Place::of_bytes(text, &(start..start + raw.trim().len()))
        });
    Ok(Entry {
        key: name.to_owned(),
        key_place,
        value: trimmed.join(","),
        value_place,
        grouped_key: None,
    })
}

/// The parser's messages end with the place, which our messages have already.
fn without_place(message: &str) -> &str {
    message
        .rsplit_once(" at ")
        .map_or(message, |(before, _)| before)
}
