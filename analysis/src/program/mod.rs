//! What is known of a program whatever is asked: its operators, ranges, places in the code, and the calls that stand behind a record.
//!
//! | module | holds |
//! |---|---|
//! | [`operators`] | which functions are operators of frameworks |
//! | [`code_place`] | the place of a stack that is the program's own |
//! | [`call_sites`] | where calls came from |
//! | [`scopes`] | which range, and which iteration, was open at a time |
//! | [`iteration_names`] | which ranges are iterations |
//! | [`recorded`] | for how long recorded operators and functions were open |
//! | [`nesting`] | which calls stand inside of others |
//! | [`runs`] | which processes are of one run |

pub mod call_sites;
pub mod code_place;
pub mod iteration_names;
pub mod nesting;
pub mod operators;
pub mod recorded;
pub mod runs;
pub mod scopes;
