//! What calls say of the copies and fills that they ask for.
//!
//! HIP reports no size for copies of pinned memory, and now and then the direction of the copy before. The arguments of the call are
//! right, so they are kept until the record comes. A table of the last calls is enough: with more of them under way the record's own values count.

use std::sync::atomic::{AtomicU64, Ordering};

const PLACES: usize = 32 * 1024;

/// From where to where a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Direction {
    /// The call does not say.
    Unknown = 0,
    /// From host memory to host memory.
    HostToHost = 1,
    /// From host memory to a GPU's.
    HostToDevice = 2,
    /// From a GPU's memory to the host's.
    DeviceToHost = 3,
    /// Within a GPU's memory, or between two GPUs.
    DeviceToDevice = 4,
}

impl Direction {
    /// From HIP's `hipMemcpyKind`.
    pub fn from_kind(kind: u32) -> Self {
        match kind {
            0 => Direction::HostToHost,
            1 => Direction::HostToDevice,
            2 => Direction::DeviceToHost,
            3 => Direction::DeviceToDevice,
            _ => Direction::Unknown,
        }
    }

    fn from_bits(bits: u64) -> Self {
        u32::try_from(bits).map_or(Direction::Unknown, |bits| {
            Direction::from_kind(bits.wrapping_sub(1))
        })
    }

    /// What the direction is called.
    pub fn text(self) -> &'static [u8] {
        match self {
            Direction::Unknown => b"",
            Direction::HostToHost => b"host to host",
            Direction::HostToDevice => b"host to device",
            Direction::DeviceToHost => b"device to host",
            Direction::DeviceToDevice => b"device to device",
        }
    }

    /// What operations of this direction are called.
    pub fn name(self) -> &'static [u8] {
        match self {
            Direction::Unknown => b"Copy",
            Direction::HostToHost => b"CopyHostToHost",
            Direction::HostToDevice => b"CopyHostToDevice",
            Direction::DeviceToHost => b"CopyDeviceToHost",
            Direction::DeviceToDevice => b"CopyDeviceToDevice",
        }
    }
}

/// What a call said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Said {
    /// How much is copied or filled, in bytes.
    pub bytes: u64,
    /// From where to where.
    pub direction: Direction,
}

#[derive(Debug)]
struct Place {
    correlation: AtomicU64,
    bytes: AtomicU64,
    direction: AtomicU64,
}

static TABLE: [Place; PLACES] = [const {
    Place {
        correlation: AtomicU64::new(0),
        bytes: AtomicU64::new(0),
        direction: AtomicU64::new(0),
    }
}; PLACES];

fn place(correlation: u64) -> Option<&'static Place> {
    TABLE.get(correlation as usize % PLACES)
}

/// Keeps what a call said.
pub fn keep(correlation: u64, said: Said) {
    if let Some(place) = place(correlation) {
        place.correlation.store(0, Ordering::Release);
        place.bytes.store(said.bytes, Ordering::Relaxed);
        place
            .direction
            .store(said.direction as u64, Ordering::Relaxed);
        place.correlation.store(correlation, Ordering::Release);
    }
}

/// What a call said, if that is still known.
pub fn recall(correlation: u64) -> Option<Said> {
    let place = place(correlation)?;
    let is_its = || correlation != 0 && place.correlation.load(Ordering::Acquire) == correlation;
    if !is_its() {
        return None;
    }
    let said = Said {
        bytes: place.bytes.load(Ordering::Acquire),
        direction: Direction::from_bits(place.direction.load(Ordering::Acquire)),
    };
    is_its().then_some(said)
}
