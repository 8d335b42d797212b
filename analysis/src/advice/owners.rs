//! Hosts, times on their clocks, and whose something is.

use std::collections::BTreeMap;

use crate::table::view::View;

/// A time span of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Span {
    pub(super) start_ns: u64,
    pub(super) duration_ns: u64,
    /// Index in [`super::facts::Facts::hosts`]: the times are of that host's clock.
    pub(super) host: usize,
}

impl Span {
    pub(super) fn between(start_ns: u64, end_ns: u64, host: usize) -> Self {
        Self {
            start_ns,
            duration_ns: end_ns.saturating_sub(start_ns),
            host,
        }
    }

    /// The longest single time of a row.
    pub(super) fn longest(view: &View<'_>, host: usize) -> Self {
        Self {
            start_ns: view.count("longest_at_ns"),
            duration_ns: view.count("longest_ns"),
            host,
        }
    }
}

/// A host: each has a clock of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Host {
    pub(super) name: String,
    /// The first time of any of its processes.
    pub(super) start_ns: u64,
}

/// The hosts of processes, by name; one without a name if there are none.
pub(super) fn hosts(lives: &[View<'_>]) -> Vec<Host> {
    let mut starts: BTreeMap<&str, u64> = BTreeMap::new();
    for view in lives {
        let start_ns = starts.entry(view.text("host")).or_insert(u64::MAX);
        *start_ns = (*start_ns).min(view.count("start_ns"));
    }
    if starts.is_empty() {
        starts.insert("", 0);
    }
    let hosts = starts.into_iter();
    hosts
        .map(|(name, start_ns)| Host {
            name: name.to_owned(),
            start_ns,
        })
        .collect()
}

/// The place of a row's host.
pub(super) fn host_of(view: &View<'_>, hosts: &[Host]) -> usize {
    host_named(view.text("host"), hosts)
}

/// The place of a host among those that [`hosts`] has put in order; the first if it is not among them.
pub(super) fn host_named(name: &str, hosts: &[Host]) -> usize {
    let found = hosts.binary_search_by(|host| host.name.as_str().cmp(name));
    found.unwrap_or(0)
}

/// Whose something is: on other hosts, and in other containers, processes may have the same number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Owner {
    /// Index in [`super::facts::Facts::hosts`].
    pub(super) host: usize,
    pub(super) rank: Option<u64>,
    pub(super) process: u64,
}

impl Owner {
    pub(super) fn of(view: &View<'_>, hosts: &[Host]) -> Self {
        Self {
            host: host_of(view, hosts),
            rank: view.known("rank"),
            process: view.count("process"),
        }
    }
}
