//! Programs in Python: their frames, their waits, their libraries.

mod frames;
mod libraries;
mod torch;
mod waiting;
