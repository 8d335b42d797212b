//! Which slices of a thread stand in which others of the same list.

/// A slice and those directly within it, in order.
#[derive(Debug)]
pub(crate) struct Nested<T> {
    start_ns: u64,
    /// What was added.
    pub(crate) what: T,
    /// What it contains.
    pub(crate) inside: Vec<Self>,
}

/// Puts slices into those that contain them. A slice comes when it ends, so those within it come before it.
#[derive(Debug)]
pub(crate) struct Nesting<T> {
    /// Slices that nothing has contained so far, in order.
    waiting: Vec<Nested<T>>,
}

impl<T> Default for Nesting<T> {
    fn default() -> Self {
        Self {
            waiting: Vec::new(),
        }
    }
}

impl<T> Nesting<T> {
    /// Adds the next slice of the thread. If nothing can contain it (`is_outermost`), what is certain now is handed over.
    #[inline]
    pub(crate) fn add(
        &mut self,
        start_ns: u64,
        what: T,
        is_outermost: bool,
        found: impl FnMut(Nested<T>),
    ) {
        let outside = self.waiting.iter().rev();
        let inside = outside.take_while(|inner| inner.start_ns >= start_ns);
        let first = self.waiting.len() - inside.count();
        let inside = match first == self.waiting.len() {
            true => Vec::new(),
            false => self.waiting.split_off(first),
        };
        self.waiting.push(Nested {
            start_ns,
            what,
            inside,
        });
        if is_outermost {
            self.finish(found);
        }
    }

    /// Hands over what is left when no more slices come.
    pub(crate) fn finish(&mut self, found: impl FnMut(Nested<T>)) {
        self.waiting.drain(..).for_each(found);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A slice and what is in it, as text.
    fn text(nested: &Nested<char>) -> String {
        let inside: String = nested.inside.iter().map(text).collect();
        format!("{}({inside})", nested.what)
    }

    #[test]
    fn slices_are_put_into_those_that_contain_them() {
        let mut nesting = Nesting::default();
        let mut found = Vec::new();
        for (start_ns, what) in [(6, 'c'), (5, 'b'), (8, 'd'), (4, 'a'), (12, 'f')] {
            nesting.add(start_ns, what, false, |nested| found.push(text(&nested)));
        }
        assert!(found.is_empty());
        nesting.add(11, 'e', true, |nested| found.push(text(&nested)));
        assert_eq!(found, ["a(b(c())d())", "e(f())"]);
    }
}
