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

/// Ranges of engines and frameworks that are iterations, whatever stands behind: how they begin, in small letters, and what they are called together.
const ENGINES: [(&str, &str); 8] = [
    // vLLM: execute_context_1(512)_generation_3(3), execute_new_1_cached_3, execute_model
    ("execute_context_", "execute"),
    ("execute_new_", "execute"),
    ("execute_model", "execute_model"),
    // SGLang: step[DECODE bs=8]
    ("step[", "step"),
    // Lightning: [pl][profile]run_training_batch, and as its older versions have it
    ("[pl][profile]run_training_batch", "run_training_batch"),
    ("run_training_batch", "run_training_batch"),
    // TensorRT-LLM, Megatron
    ("[executor] _forward_step", "forward_step"),
    ("megatron iteration", "iteration"),
];

/// The engine's name for a range that is an iteration of it.
fn of_engine(small: &str) -> Option<&'static str> {
    // AMD's vLLM and SGLang: execute_16_context_0(sq…)_generation_16(sq…)
    let of_amd = small.strip_prefix("execute_").is_some_and(|rest| {
        let behind = rest.trim_start_matches(|one: char| one.is_ascii_digit());
        behind.len() < rest.len() && behind.starts_with("_context_")
    });
    let found = ENGINES.iter().find(|(start, _)| small.starts_with(start));
    found.map(|(_, name)| *name).or(of_amd.then_some("execute"))
}

/// A name up to its number, if a part of an iteration is called like that: `step 5` of `step 5: forward`.
pub(crate) fn of_part(text: &str) -> Option<&str> {
    let small = text.to_ascii_lowercase();
    let rest = DEFAULTS.iter().find_map(|name| small.strip_prefix(name))?;
    let digits = rest.trim_start_matches(SEPARATORS);
    let behind = digits.trim_start_matches(|one: char| one.is_ascii_digit());
    let is_part = behind.len() < digits.len()
        && !behind.starts_with(|one: char| one.is_alphanumeric() || one == '_')
        && !is_number(rest);
    is_part.then(|| &text[..text.len() - behind.len()])
}

/// Whether a name has the number of an iteration in it: that of one, or of a part of one.
pub(crate) fn is_numbered(text: &str) -> bool {
    is_default_marker(text) || of_part(text).is_some()
}

/// Whether a name is what programs commonly call an iteration: `step`, `iter 17`, `ProfilerStep#3`, `step[DECODE bs=8]`.
#[must_use]
pub fn is_default_marker(text: &str) -> bool {
    let small = text.to_ascii_lowercase();
    if of_engine(&small).is_some() {
        return true;
    }
    DEFAULTS
        .iter()
        .any(|name| small.strip_prefix(name).is_some_and(is_number))
}

/// Whether what stands behind a name is at most a number: ``, ` 17`, `#3`, `_4/100`. A part of a step has a name behind its number: `step 5: forward`.
pub(crate) fn is_number(rest: &str) -> bool {
    let digits = rest.trim_start_matches(SEPARATORS);
    let behind = digits.trim_start_matches(|one: char| one.is_ascii_digit());
    let has_digits = behind.len() < digits.len();
    match has_digits {
        true => !behind.contains(|one: char| one.is_alphabetic() || one == '_'),
        false => rest.is_empty(),
    }
}

/// A name without its numbers: names that differ in these alone are one marker.
pub(crate) fn without_numbers(text: &str) -> String {
    match of_engine(&text.to_ascii_lowercase()) {
        Some(name) => name.to_owned(),
        None => with_numbers_out(text),
    }
}

/// A name with a `#` for each number, and none at its end.
pub(crate) fn with_numbers_out(text: &str) -> String {
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
pub(crate) fn number(text: &str) -> Option<u64> {
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
            ("step[DECODE bs=8]", true),
            ("execute_context_1(512)_generation_3(3)", true),
            ("[pl][profile]run_training_batch", true),
            (
                "execute_16_context_0(sq0sk0sqsq0)_generation_16(sq16)",
                true,
            ),
            ("execute_16_queries", false),
            ("execute_query", false),
            ("Iteration: 4", true),
            ("iter_12/100", true),
            ("ProfilerStep#3", true),
            ("step_backward", false),
            ("iterator", false),
            ("optimizer.step", false),
            ("step 3a", false),
            ("step 5: forward", false),
            ("step 5/forward", false),
            ("Iteration 4 (of 10)", false),
            ("step 5 [3/10].", true),
        ] {
            assert_eq!(is_default_marker(text), is_one, "{text}");
        }
        for (text, of) in [
            ("step 5: forward", Some("step 5")),
            ("Step_5/backward", Some("Step_5")),
            ("iter 7 [train]", Some("iter 7")),
            ("step 5", None),
            ("step 3a", None),
            ("forward", None),
        ] {
            assert_eq!(of_part(text), of, "{text}");
        }
    }

    #[test]
    fn names_without_their_numbers_are_one() {
        assert_eq!(without_numbers("iter_12/100"), "iter_#/");
        assert_eq!(without_numbers("step 17"), "step");
        let of_vllm = "execute_context_1(512)_generation_16(16)";
        assert_eq!(without_numbers(of_vllm), "execute");
        assert_eq!(
            with_numbers_out(of_vllm),
            "execute_context_#(#)_generation_#(#)"
        );
        assert_eq!(with_numbers_out("ProfilerStep#3"), "ProfilerStep");
        assert_eq!(number("iter_12/100"), Some(12));
    }
}
