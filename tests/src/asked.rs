//! The command line of the examples that measure launches: `[LAUNCHES [REPETITIONS [STACK|WAY…]]]`.

use anyhow::Result;

/// What is to be measured.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Launches of each run.
    pub launches: usize,
    /// Runs of each kind.
    pub repetitions: usize,
    names: Vec<String>,
}

impl Asked {
    /// From the program's own arguments, or with these numbers.
    ///
    /// # Errors
    /// When one of the first two arguments is no number.
    pub fn from_arguments(launches: usize, repetitions: usize) -> Result<Self> {
        let mut arguments = std::env::args().skip(1);
        let mut number = |default: usize| {
            let word = arguments.next();
            word.map_or(Ok(default), |word| word.parse())
        };
        Ok(Self {
            launches: number(launches)?,
            repetitions: number(repetitions)?,
            names: arguments.collect(),
        })
    }

    /// Whether this one of `all` is to be measured: it is named, or none of them is.
    #[must_use]
    pub fn wants(&self, name: &str, all: &[&str]) -> bool {
        let mut of_these = self.names.iter().filter(|one| all.contains(&one.as_str()));
        of_these.clone().next().is_none() || of_these.any(|one| one == name)
    }
}
