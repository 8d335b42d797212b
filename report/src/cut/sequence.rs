//! Packet sequences of a part: their clocks, which go on where packets between were left out.

use prost::Message;
use rsys_proto::fields::packet;
use rsys_proto::message::{Torn, put_u64};
use rsys_proto::schema::{ClockSnapshot, clock};
use rsys_traces::perfetto::PacketHead;
use rsys_traces::perfetto::clocks::{TraceClocks, is_local};
use rsys_traces::perfetto::packet_head::read_defaults;

/// A packet sequence.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// Its id.
    pub id: u32,
    /// The clock of times that name none.
    pub default_clock: u32,
    /// Clocks that count for it only.
    pub clocks: Vec<LocalClock>,
    /// Framed packets with what it has said of itself while nothing of it is in the part.
    pub state: Vec<u8>,
    /// Whether something of it is in the part.
    pub is_started: bool,
}

/// An incremental clock: packets say how much later they are than the one before, which may have been left out.
#[derive(Debug)]
pub(super) struct LocalClock {
    id: u32,
    is_incremental: bool,
    unit_ns: u64,
    written_ns: u64,
}

impl Sequence {
    /// Follows the clocks that a packet names.
    pub(super) fn follow(
        &mut self,
        head: &PacketHead<'_>,
        clocks: &mut TraceClocks,
    ) -> Result<(), Torn> {
        if let Some(defaults) = head.defaults {
            self.default_clock = read_defaults(defaults)?.0;
        }
        let Some(snapshot) = head.snapshot else {
            return Ok(());
        };
        let snapshot = ClockSnapshot::decode(snapshot).map_err(|_| Torn)?;
        clocks.observe(&snapshot);
        let boottime_ns = clocks.boottime_of(&snapshot);
        for one in &snapshot.clocks {
            let Some(id) = one.clock_id.filter(|&id| is_local(id)) else {
                continue;
            };
            self.clocks.retain(|known| known.id != id);
            self.clocks.push(LocalClock {
                id,
                is_incremental: one.is_incremental == Some(true),
                unit_ns: one.unit_multiplier_ns.unwrap_or(1).max(1),
                written_ns: boottime_ns.unwrap_or(0),
            });
        }
        Ok(())
    }

    /// Puts time and sequence of a packet. What its clock counts from is the packet written before.
    pub(super) fn put_head(&mut self, body: &mut Vec<u8>, head: &PacketHead<'_>, time_ns: u64) {
        let used = match head.clock {
            0 => self.default_clock,
            id => id,
        };
        let mut value = head.timestamp.unwrap_or(0);
        if let Some(clock) = self.clocks.iter_mut().find(|one| one.id == used)
            && clock.is_incremental
        {
            let step = time_ns.checked_sub(clock.written_ns);
            let Some(step) = step.filter(|step| step % clock.unit_ns == 0) else {
                return put_moved_head(body, time_ns, self.id);
            };
            clock.written_ns = time_ns;
            value = step / clock.unit_ns;
        }
        put_u64(body, packet::TIMESTAMP, value);
        if head.clock != 0 {
            put_u64(body, packet::TIMESTAMP_CLOCK_ID, u64::from(head.clock));
        }
        put_u64(body, packet::SEQUENCE_ID, u64::from(self.id));
    }
}

/// Puts a time that does not count from another one, and the sequence.
pub(super) fn put_moved_head(body: &mut Vec<u8>, time_ns: u64, id: u32) {
    put_u64(body, packet::TIMESTAMP, time_ns);
    put_u64(body, packet::TIMESTAMP_CLOCK_ID, u64::from(clock::BOOTTIME));
    put_u64(body, packet::SEQUENCE_ID, u64::from(id));
}
