//! What threads wait for, and for whom.

mod lengths;
mod locks;
mod realtime;
