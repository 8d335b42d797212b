//! Which call wrote a packet.
//!
//! The runtime may look at a packet later, on a thread of its own. So the thread that takes a packet's place notes the call that it is in.

use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::sys;

#[derive(Debug)]
struct Tag {
    /// The packet's index plus one.
    index: AtomicU64,
    correlation: AtomicU64,
}

/// The calls that took the places of a queue's packets that are on their way, by their index.
#[derive(Debug)]
pub struct Tags {
    memory: AtomicPtr<Tag>,
    room: AtomicU32,
}

impl Tags {
    /// Those of no queue.
    pub const fn none() -> Self {
        Tags {
            memory: AtomicPtr::new(std::ptr::null_mut()),
            room: AtomicU32::new(0),
        }
    }

    /// Room for a tag of each packet of a new queue; kept when the place is used again.
    pub fn reset(&self, size: u32) {
        for index in 0..self.room.load(Ordering::Relaxed) {
            if let Some(tag) = self.at(u64::from(index)) {
                tag.index.store(0, Ordering::Relaxed);
            }
        }
        if self.room.load(Ordering::Relaxed) >= size || !size.is_power_of_two() {
            return;
        }
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        if let Ok(memory) = sys::mmap(size as usize * size_of::<Tag>(), flags, -1) {
            // What was there before stays mapped: it is small, and another thread may read it.
            self.memory.store(memory.cast(), Ordering::Relaxed);
            self.room.store(size, Ordering::Release);
        }
    }

    fn at(&self, index: u64) -> Option<&Tag> {
        let room = self.room.load(Ordering::Acquire);
        let place = index as usize & (room.checked_sub(1)? as usize);
        // SAFETY: the memory has room for them; zeros are valid.
        unsafe {
            self.memory
                .load(Ordering::Relaxed)
                .wrapping_add(place)
                .as_ref()
        }
    }

    /// The call that took a packet's place, or 0.
    pub fn get(&self, index: u64) -> u64 {
        self.at(index)
            .filter(|tag| tag.index.load(Ordering::Acquire) == index.wrapping_add(1))
            .map_or(0, |tag| tag.correlation.load(Ordering::Relaxed))
    }

    /// Notes the call that took a packet's place.
    pub fn set(&self, index: u64, correlation: u64) {
        if let Some(tag) = self.at(index) {
            tag.correlation.store(correlation, Ordering::Relaxed);
            tag.index.store(index.wrapping_add(1), Ordering::Release);
        }
    }
}
