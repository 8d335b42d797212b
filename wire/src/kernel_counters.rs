//! Hardware counters of single kernels: which events are counted on which GPU, and what was counted of a kernel.

use crate::text::number;

/// Most events of a GPU that are counted at a time.
pub const MOST_EVENTS: usize = 32;

/// Bytes of what was counted of a kernel, at most.
pub const COUNTS_BYTES: usize = 8 * (HEAD_WORDS + MOST_EVENTS * EVENT_WORDS);

const HEAD_WORDS: usize = 5;
const EVENT_WORDS: usize = 4;

/// Events and the GPUs on which they are counted, as a word of a [`crate::name_list::NameList`]: `SQ:4+GRBM:2@0000:08:00.0+0000:0c:00.0`.
#[derive(Debug, Clone, Copy)]
pub struct CounterSet<'a> {
    events: &'a str,
    gpus: &'a str,
}

impl<'a> CounterSet<'a> {
    /// Reads a word.
    #[must_use]
    pub fn parse(word: &'a [u8]) -> Option<Self> {
        let (events, gpus) = std::str::from_utf8(word).ok()?.split_once('@')?;
        Some(Self { events, gpus })
    }

    /// The events: names of blocks and numbers, as many as can be counted.
    pub fn events(self) -> impl Iterator<Item = (&'a str, u32)> {
        let events = self.events.split('+').filter_map(|event| {
            let (block, event) = event.split_once(':')?;
            Some((block, number(event)?))
        });
        events.take(MOST_EVENTS)
    }

    /// Whether they are counted on the GPU with this address on PCI.
    #[must_use]
    pub fn is_of(self, address: &[u8]) -> bool {
        self.gpus.split('+').any(|gpu| gpu.as_bytes() == address)
    }
}

/// What an event counted, over all instances of its block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counted {
    /// Of all instances together.
    pub sum: u64,
    /// Of the instance with the most.
    pub max: u64,
    /// Of the instance with the least.
    pub min: u64,
    /// How many instances there are, in all engines and dies; 0 if the event is not counted on this GPU.
    pub instances: u64,
}

impl Counted {
    /// Adds an instance.
    pub fn add(&mut self, value: u64) {
        self.min = match self.instances {
            0 => value,
            _ => self.min.min(value),
        };
        self.max = self.max.max(value);
        self.sum = self.sum.wrapping_add(value);
        self.instances = self.instances.wrapping_add(1);
    }
}

/// What was counted of a kernel, as [`crate::event::Key::Counters`] has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelCounts {
    /// The place of the set of events in the settings.
    pub set: u64,
    /// Of the GPU: compute units, shader engines, SIMD units, dies.
    pub gpu: [u64; 4],
    counted: [Counted; MOST_EVENTS],
    used: usize,
}

impl KernelCounts {
    /// Nothing counted yet, of so many events.
    #[must_use]
    pub fn new(set: u64, gpu: [u64; 4], events: usize) -> Self {
        Self {
            set,
            gpu,
            counted: [Counted::default(); MOST_EVENTS],
            used: events.min(MOST_EVENTS),
        }
    }

    /// By the place of each event in its set.
    #[must_use]
    pub fn events(&self) -> &[Counted] {
        self.counted.get(..self.used).unwrap_or(&[])
    }

    /// That of one event.
    pub fn event(&mut self, place: usize) -> Option<&mut Counted> {
        self.counted.get_mut(..self.used)?.get_mut(place)
    }

    /// As it travels.
    pub fn put<'b>(&self, bytes: &'b mut [u8; COUNTS_BYTES]) -> &'b [u8] {
        let [units, engines, simds, dies] = self.gpu;
        let head = [self.set, units, engines, simds, dies].into_iter();
        let events = self.events().iter();
        let words = head.chain(events.flat_map(|event| {
            let Counted {
                sum,
                max,
                min,
                instances,
            } = *event;
            [sum, max, min, instances]
        }));
        let mut used = 0_usize;
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
            used = used.wrapping_add(8);
        }
        bytes.get(..used).unwrap_or(&[])
    }

    /// Reads it; `None` if it is something else.
    #[must_use]
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut words = bytes
            .chunks_exact(8)
            .map(|word| word.try_into().map_or(0, u64::from_le_bytes));
        let mut next = || words.next();
        let (set, gpu) = (next()?, [next()?, next()?, next()?, next()?]);
        let events = (bytes.len() / 8).checked_sub(HEAD_WORDS)? / EVENT_WORDS;
        let mut counts = Self::new(set, gpu, events);
        for place in 0..counts.used {
            *counts.event(place)? = Counted {
                sum: next()?,
                max: next()?,
                min: next()?,
                instances: next()?,
            };
        }
        Some(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_name_events_and_gpus() {
        let set = CounterSet::parse(b"SQ:4+TCC:17+odd@0000:08:00.0+0000:0c:00.0").unwrap();
        assert_eq!(set.events().collect::<Vec<_>>(), [("SQ", 4), ("TCC", 17)]);
        assert!(set.is_of(b"0000:0c:00.0") && !set.is_of(b"0000:0c:00.1"));
        assert!(CounterSet::parse(b"SQ:4").is_none());
    }

    #[test]
    fn counts_travel_and_come_back() {
        let mut counts = KernelCounts::new(1, [304, 32, 1216, 8], 3);
        for value in [7, 3, 9] {
            counts.event(1).unwrap().add(value);
        }
        assert!(counts.event(3).is_none());
        let mut bytes = [0; COUNTS_BYTES];
        let back = KernelCounts::parse(counts.put(&mut bytes)).unwrap();
        assert_eq!(back, counts);
        let one = back.events()[1];
        assert_eq!((one.sum, one.max, one.min, one.instances), (19, 9, 3, 3));
        assert_eq!(back.events()[0], Counted::default());
        assert_eq!(KernelCounts::parse(b"short"), None);
    }

    #[test]
    fn all_events_have_room() {
        let counts = KernelCounts::new(0, [0; 4], 1000);
        let mut bytes = [0; COUNTS_BYTES];
        assert_eq!(counts.put(&mut bytes).len(), COUNTS_BYTES);
    }
}
