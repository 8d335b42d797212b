//! Names of iterations: what programs commonly call them, and the numbers in them.

/// How names of iterations begin, if nothing is named, in small letters.
const DEFAULTS: [&str; 7] = [
    "profilerstep",
    "training_step",
    "train_step",
    "iteration",
    "iter",
    "step",
    "batch",
];

/// What may stand between a name and its number.
const SEPARATORS: [char; 6] = [' ', '#', '_', ':', '-', '='];

/// Whether a name is what programs commonly call an iteration: `step`, `iter 17`, `ProfilerStep#3`.
#[must_use]
pub fn is_default_marker(text: &str) -> bool {
    let small = text.to_ascii_lowercase();
    DEFAULTS
        .iter()
        .any(|name| small.strip_prefix(name).is_some_and(is_number))
}

/// Whether what stands behind a name is at most a number: ``, ` 17`, `#3`, `_4/100`.
pub(super) fn is_number(rest: &str) -> bool {
    let digits = rest.trim_start_matches(SEPARATORS);
    let behind = digits.trim_start_matches(|one: char| one.is_ascii_digit());
    let has_digits = behind.len() < digits.len();
    match has_digits {
        true => !behind.starts_with(|one: char| one.is_alphanumeric() || one == '_'),
        false => rest.is_empty(),
    }
}

/// A name without its numbers: names that differ in these alone are one marker.
pub(super) fn without_numbers(text: &str) -> String {
    let mut found = String::with_capacity(text.len());
    for one in text.chars() {
        match one.is_ascii_digit() {
            true if found.ends_with('#') => {}
            true => found.push('#'),
            false => found.push(one),
        }
    }
    let trimmed = found.trim_end_matches('#').trim_end_matches(SEPARATORS);
    trimmed.to_owned()
}

/// The first number in a name.
pub(super) fn number(text: &str) -> Option<u64> {
    let first = text.find(|one: char| one.is_ascii_digit())?;
    let digits = text[first..]
        .split(|one: char| !one.is_ascii_digit())
        .next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_names_of_iterations_are_known() {
        for (text, is_one) in [
            ("step", true),
            ("step 17", true),
            ("Iteration: 4", true),
            ("iter_12/100", true),
            ("ProfilerStep#3", true),
            ("step_backward", false),
            ("iterator", false),
            ("optimizer.step", false),
            ("step 3a", false),
        ] {
            assert_eq!(is_default_marker(text), is_one, "{text}");
        }
    }

    #[test]
    fn names_without_their_numbers_are_one() {
        assert_eq!(without_numbers("iter_12/100"), "iter_#/");
        assert_eq!(without_numbers("step 17"), "step");
        assert_eq!(number("iter_12/100"), Some(12));
    }
}
