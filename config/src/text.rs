//! Reading words, switches and lengths of time: what values, options and files have in common.

/// The words of a list, which blanks, commas and semicolons separate.
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| character.is_whitespace() || matches!(character, ',' | ';'))
        .filter(|word| !word.is_empty())
}

/// Names of files, which may hold blanks: colons, semicolons and commas separate them.
pub(crate) fn file_names(text: &str) -> impl Iterator<Item = &str> {
    text.split([':', ';', ','])
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// Names of events, separated as [`words`]; what stands between the slashes of
/// `unit/field=1,field=2/` does not separate.
pub(crate) fn event_names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut inside = false;
    for letter in text.chars() {
        inside ^= letter == '/';
        if !inside && (letter == ',' || letter == ';' || letter.is_whitespace()) {
            names.push(String::new());
        } else if let Some(name) = names.last_mut() {
            name.push(letter);
        }
    }
    names.retain(|name| !name.is_empty());
    names
}

/// Reads a boolean in any of the spellings that the original knows.
#[must_use]
pub(crate) fn parse_bool(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "on" | "yes" | "1" | "t" | "y" => Some(true),
        "false" | "off" | "no" | "0" | "f" | "n" => Some(false),
        _ => None,
    }
}

/// Reads a length of time in seconds: a number, or a number with `ms`, `s`, `sec`, `min` or `h`.
pub(crate) fn parse_seconds(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 5] = [
        ("ms", 1e-3),
        ("min", 60.0),
        ("sec", 1.0),
        ("s", 1.0),
        ("h", 3600.0),
    ];
    let (number, factor) = UNITS
        .iter()
        .find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))
        .unwrap_or((text, 1.0));
    let value: f64 = number.trim().parse().ok()?;
    Some(value * factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_keep_the_name_of_an_event_together() {
        let names = event_names("page-faults, cpu/event=0x1,umask=2/ cycles,,");
        assert_eq!(names, ["page-faults", "cpu/event=0x1,umask=2/", "cycles"]);
    }
}
