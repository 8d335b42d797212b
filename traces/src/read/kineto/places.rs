//! What the ids of a file stand for: processes, threads, GPUs and streams.
//!
//! A file is of one process. Its GPUs have their number for a process id; which id of the host is that of the process, `survey` finds out. Files that were merged of several ranks say the
//! rank in each event; then each rank is a process.

use std::collections::HashMap;

use super::labels::rank_in_name;
use super::owners::{Owners, Queue as QueueOfFile};
use crate::model::{
    Device, DeviceId, Model, Process, ProcessId, Queue, QueueId, TextId, Texts, Thread, ThreadId,
};
use crate::read::json::number;
use crate::read::json::text;

/// An id as a file has it, a number or a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(super) struct Key {
    is_text: bool,
    value: i64,
}

impl Key {
    #[inline]
    pub(super) fn new(bytes: &[u8], texts: &mut Texts) -> Self {
        match number(bytes) {
            Some(value) => Self::of(value),
            None => Self {
                is_text: true,
                value: text::intern(bytes, texts).index() as i64,
            },
        }
    }

    fn of(value: i64) -> Self {
        Self {
            is_text: false,
            value,
        }
    }

    /// The number, if it is one of 32 bits that is not negative.
    pub(super) fn number(self) -> Option<u32> {
        u32::try_from(self.value).ok().filter(|_| !self.is_text)
    }
}

/// Whose work an operation of a GPU is, and where it ran.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GpuPlace {
    pub(super) process: ProcessId,
    pub(super) device: DeviceId,
    pub(super) queue: QueueId,
}

/// Whose a slice of the host is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct HostPlace {
    pub(super) process: ProcessId,
    pub(super) thread: ThreadId,
}

/// The ids of a GPU operation: rank and process id of the event, number of the GPU, stream, and whose it is where several processes use the stream.
pub(super) type GpuKeys = (Option<u32>, Key, u32, Key, Option<i64>);

/// The ids of a slice of the host: rank, process id, thread id.
pub(super) type HostKeys = (Option<u32>, Key, Key);

/// Everything that was found.
#[derive(Debug, Default)]
pub(super) struct Places {
    file: String,
    /// The process of events without a rank, and its process id as soon as it is known.
    main: Option<ProcessId>,
    main_pid: Option<Key>,
    owners: Owners,
    ranks: HashMap<u32, ProcessId>,
    /// Further process ids of the host.
    others: HashMap<Key, ProcessId>,
    /// The processes of ranks by the ids that their events have.
    of_ranks: HashMap<Key, ProcessId>,
    /// Ranks of process ids that nothing which was asked for has had, and the ids before files were merged.
    told_ranks: HashMap<Key, (u32, Option<Key>)>,
    /// The process ids of ranks, where their operations alone are asked for, which do not say it.
    pids_of_ranks: HashMap<u32, Key>,
    process_names: HashMap<Key, String>,
    rank: Option<u64>,
    rank_count: Option<u64>,
    host: String,
    /// Hosts of ranks, in files of several.
    hosts_of_ranks: HashMap<u32, String>,
    devices: HashMap<(ProcessId, Key, u32), DeviceId>,
    device_names: HashMap<u32, String>,
    queues: HashMap<GpuKeys, GpuPlace>,
    threads: HashMap<HostKeys, HostPlace>,
    thread_names: HashMap<HostKeys, TextId>,
    last_host: Option<(HostKeys, HostPlace)>,
}

impl Places {
    pub(super) fn new(file: &str) -> Self {
        Self {
            file: file.to_owned(),
            rank: rank_in_name(file),
            ..Self::default()
        }
    }

    /// The process that used the GPUs, where that is known before anything is read, and those that used queues, where there are several.
    pub(super) fn used_by(&mut self, pid: Option<i64>, owners: Owners) {
        self.main_pid = pid.map(Key::of);
        self.owners = owners;
    }

