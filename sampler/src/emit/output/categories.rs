//! The names of categories in a trace: ours, or those of the original, for scripts that look for
//! them.

use rsys_config::CategoryNames;
use rsys_wire::event::{Category, OpKind};

/// The category of calls, ranges and marks.
#[must_use]
pub fn of_call(names: CategoryNames, category: Category) -> &'static str {
    let source = category.source();
    choose(names, source.name, source.original)
}

/// The category of what GPUs do. The original has no fills (it shows the kernels behind them),
/// barriers and others.
#[must_use]
pub fn of_operation(names: CategoryNames, kind: OpKind) -> &'static str {
    let (ours, original) = match kind {
        OpKind::Kernel => ("kernel", "rocm_kernel_dispatch"),
        OpKind::Copy => ("copy", "rocm_memory_copy"),
        OpKind::Fill => ("fill", "rocm_memory_copy"),
        OpKind::Barrier => ("barrier", "rocm"),
        OpKind::Scratch => ("scratch", "rocm_scratch_memory"),
        OpKind::Other => ("gpu", "rocm"),
    };
    choose(names, ours, original)
}

/// The category of the functions in samples, if they have one; `by_event` where samples are taken
/// by an event instead of by CPU time.
#[must_use]
pub fn of_samples(names: CategoryNames, by_event: bool) -> Option<&'static str> {
    match (names, by_event) {
        (CategoryNames::Rsys, _) => None,
        (CategoryNames::Original, false) => Some("timer_sampling"),
        (CategoryNames::Original, true) => Some("overflow_sampling"),
    }
}

fn choose(names: CategoryNames, ours: &'static str, original: &'static str) -> &'static str {
    match names {
        CategoryNames::Rsys => ours,
        CategoryNames::Original => original,
    }
}
