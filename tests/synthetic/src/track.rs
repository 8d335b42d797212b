//! Tracks whose times are true, and what a trace says about itself.

use rsys_proto::{
    Annotation, CallstackIid, CpuMode, Event, EventKind, Name, PacketBuffer, Sample, TrackSequence,
    Value,
};

use crate::HostClock;

/// Turns true time into that of a host.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Time {
    pub(crate) clock: HostClock,
    pub(crate) host: u64,
}

impl Time {
    pub(crate) fn at(&self, true_ns: u64) -> u64 {
        self.clock.boottime_ns(self.host, true_ns)
    }
}

/// A track whose times are true.
pub(crate) struct Track(pub(crate) TrackSequence);

impl Track {
    pub(crate) fn begin(
        &mut self,
        out: &mut PacketBuffer,
        true_ns: u64,
        event: &Event<'_>,
        time: &Time,
    ) {
        self.0
            .event(out, time.at(true_ns), EventKind::SliceBegin, event);
    }

    pub(crate) fn end(&mut self, out: &mut PacketBuffer, true_ns: u64, time: &Time) {
        self.0.slice_end(out, time.at(true_ns));
    }
}

/// A sample of the main thread of a process.
pub(crate) fn sample(time_ns: u64, pid: u32, weight: u64, callstack: CallstackIid) -> Sample {
    Sample {
        time_ns,
        pid,
        tid: pid,
        callstack: Some(callstack),
        weight,
        mode: CpuMode::Unknown,
        cpu: None,
    }
}

/// An instant by which a trace says something about itself.
pub(crate) fn say(
    out: &mut PacketBuffer,
    track: &mut TrackSequence,
    time_ns: u64,
    name: &str,
    facts: &[(&str, Value<'_>)],
) {
    let facts = facts.iter();
    let annotations: Vec<_> = facts
        .map(|(key, value)| Annotation::new(out.intern(key), *value))
        .collect();
    let event = Event {
        name: Name::Once(name),
        annotations: &annotations,
        ..Event::default()
    };
    track.event(out, time_ns, EventKind::Instant, &event);
}
