//! What is recorded of PyTorch's operators.

use super::{Category, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[Setting::new(
    Category::Backends,
    "TORCH_SHAPES",
    Kind::Bool,
    "false",
    "Record the shapes of the inputs of PyTorch's operators",
)
.details("Counts only with the backend torch.")
.option(None, "torch-shapes", "")];
