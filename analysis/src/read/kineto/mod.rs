//! JSON as PyTorch's profiler (Kineto) writes it: Chrome's trace events with categories for kernels, copies and fills.
//!
//! A file is one process. Its times have no known relation to BOOTTIME and are kept as they are.

mod decimal;
mod elements;
mod events;

use std::collections::HashMap;
use std::path::Path;

use super::{BATCH_RECORDS, Input, Reader};
use crate::model::{
    Activity, Batch, Device, DeviceId, GpuRecord, HostKind, HostSlice, Kinds, Mark, Model, Notice,
    OpKind, Process, ProcessId, Queue, QueueId, TextId, Thread, ThreadId, classify,
};
use decimal::nanoseconds;
use elements::{Element, Elements};
use events::{DeviceProperties, DistributedInfo, Event, count, text};

/// Reads a file of PyTorch's profiler.
pub(super) struct KinetoReader {
    file: String,
    kinds: Kinds,
    elements: Elements<Input>,
    places: Places,
    left_out: LeftOut,
    is_done: bool,
}

/// What was left out of a file.
#[derive(Debug, Default)]
struct LeftOut {
    malformed: u64,
    first_malformed: Option<u64>,
    timeless: u64,
}

/// What ids of the file stand for.
#[derive(Debug, Default)]
struct Places {
    process: Option<ProcessId>,
    has_pid: bool,
    devices: HashMap<u32, DeviceId>,
    names: HashMap<u32, String>,
    queues: HashMap<(DeviceId, TextId), QueueId>,
    threads: HashMap<(TextId, TextId), ThreadId>,
    /// Copies and fills named by what they do, kernels by their names.
    activities: Vec<Option<Activity>>,
}

/// What an event is, by its category; in the words of newer and of older versions.
#[derive(Debug, Clone, Copy)]
enum Meaning {
    Gpu(OpKind),
    Host(HostKind),
}

fn meaning(category: &str) -> Option<Meaning> {
    Some(match category {
        "kernel" | "Kernel" => Meaning::Gpu(OpKind::Kernel),
        "gpu_memcpy" | "Memcpy" => Meaning::Gpu(OpKind::Copy),
        "gpu_memset" | "Memset" => Meaning::Gpu(OpKind::Fill),
        "cuda_runtime" | "cuda_driver" | "hip_runtime" | "hip_driver" | "Runtime" => {
            Meaning::Host(HostKind::Runtime)
        }
        "cpu_op" | "Operator" => Meaning::Host(HostKind::Operator),
        "user_annotation" | "UserAnnotation" => Meaning::Host(HostKind::Range),
        _ => return None,
    })
}

/// The direction of a copy, in the words of rsys.
fn direction(name: &str) -> &'static str {
    let directions = [
        ("HtoD", "host to device"),
        ("DtoH", "device to host"),
        ("DtoD", "device to device"),
        ("PtoP", "device to device"),
        ("HtoH", "host to host"),
    ];
    let found = directions.iter().find(|(short, _)| name.contains(short));
    found.map_or("", |(_, direction)| direction)
}

impl KinetoReader {
    pub(super) fn new(path: &Path, input: Input, kinds: Kinds) -> Self {
        Self {
            file: path.display().to_string(),
            kinds,
            elements: Elements::new(input),
            places: Places::default(),
            left_out: LeftOut::default(),
            is_done: false,
        }
    }

    fn finish(&mut self, end: Option<(Option<u64>, String)>, model: &mut Model) {
        self.is_done = true;
        let LeftOut {
            malformed,
            first_malformed,
            timeless,
        } = self.left_out;
        let mut notice = |offset, text| {
            model.notices.push(Notice {
                file: self.file.clone(),
                offset,
                text,
            });
        };
        if let Some((offset, text)) = end {
            notice(offset, text);
        }
        if malformed > 0 {
            let text = format!("the first of {malformed} malformed events, which are left out");
            notice(first_malformed, text);
        }
        if timeless > 0 {
            let text =
                format!("{timeless} events are left out: their times are no numbers from 0 on");
            notice(None, text);
        }
    }
}

impl Reader for KinetoReader {
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool {
        let goal = batch.len() + BATCH_RECORDS;
        while !self.is_done && batch.len() < goal {
            let end = match self.elements.next() {
                Ok(Element::Event(offset, encoded)) => {
                    match serde_json::from_slice::<Event<'_>>(encoded) {
                        Ok(event) => {
                            let process = self.places.process(&self.file, model);
                            let is_timed = event_into(
                                &event,
                                process,
                                self.kinds,
                                &mut self.places,
                                model,
                                batch,
                            );
                            self.left_out.timeless += u64::from(!is_timed);
                        }
                        Err(_) => {
                            self.left_out.malformed += 1;
                            self.left_out.first_malformed.get_or_insert(offset);
                        }
                    }
                    continue;
                }
                Ok(Element::Member(key, value)) => {
                    let process = self.places.process(&self.file, model);
                    self.places.member(key, value, process, model);
                    continue;
                }
                Ok(Element::End) => None,
                Ok(Element::CutOff(offset)) => Some((
                    Some(offset),
                    "the file ends here, within a value".to_owned(),
                )),
                Ok(Element::Damaged(offset)) => Some((
                    Some(offset),
                    "no JSON from here on; it is left out".to_owned(),
                )),
                Err(error) => Some((None, format!("cannot be read further: {error}"))),
            };
            self.finish(end, model);
        }
        !self.is_done
    }
}

