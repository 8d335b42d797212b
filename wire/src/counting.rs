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

    /// The words of bytes in hexadecimal, and how many.
    fn words(text: &str) -> ([u64; READING_WORDS + 1], usize) {
        let mut words = [0; READING_WORDS + 1];
        let whole = text.as_bytes().chunks(16);
        let count = whole.len();
        for (word, digits) in words.iter_mut().zip(whole) {
            let digits = std::str::from_utf8(digits).expect("digits");
            let value = u64::from_str_radix(digits, 16).expect("digits");
            *word = value.swap_bytes().to_le();
        }
        (words, count)
    }

    /// Reads that Linux 6.18 answered, of page faults, task clock and context switches. Groups marked with a share were bound to a
    /// processor on which the thread ran for half of its time, with half of its 6000 page faults: for the kernel that is the same as a
    /// processor with too few counters.
    #[test]
    fn recorded_reads() {
        let whole = "030000000000000057326603000000005732660300000000\
                     b80b00000000000083336603000000001900000000000000";
        let share = "03000000000000000dbcfa0600000000a15d810300000000\
                     b80b0000000000009c5e8103000000001c00000000000000";
        let one = "b80b00000000000097229403000000009722940300000000";
        let one_share = "b80b0000000000004d46220700000000999d890300000000";
        for (bytes, enabled_ns, running_ns, values) in [
            (whole, 57_029_207, 57_029_207, &[3000, 57_029_507, 25][..]),
            (share, 117_095_437, 58_809_761, &[3000, 58_810_012, 28]),
            (one, 60_039_831, 60_039_831, &[3000]),
            (one_share, 119_686_733, 59_350_425, &[3000]),
        ] {
            let (words, count) = words(bytes);
            let expected = Reading {
                enabled_ns,
                running_ns,
                values,
            };
            let reading = |read, events| Reading::parse(&words, read, events);
            assert_eq!(reading(count, values.len()), Some(expected), "{bytes}");
            // A read that ended early or too late (a file of the program's), an error, another group.
            for read in (0..=words.len() + 1).filter(|read| *read != count) {
                assert_eq!(reading(read, values.len()), None, "{bytes}: {read} words");
            }
            for events in (0..=MOST_EVENTS + 1).filter(|events| *events != values.len()) {
                assert_eq!(reading(count, events), None, "{bytes}: {events} events");
            }
        }
    }

    /// Groups with ids (PERF_FORMAT_ID) and with lost records (PERF_FORMAT_LOST), recorded as those above: none of ours asks for
    /// them, and they are not taken for values.
    #[test]
    fn reads_in_other_formats_are_refused() {
        let ids = "030000000000000054ad2e0700000000ccbc950300000000b80b0000000000005dff000000000000\
                   c7bd9503000000005eff0000000000001c000000000000005fff000000000000";
        let lost = "0300000000000000b7a62d0700000000e7228e0300000000b80b0000000000000000000000000000\
                    ec238e0300000000000000000000000039000000000000000000000000000000";
        for bytes in [ids, lost] {
            let (words, count) = words(bytes);
            assert_eq!(count, 9);
            assert_eq!(Reading::parse(&words, count, 3), None, "{bytes}");
        }
    }
}
