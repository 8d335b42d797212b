//! The names of categories in a trace: ours, or those of the original, for scripts that look for
//! them.

use rsys_config::CategoryNames;
use rsys_wire::event::{Category, OpKind};

/// The category of calls, ranges and marks.
#[must_use]
pub fn of_call(names: CategoryNames, category: Category) -> &'static str {
    names.of(category.source().name)
}

/// The category of what GPUs do.
#[must_use]
pub fn of_operation(names: CategoryNames, kind: OpKind) -> &'static str {
    names.of(match kind {
        OpKind::Kernel => "kernel",
        OpKind::Copy => "copy",
        OpKind::Fill => "fill",
        OpKind::Barrier => "barrier",
        OpKind::Scratch => "scratch",
        OpKind::Other => "gpu",
    })
}
