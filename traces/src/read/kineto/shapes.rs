//! What operators were called with: types and dimensions of their arguments.

use std::collections::HashMap;

use serde_json::Value;

use crate::model::{TextId, Texts};
use crate::work::SEPARATOR;

/// Texts by what stands in the file, which mostly was there before.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    known: HashMap<Vec<u8>, TextId>,
    key: Vec<u8>,
}

/// So many forms are remembered. A program whose arguments are all different has others read each time.
const KNOWN_MAX: usize = 1 << 16;

impl Shapes {
    /// The text for `Input type` and `Input Dims`: `float[64, 128], float[128], Scalar`.
    pub(super) fn text(&mut self, types: &[u8], dimensions: &[u8], texts: &mut Texts) -> TextId {
        if types.is_empty() && dimensions.is_empty() {
            return TextId::EMPTY;
        }
        self.key.clear();
        self.key.extend_from_slice(types);
        self.key.push(0);
        self.key.extend_from_slice(dimensions);
        if let Some(&known) = self.known.get(&self.key) {
            return known;
        }
        let text = texts.intern(&joined(types, dimensions));
        if self.known.len() < KNOWN_MAX {
            self.known.insert(self.key.clone(), text);
        }
        text
    }
}

/// Texts with all that the file says of the arguments of operators, which mostly were there before.
#[derive(Debug, Default)]
pub(super) struct Lists {
    text: String,
}

impl Lists {
    /// The text of types, dimensions, strides and values, as [`crate::work::Arguments`] reads it; empty where the file has none of them.
    pub(super) fn text(&mut self, lists: [&[u8]; 4], texts: &mut Texts) -> TextId {
        if lists.iter().all(|list| list.is_empty()) {
            return TextId::EMPTY;
        }
        self.text.clear();
        for (number, list) in lists.into_iter().enumerate() {
            if number > 0 {
                self.text.push(SEPARATOR);
            }
            self.text.push_str(&String::from_utf8_lossy(list));
        }
        texts.intern(&self.text)
    }
}

/// One text for both lists. What is no list of JSON stays as it is.
fn joined(types: &[u8], dimensions: &[u8]) -> String {
    let list = |bytes: &[u8]| match serde_json::from_slice(bytes) {
        Ok(Value::Array(list)) => Some(list),
        _ => None,
    };
    let (types_list, dimensions_list) = (list(types), list(dimensions));
    if types_list.is_none() && !types.is_empty()
        || dimensions_list.is_none() && !dimensions.is_empty()
    {
        let parts = [types, dimensions].map(String::from_utf8_lossy);
        return parts.join(" ").trim().to_owned();
    }
    let types = types_list.unwrap_or_default();
    let dimensions = dimensions_list.unwrap_or_default();
    let arguments = (0..types.len().max(dimensions.len())).map(|at| {
        let kind = types.get(at).and_then(Value::as_str).unwrap_or_default();
        let size = match dimensions.get(at) {
            Some(Value::Array(size)) if size.is_empty() && !kind.is_empty() => String::new(),
            Some(size) => spaced(size),
            None => String::new(),
        };
        match (kind, size.as_str()) {
            ("", "") => "?".to_owned(),
            _ => format!("{kind}{size}"),
        }
    });
    arguments.collect::<Vec<_>>().join(", ")
}

/// A list as people write it, whatever spaces the file has.
fn spaced(value: &Value) -> String {
    match value {
        Value::Array(list) => {
            let parts: Vec<String> = list.iter().map(spaced).collect();
            format!("[{}]", parts.join(", "))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_and_dimensions_are_one_text() {
        for (types, dimensions, expected) in [
            (
                r#"["float", "float", "Scalar"]"#,
                "[[64,128], [128], []]",
                "float[64, 128], float[128], Scalar",
            ),
            (
                r#"["TensorList", ""]"#,
                "[[[2,3],[4]], []]",
                "TensorList[[2, 3], [4]], []",
            ),
            ("", "[[2], []]", "[2], []"),
            (r#"["float"]"#, "", "float"),
            (r#"["float"]"#, "[[2], [3]]", "float[2], [3]"),
            (r#"["", "float"]"#, "", "?, float"),
            ("[]", "[]", ""),
            ("float", "[[2]]", "float [[2]]"),
            ("[\"float\"", "[[2", "[\"float\" [[2"),
        ] {
            let found = joined(types.as_bytes(), dimensions.as_bytes());
            assert_eq!(found, expected, "{types} {dimensions}");
            let (mut shapes, mut texts) = (Shapes::default(), Texts::default());
            for _ in 0..2 {
                let id = shapes.text(types.as_bytes(), dimensions.as_bytes(), &mut texts);
                assert_eq!(texts.get(id), expected);
            }
        }
    }
}