    fn add_process(&self, model: &mut Model, pid: Option<Key>, rank: Option<u64>) -> ProcessId {
        let name = pid.and_then(|pid| self.process_names.get(&pid));
        model.processes.push(Process {
            pid: pid.and_then(Key::number).unwrap_or(0),
            name: name.cloned().unwrap_or_default(),
            rank,
            rank_count: self.rank_count,
            host: self.host_of(rank).to_owned(),
            file: self.file.clone(),
            ..Process::default()
        });
        ProcessId::new(model.processes.len() - 1)
    }

    /// The process of the file.
    fn main(&mut self, model: &mut Model) -> ProcessId {
        if let Some(main) = self.main {
            return main;
        }
        let main = self.add_process(model, self.main_pid, self.rank);
        *self.main.insert(main)
    }

    fn of_rank(&mut self, rank: u32, pid: Option<Key>, model: &mut Model) -> ProcessId {
        let id = match self.ranks.get(&rank) {
            Some(&id) => id,
            None => {
                let id = self.add_process(model, None, Some(u64::from(rank)));
                self.ranks.insert(rank, id);
                id
            }
        };
        let process = &mut model.processes[id.index()];
        let pid = pid.or_else(|| self.pids_of_ranks.get(&rank).copied());
        if let Some(pid) = pid.filter(|_| process.pid == 0) {
            process.pid = pid.number().unwrap_or(0);
        }
        id
    }

    /// A host slice that is not kept names the process id of a rank.
    pub(super) fn pid_of_rank(&mut self, rank: u32, pid: Key, model: &mut Model) {
        let pid = *self.pids_of_ranks.entry(rank).or_insert(pid);
        if let Some(id) = self.ranks.get(&rank) {
            let process = &mut model.processes[id.index()];
            if process.pid == 0 {
                process.pid = pid.number().unwrap_or(0);
            }
        }
    }

    /// The process id of the file's process is known.
    pub(super) fn is_main(&mut self, pid: Key, model: &mut Model) {
        if self.main_pid.is_some() || pid.number().is_none() {
            return;
        }
        self.main_pid = Some(pid);
        // Counters may have been in front of the first slice.
        if self.main.is_none()
            && let Some(id) = self.others.remove(&pid)
        {
            self.main = Some(id);
            let process = &mut model.processes[id.index()];
            (process.rank, process.rank_count) = (self.rank, self.rank_count);
        }
        if let Some(main) = self.main {
            let process = &mut model.processes[main.index()];
            process.pid = pid.number().unwrap_or(0);
            if let Some(name) = self.process_names.get(&pid) {
                process.name.clone_from(name);
            }
        }
    }

    /// A process id is that of a rank, in a file of several. Counters, which do not say it, may have come before or may come yet.
    pub(super) fn is_of_rank(
        &mut self,
        pid: Key,
        (rank, original_pid): (u32, Option<Key>),
        model: &mut Model,
    ) {
        if self.of_ranks.contains_key(&pid) {
            return;
        }
        let main = self.main.filter(|_| self.main_pid == Some(pid));
        let Some(id) = self.others.remove(&pid).or(main) else {
            self.told_ranks.entry(pid).or_insert((rank, original_pid));
            return;
        };
        let process = &mut model.processes[id.index()];
        process.rank = Some(u64::from(rank));
        let host = self.hosts_of_ranks.get(&rank).unwrap_or(&self.host);
        process.host.clone_from(host);
        process.pid = original_pid.unwrap_or(pid).number().unwrap_or(0);
        self.ranks.entry(rank).or_insert(id);
        self.of_ranks.insert(pid, id);
    }

    /// Whether the process is known whose slices have these ids, so that they may be passed over.
    #[inline]
    pub(super) fn knows_main(&self) -> bool {
        self.main_pid.is_some()
    }

