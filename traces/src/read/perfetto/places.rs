//! What tracks stand for: the queue of a GPU, a thread, a counter.

use super::meaning::{Details, Meaning, number_in};
use super::processes::Processes;
use crate::model::{
    Counter, CounterId, Device, DeviceId, HostKind, HostSlice, Model, ProcessId, Queue, QueueId,
    TextId, ThreadId,
};
use crate::perfetto::{Decoder, Track, TrackIndex, Tracks};

use std::collections::HashMap;

/// Whose work an operation of a GPU is, and where it ran.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct GpuPlace {
    pub(super) process: ProcessId,
    pub(super) device: DeviceId,
    pub(super) queue: QueueId,
}

/// Whose a slice of the host is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct HostPlace {
    pub(super) process: ProcessId,
    pub(super) thread: ThreadId,
}

/// Places of tracks, looked up once for each.
#[derive(Debug, Default)]
pub(super) struct Places {
    gpu: Vec<Option<(u64, GpuPlace)>>,
    host: Vec<Option<HostPlace>>,
    counters: Vec<Option<CounterId>>,
    meanings: Vec<Option<Meaning>>,
    devices: HashMap<(ProcessId, u32, String), DeviceId>,
    queues: HashMap<(DeviceId, TextId), QueueId>,
}

/// Tracks of threads whose slices have no category.
const BY_NAME: [(&str, HostKind); 2] = [("waiting", HostKind::Wait), ("off-CPU", HostKind::OffCpu)];

/// The entry of a track.
#[inline]
fn entry<T: Copy>(table: &mut Vec<Option<T>>, track: TrackIndex) -> &mut Option<T> {
    if track.index() >= table.len() {
        table.resize(track.index() + 1, None);
    }
    &mut table[track.index()]
}

impl Places {
    /// A descriptor may have changed what tracks stand for.
    pub(super) fn forget(&mut self) {
        self.gpu.clear();
        self.host.clear();
        self.counters.clear();
        self.meanings.clear();
    }

    /// What slices without a category are on a track.
    #[inline]
    pub(super) fn meaning(&mut self, track: TrackIndex, tracks: &Tracks) -> Meaning {
        *entry(&mut self.meanings, track).get_or_insert_with(|| {
            let name = tracks.get(track).name.as_str();
            let kind = BY_NAME.iter().find(|(known, _)| *known == name);
            kind.map_or(Meaning::None, |(_, kind)| Meaning::Host(*kind))
        })
    }

    /// Where an operation of a GPU on a track ran.
    #[inline]
    pub(super) fn gpu(
        &mut self,
        track: TrackIndex,
        tracks: &Tracks,
        details: &Details,
        processes: &mut Processes,
        model: &mut Model,
    ) -> GpuPlace {
        if let Some((device, place)) = *entry(&mut self.gpu, track)
            && device == details.device
        {
            return place;
        }
        let process = processes
            .of_track(track, tracks)
            .unwrap_or_else(|| processes.current(model));
        let described = tracks.chain(track).find_map(|(_, track)| of_gpu(track));
        let (ordinal, name) = match (described, details.device.checked_sub(1)) {
            (Some((_, name)), Some(number)) => (number as u32, name),
            (Some((number, name)), None) => (number, name),
            (None, Some(number)) => (number as u32, String::new()),
            (None, None) => (
                number_in(&tracks.get(track).name).unwrap_or(0) as u32,
                String::new(),
            ),
        };
        let is_physical = !model.process(process).boot_id.is_empty();
        let key = (process, ordinal, name.clone());
        let device = *self.devices.entry(key).or_insert_with(|| {
            model.devices.push(Device {
                process,
                ordinal,
                name,
                is_physical,
            });
            DeviceId::new(model.devices.len() - 1)
        });
        let name = model.texts.intern(&tracks.get(track).name);
        let queue = *self.queues.entry((device, name)).or_insert_with(|| {
            model.queues.push(Queue { device, name });
            QueueId::new(model.queues.len() - 1)
        });
        let place = GpuPlace {
            process,
            device,
            queue,
        };
        *entry(&mut self.gpu, track) = Some((details.device, place));
        place
    }

    /// Whose slices a track has.
    #[inline]
    pub(super) fn host(
        &mut self,
        track: TrackIndex,
        tracks: &Tracks,
        processes: &mut Processes,
        model: &mut Model,
    ) -> HostPlace {
        if let Some(place) = *entry(&mut self.host, track) {
            return place;
        }
        let place = match processes.thread_of_track(track, tracks) {
            Some(thread) => HostPlace {
                process: model.threads[thread.index()].process,
                thread,
            },
            None => HostPlace {
                process: processes
                    .of_track(track, tracks)
                    .unwrap_or_else(|| processes.current(model)),
                thread: ThreadId::new(HostSlice::NO_THREAD),
            },
        };
        *entry(&mut self.host, track) = Some(place);
        place
    }

    /// The counter of a track.
    #[inline]
    pub(super) fn counter(
        &mut self,
        track: TrackIndex,
        decoder: &Decoder,
        processes: &mut Processes,
        model: &mut Model,
    ) -> CounterId {
        if let Some(counter) = *entry(&mut self.counters, track) {
            return counter;
        }
        let tracks = &decoder.tracks;
        let own = tracks.get(track);
        let process = processes
            .of_track(track, tracks)
            .unwrap_or_else(|| processes.current(model));
        let group = tracks.chain(track).nth(1);
        let group = group.map_or("", |(_, group)| group.name.as_str());
        let unit = own.counter.as_ref().and_then(|counter| {
            /// `UNIT_SIZE_BYTES`.
            const BYTES: i32 = 3;
            let named = counter.unit_name.as_deref();
            named.or((counter.unit == Some(BYTES)).then_some("B"))
        });
        let counter = Counter {
            process,
            group: model.texts.intern(group),
            name: model.texts.intern(&own.name),
            unit: model.texts.intern(unit.unwrap_or_default()),
        };
        let known = model.counters.iter().position(|known| *known == counter);
        let id = CounterId::new(known.unwrap_or_else(|| {
            model.counters.push(counter);
            model.counters.len() - 1
        }));
        *entry(&mut self.counters, track) = Some(id);
        id
    }
}

/// Number and model of the GPU that a track stands for: `GPU 0 · AMD Instinct MI300X`, in merged traces with the rank in front.
fn of_gpu(track: &Track) -> Option<(u32, String)> {
    let mut parts = track.name.split(" \u{b7} ");
    let number = parts.find_map(|part| part.strip_prefix("GPU ")?.parse().ok())?;
    Some((number, parts.next().unwrap_or_default().to_owned()))
}
