//! Events: what the runtimes' threads sleep on.
//!
//! As in the kernel, raising an event wakes all that wait for it at that moment, even when it resets itself with the
//! first one: every waiter remembers the age of its events.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::abi::{EventData, event};

/// As many as the kernel allows.
const LIMIT: usize = 4096;

/// All events of a process.
#[derive(Debug, Default)]
pub struct Events {
    table: Mutex<Table>,
    raised: Condvar,
}

#[derive(Debug, Default)]
struct Table {
    last_id: u32,
    by_id: HashMap<u32, Event>,
}

#[derive(Debug)]
struct Event {
    kind: u32,
    auto_reset: bool,
    raised: bool,
    /// Counts how often it was raised; starts at 1, as in the kernel.
    age: u64,
    /// The answer to whoever waits for an exception.
    data: [u64; 4],
}

/// How a wait ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// What was waited for happened.
    Complete,
    /// It did not in time.
    Timeout,
    /// An event is unknown.
    Unknown,
}

impl Events {
    /// A new event; none when there are too many.
    pub fn create(&self, kind: u32, auto_reset: bool) -> Option<u32> {
        let mut table = self.table();
        if table.by_id.len() >= LIMIT {
            return None;
        }
        table.last_id += 1;
        let id = table.last_id;
        let event = Event {
            kind,
            auto_reset,
            raised: false,
            age: 1,
            data: [0; 4],
        };
        table.by_id.insert(id, event);
        Some(id)
    }

    /// Ends an event; returns whether there was one.
    pub fn destroy(&self, id: u32) -> bool {
        let known = self.table().by_id.remove(&id).is_some();
        // Whoever waits for it has to see that it is gone.
        self.raised.notify_all();
        known
    }

    /// Raises an event; returns whether there is one.
    pub fn set(&self, id: u32) -> bool {
        let mut table = self.table();
        let Some(event) = table.by_id.get_mut(&id) else {
            return false;
        };
        event.raised = true;
        event.age += 1;
        drop(table);
        self.raised.notify_all();
        true
    }

    /// Clears an event; returns whether there is one.
    pub fn reset(&self, id: u32) -> bool {
        let mut table = self.table();
        let event = table.by_id.get_mut(&id);
        event.map(|event| event.raised = false).is_some()
    }

    /// Raises all events of a kind, with an answer. Returns how many there were.
    pub fn raise_exception(&self, kind: u32, data: [u64; 4]) -> usize {
        let mut table = self.table();
        let mut raised = 0;
        for event in table.by_id.values_mut().filter(|event| event.kind == kind) {
            event.raised = true;
            event.age += 1;
            event.data = data;
            raised += 1;
        }
        drop(table);
        self.raised.notify_all();
        raised
    }

