//! The model of one file as a part of the model of all.

mod order;

use super::{
    Batch, CounterId, DeviceId, FrameId, HostSlice, Model, ProcessId, QueueId, StackId, TextId,
    ThreadId,
};

/// The model of a file, and the ids that what is in it has in the model of all files.
#[derive(Debug, Default)]
pub struct Part {
    /// What the file has; its records bear the ids of this.
    pub model: Model,
    ids: Ids,
}

/// Ids in the model of all files, each at the place of the id that it stands for.
#[derive(Debug, Default)]
struct Ids {
    texts: Vec<TextId>,
    frames: Vec<FrameId>,
    stacks: Vec<StackId>,
    processes: Vec<ProcessId>,
    threads: Vec<ThreadId>,
    devices: Vec<DeviceId>,
    queues: Vec<QueueId>,
    counters: Vec<CounterId>,
}

/// The id at a place. What stands for nothing in the model, as `HostSlice::NO_THREAD`, stays as it is.
#[inline]
fn new<T: Copy>(ids: &[T], place: usize, id: &mut T) {
    if let Some(found) = ids.get(place) {
        *id = *found;
    }
}

/// Makes room in the whole for what the part has and the whole has not.
fn add<T: Default, Id>(ids: &mut Vec<Id>, (part, whole): (&[T], &mut Vec<T>), id: fn(usize) -> Id) {
    for _ in ids.len()..part.len() {
        ids.push(id(whole.len()));
        whole.push(T::default());
    }
}

impl Part {
    /// Whether nothing of the part is known to the whole yet.
    #[must_use]
    pub fn is_untold(&self) -> bool {
        self.ids.texts.is_empty()
    }

    /// Whether the part has anything that the whole does not know of.
    #[must_use]
    pub fn has_news(&self) -> bool {
        let (model, ids) = (&self.model, &self.ids);
        ids.texts.len() < model.texts.len()
            || ids.stacks.len() < model.stacks.len()
            || ids.processes.len() < model.processes.len()
            || ids.threads.len() < model.threads.len()
            || ids.devices.len() < model.devices.len()
            || ids.queues.len() < model.queues.len()
            || ids.counters.len() < model.counters.len()
    }

    /// Gives everything that is new an id in the whole. What processes, threads and the like are is told by [`Part::finish`].
    pub fn tell(&mut self, whole: &mut Model) {
        let (model, ids) = (&self.model, &mut self.ids);
        for place in ids.texts.len()..model.texts.len() {
            ids.texts.push(whole.texts.intern(model.texts.at(place)));
        }
        for frame in &model.stacks.frames()[ids.frames.len()..] {
            let mut frame = *frame;
            for text in [&mut frame.function, &mut frame.mapping, &mut frame.source] {
                new(&ids.texts, text.index(), text);
            }
            ids.frames.push(whole.stacks.frame_id(frame));
        }
        for place in ids.stacks.len()..model.stacks.len() {
            let stack = match model.stacks.node(StackId::at(place)) {
                Some((caller, frame)) => {
                    let (caller, frame) = (ids.stacks[caller.index()], ids.frames[frame.index()]);
                    whole.stacks.child(caller, frame)
                }
                None => StackId::ROOT,
            };
            ids.stacks.push(stack);
        }
        let Model {
            processes,
            threads,
            devices,
            queues,
            counters,
            ..
        } = whole;
        add(
            &mut ids.processes,
            (&model.processes, processes),
            ProcessId::new,
        );
        add(&mut ids.threads, (&model.threads, threads), ThreadId::new);
        add(&mut ids.devices, (&model.devices, devices), DeviceId::new);
        add(&mut ids.queues, (&model.queues, queues), QueueId::new);
        add(
            &mut ids.counters,
            (&model.counters, counters),
            CounterId::new,
        );
    }

