//! Which calls of MPI are recorded.

use super::{Category, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        Category::Backends,
        "MPI_FUNCTIONS",
        Kind::Text,
        "",
        "Which functions of MPI are recorded, such as \"Send Recv *reduce\" or \"-Wtime -Comm_*\"; all, if nothing is named",
    )
    .details(
        "Names with or without MPI_, in any case; * stands for any letters. With a minus in front: what is left out. The last name that fits counts. \
         Counts only with the backend mpip.",
    )
    .aliases(&["MPIP_PERMIT_LIST"])
    .option(None, "mpi-functions", "NAMES"),
    Setting::new(
        Category::Backends,
        "MPIP_REJECT_LIST",
        Kind::Text,
        "",
        "The original's list of functions of MPI that are not recorded",
    )
    .details("As names with a minus in front in MPI_FUNCTIONS.")
    .advanced(),
];
