//! How a process ended.

use crate::launch::ending::Ending;

/// How a program ended, as far as we know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Its process ended, and how is known to its parent alone.
    Process,
    /// It was our child.
    Child(Ending),
    /// Its process went on with another program.
    Replaced,
    /// It still runs; its trace ends before it.
    StillRunning,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Process => write!(f, "ended"),
            End::Child(ending) => write!(f, "{ending}"),
            End::Replaced => write!(f, "replaced by exec"),
            End::StillRunning => write!(f, "still running"),
        }
    }
}
