//! The events that an agent counts, or takes samples by, as the sampler found them for it.

use std::fmt;

/// The most events that a thread counts.
pub const MOST_EVENTS: usize = 8;

/// An event as `perf_event_open` takes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventCode {
    /// `perf_event_attr.type`.
    pub kind: u32,
    /// `config`, `config1`, `config2`.
    pub config: [u64; 3],
    /// Whether only what happens in user mode counts.
    pub user_only: bool,
}

impl EventCode {
    /// Reads what `Display` wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<EventCode> {
        let mut parts = text.split(':');
        let mut next = || u64::from_str_radix(parts.next()?, 16).ok();
        let code = EventCode {
            kind: u32::try_from(next()?).ok()?,
            config: [next()?, next()?, next()?],
            user_only: next()? == 1,
        };
        parts.next().is_none().then_some(code)
    }
}

impl fmt::Display for EventCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [config, first, second] = self.config;
        let user_only = u8::from(self.user_only);
        write!(
            f,
            "{:x}:{config:x}:{first:x}:{second:x}:{user_only}",
            self.kind
        )
    }
}

/// The events that every thread counts, in their order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct EventList {
    codes: [EventCode; MOST_EVENTS],
    count: usize,
}

impl EventList {
    /// A list of the first [`MOST_EVENTS`] of these.
    #[must_use]
    pub fn new(events: impl IntoIterator<Item = EventCode>) -> EventList {
        let mut list = EventList::default();
        for event in events {
            list.push(event);
        }
        list
    }

    fn push(&mut self, event: EventCode) {
        if let Some(place) = self.codes.get_mut(self.count) {
            *place = event;
            self.count += 1;
        }
    }

    /// The events.
    #[must_use]
    pub fn as_slice(&self) -> &[EventCode] {
        self.codes.get(..self.count).unwrap_or(&[])
    }

    /// Reads what `Display` wrote; what is no event is left out.
    #[must_use]
    pub fn parse(text: &str) -> EventList {
        EventList::new(text.split(',').filter_map(EventCode::parse))
    }
}

impl fmt::Display for EventList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, event) in self.as_slice().iter().enumerate() {
            if index > 0 {
                write!(f, ",")?;
            }
            write!(f, "{event}")?;
        }
        Ok(())
    }
}

/// What a read of a thread's events gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reading<'a> {
    /// For how long the events were enabled, in nanoseconds.
    pub enabled_ns: u64,
    /// For how long they were counted: less, where more events want to be counted than the processor has counters.
    pub running_ns: u64,
    /// How often each has happened while it was counted.
    pub values: &'a [u64],
}

/// How many words a read of so many events takes, at most.
pub const READING_WORDS: usize = 3 + MOST_EVENTS;

impl<'a> Reading<'a> {
    /// Reads what the kernel wrote of `events` events, `read` words in all: of one, value and times; of several
    /// (PERF_FORMAT_GROUP), their number, the times, the values. See perf_event_open(2), "Reading results". `None` when it is something
    /// else.
    ///
    /// # Signal safety
    /// Looks at the words, without a panic.
    #[must_use]
    #[inline]
    pub fn parse(words: &'a [u64], read: usize, events: usize) -> Option<Self> {
        let words = words.get(..read)?;
        match words {
            [_, enabled_ns, running_ns] if events == 1 => Some(Self {
                enabled_ns: *enabled_ns,
                running_ns: *running_ns,
                values: words.get(..1)?,
            }),
            [count, enabled_ns, running_ns, values @ ..]
                if events > 1 && *count == events as u64 && values.len() == events =>
            {
                Some(Self {
                    enabled_ns: *enabled_ns,
                    running_ns: *running_ns,
                    values,
                })
            }
            _ => None,
        }
    }
}

/// An event instead of a clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Overflow {
    /// The event.
    pub event: EventCode,
    /// How often it happens between two samples.
    pub period: u64,
}

impl Overflow {
    /// Reads what `Display` wrote.
    #[must_use]
    pub fn parse(text: &str) -> Option<Overflow> {
        let (period, event) = text.split_once('@')?;
        Some(Overflow {
            event: EventCode::parse(event)?,
            period: period.parse().ok().filter(|period| *period > 0)?,
        })
    }
}

impl fmt::Display for Overflow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.period, self.event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words as kernels wrote them: a group of three on a processor that had counters for it half of the time; one event alone.
    #[test]
    fn recorded_reads() {
        let group = [3, 2_000_416, 1_000_208, 4_012_345, 3_000_001, 17, 0, 0];
        let reading = Reading::parse(&group, 6, 3).expect("a group");
        assert_eq!(
            (reading.enabled_ns, reading.running_ns),
            (2_000_416, 1_000_208)
        );
        assert_eq!(reading.values, [4_012_345, 3_000_001, 17]);
        let one = [1234, 500, 500, 0];
        let reading = Reading::parse(&one, 3, 1).expect("one event");
        assert_eq!((reading.enabled_ns, reading.running_ns), (500, 500));
        assert_eq!(reading.values, [1234]);
        // A file of the program's, an error, another group.
        for (words, read, events) in [
            (&group[..], 0, 3),
            (&group, 5, 3),
            (&group, 6, 2),
            (&group, 9, 3),
            (&one, 3, 2),
            (&one, 4, 1),
        ] {
            assert_eq!(Reading::parse(words, read, events), None, "{read} {events}");
        }
    }
}
