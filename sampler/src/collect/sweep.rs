//! One pass over the rings of a process.
//!
//! A sample may need a module that is recorded in another thread's ring, before the sample. Rings
//! are read one after the other, so the module may be missed when its ring is read before and the
//! sample's ring after both were written. A second look at all rings settles it: what the second
//! look finds brings every module that the first look's samples need.

use rsys_wire::handshake::HelloKind;
use rsys_wire::layout::Counter;
use rsys_wire::ring::{Drained, RingCount};

use crate::emit::account::{AgentCounts, COUNTER_NAMES};
use crate::emit::batch::{Batch, RingWords};
use crate::session::MappedSegment;

/// The segments of a process.
#[derive(Debug, Default)]
pub struct Rings {
    segments: Vec<Known>,
    next_ring: u32,
}

/// A segment of a process.
#[derive(Debug)]
struct Known {
    /// Number of its first ring in the process.
    first: u32,
    segment: MappedSegment,
    /// Whether its rings hold events.
    events: bool,
}

/// What a pass found.
#[derive(Debug, Default)]
pub struct Swept {
    /// The words, unless there were none.
    pub batch: Option<Batch>,
    /// How full the fullest ring was: 0 to 1.
    pub fullest: f64,
}

impl Rings {
    /// Adds a segment.
    pub fn add(&mut self, segment: MappedSegment, kind: HelloKind) {
        let rings = u32::try_from(segment.rings()).unwrap_or(u32::MAX);
        self.segments.push(Known {
            first: self.next_ring,
            segment,
            events: kind == HelloKind::Events,
        });
        self.next_ring = self.next_ring.saturating_add(rings);
    }

    /// Lets the agent know that no samples are wanted before this time (CLOCK_BOOTTIME).
    pub fn want_samples_from(&self, time_ns: u64) {
        if let Some(Known { segment: first, .. }) = self.segments.first() {
            first.want_samples_from(time_ns);
        }
    }

    /// Shows the agent that the sampler is at work, for those who wait for room.
    pub fn set_heartbeat(&self, heartbeat: u64) {
        if let Some(Known { segment: first, .. }) = self.segments.first() {
            first.set_heartbeat(heartbeat);
        }
    }

    /// The first segment, which the program has mapped for as long as it runs.
    #[must_use]
    pub fn first(&self) -> Option<&MappedSegment> {
        self.segments.first().map(|known| &known.segment)
    }

    /// Number of segments.
    #[must_use]
    pub fn segments(&self) -> usize {
        self.segments.len()
    }

    /// Takes what the rings hold.
    pub fn sweep(&mut self) -> Swept {
        let mut swept = Swept::default();
        let mut batch = Batch::default();
        swept.fullest = self.look(&mut batch.words);
        if batch.words.is_empty() {
            return swept;
        }
        self.look(&mut batch.later);
        swept.batch = Some(batch);
        swept
    }

    /// Returns how full the fullest ring was.
    fn look(&mut self, found: &mut Vec<RingWords>) -> f64 {
        let mut fullest = 0_f64;
        for Known { first, segment, .. } in &mut self.segments {
            for index in 0..segment.rings() {
                if !segment.has_data(index) {
                    continue;
                }
                let mut words = Vec::new();
                let after_damage = match segment.drain(index, &mut words) {
                    Drained::Empty => continue,
                    Drained::Words(count) => {
                        fullest = fullest.max(count as f64 / segment.ring_words() as f64);
                        false
                    }
                    Drained::Corrupt => true,
                };
                let ring = first.saturating_add(index as u32);
                found.push(RingWords {
                    ring,
                    words,
                    after_damage,
                });
            }
        }
        fullest
    }

    /// What the agent counted so far.
    #[must_use]
    pub fn counts(&self) -> AgentCounts {
        let mut counts = AgentCounts::default();
        for Known {
            segment, events, ..
        } in &self.segments
        {
            let (causes, weight) = segment.dropped();
            if *events {
                let dropped = causes.iter().fold(0_u64, |sum, &n| sum.saturating_add(n));
                counts.dropped_events = counts.dropped_events.saturating_add(dropped);
                continue;
            }
            for (sum, count) in counts.dropped_by_cause.iter_mut().zip(causes) {
                *sum = sum.saturating_add(count);
            }
            counts.dropped_weight = counts.dropped_weight.saturating_add(weight);
        }
        if let Some(Known { segment: first, .. }) = self.segments.first() {
            for (value, (counter, _)) in counts.counters.iter_mut().zip(COUNTER_NAMES) {
                *value = first.counter(counter);
            }
            for what in RingCount::ALL {
                let segments = self.segments.iter().filter(|known| known.events);
                let counted = segments.map(|known| known.segment.counted(what));
                counts.add(what.of_process(), counted.fold(0, u64::saturating_add));
            }
            let without_ring = first.counter(Counter::EventsWithoutRing);
            counts.dropped_events = counts.dropped_events.saturating_add(without_ring);
        }
        counts
    }

    /// Whether the agent has gone to sleep in this process.
    #[must_use]
    pub fn is_dormant(&self) -> bool {
        self.segments
            .first()
            .is_some_and(|Known { segment, .. }| segment.counter(Counter::Dormant) != 0)
    }
}
