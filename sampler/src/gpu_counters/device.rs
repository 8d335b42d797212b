//! The counters of one GPU: which are counted together, and what they have counted since they were read last.

use std::collections::BTreeMap;

use rsys_wire::counter_library::{CommandPackets, Event, Handle};

use super::library::{Gpu, Library, Queue};
use crate::os;

/// An event of a block, in all instances of it.
struct Raw {
    /// As expressions name it: `SQ:4`.
    name: String,
    block: u32,
    number: u32,
    /// What each instance had counted when it was read last, since its pass was started.
    last: Vec<u64>,
    /// When it was read last.
    read_ns: u64,
    /// What each counted from the reading before to the last one.
    counted: Vec<f64>,
    /// From when on that is.
    since_ns: u64,
    /// In which round of all passes it was read.
    round: u64,
}

/// Events that are counted at the same time.
struct Pass {
    raws: Vec<usize>,
    handle: u64,
    packets: CommandPackets,
}

/// The counters of a GPU.
pub(super) struct Device {
    library: &'static Library,
    properties: Vec<(&'static str, f64)>,
    queue: (*mut Queue, Handle),
    raws: Vec<Raw>,
    passes: Vec<Pass>,
    /// The pass that is counted, and since when.
    current: usize,
    started_ns: u64,
    round: u64,
}

impl Device {
    /// Starts counting these events, each a block and a number. What the GPU does not know comes back with why.
    ///
    /// # Errors
    /// When nothing can be counted on this GPU.
    pub(super) fn start(
        library: &'static Library,
        gpu: &Gpu,
        events: &[(String, u32)],
    ) -> Result<(Self, BTreeMap<String, String>), String> {
        let mut refused = BTreeMap::new();
        let mut raws = Vec::new();
        // Instances and room, by raw.
        let mut sizes = Vec::new();
        for (block_name, number) in events {
            let name = format!("{block_name}:{number}");
            let Some((block, instances)) = library.block(gpu, block_name) else {
                refused.insert(name, format!("this GPU has no block {block_name}"));
                continue;
            };
            let event = Event {
                instance: 0,
                number: *number,
                flags: 0,
                block,
            };
            let Some(room) = library.room(gpu, event) else {
                refused.insert(
                    name,
                    format!("{block_name} of this GPU has no event {number}"),
                );
                continue;
            };
            sizes.push((instances, room as usize));
            raws.push(Raw {
                name,
                block,
                number: *number,
                last: Vec::new(),
                read_ns: 0,
                counted: Vec::new(),
                since_ns: 0,
                round: 0,
            });
        }
        let mut device = Self {
            library,
            properties: gpu.properties.clone(),
            queue: library.queue(gpu)?,
            raws,
            passes: Vec::new(),
            current: 0,
            started_ns: 0,
            round: 0,
        };
        let blocks: Vec<(u32, usize)> = device
            .raws
            .iter()
            .zip(&sizes)
            .map(|(raw, (_, room))| (raw.block, *room))
            .collect();
        for raws in passes(&blocks) {
            let events = raws.iter().flat_map(|&raw| {
                let Raw { block, number, .. } = device.raws[raw];
                (0..sizes[raw].0).map(move |instance| Event {
                    instance,
                    number,
                    flags: 0,
                    block,
                })
            });
            let events: Vec<Event> = events.collect();
            let (handle, packets) = library.commands(gpu, events.leak())?;
            device.passes.push(Pass {
                raws,
                handle,
                packets,
            });
        }
        let now_ns = os::boot_time_ns();
        for raw in &mut device.raws {
            raw.read_ns = now_ns;
        }
        device.begin_pass();
        Ok((device, refused))
    }

    fn begin_pass(&mut self) {
        if let Some(pass) = self.passes.get(self.current) {
            self.library.execute(self.queue, pass.packets.start);
            self.started_ns = os::boot_time_ns();
        }
    }

