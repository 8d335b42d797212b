//! Perfetto traces as events, without decoding whole messages.
//!
//! [`Decoder`] takes packets in the order of the file and says of each what it is: when (BOOTTIME), on which track, a slice's begin or end, an
//! instant, a counter's value or a sample. It keeps what later packets refer to: clocks, defaults of sequences, the tree of [`tracks`]. Names
//! are left to those who need them ([`interned`]), so that whoever only counts pays for counting only.
//!
//! [`facts`] is what a trace of rsys says about itself, [`losses`] what of that was lost; [`clocks`] relates clocks to BOOTTIME, [`host_clocks`] those of hosts to each other.

pub mod clocks;
pub mod facts;
pub mod host_clocks;
pub mod interned;
pub mod losses;
pub mod packet_head;
pub mod tracks;

mod decoder;
mod sequences;

pub use decoder::{Decoder, Event, EventKind, SequenceIndex, sample_time_base};
pub use packet_head::{EventHead, PacketHead, SLICE_END, ShortPacket};
pub use sequences::SequenceNumbers;
pub use tracks::{Track, TrackIndex, Tracks};
