//! Numbers that do not depend on the order in which a file lists things.
//!
//! Questions break ties by number here and there. Where the whole of a file is known before its first record is shown, numbers follow names, so that equal
//! contents have equal numbers in whatever order the file has them.

use super::{Ids, Part};
use crate::model::{
    CounterId, DeviceId, Frame, FrameId, Model, ProcessId, QueueId, StackId, TextId, ThreadId,
};

/// The places of a list, by what stands there.
fn places<T, K: Ord>(list: &[T], key: impl Fn(&T) -> K) -> Vec<usize> {
    let mut places: Vec<usize> = (0..list.len()).collect();
    places.sort_by_cached_key(|&place| key(&list[place]));
    places
}

/// Makes room in the whole for the things at these places of the part, in this order.
fn add<T: Default, Id: Copy + Default>(
    ids: &mut Vec<Id>,
    places: &[usize],
    whole: &mut Vec<T>,
    id: fn(usize) -> Id,
) {
    ids.resize(places.len(), Id::default());
    for &place in places {
        ids[place] = id(whole.len());
        whole.push(T::default());
    }
}

impl Part {
    /// As [`Part::tell`], for a file that was read to its end and of which nothing was told yet: numbers follow names, not the order in the file.
    pub fn tell_in_order(&mut self, whole: &mut Model) {
        let (model, ids) = (&self.model, &mut self.ids);
        debug_assert!(ids.texts.is_empty(), "numbers were given out already");
        let mut texts: Vec<usize> = (0..model.texts.len()).collect();
        texts.sort_unstable_by_key(|&place| model.texts.at(place));
        ids.texts.resize(texts.len(), TextId::EMPTY);
        for place in texts {
            ids.texts[place] = whole.texts.intern(model.texts.at(place));
        }
        ids.stacks_in_order(model, whole);
        let text = |id: TextId| model.text(id);
        // Processes keep the order in which the file has them: files that are read a second time, for other records, are asked for one by that.
        add(
            &mut ids.processes,
            &(0..model.processes.len()).collect::<Vec<_>>(),
            &mut whole.processes,
            ProcessId::new,
        );
        let in_order = places(&model.processes, |one| {
            let (rank, host, start_ns, pid, _) = one.order();
            (rank, host.to_owned(), start_ns, pid, one.name.clone())
        });
        let mut order = vec![0; in_order.len()];
        for (number, place) in in_order.into_iter().enumerate() {
            order[place] = number;
        }
        let process = |id: ProcessId| order.get(id.index()).copied();
        let threads = places(&model.threads, |one| {
            (process(one.process), one.tid, text(one.name))
        });
        add(
            &mut ids.threads,
            &threads,
            &mut whole.threads,
            ThreadId::new,
        );
        let devices = places(&model.devices, |one| {
            (process(one.process), one.ordinal, one.name.clone())
        });
        add(
            &mut ids.devices,
            &devices,
            &mut whole.devices,
            DeviceId::new,
        );
        let device = |id: DeviceId| ids.devices.get(id.index()).copied();
        let queues = places(&model.queues, |one| (device(one.device), text(one.name)));
        add(&mut ids.queues, &queues, &mut whole.queues, QueueId::new);
        let counters = places(&model.counters, |one| {
            let names = [one.group, one.name, one.unit].map(text);
            (process(one.process), names)
        });
        add(
            &mut ids.counters,
            &counters,
            &mut whole.counters,
            CounterId::new,
        );
    }
}

impl Ids {
    /// Frames by what they are, and stacks by their callers and frames, those with fewer frames first.
    fn stacks_in_order(&mut self, model: &Model, whole: &mut Model) {
        let named = |frame: &Frame| {
            let texts = [frame.function, frame.mapping, frame.source];
            (texts.map(|id| self.texts[id.index()]), frame.line)
        };
        let frames = places(model.stacks.frames(), named);
        let mut ids = vec![FrameId::default(); frames.len()];
        for place in frames {
            let ([function, mapping, source], line) = named(&model.stacks.frames()[place]);
            ids[place] = whole.stacks.frame_id(Frame {
                function,
                mapping,
                source,
                line,
            });
        }
        self.frames = ids;
        let count = model.stacks.len();
        let mut depths = vec![0_u32; count];
        let mut levels: Vec<Vec<usize>> = Vec::new();
        for place in 0..count {
            // Callers stand in front of what they call.
            if let Some((caller, _)) = model.stacks.node(StackId::at(place)) {
                let depth = depths[caller.index()] + 1;
                depths[place] = depth;
                levels.resize_with(levels.len().max(depth as usize), Vec::new);
                levels[depth as usize - 1].push(place);
            }
        }
        self.stacks = vec![StackId::ROOT; count];
        for level in levels {
            let nodes = level.into_iter().filter_map(|place| {
                let (caller, frame) = model.stacks.node(StackId::at(place))?;
                Some((
                    self.stacks[caller.index()],
                    self.frames[frame.index()],
                    place,
                ))
            });
            let mut nodes: Vec<_> = nodes.collect();
            nodes.sort_unstable();
            for (caller, frame, place) in nodes {
                self.stacks[place] = whole.stacks.child(caller, frame);
            }
        }
    }
}