    /// Reads the events of the present pass, and goes on with the next one.
    pub(super) fn read(&mut self) {
        let Some(pass) = self.passes.get(self.current) else {
            return;
        };
        self.library.execute(self.queue, pass.packets.read);
        let now_ns = os::boot_time_ns();
        let mut values: Vec<Vec<u64>> = vec![Vec::new(); self.raws.len()];
        let raws = &self.raws;
        self.library.values(pass.handle, |event, value| {
            let is_of = |raw: &&usize| {
                let raw = &raws[**raw];
                (raw.block, raw.number) == (event.block, event.number)
            };
            if let Some(&raw) = pass.raws.iter().find(is_of) {
                values[raw].push(value);
            }
        });
        let is_alone = self.passes.len() == 1;
        // It counted in a part of the time only.
        let share = (now_ns - self.started_ns).max(1);
        for &place in &pass.raws {
            let raw = &mut self.raws[place];
            let value = std::mem::take(&mut values[place]);
            let scale = match is_alone {
                true => 1.0,
                false => (now_ns - raw.read_ns) as f64 / share as f64,
            };
            raw.counted = differences(&value, &raw.last, scale);
            raw.since_ns = raw.read_ns;
            raw.read_ns = now_ns;
            raw.round = self.round;
            raw.last = if is_alone { value } else { Vec::new() };
        }
        if !is_alone {
            self.library.execute(self.queue, pass.packets.stop);
            self.current += 1;
            if self.current == self.passes.len() {
                self.current = 0;
                self.round += 1;
            }
            self.begin_pass();
        }
    }

    /// What these events counted since the reading before, by name, with what expressions may name beside; and from when on. `None` as long as one of
    /// them was not read in this round.
    pub(super) fn counted(&self, names: &[String]) -> Option<(BTreeMap<String, Vec<f64>>, u64)> {
        // The last pass of a round ends it.
        let is_whole = self.current == 0 && self.passes.len() > 1;
        let round = if is_whole { self.round - 1 } else { self.round };
        let mut known = BTreeMap::new();
        let mut since_ns = u64::MAX;
        let mut is_news = self.passes.len() <= 1;
        for name in names {
            let raw = self.raws.iter().find(|raw| raw.name == *name)?;
            if raw.round != round || raw.counted.is_empty() {
                return None;
            }
            is_news |= self.is_of_last_pass(name);
            since_ns = since_ns.min(raw.since_ns);
            known.insert(name.clone(), raw.counted.clone());
        }
        let properties = self.properties.iter();
        known.extend(properties.map(|(name, value)| ((*name).to_owned(), vec![*value])));
        is_news.then_some((known, since_ns))
    }

    /// Whether an event was read just now.
    fn is_of_last_pass(&self, name: &str) -> bool {
        let passes = self.passes.len().max(1);
        let last = (self.current + passes - 1) % passes;
        let raws = self.passes.get(last).map_or(&[][..], |pass| &pass.raws);
        raws.iter().any(|&raw| self.raws[raw].name == name)
    }
}

/// Which events are counted together: as many of a block as it has room for. Each event has its block and that block's room.
fn passes(events: &[(u32, usize)]) -> Vec<Vec<usize>> {
    let mut passes: Vec<Vec<usize>> = Vec::new();
    for (number, &(block, room)) in events.iter().enumerate() {
        let has_room = |pass: &&mut Vec<usize>| {
            let others = pass.iter().filter(|&&other| events[other].0 == block);
            others.count() < room.max(1)
        };
        match passes.iter_mut().find(has_room) {
            Some(pass) => pass.push(number),
            None => passes.push(vec![number]),
        }
    }
    passes
}

/// What was counted since; all of it where nothing was read before.
fn differences(now: &[u64], before: &[u64], scale: f64) -> Vec<f64> {
    let before = before.iter().chain(std::iter::repeat(&0));
    let pairs = now.iter().zip(before);
    pairs
        .map(|(now, before)| now.saturating_sub(*before) as f64 * scale)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_as_many_events_at_once_as_it_has_room_for() {
        // Three events of a block with room for two, one of another.
        assert_eq!(
            passes(&[(6, 2), (6, 2), (3, 1), (6, 2)]),
            [vec![0, 1, 2], vec![3]]
        );
        assert_eq!(passes(&[(3, 1), (3, 1), (3, 1)]).len(), 3);
        assert!(passes(&[]).is_empty());
    }

    #[test]
    fn what_was_counted_since_is_scaled_to_all_the_time() {
        assert_eq!(differences(&[5, 7], &[], 1.0), [5.0, 7.0]);
        assert_eq!(differences(&[5, 7], &[2, 9], 2.0), [6.0, 0.0]);
    }
}
