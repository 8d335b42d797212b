//! What ids of a database stand for in a model.

use std::collections::HashMap;

use rsys_traces::model::{
    Counter, CounterId, Device, DeviceId, Model, Process, ProcessId, Queue, QueueId, Thread,
    ThreadId,
};

/// Processes of several hosts are numbered in one file: those of the n-th are above n times `pid`, its GPUs above n times `gpu`. 0 if there is one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Strides {
    pub pid: i64,
    pub gpu: i64,
}

/// The process of operations of which nothing tells whose they are.
const NOBODY: i64 = i64::MIN;

/// The host and the number on it.
fn split(number: i64, stride: i64) -> (i64, i64) {
    match stride {
        ..=0 => (0, number),
        stride => (number.div_euclid(stride), number.rem_euclid(stride)),
    }
}

/// Everything that was met.
#[derive(Debug, Default)]
pub(crate) struct Places {
    file: String,
    pub strides: Strides,
    processes: HashMap<i64, ProcessId>,
    /// Host and rank of processes, as far as the file says them.
    about: HashMap<i64, (String, Option<u64>)>,
    threads: HashMap<(i64, i64), ThreadId>,
    devices: HashMap<(i64, i64), DeviceId>,
    queues: HashMap<(i64, i64, i64), (ProcessId, DeviceId, QueueId)>,
    counters: HashMap<(i64, String), CounterId>,
    /// The first process: that of sensors.
    first: Option<i64>,
}

impl Places {
    pub(crate) fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            ..Self::default()
        }
    }

    /// Learns the host and rank of a process.
    pub(crate) fn about(&mut self, pid: i64, host: String, rank: Option<u64>) {
        self.about.insert(pid, (host, rank));
    }

    pub(crate) fn process(&mut self, pid: Option<i64>, model: &mut Model) -> (i64, ProcessId) {
        let pid = pid.unwrap_or(NOBODY);
        self.first.get_or_insert(pid);
        if let Some(&id) = self.processes.get(&pid) {
            return (pid, id);
        }
        let (host, own) = match pid {
            NOBODY => (0, 0),
            pid => split(pid, self.strides.pid),
        };
        let (name, rank) = self.about.remove(&pid).unwrap_or_default();
        model.processes.push(Process {
            pid: u32::try_from(own).unwrap_or(0),
            host: match host {
                _ if !name.is_empty() => name,
                0 => String::new(),
                _ => format!("host {host}"),
            },
            rank,
            file: self.file.clone(),
            ..Process::default()
        });
        let id = ProcessId::new(model.processes.len() - 1);
        self.processes.insert(pid, id);
        (pid, id)
    }

    pub(crate) fn thread(
        &mut self,
        pid: i64,
        tid: i64,
        model: &mut Model,
    ) -> (ProcessId, ThreadId) {
        let (pid, process) = self.process(Some(pid), model);
        let thread = *self.threads.entry((pid, tid)).or_insert_with(|| {
            model.threads.push(Thread {
                process,
                tid: u32::try_from(tid).unwrap_or(0),
                ..Thread::default()
            });
            ThreadId::new(model.threads.len() - 1)
        });
        (process, thread)
    }

    fn device(&mut self, pid: i64, process: ProcessId, gpu: i64, model: &mut Model) -> DeviceId {
        let (_, ordinal) = split(gpu, self.strides.gpu);
        *self.devices.entry((pid, gpu)).or_insert_with(|| {
            model.devices.push(Device {
                process,
                ordinal: u32::try_from(ordinal).unwrap_or(0),
                ..Device::default()
            });
            DeviceId::new(model.devices.len() - 1)
        })
    }

    /// A queue of a GPU. One without a name is called by its number.
    pub(crate) fn queue(
        &mut self,
        pid: Option<i64>,
        gpu: i64,
        (queue, name): (i64, &str),
        model: &mut Model,
    ) -> (ProcessId, DeviceId, QueueId) {
        let (pid, process) = self.process(pid, model);
        if let Some(&place) = self.queues.get(&(pid, gpu, queue)) {
            return place;
        }
        let device = self.device(pid, process, gpu, model);
        let name = match name {
            "" => model.texts.intern(&format!("queue {queue}")),
            name => model.texts.intern(name),
        };
        model.queues.push(Queue { device, name });
        let place = (process, device, QueueId::new(model.queues.len() - 1));
        self.queues.insert((pid, gpu, queue), place);
        place
    }

    /// A sensor of a GPU.
    pub(crate) fn sensor(&mut self, gpu: i64, name: &str, model: &mut Model) -> CounterId {
        if let Some(&id) = self.counters.get(&(gpu, name.to_owned())) {
            return id;
        }
        let (_, process) = self.process(self.first, model);
        let (_, ordinal) = split(gpu, self.strides.gpu);
        let group = model.texts.intern(&format!("Sensors of GPU {ordinal}"));
        let of_name = model.texts.intern(name);
        model.counters.push(Counter {
            process,
            group,
            name: of_name,
            ..Counter::default()
        });
        let id = CounterId::new(model.counters.len() - 1);
        self.counters.insert((gpu, name.to_owned()), id);
        id
    }
}
