//! A regular expression over names, as it travels in the agent's settings: small enough for the target, without memory of its own.
//!
//! Understood are characters, `.`, classes (`[a-z]`, `[^_]`, `\d`, `\w`, `\s`), groups, `|`, `*`, `+`, `?`, `^` and `$`. It matches anywhere in a name unless it is
//! anchored.

use std::fmt;

/// How long a pattern may be, in bytes.
pub const PATTERN_BYTES: usize = 256;

/// A name for which so many steps do not decide is taken for one that does not match.
const STEPS: u32 = 1 << 16;
/// How deep groups may nest, and how often one may be repeated.
const DEPTH: u32 = 64;
/// So many parts of a pattern are tried within each other at most, for each takes room on the stack of a program's thread. A name that takes more is
/// taken for one that does not match.
const LEVELS: u32 = 500;
/// Stands for a blank in settings, whose words stand between blanks.
const BLANK: u8 = 0x1f;

/// A pattern; the empty one matches every name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    text: [u8; PATTERN_BYTES],
    used: usize,
}

impl Default for Pattern {
    #[inline]
    fn default() -> Self {
        Pattern {
            text: [0; PATTERN_BYTES],
            used: 0,
        }
    }
}

/// One part of a pattern.
#[derive(Debug, Clone, Copy)]
enum Atom<'a> {
    Start,
    End,
    Any,
    Byte(u8),
    /// The letter after a backslash that means several characters.
    Kind(u8),
    /// What stands between brackets, after the `^` if there is one.
    Class(&'a [u8], bool),
    Group(&'a [u8]),
}

/// How often a part may come: at least, and whether once at most.
type Often = (u32, bool);

impl Pattern {
    /// Takes a pattern over.
    ///
    /// # Errors
    /// What is not understood of it.
    pub fn new(text: &str) -> Result<Self, String> {
        if text.len() > PATTERN_BYTES {
            return Err(format!("it is longer than {PATTERN_BYTES} bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err("it holds a control character".to_owned());
        }
        check(text.as_bytes(), 0).map_err(str::to_owned)?;
        Ok(Self::from_setting(text))
    }

    /// As [`fmt::Display`] writes it; one that is too long is empty.
    pub(crate) fn from_setting(text: &str) -> Self {
        let mut pattern = Self::default();
        if let Some(room) = pattern.text.get_mut(..text.len()) {
            for (to, from) in room.iter_mut().zip(text.bytes()) {
                *to = if from == BLANK { b' ' } else { from };
            }
            pattern.used = text.len();
        }
        pattern
    }

    fn bytes(&self) -> &[u8] {
        self.text.get(..self.used).unwrap_or(&[])
    }

    /// Whether it is in a name.
    #[must_use]
    pub fn matches(&self, name: &[u8]) -> bool {
        let pattern = self.bytes();
        let search = Search {
            name,
            steps: std::cell::Cell::new(STEPS),
            level: std::cell::Cell::new(0),
        };
        // What begins with anything matches from the start or nowhere.
        let is_of_start = pattern.starts_with(b".*")
            && first_alternative(pattern).is_ok_and(|(_, others)| others.is_none());
        let last = if is_of_start { 0 } else { name.len() };
        pattern.is_empty() || (0..=last).any(|at| search.alternatives(pattern, at, 0, &|_| true))
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = std::str::from_utf8(self.bytes()).unwrap_or("");
        text.split(' ').enumerate().try_for_each(|(place, part)| {
            if place > 0 {
                f.write_str("\u{1f}")?;
            }
            f.write_str(part)
        })
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.to_string())
    }
}

/// Says what is not understood.
fn check(pattern: &[u8], depth: u32) -> Result<(), &'static str> {
    if depth > DEPTH {
        return Err("its groups nest too deeply");
    }
    let mut rest = Some(pattern);
    while let Some(pattern) = rest {
        let (mut part, after) = first_alternative(pattern)?;
        rest = after;
        while !part.is_empty() {
            let (atom, _, after) = first_atom(part)?;
            if let Atom::Group(inner) = atom {
                check(inner, depth.wrapping_add(1))?;
            }
            part = after;
        }
    }
    Ok(())
}

/// What stands in front of the first `|` that is in no group, and what stands behind it.
fn first_alternative(pattern: &[u8]) -> Result<(&[u8], Option<&[u8]>), &'static str> {
    let mut rest = pattern;
    loop {
        match rest.first() {
            None => return Ok((pattern, None)),
            Some(b'|') => {
                let front = pattern.len().wrapping_sub(rest.len());
                return Ok((pattern.get(..front).unwrap_or(&[]), rest.get(1..)));
            }
            Some(_) => rest = first_atom(rest)?.2,
        }
    }
}

