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
