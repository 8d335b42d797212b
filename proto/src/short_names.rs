//! Names of functions in C++ in less room: what distinguishes one is seldom in its arguments.

/// A text with what fits into fewer characters than a width: where it is too long, first the arguments of its templates and then those of its functions are
/// left out, `void foo<…>(…)`. What is longer still is for the caller to cut.
#[must_use]
pub fn without_arguments(text: &str, width: usize) -> String {
    let mut short = text.to_owned();
    for (open, close) in [('<', '>'), ('(', ')')] {
        if short.chars().count() > width {
            short = folded(&short, open, close);
        }
    }
    short
}

/// A text without what stands between brackets that follow a name.
fn folded(text: &str, open: char, close: char) -> String {
    let mut short = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(open) {
        let (before, within) = rest.split_at(at);
        short.push_str(before);
        match ends_at(within, open, close).filter(|_| is_name(before)) {
            // `(int)` and `<T>` are as short as they can be.
            Some(end) if end > "(\u{2026})".len() => {
                short.extend([open, '\u{2026}', close]);
                rest = &within[end..];
            }
            _ => {
                short.push(open);
                rest = &within[open.len_utf8()..];
            }
        }
    }
    short + rest
}

/// Where the bracket is closed that a text begins with.
fn ends_at(text: &str, open: char, close: char) -> Option<usize> {
    let (mut depth, mut before) = (0_u32, ' ');
    for (at, letter) in text.char_indices() {
        if letter == open {
            depth += 1;
        } else if letter == close && before != '-' {
            depth -= 1;
            if depth == 0 {
                return Some(at + letter.len_utf8());
            }
        }
        before = letter;
    }
    None
}

/// Whether a text ends with a name that may have arguments.
fn is_name(before: &str) -> bool {
    let ends = before.ends_with(|last: char| last.is_alphanumeric() || "_>~".contains(last));
    ends && !before.ends_with("operator") && !before.ends_with("operator>")
}

#[cfg(test)]
mod tests {
    use super::without_arguments;

    #[test]
    fn templates_give_way_first_and_then_arguments() {
        let name = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>)";
        for (width, expected) in [
            (200, name),
            (
                100,
                "void at::native::vectorized_elementwise_kernel<\u{2026}>(int, at::native::CUDAFunctor_add<\u{2026}>)",
            ),
            (
                60,
                "void at::native::vectorized_elementwise_kernel<\u{2026}>(\u{2026})",
            ),
        ] {
            assert_eq!(without_arguments(name, width), expected);
        }
        for whole in [
            "<module> (a_rather_long_name_of_a_file.py:12)",
            "(anonymous namespace)::solve",
            "bool operator<(Key)",
            "a < b and b > c",
            "unbalanced<int",
        ] {
            assert_eq!(without_arguments(whole, 10), whole);
        }
    }
}
