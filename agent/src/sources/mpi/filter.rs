//! Which functions are recorded: those that the setting `MPI_FUNCTIONS` names.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::sources::mpi::table;
use crate::state;

const NOT_DECIDED: u8 = 0;
const LEFT_OUT: u8 = 1;
const RECORDED: u8 = 2;

static DECISIONS: [AtomicU8; table::COUNT] = [const { AtomicU8::new(NOT_DECIDED) }; table::COUNT];

/// Whether calls of a function are recorded.
#[inline]
pub fn keeps(function: usize) -> bool {
    let Some(decision) = DECISIONS.get(function) else {
        return false;
    };
    match decision.load(Ordering::Relaxed) {
        NOT_DECIDED => {
            let keeps = decide(
                state::settings().mpi_functions.words(),
                table::name(function),
            );
            let decided = if keeps { RECORDED } else { LEFT_OUT };
            decision.store(decided, Ordering::Relaxed);
            keeps
        }
        decided => decided == RECORDED,
    }
}

/// What a list says of a name: words with a minus in front leave out, others name what is recorded alone. The last word that fits counts.
fn decide<'a>(words: impl Iterator<Item = &'a [u8]> + Clone, name: &str) -> bool {
    let leaves_out = |word: &[u8]| word.first() == Some(&b'-');
    let by_default = words.clone().all(leaves_out);
    words
        .filter_map(|word| {
            let pattern = word.strip_prefix(b"-").unwrap_or(word);
            let pattern = pattern
                .get(..4)
                .filter(|start| start.eq_ignore_ascii_case(b"MPI_"))
                .and_then(|_| pattern.get(4..))
                .unwrap_or(pattern);
            fits(pattern, name.as_bytes()).then_some(!leaves_out(word))
        })
        .last()
        .unwrap_or(by_default)
}

/// Whether a name is as a pattern says: `*` stands for any letters, and case does not matter.
fn fits(pattern: &[u8], name: &[u8]) -> bool {
    match pattern.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => {
            (0..=name.len()).any(|skipped| fits(rest, name.get(skipped..).unwrap_or(&[])))
        }
        Some((first, rest)) => name.split_first().is_some_and(|(letter, others)| {
            letter.eq_ignore_ascii_case(first) && fits(rest, others)
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_name_what_is_recorded_or_left_out() {
        let keeps = |list: &str, name| {
            decide(
                list.split(',')
                    .filter(|word| !word.is_empty())
                    .map(str::as_bytes),
                name,
            )
        };
        assert!(keeps("", "Send"));
        assert!(keeps("MPI_Send,mpi_recv", "Send") && keeps("MPI_Send,mpi_recv", "Recv"));
        assert!(!keeps("MPI_Send", "Isend") && keeps("*send", "Isend") && keeps("I*d", "Isend"));
        assert!(!keeps("-MPI_Comm_*", "Comm_rank") && keeps("-MPI_Comm_*", "Send"));
        assert!(
            !keeps("*,-Wtime", "Wtime")
                && keeps("-*send,isend", "Isend")
                && !keeps("-*send,isend", "Recv")
        );
    }
}
