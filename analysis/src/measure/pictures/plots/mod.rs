//! What pictures are drawn from: tables that are too long to be read, all of bounded size however long a run is.

mod bins;
mod courses;
mod durations;
mod flame;
mod run;

pub use courses::Courses;
pub use durations::KernelDurations;
pub use flame::Flame;
pub use run::RunHead;

use crate::measure::Measure;

/// All of them, each under its name; flame graphs [`Flame::below`] these functions.
#[must_use]
pub fn plots(below: Vec<String>) -> Vec<(&'static str, Box<dyn Measure>)> {
    vec![
        ("courses", Box::<Courses>::default()),
        ("durations", Box::<KernelDurations>::default()),
        ("flame", Box::new(Flame::below(below))),
        ("run", Box::<RunHead>::default()),
    ]
}
