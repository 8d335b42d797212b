//! What the names of recorded functions say.

/// A function's name as profilers write it, in parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CodeName<'t> {
    pub(crate) function: &'t str,
    /// The source file; empty if the name does not say it.
    pub(crate) source: &'t str,
    /// The line; 0 if the name does not say it.
    pub(crate) line: u32,
}

impl<'t> CodeName<'t> {
    /// PyTorch's profiler writes `train.py(12): step`, JAX's `$train.py:12 step`; other names have no place.
    pub(crate) fn of(name: &'t str) -> Self {
        Self::of_pytorch(name)
            .or_else(|| Self::of_jax(name))
            .unwrap_or(Self {
                function: name,
                source: "",
                line: 0,
            })
    }

    fn of_pytorch(name: &'t str) -> Option<Self> {
        let (place, function) = name.split_once("): ")?;
        let (source, line) = place.rsplit_once('(')?;
        Some(Self {
            function,
            source,
            line: line.parse().ok()?,
        })
    }

    fn of_jax(name: &'t str) -> Option<Self> {
        let (place, function) = name.strip_prefix('$')?.split_once(' ')?;
        let (source, line) = place.rsplit_once(':').unwrap_or((place, "0"));
        if function.is_empty() {
            return None;
        }
        Some(Self {
            function,
            source,
            line: line.parse().ok()?,
        })
    }

    /// Whether it is Python: a name with a place, a call of a built-in function, or one of a PyTorch module.
    pub(crate) fn is_python(&self) -> bool {
        !self.source.is_empty()
            || self.function.starts_with("<built-in ")
            || self.function.starts_with("nn.Module: ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        for (name, function, source, line, is_python) in [
            ("train.py(12): step", "step", "train.py", 12, true),
            ("a (b)/c.py(3): f(x): y", "f(x): y", "a (b)/c.py", 3, true),
            ("<string>(1): <module>", "<module>", "<string>", 1, true),
            ("$train.py:12 step", "step", "train.py", 12, true),
            ("nn.Module: Linear_0", "nn.Module: Linear_0", "", 0, true),
            (
                "<built-in function len>",
                "<built-in function len>",
                "",
                0,
                true,
            ),
            ("$<unknown> __exit__", "__exit__", "<unknown>", 0, true),
            ("PjitFunction(f)", "PjitFunction(f)", "", 0, false),
            ("f(x): y", "f(x): y", "", 0, false),
            ("$ ", "$ ", "", 0, false),
            ("$:99999999999 f", "$:99999999999 f", "", 0, false),
            ("", "", "", 0, false),
        ] {
            let expected = CodeName {
                function,
                source,
                line,
            };
            assert_eq!(CodeName::of(name), expected, "{name}");
            assert_eq!(expected.is_python(), is_python, "{name}");
        }
    }
}
