//! Which processes of the tree are followed, and for how long.

use super::{Category, Kind, Setting};
use crate::choices::Follow;

pub(super) const SETTINGS: &[Setting] = &[
    Setting::new(
        Category::Processes,
        "FOLLOW",
        Kind::Choice(Follow::CHOICES),
        Follow::All.as_str(),
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
    Setting::new(
        Category::Processes,
        "RANKS",
        Kind::Numbers {
            empty_means: "every rank",
        },
        "",
        "Which ranks of a parallel job are profiled, such as 0,8-15 or 0-1023:64 (every 64th); all, if nothing is named",
    )
    .details(
        "On the other ranks the command runs without a profiler. The rank is the one that the launcher (srun, mpirun, torchrun, \
         flux) sets in the environment.",
    )
    .option(None, "ranks", "LIST"),
    Setting::new(
        Category::Processes,
        "LOCAL_RANKS",
        Kind::Numbers {
            empty_means: "every rank",
        },
        "",
        "Which ranks of each node are profiled, counted on the node, as RANKS",
    )
    .option(None, "local-ranks", "LIST"),
    Setting::new(
        Category::Processes,
        "NODES",
        Kind::Text,
        "",
        "Which nodes of a job are profiled: their numbers in the job, as RANKS, or their names",
    )
    .option(None, "nodes", "LIST"),
    Setting::new(
        Category::Processes,
        "MIN_SAMPLES",
        Kind::Int {
            min: 1,
            max: 1_000_000,
            unit: "samples",
        },
        "3",
        "How many samples a process must have for a trace of its own",
    )
    .details(
        "Shells and helpers that only start another program would leave many tiny traces. Their samples are together in one \
         trace. The command itself always gets its trace, and so does a process with anything else to show than samples.",
    )
    .option(None, "min-samples", "N"),
];
