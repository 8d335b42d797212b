//! From a command to a running target, and from its end to ours.
//!
//! [`command`] finds the file and says whether an agent can be loaded into it; [`agent`] finds the
//! agent and makes the environment that loads it; [`directory`] makes the folder of the traces;
//! [`spawn`] starts the target with what [`inherited`] says we were given; [`signals`] passes on
//! what others send us alone, as [`group`] finds out by a [`witness`]; [`ending`] ends us as the
//! target ended. [`own_clock`] comes before all of it.

pub mod agent;
pub mod command;
pub mod directory;
pub mod ending;
pub mod group;
pub mod inherited;
pub mod own_clock;
pub mod signals;
pub mod spawn;
pub mod witness;
