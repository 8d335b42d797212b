//! A target's shared memory, mapped and checked.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;

use memmap2::{MmapOptions, MmapRaw};
use rsys_wire::handshake::{Hello, HelloKind};
use rsys_wire::layout::{Counter, Geometry, SAMPLER_GONE, Segment};
use rsys_wire::ring::{Consumer, DROP_CAUSES, Drained, RingCount};

use super::presence;
use crate::os;

/// Why a segment is refused.
#[derive(Debug, thiserror::Error)]
pub enum SegmentError {
    /// No descriptor came with the datagram, or several.
    #[error("a datagram with {0} descriptors instead of one")]
    Descriptors(usize),
    /// The announced numbers do not fit together.
    #[error("an impossible geometry: {rings} rings of {words} words in {bytes} bytes")]
    Geometry {
        /// Rings.
        rings: u32,
        /// Words of each.
        words: u32,
        /// Bytes of all.
        bytes: u64,
    },
    /// The memory could shrink under us.
    #[error("memory that is not sealed against shrinking")]
    Unsealed,
    /// The memory is smaller than announced.
    #[error("memory of {actual} bytes where {announced} were announced")]
    Small {
        /// Its size.
        actual: u64,
        /// The size it should have.
        announced: u64,
    },
    /// It cannot be looked at or mapped.
    #[error("memory that cannot be mapped: {0}")]
    Map(#[from] std::io::Error),
}

/// The rings of one segment, ready to be drained.
#[derive(Debug)]
pub struct MappedSegment {
    // Dropped before the mapping that they point into.
    consumers: Vec<Consumer<'static>>,
    segment: Segment,
    _mapping: MmapRaw,
    inode: u64,
}

impl Drop for MappedSegment {
    fn drop(&mut self) {
        presence::take_leave(self.segment.header());
    }
}

impl MappedSegment {
    /// Maps the memory behind `descriptors`, which `hello` announced.
    ///
    /// # Errors
    /// When it is not what was announced, or could change its size.
    pub fn map(descriptors: Vec<OwnedFd>, hello: &Hello) -> Result<Self, SegmentError> {
        let [descriptor]: [OwnedFd; 1] = descriptors
            .try_into()
            .map_err(|all: Vec<OwnedFd>| SegmentError::Descriptors(all.len()))?;
        let geometry = Geometry::of_hello(hello).ok_or(SegmentError::Geometry {
            rings: hello.ring_count,
            words: hello.ring_words,
            bytes: hello.segment_bytes,
        })?;
        if os::seals(descriptor.as_fd()) & libc::F_SEAL_SHRINK == 0 {
            return Err(SegmentError::Unsealed);
        }
        let file = File::from(descriptor);
        let metadata = file.metadata()?;
        let actual = metadata.len();
        if actual < hello.segment_bytes {
            return Err(SegmentError::Small {
                actual,
                announced: hello.segment_bytes,
            });
        }
        let mapping = MmapOptions::new().len(geometry.bytes()).map_raw(&file)?;
        // SAFETY: the mapping is shared, writable and page-aligned, has `geometry.bytes()` bytes, cannot shrink (sealed, checked
        // above), and is kept in the same structure as the view.
        let segment = unsafe { Segment::new(mapping.as_ptr(), geometry) };
        let consumers = (0..geometry.ring_count())
            .filter_map(|index| {
                let header = std::ptr::from_ref(segment.ring_header(index)?);
                let words = std::ptr::from_ref(segment.ring_words(index)?);
                // SAFETY: both point into the mapping, which does not move and outlives the consumers: they are dropped first and
                // never leave this structure.
                unsafe { Consumer::new(&*header, &*words) }
            })
            .collect();
        if hello.kind == HelloKind::Process as u32 {
            presence::show(segment.header());
        }
        Ok(Self {
            consumers,
            segment,
            _mapping: mapping,
            inode: metadata.ino(),
        })
    }

