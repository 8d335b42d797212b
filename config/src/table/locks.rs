//! What is recorded of waits for locks.

use super::{Category, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[Setting::new(
    Category::Backends,
    "LOCKS_SHORTEST",
    Kind::Seconds { max: 60.0 },
    "0.000001",
    "Shorter waits for locks are counted but not drawn",
)
.details("Counts only with `-I mutex-locks`, `rw-locks` or `spin-locks`. 0 draws each wait.")
.option(None, "locks-shortest", "TIME")
.advanced()];
