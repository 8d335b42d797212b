//! The original's names for the categories of slices.

use crate::choices::CategoryNames;

/// Our name and the original's. It has no fills (it shows the kernels behind them), and one name for
/// what is neither kernel, copy nor scratch memory.
const NAMES: &[(&str, &str)] = &[
    ("hip", "rocm_hip_api"),
    ("hsa", "rocm_hsa_api"),
    ("roctx", "rocm_marker_api"),
    ("rccl", "rocm_rccl_api"),
    ("openmp", "ompt"),
    ("kernel", "rocm_kernel_dispatch"),
    ("copy", "rocm_memory_copy"),
    ("fill", "rocm_memory_copy"),
    ("scratch", "rocm_scratch_memory"),
    ("barrier", "rocm"),
    ("gpu", "rocm"),
    ("mutex", "pthread"),
    ("rwlock", "pthread"),
    ("spinlock", "pthread"),
];

impl CategoryNames {
    /// What the category that we call `ours` is called; ours itself where the original has no name.
    #[must_use]
    pub fn of(self, ours: &'static str) -> &'static str {
        match self {
            Self::Rsys => ours,
            Self::Original => NAMES
                .iter()
                .find(|(name, _)| *name == ours)
                .map_or(ours, |(_, original)| original),
        }
    }

    /// The category of the functions in samples, if they have one; `by_event` where samples are taken
    /// by an event instead of by CPU time.
    #[must_use]
    pub const fn of_samples(self, by_event: bool) -> Option<&'static str> {
        match (self, by_event) {
            (Self::Rsys, _) => None,
            (Self::Original, false) => Some("timer_sampling"),
            (Self::Original, true) => Some("overflow_sampling"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_original_has_its_own_names() {
        assert_eq!(CategoryNames::Rsys.of("kernel"), "kernel");
        assert_eq!(CategoryNames::Original.of("kernel"), "rocm_kernel_dispatch");
        assert_eq!(CategoryNames::Original.of("rsys"), "rsys");
    }

    #[test]
    fn the_help_names_each_category_of_an_interface() {
        let [ours, original] = CategoryNames::CHOICES else {
            panic!("two kinds of names");
        };
        for (name, theirs) in NAMES.iter().filter(|(_, theirs)| *theirs != "rocm") {
            let is_shown = ours.help.contains(name) || *name == "scratch";
            assert!(
                is_shown && original.help.contains(theirs),
                "{name} {theirs}"
            );
        }
    }
}
