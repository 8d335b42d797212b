//! What is known of the locks of a process: what its agent has counted of each, and which stacks the recorded waits come from.

use std::collections::{BTreeMap, HashMap};

use rsys_proto::{Annotation, Event as Drawn, EventKind, Name, Value};
use rsys_wire::event::{Args, Category, Key};

use super::EventWriter;
use crate::emit::digest::{LockUse, place};

/// At most this many stacks are told apart at each lock, of waiters and of holders.
const STACKS_MAX: usize = 64;

/// A lock, as its waits and its counts name it.
type LockId = (u8, u64);

/// What the agent has counted of a lock.
#[derive(Debug, Clone)]
struct Counts {
    category: Category,
    kind: String,
    acquisitions: u64,
    contended: u64,
    wait_ns: u64,
    longest_ns: u64,
}

/// The time of recorded waits, by the stacks of waiters and of holders.
#[derive(Debug, Default)]
struct Waits {
    waiters: HashMap<u64, u64>,
    holders: HashMap<u64, u64>,
}

/// The locks of a process.
#[derive(Debug, Default)]
pub struct Locks {
    counts: BTreeMap<(u64, String), Counts>,
    waits: HashMap<LockId, Waits>,
}

fn add(sums: &mut HashMap<u64, u64>, stack: u64, ns: u64) {
    if sums.len() < STACKS_MAX || sums.contains_key(&stack) {
        *sums.entry(stack).or_default() += ns;
    }
}

impl Locks {
    /// Takes a wait that is over.
    pub fn wait(&mut self, category: Category, lock: u64, stacks: [u64; 2], ns: u64) {
        let [waiter, holder] = stacks;
        let waits = self.waits.entry((category as u8, lock)).or_default();
        add(&mut waits.waiters, waiter, ns);
        add(&mut waits.holders, holder, ns);
    }

    /// Takes what was counted of a lock. Of several such records the last one counts.
    pub fn learn(&mut self, category: Category, kind: &str, args: Args<'_>) {
        let number = |key| args.number(key).unwrap_or_default();
        let counts = Counts {
            category,
            kind: kind.to_owned(),
            acquisitions: number(Key::Acquisitions),
            contended: number(Key::Contended),
            wait_ns: number(Key::WaitNs),
            longest_ns: number(Key::LongestNs),
        };
        let id = (number(Key::Lock), kind.to_owned());
        self.counts.insert(id, counts);
    }

    /// Draws the table: an instant for each lock, at the end of the trace.
    pub fn finish(&mut self, end_ns: u64, pen: &mut EventWriter<'_>) {
        if self.counts.is_empty() {
            return;
        }
        let mut rows: Vec<_> = std::mem::take(&mut self.counts).into_iter().collect();
        rows.sort_by_key(|(_, counts)| std::cmp::Reverse((counts.wait_ns, counts.acquisitions)));
        let process = pen.output.process_track();
        let description = "What was counted of each lock until the end of the process";
        let mut track = pen.output.child_track(process, "locks", Some(description));
        for ((address, _), counts) in &rows {
            let waits = self.waits.get(&(counts.category as u8, *address));
            let most = |of: fn(&Waits) -> &HashMap<u64, u64>| {
                let sums = of(waits?).iter().filter(|(stack, _)| **stack != 0);
                let (stack, _) = sums.max_by_key(|(stack, ns)| (**ns, **stack))?;
                place(pen.known.stack(*stack), pen.frames)
            };
            let (waiter, holder) = (most(|waits| &waits.waiters), most(|waits| &waits.holders));
            let name = match address {
                0 => format!("other locks: {}", counts.kind),
                address => format!("{} {address:#x}", counts.kind),
            };
            let out = pen.output.buffer();
            let mut annotations = vec![
                Annotation::new(out.intern(Key::Lock.name()), Value::Pointer(*address)),
                Annotation::new(out.intern("kind"), Value::Text(&counts.kind)),
            ];
            for (key, value) in [
                (Key::Acquisitions, counts.acquisitions),
                (Key::Contended, counts.contended),
                (Key::WaitNs, counts.wait_ns),
                (Key::LongestNs, counts.longest_ns),
            ] {
                annotations.push(Annotation::new(out.intern(key.name()), Value::Uint(value)));
            }
            for (key, place) in [("waiter", &waiter), ("holder", &holder)] {
                if let Some(place) = place {
                    annotations.push(Annotation::new(out.intern(key), Value::Text(place)));
                }
            }
            let category = Some(pen.output.call_category(counts.category));
            let event = Drawn {
                name: Name::Once(&name),
                category,
                annotations: &annotations,
                ..Drawn::default()
            };
            track.event(pen.output.buffer(), end_ns, EventKind::Instant, &event);
            pen.tally.locks += 1;
            pen.digest.lock(LockUse {
                name,
                is_held: match counts.kind.as_str() {
                    "mutex" | "rwlock" | "spinlock" | "Python GIL" => true,
                    // As Python's locks are.
                    "semaphore" => holder.is_some(),
                    _ => false,
                },
                acquisitions: counts.acquisitions,
                contended: counts.contended,
                wait_ns: counts.wait_ns,
                longest_ns: counts.longest_ns,
                waiter,
                holder,
            });
        }
    }
}
