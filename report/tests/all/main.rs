//! Traces that are merged, cut and checked, and answers that do not depend on how they are read.

mod answers;
mod check;
mod common;
mod cut;
mod foreign;
mod jobs;
mod merge;
mod merged;
mod packed;
mod runs;
mod temporary;