    /// The inode of the memory, by which it is found among the mappings of a process.
    #[must_use]
    pub fn inode(&self) -> u64 {
        self.inode
    }

    /// Number of rings.
    #[must_use]
    pub fn rings(&self) -> usize {
        self.consumers.len()
    }

    /// Words in each ring.
    #[must_use]
    pub fn ring_words(&self) -> usize {
        self.segment.geometry().ring_words() as usize
    }

    /// Whether ring `index` holds something new.
    #[must_use]
    pub fn has_data(&self, index: usize) -> bool {
        self.consumers.get(index).is_some_and(Consumer::has_data)
    }

    /// Moves what ring `index` holds to the end of `out`.
    pub fn drain(&mut self, index: usize, out: &mut Vec<u64>) -> Drained {
        self.consumers
            .get_mut(index)
            .map_or(Drained::Empty, |consumer| consumer.drain(out))
    }

    /// Records dropped by the agent, by cause, and the sum of their weights, over all rings.
    #[must_use]
    pub fn dropped(&self) -> ([u64; DROP_CAUSES], u64) {
        let mut causes = [0_u64; DROP_CAUSES];
        let mut weight = 0_u64;
        for consumer in &self.consumers {
            let header = consumer.header();
            for (sum, cause) in causes.iter_mut().zip(&header.dropped) {
                *sum = sum.saturating_add(cause.load(Ordering::Relaxed));
            }
            let dropped = header.dropped_weight.load(Ordering::Relaxed);
            weight = weight.saturating_add(dropped);
        }
        (causes, weight)
    }

    /// What all rings have counted for themselves.
    #[must_use]
    pub fn counted(&self, what: RingCount) -> u64 {
        let counts = self.consumers.iter().map(|consumer| {
            let counts = &consumer.header().counts;
            counts
                .get(what as usize)
                .map_or(0, |count| count.load(Ordering::Relaxed))
        });
        counts.fold(0, u64::saturating_add)
    }

    /// One of the process-wide counters.
    #[must_use]
    pub fn counter(&self, counter: Counter) -> u64 {
        self.segment.header().get(counter)
    }

    /// Lets the agent know that no samples are wanted before this time (CLOCK_BOOTTIME).
    pub fn want_samples_from(&self, time_ns: u64) {
        let word = &self.segment.header().quiet_until_ns;
        if word.load(Ordering::Relaxed) != time_ns {
            word.store(time_ns, Ordering::Relaxed);
        }
    }

    /// Shows the agent that the sampler is at work: any number that differs from the one before.
    pub fn set_heartbeat(&self, heartbeat: u64) {
        let word = &self.segment.header().work;
        if word.load(Ordering::Relaxed) != heartbeat {
            word.store(heartbeat, Ordering::Relaxed);
        }
    }

    /// Tells the agent that nobody reads any more, and wakes it where it waits for that.
    pub fn dismiss(&self) {
        let word = &self.segment.header().sampler;
        word.store(SAMPLER_GONE, Ordering::Release);
        os::futex_wake(word);
    }

    /// Runs `send`, which sends a signal to a thread of the process, unless the process executes a program: that would die of it. The agent waits
    /// for `send` before it lets the process execute one.
    pub fn while_not_executing(&self, send: impl FnOnce()) {
        /// After so long, executing it has failed.
        const EXECUTES_NS: u64 = 10_000_000_000;
        let header = self.segment.header();
        header.asking.store(1, Ordering::SeqCst);
        let since_ns = header.executing_ns.load(Ordering::SeqCst);
        if since_ns == 0 || os::boot_time_ns().saturating_sub(since_ns) > EXECUTES_NS {
            send();
        }
        header.asking.store(0, Ordering::SeqCst);
    }

    /// The process information.
    #[must_use]
    pub fn info(&self) -> Vec<u8> {
        self.segment.info()
    }
}
