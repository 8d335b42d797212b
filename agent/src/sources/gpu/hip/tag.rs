//! What travels through HIP with a call and comes back with each of its operations: 64 bits that HIP takes for a correlation id.
//!
//! Besides our own id these hold whether the call launches a graph, whether its kernel was counted when it was launched, and about when the call was made. So nothing
//! need be looked up when records arrive, which may be minutes later and in any order.
//!
//! | bits | |
//! |---|---|
//! | 0–38 | correlation id |
//! | 39 | the call launches a graph |
//! | 40 | the call launches one kernel, counted when made |
//! | 41–63 | time of the call in units of 2^24 ns, modulo 2^23 (39 hours) |

use crate::sources::gpu::hip::table::Does;

const ID_BITS: u32 = 39;
const GRAPH_BIT: u32 = 39;
const COUNTED_BIT: u32 = 40;
const TIME_SHIFT: u32 = 41;
const TIME_UNIT: u32 = 24;
const TIME_MASK: u64 = (1 << (64 - TIME_SHIFT)) - 1;

/// A call's tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag(u64);

impl Tag {
    /// The tag of a call that is made now.
    pub fn new(correlation: u64, does: Does, now_ns: u64) -> Self {
        Tag(correlation & ((1 << ID_BITS) - 1)
            | u64::from(does == Does::Graph) << GRAPH_BIT
            | u64::from(does == Does::Launch) << COUNTED_BIT
            | (now_ns >> TIME_UNIT) << TIME_SHIFT)
    }

    /// The tag of a call that the program does not want to have recorded: no id comes so far.
    pub const PAUSED: Tag = Tag((1 << ID_BITS) - 1);

    /// Whether the program did not want the call to be recorded.
    pub fn is_paused(self) -> bool {
        self == Tag::PAUSED
    }

    /// As it came back.
    pub fn from_bits(bits: u64) -> Self {
        Tag(bits)
    }

    /// As HIP takes it. Never 0, because no correlation id is.
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Our correlation id, or 0 when the operation has no call.
    pub fn correlation(self) -> u64 {
        self.0 & ((1 << ID_BITS) - 1)
    }

    /// Whether the call launches a graph.
    pub fn is_graph(self) -> bool {
        self.0 >> GRAPH_BIT & 1 != 0
    }

    /// Whether its one kernel was counted when it was launched.
    pub fn is_counted(self) -> bool {
        self.0 >> COUNTED_BIT & 1 != 0
    }

    /// A time (CLOCK_BOOTTIME ns) some 20 ms before the call, because the GPU's clock is known to microseconds only; 0 when the operation has
    /// no call.
    pub fn asked_ns(self, now_ns: u64) -> u64 {
        if self.0 == 0 {
            return 0;
        }
        let now = now_ns >> TIME_UNIT;
        let ago = now.wrapping_sub(self.0 >> TIME_SHIFT) & TIME_MASK;
        now.saturating_sub(ago).saturating_sub(1) << TIME_UNIT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_comes_back_with_all_that_was_put_in() {
        let now_ns = 5_000_000_000_000_000;
        for (does, graph, counted) in [
            (Does::Nothing, false, false),
            (Does::Launch, false, true),
            (Does::Graph, true, false),
        ] {
            let tag = Tag::from_bits(Tag::new(123_456_789, does, now_ns).bits());
            assert_eq!(tag.correlation(), 123_456_789);
            assert_eq!((tag.is_graph(), tag.is_counted()), (graph, counted));
            assert!(!tag.is_paused());
        }
    }

    #[test]
    fn the_time_of_a_call_is_known_for_a_day() {
        const HOUR: u64 = 3_600_000_000_000;
        let call_ns = 77 * HOUR + 123_456_789;
        let tag = Tag::new(1, Does::Launch, call_ns);
        for later in [0, 1_000_000, HOUR, 24 * HOUR, 38 * HOUR] {
            let asked_ns = tag.asked_ns(call_ns + later);
            assert!(
                asked_ns <= call_ns && call_ns - asked_ns < 2 << TIME_UNIT,
                "{later}: {asked_ns}"
            );
        }
        assert_eq!(Tag::from_bits(0).asked_ns(call_ns), 0);
    }
}