/// The first part of a pattern that is not empty, how often it may come, and what follows.
fn first_atom(pattern: &[u8]) -> Result<(Atom<'_>, Often, &[u8]), &'static str> {
    let (first, rest) = pattern.split_first().ok_or("it ends too early")?;
    let (atom, rest) = match first {
        b'^' => (Atom::Start, rest),
        b'$' => (Atom::End, rest),
        b'.' => (Atom::Any, rest),
        b'\\' => match rest.split_first() {
            Some((letter @ (b'd' | b'w' | b's'), rest)) => (Atom::Kind(*letter), rest),
            Some((letter, _)) if letter.is_ascii_alphanumeric() => {
                return Err("it has a backslash before a letter other than d, w and s");
            }
            Some((other, rest)) => (Atom::Byte(*other), rest),
            None => return Err("it ends with a backslash"),
        },
        b'[' => {
            let is_negative = rest.first() == Some(&b'^');
            let class = rest.get(usize::from(is_negative)..).unwrap_or(&[]);
            // A bracket that comes first is one of the characters.
            let end = class.iter().skip(1).position(|byte| *byte == b']');
            let end = end.ok_or("a class of characters has no ]")?.wrapping_add(1);
            let (class, rest) = class.split_at_checked(end).unwrap_or((class, &[]));
            (
                Atom::Class(class, is_negative),
                rest.get(1..).unwrap_or(&[]),
            )
        }
        b'(' => {
            let inner = rest.strip_prefix(b"?:").unwrap_or(rest);
            let mut behind = inner;
            loop {
                match behind.first() {
                    None => return Err("a group has no )"),
                    Some(b')') => break,
                    Some(b'|') => behind = behind.get(1..).unwrap_or(&[]),
                    Some(_) => behind = first_atom(behind)?.2,
                }
            }
            let end = inner.len().wrapping_sub(behind.len());
            let group = inner.get(..end).unwrap_or(&[]);
            (Atom::Group(group), behind.get(1..).unwrap_or(&[]))
        }
        b')' => return Err("a ) has no ("),
        b'*' | b'+' | b'?' => return Err("there is nothing in front of a *, + or ?"),
        b'{' => return Err("{…} is not understood; \\{ is the character"),
        byte => (Atom::Byte(*byte), rest),
    };
    let (often, rest) = match rest.split_first() {
        Some((b'*', rest)) => ((0, false), rest),
        Some((b'+', rest)) => ((1, false), rest),
        Some((b'?', rest)) => ((0, true), rest),
        _ => return Ok((atom, (1, true), rest)),
    };
    // Which of several matches is taken does not matter here.
    Ok((atom, often, rest.strip_prefix(b"?").unwrap_or(rest)))
}

impl Atom<'_> {
    /// Whether a character is meant; only for parts that are one.
    fn is(self, byte: u8) -> bool {
        match self {
            Atom::Any => true,
            Atom::Byte(own) => own == byte,
            Atom::Kind(b'd') => byte.is_ascii_digit(),
            Atom::Kind(b's') => byte.is_ascii_whitespace(),
            Atom::Kind(_) => byte.is_ascii_alphanumeric() || byte == b'_',
            Atom::Class(class, is_negative) => in_class(class, byte) != is_negative,
            Atom::Start | Atom::End | Atom::Group(_) => false,
        }
    }
}

fn in_class(class: &[u8], byte: u8) -> bool {
    let mut rest = class;
    loop {
        rest = match rest {
            [] => return false,
            [low, b'-', high, ..] if (*low..=*high).contains(&byte) => return true,
            [_, b'-', _, rest @ ..] => rest,
            [one, ..] if *one == byte => return true,
            [_, rest @ ..] => rest,
        };
    }
}

/// What a rest of the pattern says of the rest of the name from here on.
type Then<'a> = &'a dyn Fn(usize) -> bool;

struct Search<'a> {
    name: &'a [u8],
    /// Steps that are left.
    steps: std::cell::Cell<u32>,
    /// Parts that are being tried.
    level: std::cell::Cell<u32>,
}

