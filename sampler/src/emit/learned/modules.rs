//! Which module covered an address at a time.

/// A mapped module, as a record says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MappedModule<T> {
    /// When it was first seen.
    pub time_ns: u64,
    /// First address.
    pub start: u64,
    /// Address after the last.
    pub end: u64,
    /// Address minus address in the file.
    pub bias: u64,
    /// What the caller knows about it.
    pub value: T,
}

/// More modules than this in one process are not believed.
pub const MODULES_MAX: usize = 1 << 16;

/// The modules of a process in the course of time: an address may belong to several, one after the
/// other.
#[derive(Debug)]
pub struct ModuleTable<T> {
    /// By start, those with equal start by time.
    modules: Vec<MappedModule<T>>,
    /// The highest end among the modules up to each place.
    highest_end: Vec<u64>,
    refused: u64,
}

impl<T> Default for ModuleTable<T> {
    fn default() -> Self {
        Self {
            modules: Vec::new(),
            highest_end: Vec::new(),
            refused: 0,
        }
    }
}

impl<T> ModuleTable<T> {
    /// Adds a module. One without addresses, or one too many, is refused and counted.
    pub fn add(&mut self, module: MappedModule<T>) {
        if module.start >= module.end || self.modules.len() >= MODULES_MAX {
            self.refused += 1;
            return;
        }
        let key = (module.start, module.time_ns);
        let at = self
            .modules
            .partition_point(|other| (other.start, other.time_ns) <= key);
        self.modules.insert(at, module);
        // Later ones follow the change; processes load most of their modules at the start.
        self.highest_end.truncate(at);
        for module in &self.modules[at..] {
            let before = self.highest_end.last().copied().unwrap_or(0);
            self.highest_end.push(before.max(module.end));
        }
    }

    /// The module that covered `address` at `time_ns`: the latest that was seen by then, else the
    /// first one seen later.
    #[must_use]
    pub fn find(&self, address: u64, time_ns: u64) -> Option<&MappedModule<T>> {
        let end = self
            .modules
            .partition_point(|module| module.start <= address);
        let mut best: Option<&MappedModule<T>> = None;
        for (module, highest_end) in self.modules[..end]
            .iter()
            .zip(&self.highest_end[..end])
            .rev()
        {
            if *highest_end <= address {
                break;
            }
            if module.end <= address {
                continue;
            }
            best = Some(match best {
                None => module,
                Some(other) => better(other, module, time_ns),
            });
        }
        best
    }

    /// Number of modules.
    #[must_use]
    pub fn len(&self) -> usize {
        self.modules.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.modules.is_empty()
    }

    /// Number of records that were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }
}

fn better<'a, T>(
    one: &'a MappedModule<T>,
    other: &'a MappedModule<T>,
    time_ns: u64,
) -> &'a MappedModule<T> {
    let other_wins = match (one.time_ns <= time_ns, other.time_ns <= time_ns) {
        (true, true) => other.time_ns > one.time_ns,
        (false, false) => other.time_ns < one.time_ns,
        (one_was_there, _) => !one_was_there,
    };
    if other_wins { other } else { one }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn table(modules: &[(u64, u64, u64)]) -> ModuleTable<usize> {
        let mut table = ModuleTable::default();
        for (value, &(time_ns, start, end)) in modules.iter().enumerate() {
            table.add(MappedModule {
                time_ns,
                start,
                end,
                bias: start,
                value,
            });
        }
        table
    }

    #[test]
    fn address_and_time_choose_the_module() {
        // 0 is replaced by 1 at the same place; 2 lies inside of what 3 covers later.
        let table = table(&[
            (10, 100, 200),
            (20, 100, 150),
            (10, 300, 400),
            (30, 250, 500),
        ]);
        for (address, time, expected) in [
            (99, 10, None),
            (100, 10, Some(0)),
            (100, 19, Some(0)),
            (100, 20, Some(1)),
            (149, 99, Some(1)),
            (150, 99, Some(0)),
            (200, 99, None),
            (100, 5, Some(0)),
            (350, 10, Some(2)),
            (350, 30, Some(3)),
            (450, 10, Some(3)),
            (500, 99, None),
        ] {
            assert_eq!(
                table.find(address, time).map(|module| module.value),
                expected,
                "{address} at {time}"
            );
        }
    }

    #[test]
    fn impossible_modules_are_refused() {
        let table = table(&[(1, 5, 5), (1, 9, 3)]);
        assert!(table.is_empty());
        assert_eq!(table.refused(), 2);
    }

    proptest! {
        #[test]
        fn finds_what_a_search_through_all_finds(
            modules in proptest::collection::vec((0_u64..20, 0_u64..60, 1_u64..30), 0..20),
            address in 0_u64..100,
            time in 0_u64..25,
        ) {
            let modules: Vec<_> = modules.into_iter().map(|(time, start, length)| (time, start, start + length)).collect();
            let found = table(&modules).find(address, time).map(|module| module.time_ns);
            let covering = || modules.iter().filter(|(_, start, end)| (*start..*end).contains(&address)).map(|module| module.0);
            let expected = covering().filter(|seen| *seen <= time).max().or_else(|| covering().min());
            prop_assert_eq!(found, expected);
        }
    }
}
