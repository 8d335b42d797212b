//! `cargo xtask`: the tasks of this repository.

fn main() {}
