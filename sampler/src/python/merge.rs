//! Native and Python frames of one sample become one stack.
//!
//! Each call of the interpreter's C function `_PyEval_EvalFrameDefault` runs Python frames: one
//! until CPython 3.10, from 3.11 on as many as call each other without C in between. The outermost
//! of them is marked as the *entry*, so the Python frames fall into *runs*, one for each call. In
//! the merged stack a run stands where its call is. The rest of the interpreter is not shown,
//! unless asked for; C functions that Python calls, and Python functions that C calls back, are
//! where they belong.
//!
//! The pairing starts at the root, where nothing moves: a sample may lie in the first or last
//! instructions of a call whose frame is not in the chain yet, or no more. Where the root is
//! missing, or greenlets have exchanged it, it starts at the leaf.

/// What a native frame has to do with Python.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Nothing.
    Native,
    /// Runs Python frames.
    Evaluates,
    /// Is of the interpreter.
    Interpreter,
    /// Is of the interpreter, and has no name.
    Nameless,
    /// Was made at run time, and has no name: of the interpreter (its JIT compiler) if a call that runs Python frames leads straight to it.
    Made,
    /// Exchanges stacks.
    Switches,
}

/// How to pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ends {
    /// The native stack reaches the thread's root.
    pub native_root: bool,
    /// The Python stack does.
    pub python_root: bool,
}

/// A piece of the merged stack, outermost first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Piece {
    /// The native frame of this number.
    Native(usize),
    /// The Python frames from the one number up to the other.
    Python(usize, usize),
}

/// Puts the pieces of a stack into `pieces`, the outermost first, and returns how many Python
/// frames found no call that runs them. `roles` are those of the native frames, `entries` says of
/// each Python frame whether it is an entry; both outermost first.
pub fn merge(
    roles: &[Role],
    entries: &[bool],
    ends: Ends,
    show_interpreter: bool,
    pieces: &mut Vec<Piece>,
) -> usize {
    pieces.clear();
    let runs = runs(entries);
    let calls = calls(roles, runs.len(), ends);
    let switched = roles.contains(&Role::Switches);
    let from_root = ends.native_root && ends.python_root && !switched;
    let paired = runs.len().min(calls.len());
    // The first run and the first call that have a partner.
    let (first_run, first_call) = if from_root {
        (0, 0)
    } else {
        (runs.len() - paired, calls.len() - paired)
    };
    let unpaired: usize = runs[..first_run]
        .iter()
        .chain(&runs[first_run + paired..])
        .map(|(start, end)| end - start)
        .sum();
    let span = |runs: &[(usize, usize)]| match (runs.first(), runs.last()) {
        (Some((start, _)), Some((_, end))) => Some(Piece::Python(*start, *end)),
        _ => None,
    };
    let before = span(&runs[..first_run]);
    let behind = span(&runs[first_run + paired..]);
    // Where runs without a call go: outermost ones to the root, innermost ones behind the last
    // call, or, when there is no call at all, where the interpreter is.
    let is_interpreter = |role: &Role| !matches!(role, Role::Native | Role::Made | Role::Switches);
    let (behind_at, before_at) = match calls.last() {
        Some(last) => (Some(*last), calls.get(first_call).copied()),
        None => {
            let last = roles.iter().rposition(is_interpreter).filter(|&at| at > 0);
            (last, last)
        }
    };
    let before_at = before_at.filter(|_| ends.native_root);
    if before_at.is_none() {
        pieces.extend(before);
    }
    if behind_at.is_none() {
        pieces.extend(behind);
    }
    let mut call = 0;
    // Whether the frame outside runs Python frames, or is code that was made for that.
    let mut runs_python = false;
    for (at, role) in roles.iter().enumerate() {
        let is_call = calls.get(call) == Some(&at);
        let is_made_for_that = *role == Role::Made && (runs_python || is_call);
        runs_python = *role == Role::Evaluates || is_made_for_that;
        if before_at == Some(at) {
            pieces.extend(before);
        }
        let is_root = at == 0 && ends.native_root;
        let is_hidden = is_interpreter(role) || is_made_for_that;
        if !is_hidden || show_interpreter || is_root {
            pieces.push(Piece::Native(at));
        }
        if is_call {
            if let Some(number) = call.checked_sub(first_call)
                && number < paired
            {
                let (start, end) = runs[first_run + number];
                pieces.push(Piece::Python(start, end));
            }
            call += 1;
        }
        if behind_at == Some(at) {
            pieces.extend(behind);
        }
    }
    unpaired
}

/// The Python frames from each entry up to the next.
fn runs(entries: &[bool]) -> Vec<(usize, usize)> {
    let mut starts: Vec<usize> = (0..entries.len())
        .filter(|&at| at == 0 || entries[at])
        .collect();
    starts.push(entries.len());
    starts
        .windows(2)
        .map(|pair| (pair[0], pair[1]))
        .filter(|(start, end)| start < end)
        .collect()
}

