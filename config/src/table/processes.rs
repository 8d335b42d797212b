//! Which processes of the tree are followed, and for how long.

use super::{Category, Choice, Kind, Setting};

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        Category::Processes,
        "FOLLOW",
        Kind::Choice(&[
            Choice {
                name: "all",
                help: "every child, forked or executed",
            },
            Choice {
                name: "exec",
                help: "children that execute a program; not those that only fork",
            },
            Choice {
                name: "none",
                help: "the command alone",
            },
        ]),
        "all",
        "Which child processes are profiled too",
    )
    .option(None, "follow", "WHICH"),
    Setting::new(
        Category::Processes,
        "LINGER",
        Kind::Seconds { max: 1e9 },
        "3",
        "How long to wait for children that outlive the command",
    )
    .details("After that, their traces are finished with what is there.")
    .option(None, "linger", "TIME"),
];