/// Appends what an event says. Whether its times are understood, if they count.
fn event_into(
    event: &Event<'_>,
    process: ProcessId,
    kinds: Kinds,
    places: &mut Places,
    model: &mut Model,
    batch: &mut Batch,
) -> bool {
    if event.ph == "M" {
        if event.name == "thread_name" {
            let thread = places.thread(event, process, model);
            model.threads[thread.index()].name = model.texts.intern(text(event.args.name));
        }
        return true;
    }
    let is_instant = matches!(&*event.ph, "i" | "I");
    let Some(meaning) = meaning(&event.cat).filter(|_| event.ph == "X" || is_instant) else {
        return true;
    };
    let Some(start_ns) = event.ts.and_then(|ts| nanoseconds(ts.get())) else {
        return false;
    };
    let duration_ns = match event.dur {
        None => Some(0),
        Some(duration) => nanoseconds(duration.get()),
    };
    let Some(end_ns) = duration_ns.and_then(|duration_ns| start_ns.checked_add(duration_ns)) else {
        return false;
    };
    let link = count(event.args.correlation).unwrap_or(0);
    let bytes = count(event.args.bytes).unwrap_or(0);
    match meaning {
        Meaning::Gpu(kind) if kinds.gpu && !is_instant => {
            let queue = places.queue(event, process, model);
            let name = model.texts.intern(&event.name);
            batch.gpu.push(GpuRecord {
                start_ns,
                end_ns,
                link,
                bytes,
                process,
                device: model.queues[queue.index()].device,
                queue,
                name,
                grid: model.texts.intern(text(event.args.grid)),
                direction: match kind {
                    OpKind::Copy => model.texts.intern(direction(&event.name)),
                    _ => TextId::EMPTY,
                },
                kind,
                activity: match event.args.collective {
                    Some(_) => Activity::Comm,
                    None => places.activity(kind, name, model),
                },
            });
        }
        Meaning::Host(HostKind::Range) if is_instant && kinds.marks => batch.marks.push(Mark {
            time_ns: start_ns,
            process,
            thread: places.thread(event, process, model),
            name: model.texts.intern(&event.name),
        }),
        Meaning::Host(kind) if kinds.host && !is_instant => batch.host.push(HostSlice {
            start_ns,
            end_ns,
            link,
            bytes,
            process,
            thread: places.thread(event, process, model),
            name: model.texts.intern(&event.name),
            kind,
            is_open: false,
        }),
        _ => {}
    }
    true
}

impl Places {
    /// The process of the file.
    fn process(&mut self, file: &str, model: &mut Model) -> ProcessId {
        *self.process.get_or_insert_with(|| {
            model.processes.push(Process {
                file: file.to_owned(),
                ..Process::default()
            });
            ProcessId::new(model.processes.len() - 1)
        })
    }

    /// Takes in a member of the document.
    fn member(&mut self, key: &[u8], value: &[u8], process: ProcessId, model: &mut Model) {
        match key {
            b"deviceProperties" => {
                let list: Vec<DeviceProperties> = serde_json::from_slice(value).unwrap_or_default();
                for one in list {
                    // Events may have come before.
                    if let Some(device) = self.devices.get(&one.id) {
                        model.devices[device.index()].name.clone_from(&one.name);
                    }
                    self.names.insert(one.id, one.name);
                }
            }
            b"distributedInfo" => {
                if let Ok(info) = serde_json::from_slice::<DistributedInfo>(value) {
                    let process = &mut model.processes[process.index()];
                    (process.rank, process.rank_count) = (info.rank, info.world_size);
                }
            }
            _ => {}
        }
    }

    fn queue(&mut self, event: &Event<'_>, process: ProcessId, model: &mut Model) -> QueueId {
        let number = count(event.args.device).or_else(|| count(event.pid));
        let ordinal = number.unwrap_or(0) as u32;
        let names = &self.names;
        let device = *self.devices.entry(ordinal).or_insert_with(|| {
            model.devices.push(Device {
                process,
                ordinal,
                name: names.get(&ordinal).cloned().unwrap_or_default(),
                is_physical: false,
            });
            DeviceId::new(model.devices.len() - 1)
        });
        let stream = event.args.stream.or(event.tid);
        let key = model.texts.intern(text(stream));
        *self.queues.entry((device, key)).or_insert_with(|| {
            let name = format!("stream {}", model.texts.get(key));
            let name = model.texts.intern(&name);
            model.queues.push(Queue { device, name });
            QueueId::new(model.queues.len() - 1)
        })
    }

    fn thread(&mut self, event: &Event<'_>, process: ProcessId, model: &mut Model) -> ThreadId {
        if let Some(pid) = count(event.pid).filter(|_| !self.has_pid && event.ph != "M") {
            self.has_pid = true;
            model.processes[process.index()].pid = pid as u32;
        }
        let pid = model.texts.intern(text(event.pid));
        let tid = model.texts.intern(text(event.tid));
        *self.threads.entry((pid, tid)).or_insert_with(|| {
            model.threads.push(Thread {
                process,
                tid: count(event.tid).unwrap_or(0) as u32,
                name: TextId::EMPTY,
            });
            ThreadId::new(model.threads.len() - 1)
        })
    }

    fn activity(&mut self, kind: OpKind, name: TextId, model: &Model) -> Activity {
        if kind != OpKind::Kernel {
            return classify(kind, "");
        }
        let place = name.index();
        if place >= self.activities.len() {
            self.activities.resize(place + 1, None);
        }
        *self.activities[place].get_or_insert_with(|| classify(kind, model.text(name)))
    }
}
