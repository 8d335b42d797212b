//! What ran where, and the records that readers make.
//!
//! [`Model`] holds what records refer to by number. Numbers are dense and given out in the order of reading; an id that a file uses for
//! something is never kept without the process instance that it belongs to, so equal ids of two processes are two things.

mod activity;
mod allocations;
mod batch;
mod call_names;
mod collective;
mod collective_kernels;
mod communication;
mod effect;
mod entity;
mod input;
mod lock;
mod loss;
mod mpi;
mod part;
mod proxy;
mod stack;
mod stream_order;
mod text;
mod waiting_calls;

pub use activity::{Activity, classify};
pub use allocations::MemoryEvent;
pub use allocations::{Allocated, DoesWithMemory, does_with_memory};
pub use batch::{
    Basis, Batch, CounterValue, GpuRange, GpuRecord, HostKind, HostSlice, KernelCounter, Kinds,
    Mark, OpKind, Sample,
};
pub use collective::CollectiveCall;
pub use collective_kernels::{CollectiveName, count_as_communication, further_communication};
pub use communication::Communication;
pub use effect::Effect;
pub use entity::{
    Account, Counter, CounterId, Device, DeviceId, Framework, Process, ProcessId, Queue, QueueId,
    Thread, ThreadId,
};
pub use input::{is_input, is_loader, is_of_loader, is_saver};
pub use lock::{INTERPRETER_LOCK, WAITING_FOR_INTERPRETER, WAITING_FOR_LOCK};
pub use lock::{LockCounts, LockWait};
pub use loss::Notice;
pub use mpi::is_test;
pub use mpi::{Completion, Joint, MessageEnd, MpiCall};
pub use part::Part;
pub use proxy::{ProxyRecord, ProxyWork};
pub use stack::{Frame, FrameId, StackId, Stacks};
pub use stream_order::StreamOrder;
pub use text::{TextId, Texts};
pub use waiting_calls::{WaitsFor, waits_for};

/// Everything that records refer to.
#[derive(Debug, Default)]
pub struct Model {
    /// Names of all kinds.
    pub texts: Texts,
    /// Process instances, by [`ProcessId`].
    pub processes: Vec<Process>,
    /// Threads, by [`ThreadId`].
    pub threads: Vec<Thread>,
    /// GPUs as processes see them, by [`DeviceId`].
    pub devices: Vec<Device>,
    /// Streams and queues of GPUs, by [`QueueId`].
    pub queues: Vec<Queue>,
    /// Tracks of counters, by [`CounterId`].
    pub counters: Vec<Counter>,
    /// Call stacks.
    pub stacks: Stacks,
    /// What could not be read, and other things that a user has to know of the input.
    pub notices: Vec<Notice>,
}

impl Model {
    /// The text of a name.
    #[must_use]
    pub fn text(&self, id: TextId) -> &str {
        self.texts.get(id)
    }

    /// A process instance.
    ///
    /// # Panics
    /// When the id is of another model.
    #[must_use]
    pub fn process(&self, id: ProcessId) -> &Process {
        &self.processes[id.index()]
    }

    /// A GPU as a process sees it.
    ///
    /// # Panics
    /// When the id is of another model.
    #[must_use]
    pub fn device(&self, id: DeviceId) -> &Device {
        &self.devices[id.index()]
    }

    /// The GPUs in the order of output: by rank, host, start of the process, and number.
    #[must_use]
    pub fn devices_in_order(&self) -> Vec<DeviceId> {
        let mut ids: Vec<DeviceId> = (0..self.devices.len()).map(DeviceId::new).collect();
        ids.sort_by_key(|&id| {
            let device = self.device(id);
            (
                self.process(device.process).order(),
                device.ordinal,
                &device.name,
            )
        });
        ids
    }
}

/// The entry of a table by dense ids, which grows as needed.
#[inline]
pub fn entry<T: Default>(table: &mut Vec<T>, index: usize) -> &mut T {
    if index >= table.len() {
        table.resize_with(index + 1, T::default);
    }
    &mut table[index]
}
