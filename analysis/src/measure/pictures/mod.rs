//! What pictures, and comparisons of runs, are made from: [`plots`] and [`spread`].

pub mod plots;
pub mod spread;
