//! Programs in Python: their frames, their waits, their libraries.

mod frames;
mod libraries;
mod notebooks;
mod torch;
mod waiting;