    /// A process has a name.
    pub(super) fn process_name(&mut self, pid: Key, name: &str, model: &mut Model) {
        let id = match self.main {
            Some(main) if self.main_pid == Some(pid) => Some(main),
            _ => self.others.get(&pid).copied(),
        };
        if let Some(id) = id {
            name.clone_into(&mut model.processes[id.index()].name);
        }
        self.process_names.insert(pid, name.to_owned());
    }

    /// A thread has a name.
    pub(super) fn thread_name(&mut self, keys: HostKeys, name: TextId, model: &mut Model) {
        if let Some(place) = self.threads.get(&keys) {
            model.threads[place.thread.index()].name = name;
        }
        self.thread_names.insert(keys, name);
    }

    /// The job says which rank the file's process has; else the name of its file does.
    pub(super) fn ranks(&mut self, rank: Option<u64>, count: Option<u64>, model: &mut Model) {
        (self.rank, self.rank_count) = (rank.or(self.rank), count);
        if let Some(main) = self.main {
            let process = &mut model.processes[main.index()];
            (process.rank, process.rank_count) = (self.rank, count);
        }
    }

    /// Where the processes of the file ran.
    pub(super) fn host_name(&mut self, host: &str, model: &mut Model) {
        host.clone_into(&mut self.host);
        let all = self.main.iter().chain(self.ranks.values());
        for id in all.chain(self.others.values()) {
            host.clone_into(&mut model.processes[id.index()].host);
        }
    }

    /// Where a rank ran, in a file of several.
    pub(super) fn host_of_rank(&mut self, rank: u32, host: &str, model: &mut Model) {
        if let Some(id) = self.ranks.get(&rank) {
            host.clone_into(&mut model.processes[id.index()].host);
        }
        self.hosts_of_ranks.insert(rank, host.to_owned());
    }

    /// The host of a process with or without a rank.
    fn host_of(&self, rank: Option<u64>) -> &str {
        let rank = rank.and_then(|rank| u32::try_from(rank).ok());
        let of_rank = rank.and_then(|rank| self.hosts_of_ranks.get(&rank));
        of_rank.unwrap_or(&self.host)
    }

    /// A GPU has a name.
    pub(super) fn device_name(&mut self, ordinal: u32, name: &str, model: &mut Model) {
        for (_, id) in self
            .devices
            .iter()
            .filter(|((.., number), _)| *number == ordinal)
        {
            name.clone_into(&mut model.devices[id.index()].name);
        }
        self.device_names.insert(ordinal, name.to_owned());
    }

    /// The file is at its end: if it names GPUs, but none of those that ran anything, these are called as all that it names. (On ROCm, older profilers count processors
    /// among the GPUs of kernels, and not among those with names.)
    pub(super) fn name_the_rest(&mut self, model: &mut Model) {
        let mut names = self.device_names.values();
        let Some(name) = names
            .next()
            .filter(|name| names.all(|other| other == *name))
        else {
            return;
        };
        let mut own = self.devices.values();
        if own.all(|id| model.devices[id.index()].name.is_empty()) {
            for id in self.devices.values() {
                name.clone_into(&mut model.devices[id.index()].name);
            }
        }
    }

    /// The process of an operation, where several use its stream. `link` and `time_ns` are as the file has them.
    #[inline]
    pub(super) fn owner(
        &self,
        (pid, stream): (Key, &[u8]),
        link: Option<i64>,
        time_ns: i64,
    ) -> Option<i64> {
        if !self.owners.share() || pid.is_text {
            return None;
        }
        let queue = QueueOfFile::new(pid.value, stream);
        self.owners.of_operation(&queue, link?, time_ns)
    }

    /// Where an operation of a GPU ran. `stream` is the stream's name in the file; `original_pid` as in [`host`](Self::host).
    #[inline]
    pub(super) fn gpu(
        &mut self,
        keys: GpuKeys,
        original_pid: Option<Key>,
        stream: &[u8],
        model: &mut Model,
    ) -> GpuPlace {
        match self.queues.get(&keys) {
            Some(&place) => place,
            None => self.new_queue(keys, original_pid, stream, model),
        }
    }

