//! What ids of rocprofv3 stand for: threads of a process, agents and queues.

use std::collections::HashMap;

use crate::model::{Device, DeviceId, Model, ProcessId, Queue, QueueId, Thread, ThreadId};

/// A processor that rocprofv3 knows of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Agent {
    pub(super) is_gpu: bool,
    /// Its number among the GPUs.
    pub(super) ordinal: u32,
    /// Name of the model.
    pub(super) name: String,
}

/// Where an operation of a GPU ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GpuPlace {
    pub(super) process: ProcessId,
    pub(super) device: DeviceId,
    pub(super) queue: QueueId,
}

/// The ids by which an operation of a GPU is put in its place: its process, agent, stream and queue.
pub(super) type GpuKeys = (ProcessId, u64, u64, u64);

/// Everything that was met.
#[derive(Debug, Default)]
pub(super) struct Places {
    threads: HashMap<(ProcessId, u64), ThreadId>,
    last_thread: Option<((ProcessId, u64), ThreadId)>,
    devices: HashMap<(ProcessId, u64), DeviceId>,
    queues: HashMap<GpuKeys, GpuPlace>,
}

impl Places {
    /// A thread of a process.
    #[inline]
    pub(super) fn thread(&mut self, process: ProcessId, tid: u64, model: &mut Model) -> ThreadId {
        let key = (process, tid);
        if let Some((last, thread)) = self.last_thread
            && last == key
        {
            return thread;
        }
        let thread = *self.threads.entry(key).or_insert_with(|| {
            model.threads.push(Thread {
                process,
                tid: u32::try_from(tid).unwrap_or(0),
                ..Thread::default()
            });
            ThreadId::new(model.threads.len() - 1)
        });
        self.last_thread = Some((key, thread));
        thread
    }

    /// Where an operation ran. `agent` is asked for what the agent is when it is met first.
    #[inline]
    pub(super) fn gpu(
        &mut self,
        keys: GpuKeys,
        agent: impl FnOnce() -> Agent,
        model: &mut Model,
    ) -> GpuPlace {
        match self.queues.get(&keys) {
            Some(&place) => place,
            None => self.new_queue(keys, &agent(), model),
        }
    }

    #[cold]
    fn new_queue(&mut self, keys: GpuKeys, agent: &Agent, model: &mut Model) -> GpuPlace {
        let (process, id, stream, queue) = keys;
        let device = *self.devices.entry((process, id)).or_insert_with(|| {
            model.devices.push(Device {
                process,
                ordinal: agent.ordinal,
                name: agent.name.clone(),
                is_physical: false,
            });
            DeviceId::new(model.devices.len() - 1)
        });
        // Programs that use HSA alone have no streams.
        let name = match (stream, queue) {
            (0, queue) if queue != 0 => format!("queue {queue}"),
            (stream, _) => format!("stream {stream}"),
        };
        let name = model.texts.intern(&name);
        model.queues.push(Queue { device, name });
        let place = GpuPlace {
            process,
            device,
            queue: QueueId::new(model.queues.len() - 1),
        };
        self.queues.insert(keys, place);
        place
    }
}