/// The native frames that run Python frames. Code that the interpreter made keeps no frame of its own, so a walk by frame pointers passes
/// over the call that it runs in: where calls are missing, it stands for them. Then, as a stripped interpreter may not name the rarely used
/// part of its function, the innermost frames of it without a name are taken for some.
fn calls(roles: &[Role], wanted: usize, ends: Ends) -> Vec<usize> {
    let mut found: Vec<usize> = (0..roles.len())
        .filter(|at| roles[*at] == Role::Evaluates)
        .collect();
    let root = usize::from(ends.native_root);
    let is_made_alone = |at: &usize| {
        let outer = at.checked_sub(1).map(|outer| roles[outer]);
        roles[*at] == Role::Made && !matches!(outer, Some(Role::Made | Role::Evaluates))
    };
    let is_nameless = |at: &usize| roles[*at] == Role::Nameless;
    for stands_for_some in [&is_made_alone as &dyn Fn(&usize) -> bool, &is_nameless] {
        let missing = wanted.saturating_sub(found.len());
        let innermost = (root..roles.len()).rev().filter(stands_for_some);
        found.extend(innermost.take(missing));
    }
    found.sort_unstable();
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const WHOLE: Ends = Ends {
        native_root: true,
        python_root: true,
    };

    fn roles(native: &str) -> Vec<Role> {
        native
            .chars()
            .map(|letter| match letter {
                'E' => Role::Evaluates,
                'i' => Role::Interpreter,
                '?' => Role::Nameless,
                'm' => Role::Made,
                'g' => Role::Switches,
                _ => Role::Native,
            })
            .collect()
    }

    /// Native frames by letter; Python frames by letter, capitals are entries.
    fn merged(native: &str, python: &str, ends: Ends, show: bool) -> (String, usize) {
        let entries: Vec<bool> = python.chars().map(char::is_uppercase).collect();
        let mut pieces = Vec::new();
        let unpaired = merge(&roles(native), &entries, ends, show, &mut pieces);
        let text = pieces
            .iter()
            .map(|piece| match *piece {
                Piece::Native(at) => native[at..=at].to_owned(),
                Piece::Python(start, end) => python[start..end].to_owned(),
            })
            .collect();
        (text, unpaired)
    }

    #[test]
    fn runs_stand_where_their_calls_are() {
        let broken = Ends {
            native_root: false,
            ..WHOLE
        };
        let cut = Ends {
            python_root: false,
            ..WHOLE
        };
        // What it shows, native frames, Python frames, how whole, merged, without a call.
        let table: &[(&str, &str, &str, Ends, &str, usize)] = &[
            ("no Python", "snn", "", WHOLE, "snn", 0),
            ("one run", "siEin", "Mfg", WHOLE, "sMfgn", 0),
            (
                "a call back from C",
                "siEinniEi",
                "MfCd",
                WHOLE,
                "sMfnnCd",
                0,
            ),
            (
                "one call per frame, as until 3.10",
                "siEiEiEn",
                "MFG",
                WHOLE,
                "sMFGn",
                0,
            ),
            (
                "a call without its frame yet",
                "siEinniE",
                "Mf",
                WHOLE,
                "sMfnn",
                0,
            ),
            (
                "a frame without its call",
                "siEin",
                "MfG",
                WHOLE,
                "sMfGn",
                1,
            ),
            ("a broken stack", "nEin", "MfCd", broken, "MfnCdn", 2),
            ("no call in sight", "nn", "MfCd", broken, "MfCdnn", 4),
            (
                "a broken stack with too many calls",
                "nEnEn",
                "M",
                broken,
                "nnMn",
                0,
            ),
            (
                "deeper than the Python limit",
                "siEinEnEn",
                "fCdD",
                cut,
                "sfnCdnDn",
                0,
            ),
            (
                "the cold part is nameless",
                "siEn?",
                "MfC",
                WHOLE,
                "sMfnC",
                0,
            ),
            ("nothing has a name", "?n???n", "MfC", WHOLE, "?nMfCn", 0),
            (
                "code that the interpreter made",
                "siEmmnmniEm",
                "MfC",
                WHOLE,
                "sMfnmnC",
                0,
            ),
            (
                "code that was made, whose calls were passed over",
                "simmniEnim",
                "MfCdD",
                WHOLE,
                "sMfnCdnD",
                0,
            ),
            (
                "code that something else made",
                "siEnmn",
                "Mf",
                WHOLE,
                "sMfnmn",
                0,
            ),
            ("no names at all", "snnin", "MfC", WHOLE, "snnMfCn", 3),
            ("greenlets", "siEigE", "G", WHOLE, "sgG", 0),
        ];
        for (name, native, python, ends, expected, unpaired) in table {
            let (text, left) = merged(native, python, *ends, false);
            assert_eq!((text.as_str(), left), (*expected, *unpaired), "{name}");
        }
        assert_eq!(merged("siEin", "Mf", WHOLE, true).0, "siEMfin");
    }

    proptest! {
        #[test]
        fn nothing_is_lost_or_doubled(native in "[snEi?mg]{0,12}", python in "[a-dA-D]{0,12}", root: bool, whole: bool) {
            let ends = Ends { native_root: root, python_root: whole };
            let (text, unpaired) = merged(&native, &python, ends, true);
            prop_assert!(unpaired <= python.len());
            prop_assert_eq!(text.len(), native.len() + python.len());
            let (hidden, same) = merged(&native, &python, ends, false);
            prop_assert_eq!(same, unpaired);
            let shown = |text: &str| text.chars().filter(|letter| "abcdABCD".contains(*letter)).collect::<String>();
            prop_assert_eq!(shown(&hidden), python.clone());
            prop_assert_eq!(shown(&text), python);
        }
    }
}