impl Search<'_> {
    fn alternatives(&self, pattern: &[u8], at: usize, depth: u32, then: Then<'_>) -> bool {
        let mut rest = Some(pattern);
        while let Some((part, after)) = rest.and_then(|rest| first_alternative(rest).ok()) {
            if self.sequence(part, at, depth, then) {
                return true;
            }
            rest = after;
        }
        false
    }

    fn sequence(&self, pattern: &[u8], at: usize, depth: u32, then: Then<'_>) -> bool {
        let (left, level) = (self.steps.get(), self.level.get());
        if left == 0 || level >= LEVELS || depth > DEPTH {
            return false;
        }
        self.steps.set(left.wrapping_sub(1));
        self.level.set(level.wrapping_add(1));
        let matches = self.parts(pattern, at, depth, then);
        self.level.set(level);
        matches
    }

    fn parts(&self, pattern: &[u8], at: usize, depth: u32, then: Then<'_>) -> bool {
        let Ok((atom, (least, is_once), rest)) = first_atom(pattern) else {
            // It was checked, so nothing is left.
            return then(at);
        };
        let go_on = |next: usize| self.sequence(rest, next, depth, then);
        match atom {
            Atom::Start => at == 0 && go_on(at),
            Atom::End => at == self.name.len() && go_on(at),
            Atom::Group(inner) => self.group(inner, (least, is_once), at, depth, &go_on),
            one => {
                let of_name = self.name.get(at..).unwrap_or(&[]);
                let fitting = of_name.iter().take_while(|byte| one.is(**byte)).count();
                let most = if is_once { fitting.min(1) } else { fitting };
                (least as usize..=most)
                    .rev()
                    .any(|count| go_on(at.wrapping_add(count)))
            }
        }
    }

    fn group(&self, inner: &[u8], often: Often, at: usize, depth: u32, then: Then<'_>) -> bool {
        let (least, is_once) = often;
        let deeper = depth.wrapping_add(1);
        let again = |next: usize| {
            if is_once || next == at {
                return then(next);
            }
            self.steps.get() > 0
                && deeper <= DEPTH
                && self.group(inner, (0, false), next, deeper, then)
        };
        self.alternatives(inner, at, deeper, &again) || least == 0 && then(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_regular_expressions_do() {
        for (pattern, name, matches) in [
            ("", "anything", true),
            ("gemm", "Cijk_gemm_1", true),
            ("^gemm", "Cijk_gemm_1", false),
            ("gemm$", "my_gemm", true),
            ("^(gemm|attn)_", "attn_fwd", true),
            ("^(gemm|attn)_", "attn", false),
            ("a.c", "xabcx", true),
            ("ab*c", "ac", true),
            ("ab+c", "ac", false),
            ("ab?c", "abbc", false),
            ("[a-c]+[0-9]", "xxcab7", true),
            ("^[^_]+$", "a_b", false),
            ("[]x]", "]", true),
            (r"\d+x\d+", "128x64", true),
            (r"a\.b", "axb", false),
            ("^(ab)+$", "ababab", true),
            ("^(ab)+$", "aba", false),
            ("^(a|b|)*c", "ababc", true),
            ("(?:x|y)z|w", "w", true),
            ("a b", "xa bx", true),
            (
                ".*.*.*.*.*q",
                "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                false,
            ),
        ] {
            let found = Pattern::new(pattern).unwrap().matches(name.as_bytes());
            assert_eq!(found, matches, "{pattern} in {name}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for (pattern, why) in [
            ("(a", "has no )"),
            ("a)", "has no ("),
            ("[a", "has no ]"),
            ("*a", "nothing in front"),
            ("a{2}", "not understood"),
            (r"\q", "backslash"),
            ("a\\", "ends with a backslash"),
            ("a\tb", "control"),
            (&"a".repeat(300), "longer"),
            (&"(".repeat(200), "has no )"),
        ] {
            let error = Pattern::new(pattern).unwrap_err();
            assert!(error.contains(why), "{pattern}: {error}");
        }
    }

    #[test]
    fn patterns_travel_between_blanks() {
        let pattern = Pattern::new("void f<a b>=1").unwrap();
        let setting = pattern.to_string();
        assert!(!setting.contains(' '));
        assert_eq!(Pattern::from_setting(&setting), pattern);
        assert!(pattern.matches(b"void f<a b>=1(int)"));
    }

    #[test]
    fn a_pattern_that_cannot_be_decided_ends() {
        let pattern = Pattern::new("((a*)*)*b").unwrap();
        assert!(!pattern.matches(&[b'a'; 4000]));
    }

    #[test]
    fn long_names_are_decided_on_small_stacks() {
        let name = [b"x".repeat(600), b"gemm".to_vec()].concat();
        assert!(Pattern::new(".*gemm").unwrap().matches(&name));
        assert!(!Pattern::new(".*hemm").unwrap().matches(&name));
        assert!(Pattern::new(".*hemm|gemm").unwrap().matches(b"a_gemm"));
        // No stack of a thread has room for as many repetitions as this name has.
        let search = || {
            let pattern = Pattern::new("^(a(b)?)+$").unwrap();
            [10, 100_000].map(|times| pattern.matches(&b"ab".repeat(times)))
        };
        let thread = std::thread::Builder::new()
            .stack_size(1 << 20)
            .spawn(search);
        assert_eq!(thread.unwrap().join().unwrap(), [true, false]);
    }
}