    /// Gives the records of a batch the ids of the whole, which was told of all that they refer to.
    pub fn rename(&self, batch: &mut Batch) {
        let ids = &self.ids;
        // All kinds of records are named here, and all fields of slices: none is forgotten.
        let Batch {
            gpu,
            host,
            marks,
            samples,
            counters,
            collectives,
            open_messages,
            mpi,
            completions,
            locks,
            lock_waits,
            proxies,
            memory,
            gpu_ranges,
            kernel_counters,
        } = batch;
        for record in gpu {
            new(&ids.processes, record.process.index(), &mut record.process);
            new(&ids.devices, record.device.index(), &mut record.device);
            new(&ids.queues, record.queue.index(), &mut record.queue);
            for text in [
                &mut record.name,
                &mut record.grid,
                &mut record.source,
                &mut record.direction,
            ] {
                new(&ids.texts, text.index(), text);
            }
        }
        for slice in host {
            let HostSlice {
                process,
                thread,
                name,
                shapes,
                arguments,
                start_ns: _,
                end_ns: _,
                link: _,
                bytes: _,
                address: _,
                stream: _,
                sequence: _,
                number: _,
                depth: _,
                kind: _,
                order: _,
                effect: _,
                is_open: _,
            } = slice;
            new(&ids.processes, process.index(), process);
            new(&ids.threads, thread.index(), thread);
            for text in [name, shapes, arguments] {
                new(&ids.texts, text.index(), text);
            }
        }
        for range in gpu_ranges {
            new(&ids.processes, range.process.index(), &mut range.process);
            new(&ids.devices, range.device.index(), &mut range.device);
            new(&ids.queues, range.queue.index(), &mut range.queue);
            new(&ids.texts, range.name.index(), &mut range.name);
        }
        for counter in kernel_counters {
            let places = [&mut counter.kernel, &mut counter.grid, &mut counter.counter];
            for text in places {
                new(&ids.texts, text.index(), text);
            }
            new(
                &ids.processes,
                counter.process.index(),
                &mut counter.process,
            );
            new(&ids.devices, counter.device.index(), &mut counter.device);
            new(&ids.queues, counter.queue.index(), &mut counter.queue);
        }
        for event in memory {
            new(&ids.processes, event.process.index(), &mut event.process);
            new(&ids.threads, event.thread.index(), &mut event.thread);
        }
        for call in collectives.iter_mut().chain(open_messages) {
            new(&ids.processes, call.process.index(), &mut call.process);
            new(&ids.threads, call.thread.index(), &mut call.thread);
            for text in [&mut call.name, &mut call.communicator, &mut call.data_type] {
                new(&ids.texts, text.index(), text);
            }
        }
        for call in mpi {
            new(&ids.processes, call.process.index(), &mut call.process);
            new(&ids.threads, call.thread.index(), &mut call.thread);
            for text in [&mut call.name, &mut call.communicator] {
                new(&ids.texts, text.index(), text);
            }
        }
        for done in completions {
            new(&ids.processes, done.process.index(), &mut done.process);
            new(&ids.threads, done.thread.index(), &mut done.thread);
        }
        for lock in locks {
            new(&ids.processes, lock.process.index(), &mut lock.process);
            for text in [&mut lock.kind, &mut lock.waiter, &mut lock.holder] {
                new(&ids.texts, text.index(), text);
            }
        }
        for wait in lock_waits {
            new(&ids.processes, wait.process.index(), &mut wait.process);
            new(&ids.threads, wait.thread.index(), &mut wait.thread);
            for text in [&mut wait.function, &mut wait.holder] {
                new(&ids.texts, text.index(), text);
            }
        }
        for record in proxies {
            new(&ids.processes, record.process.index(), &mut record.process);
            for text in [&mut record.name, &mut record.communicator] {
                new(&ids.texts, text.index(), text);
            }
        }
        for mark in marks {
            new(&ids.processes, mark.process.index(), &mut mark.process);
            new(&ids.threads, mark.thread.index(), &mut mark.thread);
            new(&ids.texts, mark.name.index(), &mut mark.name);
        }
        for sample in samples {
            new(&ids.processes, sample.process.index(), &mut sample.process);
            new(&ids.threads, sample.thread.index(), &mut sample.thread);
            new(&ids.stacks, sample.stack.index(), &mut sample.stack);
        }
        for value in counters {
            new(&ids.counters, value.counter.index(), &mut value.counter);
        }
    }

    /// The file was read: what processes, threads and the like are is known, and all of it is in the whole.
    pub fn finish(mut self, whole: &mut Model) {
        self.tell(whole);
        let (model, ids) = (self.model, self.ids);
        for (id, process) in ids.processes.iter().zip(model.processes) {
            whole.processes[id.index()] = process;
        }
        for (id, mut thread) in ids.threads.iter().zip(model.threads) {
            new(&ids.processes, thread.process.index(), &mut thread.process);
            new(&ids.texts, thread.name.index(), &mut thread.name);
            whole.threads[id.index()] = thread;
        }
        for (id, mut device) in ids.devices.iter().zip(model.devices) {
            new(&ids.processes, device.process.index(), &mut device.process);
            whole.devices[id.index()] = device;
        }
        for (id, mut queue) in ids.queues.iter().zip(model.queues) {
            new(&ids.devices, queue.device.index(), &mut queue.device);
            new(&ids.texts, queue.name.index(), &mut queue.name);
            whole.queues[id.index()] = queue;
        }
        for (id, mut counter) in ids.counters.iter().zip(model.counters) {
            new(
                &ids.processes,
                counter.process.index(),
                &mut counter.process,
            );
            for text in [&mut counter.group, &mut counter.name, &mut counter.unit] {
                new(&ids.texts, text.index(), text);
            }
            whole.counters[id.index()] = counter;
        }
        whole.notices.extend(model.notices);
    }
}
