//! Which runtime of OpenMP programs run with.

use super::{Category, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[Setting::new(
    Category::Backends,
    "OPENMP_RUNTIME",
    Kind::Text,
    "program",
    "Runtime of OpenMP for programs of gcc: `program` (their own), `libomp`, or the path of a libomp",
)
.details(
    "gcc's libgomp has no interface for tools. LLVM's libomp has its functions as well: loaded in front of it, it runs the program in its \
     place and reports everything. This changes what runs, so it happens only when asked for, and counts only with the backend ompt.",
)
.option(None, "openmp-runtime", "NAME")];
