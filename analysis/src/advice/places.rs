//! Places as answers write them: function, file, line, and the lock that is waited for there.

use rsys_traces::model::{WAITING_FOR_INTERPRETER, WAITING_FOR_LOCK};

/// A function without the line in it: `step (train.py:12)` is `step (train.py)`. Nor with a lock that it waits for.
pub(super) fn without_line(place: &str) -> &str {
    let place = without_lock(place);
    // Names have colons as well: `aten::mm` is no line `:mm` of `aten:`.
    let is_line = |behind: &str| {
        let digits = behind.trim_end_matches(')');
        !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    match place.rsplit_once(':') {
        Some((function, line)) if is_line(line) => function,
        _ => place,
    }
}

/// Where `gaps` says in a place which lock is waited for there and who holds it, and whether that is the interpreter's.
fn lock_in(place: &str) -> Option<(usize, bool)> {
    let is_at = |words: &str, at: usize| {
        let before = &place[..at];
        (before.is_empty() || before.ends_with(", ")) && place[at..].starts_with(words)
    };
    let mut ats = place.match_indices("waiting ").map(|(at, _)| at);
    ats.find_map(|at| {
        let is_interpreter = is_at(WAITING_FOR_INTERPRETER, at);
        (is_interpreter || is_at(WAITING_FOR_LOCK, at)).then_some((at, is_interpreter))
    })
}

/// A place without what `gaps` says of the lock that is waited for there, and of who holds it.
pub(super) fn without_lock(place: &str) -> &str {
    lock_in(place).map_or(place, |(at, _)| place[..at].trim_end_matches(", "))
}

/// Whether a lock is waited for at a place that is not the interpreter's.
pub(super) fn has_other_lock(place: &str) -> bool {
    lock_in(place).is_some_and(|(_, is_interpreter)| !is_interpreter)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_places_are_told_apart() {
        let gil = "serves (app.py:30), waiting for the interpreter's lock (GIL), held by thread 7";
        let mutex = "take (app.cc:7), waiting in pthread_mutex_lock";
        for (place, without, is_other) in [
            (gil, "serves (app.py:30)", false),
            (mutex, "take (app.cc:7)", true),
            ("waiting in sem_wait", "", true),
            (
                "a waiting in vain (app.cc:7)",
                "a waiting in vain (app.cc:7)",
                false,
            ),
        ] {
            assert_eq!(
                (without_lock(place), has_other_lock(place)),
                (without, is_other)
            );
        }
    }
}