    #[cold]
    fn new_queue(
        &mut self,
        keys: GpuKeys,
        original_pid: Option<Key>,
        stream: &[u8],
        model: &mut Model,
    ) -> GpuPlace {
        let (rank, pid, ordinal, _, owner) = keys;
        // Files that TraceFusion merged have the number of the GPU for the process id of its events.
        let original_pid = original_pid.filter(|pid| pid.number() != Some(ordinal));
        let process = match rank {
            Some(rank) => self.of_rank(rank, original_pid, model),
            None => {
                let of_queue = || self.owners.of_queue(&QueueOfFile::new(pid.value, stream));
                match owner.or_else(of_queue).filter(|_| !pid.is_text) {
                    Some(owner) => self.of_pid(Key::of(owner), model),
                    None => self.main(model),
                }
            }
        };
        // Files that others merged may have several GPUs of one number, which differ in the process
        // id.
        let device = match self.devices.get(&(process, pid, ordinal)) {
            Some(&device) => device,
            None => {
                model.devices.push(Device {
                    process,
                    ordinal,
                    name: self.device_names.get(&ordinal).cloned().unwrap_or_default(),
                    is_physical: false,
                });
                let device = DeviceId::new(model.devices.len() - 1);
                self.devices.insert((process, pid, ordinal), device);
                device
            }
        };
        let name = format!("stream {}", String::from_utf8_lossy(stream));
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

    /// Whose a slice of the host is. In merged files `original_pid` is the process id before.
    #[inline]
    pub(super) fn host(
        &mut self,
        keys: HostKeys,
        original_pid: Option<Key>,
        model: &mut Model,
    ) -> HostPlace {
        if let Some((last, place)) = self.last_host
            && last == keys
        {
            return place;
        }
        let place = match self.threads.get(&keys) {
            Some(&place) => place,
            None => self.new_thread(keys, original_pid, model),
        };
        self.last_host = Some((keys, place));
        place
    }

    #[cold]
    fn new_thread(
        &mut self,
        keys: HostKeys,
        original_pid: Option<Key>,
        model: &mut Model,
    ) -> HostPlace {
        let (rank, pid, tid) = keys;
        let process = match rank {
            Some(rank) => {
                self.is_of_rank(pid, (rank, original_pid), model);
                let process = self.of_rank(rank, Some(original_pid.unwrap_or(pid)), model);
                self.of_ranks.entry(pid).or_insert(process);
                process
            }
            None => {
                self.is_main(pid, model);
                let process = self.of_pid(pid, model);
                // Several of one id have others in the file.
                if let Some(own) = original_pid.and_then(Key::number) {
                    model.processes[process.index()].pid = own;
                }
                process
            }
        };
        model.threads.push(Thread {
            process,
            tid: tid.number().unwrap_or(0),
            name: self.thread_names.get(&keys).copied().unwrap_or_default(),
        });
        let thread = ThreadId::new(model.threads.len() - 1);
        let place = HostPlace { process, thread };
        self.threads.insert(keys, place);
        place
    }

    /// The process with an id, of what says neither rank nor thread.
    pub(super) fn process(&mut self, pid: Key, model: &mut Model) -> ProcessId {
        if let Some(&process) = self.of_ranks.get(&pid) {
            return process;
        }
        match self.told_ranks.get(&pid) {
            Some(&(rank, original_pid)) => {
                let process = self.of_rank(rank, Some(original_pid.unwrap_or(pid)), model);
                self.of_ranks.insert(pid, process);
                process
            }
            None => self.of_pid(pid, model),
        }
    }

    fn of_pid(&mut self, pid: Key, model: &mut Model) -> ProcessId {
        if pid.number().is_none() || self.main_pid == Some(pid) {
            return self.main(model);
        }
        if let Some(&id) = self.others.get(&pid) {
            return id;
        }
        let id = self.add_process(model, Some(pid), None);
        self.others.insert(pid, id);
        id
    }
}
