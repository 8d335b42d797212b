//! The original's permissive syntax, line by line: `KEY = value`, `KEY value`, `# comment`, `$NAME = value`.

use super::{Entry, Place, SyntaxError};

/// Reads all lines; what cannot be read is reported and skipped.
pub(super) fn read(text: &str) -> (Vec<Entry>, Vec<SyntaxError>) {
    let mut entries = Vec::new();
    let mut errors = Vec::new();
    for (index, line) in text.lines().enumerate() {
        match read_line(line, index + 1) {
            Ok(Some(entry)) => entries.push(entry),
            Ok(None) => {}
            Err(error) => errors.push(error),
        }
    }
    (entries, errors)
}

fn read_line(line: &str, number: usize) -> Result<Option<Entry>, SyntaxError> {
    let characters: Vec<char> = line.trim_end().chars().collect();
    let blank = |position: &usize| characters[*position].is_whitespace();
    let skip_blanks = |from: usize| {
        (from..characters.len())
            .find(|position| !blank(position))
            .unwrap_or(characters.len())
    };
    let key_start = skip_blanks(0);
    if matches!(characters.get(key_start), None | Some('#')) {
        return Ok(None);
    }
    let key_end = (key_start..characters.len())
        .find(|position| blank(position) || characters[*position] == '=')
        .unwrap_or(characters.len());
    let key: String = characters[key_start..key_end].iter().collect();
    let key_place = Place {
        line: number,
        column: key_start + 1,
        width: key_end - key_start,
    };
    if key.is_empty() {
        return Err(SyntaxError {
            place: Place {
                width: 1,
                ..key_place
            },
            message: "there is no setting before '='".to_owned(),
            remedy: "write KEY = value",
        });
    }

    let mut value_start = skip_blanks(key_end);
    let has_equals = characters.get(value_start) == Some(&'=');
    if has_equals {
        value_start = skip_blanks(value_start + 1);
    }
    let value_place = Place {
        line: number,
        column: value_start + 1,
        width: characters.len() - value_start,
    };
    let (value, width) = read_value(&characters[value_start..]).map_err(|quote| SyntaxError {
        place: value_place,
        message: format!("the quote {quote} is not closed"),
        remedy: "close it at the end of the value, or leave quotes out",
    })?;
    if width == 0 && !has_equals {
        return Err(SyntaxError {
            place: key_place,
            message: format!("'{key}' has no value"),
            remedy: "write KEY = value",
        });
    }
    Ok(Some(Entry {
        key,
        key_place,
        value,
        value_place: Place {
            width,
            ..value_place
        },
        grouped_key: None,
    }))
}

/// Takes quotes and a trailing comment away; returns the value and how many characters of the line it takes.
///
/// A quote opens only at the beginning of a word or behind another one, and `#` starts a comment only after a blank, so that
/// neither harms paths.
fn read_value(characters: &[char]) -> Result<(String, usize), char> {
    let mut value = String::new();
    let mut width = 0;
    let mut quote = None;
    let mut at_word_start = true;
    let mut after_quote = false;
    // Blanks inside quotes stay, also at the end.
    let mut kept = 0;
    for (position, &character) in characters.iter().enumerate() {
        let mut closed = false;
        match quote {
            Some(open) if character == open => {
                quote = None;
                closed = true;
                kept = value.len();
            }
            Some(_) => value.push(character),
            None if at_word_start && character == '#' => break,
            None if (at_word_start || after_quote) && matches!(character, '"' | '\'') => {
                quote = Some(character);
            }
            None => value.push(character),
        }
        after_quote = closed;
        at_word_start = quote.is_none() && (character.is_whitespace() || character == ',');
        if !character.is_whitespace() {
            width = position + 1;
        }
    }
    match quote {
        Some(open) => Err(open),
        None => {
            value.truncate(value.trim_end().len().max(kept));
            Ok((value, width))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(line: &str) -> Option<(String, String)> {
        read_line(line, 1)
            .expect("readable")
            .map(|entry| (entry.key, entry.value))
    }

    #[test]
    fn forms_of_a_line() {
        let cases = [
            ("KEY = value", "KEY", "value"),
            ("KEY=value", "KEY", "value"),
            ("  key   value", "key", "value"),
            ("KEY = a b, c", "KEY", "a b, c"),
            ("KEY = \"a b\"", "KEY", "a b"),
            ("KEY = 'a # b' # c", "KEY", "a # b"),
            ("KEY = a#b", "KEY", "a#b"),
            ("KEY = 'a\"'\"b'\" # c", "KEY", "a\"b'"),
            ("KEY = ' a '  # c", "KEY", " a "),
            ("KEY = it's", "KEY", "it's"),
            ("KEY = a # comment = more", "KEY", "a"),
            ("KEY =", "KEY", ""),
            ("KEY = # nothing", "KEY", ""),
            ("KEY = a=b", "KEY", "a=b"),
            ("$env:X = 1", "$env:X", "1"),
            ("$X = 1\r", "$X", "1"),
        ];
        for (line, key, value) in cases {
            assert_eq!(
                pair(line),
                Some((key.to_owned(), value.to_owned())),
                "{line}"
            );
        }
        assert_eq!(pair(""), None);
        assert_eq!(pair("  # KEY = 3"), None);
    }

    #[test]
    fn places_are_columns_of_characters() {
        let entry = read_line("  ä = ö b  # c", 7)
            .expect("readable")
            .expect("entry");
        assert_eq!(
            entry.key_place,
            Place {
                line: 7,
                column: 3,
                width: 1
            }
        );
        assert_eq!(
            entry.value_place,
            Place {
                line: 7,
                column: 7,
                width: 3
            }
        );
    }

    #[test]
    fn unreadable_lines() {
        for line in ["= 3", "KEY = \"abc", "KEY", "KEY # value"] {
            assert!(read_line(line, 1).is_err(), "{line}");
        }
    }
}