    /// Waits for one or all of these events. `timeout_ms` 0 only looks, `u32::MAX` waits for ever.
    pub fn wait(&self, wanted: &mut [EventData], all: bool, timeout_ms: u32) -> Waited {
        let deadline = (timeout_ms != u32::MAX)
            .then(|| Instant::now() + Duration::from_millis(timeout_ms.into()));
        let mut table = self.table();
        let mut ages = Vec::with_capacity(wanted.len());
        for entry in wanted.iter() {
            match table.by_id.get(&entry.event_id) {
                // Newer runtimes say which age they saw last; 0 means that they do not.
                Some(event) if event.kind == event::SIGNAL && entry.data[0] != 0 => {
                    ages.push(entry.data[0]);
                }
                Some(event) => ages.push(event.age),
                None => return Waited::Unknown,
            }
        }
        loop {
            let mut happened = 0;
            for (entry, age) in wanted.iter().zip(&ages) {
                let Some(event) = table.by_id.get(&entry.event_id) else {
                    return Waited::Unknown;
                };
                happened += usize::from(event.raised || event.age != *age);
            }
            if happened > 0 && (!all || happened == wanted.len()) {
                answer(&mut table, wanted, &ages);
                return Waited::Complete;
            }
            table = match deadline {
                None => self
                    .raised
                    .wait(table)
                    .unwrap_or_else(PoisonError::into_inner),
                Some(deadline) => {
                    let left = deadline.saturating_duration_since(Instant::now());
                    if left.is_zero() {
                        return Waited::Timeout;
                    }
                    let waited = self.raised.wait_timeout(table, left);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer(table: &mut Table, wanted: &mut [EventData], ages: &[u64]) {
    for (entry, age) in wanted.iter_mut().zip(ages) {
        let Some(event) = table.by_id.get_mut(&entry.event_id) else {
            continue;
        };
        if !event.raised && event.age == *age {
            continue;
        }
        if event.kind != event::SIGNAL {
            entry.data = event.data;
        } else if entry.data[0] != 0 {
            entry.data[0] = event.age;
        }
        if event.auto_reset {
            event.raised = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(event_id: u32) -> EventData {
        EventData {
            data: [0; 4],
            extension: 0,
            event_id,
            pad: 0,
        }
    }

    #[test]
    fn an_event_that_resets_itself_is_seen_once() {
        let events = Events::default();
        let id = events.create(event::SIGNAL, true).unwrap();
        assert_eq!(events.wait(&mut [entry(id)], false, 0), Waited::Timeout);
        assert!(events.set(id));
        assert_eq!(events.wait(&mut [entry(id)], false, 0), Waited::Complete);
        assert_eq!(events.wait(&mut [entry(id)], false, 0), Waited::Timeout);
    }

    #[test]
    fn raising_wakes_all_waiters() {
        let events = Events::default();
        let id = events.create(event::SIGNAL, true).unwrap();
        std::thread::scope(|scope| {
            let waiters: Vec<_> = (0..4)
                .map(|_| scope.spawn(|| events.wait(&mut [entry(id)], false, u32::MAX)))
                .collect();
            // Those that came late need another one.
            while !waiters
                .iter()
                .all(std::thread::ScopedJoinHandle::is_finished)
            {
                events.set(id);
                std::thread::yield_now();
            }
            for waiter in waiters {
                assert_eq!(waiter.join().unwrap(), Waited::Complete);
            }
        });
    }

    #[test]
    fn all_means_all() {
        let events = Events::default();
        let ids = [
            events.create(event::SIGNAL, false).unwrap(),
            events.create(event::SIGNAL, false).unwrap(),
        ];
        events.set(ids[1]);
        let mut both = ids.map(entry);
        assert_eq!(events.wait(&mut both, true, 0), Waited::Timeout);
        assert_eq!(events.wait(&mut both, false, 0), Waited::Complete);
        events.set(ids[0]);
        assert_eq!(events.wait(&mut both, true, 0), Waited::Complete);
    }

    #[test]
    fn an_older_age_counts_as_raised() {
        let events = Events::default();
        let id = events.create(event::SIGNAL, true).unwrap();
        events.set(id);
        let mut first = [entry(id)];
        first[0].data[0] = 1;
        assert_eq!(events.wait(&mut first, false, 0), Waited::Complete);
        assert_eq!(first[0].data[0], 2);
        // Raised and taken by somebody else meanwhile.
        events.set(id);
        assert_eq!(events.wait(&mut [entry(id)], false, 0), Waited::Complete);
        assert_eq!(events.wait(&mut first, false, 0), Waited::Complete);
        assert_eq!(first[0].data[0], 3);
        assert_eq!(events.wait(&mut first, false, 0), Waited::Timeout);
    }

    #[test]
    fn unknown_events_are_told() {
        let events = Events::default();
        assert_eq!(events.wait(&mut [entry(7)], false, 0), Waited::Unknown);
        assert!(!events.set(7) && !events.reset(7) && !events.destroy(7));
    }

    #[test]
    fn exceptions_carry_their_answer() {
        let events = Events::default();
        let id = events.create(event::MEMORY, false).unwrap();
        assert_eq!(events.raise_exception(event::MEMORY, [1, 2, 3, 4]), 1);
        let mut wanted = [entry(id)];
        assert_eq!(events.wait(&mut wanted, false, 0), Waited::Complete);
        assert_eq!(wanted[0].data, [1, 2, 3, 4]);
    }
}
