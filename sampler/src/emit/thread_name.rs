//! What a thread is called, when several know it.
//!
//! Names arrive in any order: the kernel's with each look at a thread and at its end, Python's with
//! a sample, the program's own with an event. What is shown must not depend on that order.

/// The kernel keeps names of threads up to this length, in bytes.
const KERNEL_NAME_MAX: usize = 15;

/// The names of a thread. The program's own stands before all others, then the kernel's where it is
/// not just that of the thread's creator, then Python's.
#[derive(Debug, Clone, Default)]
pub struct ThreadName {
    inherited: String,
    kernel: String,
    python: String,
    program: String,
}

impl ThreadName {
    /// Of a thread that begins with its creator's name, as the kernel has it.
    pub fn inherited(name: &str) -> Self {
        Self {
            inherited: name.to_owned(),
            kernel: name.to_owned(),
            ..Self::default()
        }
    }

    /// What is shown; empty when nothing is known.
    pub fn shown(&self) -> &str {
        // Python 3.14 and programs give the kernel as much of a longer name as it keeps.
        let is_cut = self.kernel.len() == KERNEL_NAME_MAX && self.python.starts_with(&self.kernel);
        let by_kernel = self.kernel != self.inherited && !self.kernel.is_empty() && !is_cut;
        match (&*self.program, &*self.python) {
            ("", "") => &self.kernel,
            ("", _) if by_kernel => &self.kernel,
            ("", python) => python,
            (program, _) => program,
        }
    }

    /// Takes over the name that the thread began with, and says whether another one is shown.
    pub fn begin(&mut self, name: &str) -> bool {
        self.change(|names| {
            name.clone_into(&mut names.inherited);
            if names.kernel.is_empty() {
                name.clone_into(&mut names.kernel);
            }
        })
    }

    /// Takes over the kernel's name, and says whether another one is shown.
    pub fn by_kernel(&mut self, name: &str) -> bool {
        name != self.kernel
            && !name.is_empty()
            && self.change(|names| name.clone_into(&mut names.kernel))
    }

    /// Takes over Python's name, and says whether another one is shown.
    pub fn by_python(&mut self, name: &str) -> bool {
        self.change(|names| name.clone_into(&mut names.python))
    }

    /// Takes over the name that the program gave, and says whether another one is shown.
    pub fn by_program(&mut self, name: &str) -> bool {
        self.change(|names| name.clone_into(&mut names.program))
    }

    fn change(&mut self, take_over: impl FnOnce(&mut Self)) -> bool {
        let before = self.shown().to_owned();
        take_over(self);
        before != self.shown()
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadName;

    type Step = fn(&mut ThreadName) -> bool;

    /// All orders in which some names may arrive.
    fn orders(steps: &[Step]) -> Vec<Vec<Step>> {
        let mut all = vec![Vec::new()];
        for step in steps {
            let longer = all.iter().flat_map(|order: &Vec<Step>| {
                (0..=order.len()).map(|at| {
                    let mut longer = order.clone();
                    longer.insert(at, *step);
                    longer
                })
            });
            all = longer.collect();
        }
        all
    }

    fn is_shown_in_any_order(expected: &str, steps: &[Step]) {
        for order in orders(steps) {
            let mut names = ThreadName::inherited("python3");
            for step in order {
                let before = names.shown().to_owned();
                assert_eq!(step(&mut names), before != names.shown());
            }
            assert_eq!(names.shown(), expected);
        }
    }

    #[test]
    fn the_same_name_is_shown_in_whatever_order_names_arrive() {
        let python: Step = |names| names.by_python("Thread-13");
        let renamed: Step = |names| names.by_kernel("in_turns");
        let program: Step = |names| names.by_program("loader");
        is_shown_in_any_order("Thread-13", &[python]);
        is_shown_in_any_order("in_turns", &[python, renamed]);
        is_shown_in_any_order("loader", &[python, renamed, program]);
    }

    #[test]
    fn what_the_kernel_cuts_is_shown_whole() {
        let whole: Step = |names| names.by_python("Thread-13 (preprocess)");
        let cut: Step = |names| names.by_kernel("Thread-13 (prep");
        is_shown_in_any_order("Thread-13 (preprocess)", &[whole, cut]);
    }

    #[test]
    fn a_beginning_that_is_learned_late_changes_what_is_shown() {
        let mut names = ThreadName::default();
        assert!(names.by_kernel("python3"));
        assert!(!names.by_python("Thread-1"));
        assert!(names.begin("python3"));
        assert_eq!(names.shown(), "Thread-1");
    }
}
