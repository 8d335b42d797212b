//! What GPUs did: a group of tracks for each GPU, one track for each stream or queue, arrows from
//! the calls, and the time of kernels as call stacks.

use rsys_config::Flows;
use rsys_proto::hashing::FastMap;
use rsys_proto::{Event as Drawn, EventKind, Name, Sample, StringId, TrackSequence};
use rsys_wire::event::{Args, GpuOp, Key, Labelled, OpKind, Read};

use super::EventWriter;
use super::args::Annotations;
use super::lanes::Lanes;
use crate::emit::digest::Operation;
use crate::emit::learned::calls::Call;
use crate::emit::learned::events::EventTables;
use crate::emit::learned::frames::FrameId;
use crate::emit::output::{Group, Output};

/// The outermost frame of the time of kernels: some viewers put the samples of all clocks into one
/// flame graph.
const ROOT: &str = "[GPU]";
/// The most kernels that are told of which had not ended.
const UNENDED: usize = 4_096;

/// Where operations of one GPU follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Line {
    Stream(u64),
    Queue(u64),
    Copies,
}

/// The rows of a line.
#[derive(Debug)]
struct Rows {
    name: String,
    rank: i32,
    lanes: Lanes,
    rows: Vec<TrackSequence>,
}

/// One GPU.
#[derive(Debug)]
struct Device {
    name: String,
    group: Group,
    lines: FastMap<Line, Rows>,
    streams: usize,
    queues: usize,
}

/// All that GPUs did for a process.
#[derive(Debug, Default)]
pub struct Gpu {
    devices: FastMap<u32, Device>,
    samples: Vec<Sample>,
    /// The frames of kernels, by their names.
    frames: FastMap<StringId, FrameId>,
    root: Option<FrameId>,
    annotations: Annotations,
}

impl Gpu {
    /// Draws an operation.
    pub fn draw(&mut self, op: &GpuOp, args: Args<'_>, pen: &mut EventWriter<'_>) {
        let cause = pen.known.cause(op.correlation);
        let Some((start_ns, end_ns)) = pen.kept_part([op.start_ns, op.end_ns]) else {
            return;
        };
        match op.kind {
            OpKind::Kernel => pen.tally.kernels += 1,
            OpKind::Copy | OpKind::Fill => pen.tally.moves += 1,
            OpKind::Barrier | OpKind::Scratch | OpKind::Other => pen.tally.other_ops += 1,
        }
        pen.tally.ops_without_call += u64::from(cause.is_none());
        let submitted_ns = cause.map(|(_, submitted_ns)| submitted_ns);
        let mut call = cause.map_or_else(Call::default, |(call, _)| call);
        if let (0, Some(stack)) = (call.stack, args.number(Key::LaunchStack)) {
            // Packets that a program wrote by itself: no call launched it.
            call.stack = stack;
        }
        let name_key = match op.name {
            0 if op.kind == OpKind::Kernel => call.kernel,
            name => name,
        };
        let name = match pen.output.event_text(pen.known, name_key) {
            Some(name) => name,
            None => {
                let name = default_name(op.kind, &call, args, pen.known);
                pen.output.buffer().intern(&name)
            }
        };
        let annotations = &mut self.annotations;
        annotations.clear();
        annotations.add(args, pen.known, pen.output);
        if let Some(Read::Text(counts)) = args.get(Key::Counters) {
            annotations.push_counters(&counts, &pen.run.kernel_counters, pen.output);
        }
        if let Some(bytes) = call.bytes.filter(|_| op.kind != OpKind::Kernel) {
            annotations.push(Key::Bytes, &Read::Uint(bytes), pen.known, pen.output);
        }
        if call.direction != 0 && op.kind == OpKind::Copy {
            let direction = Read::Known(call.direction);
            annotations.push(Key::Direction, &direction, pen.known, pen.output);
        }
        annotations.push(
            Key::Device,
            &Read::Uint(u64::from(op.device)),
            pen.known,
            pen.output,
        );
        if op.queue != 0 {
            annotations.push(Key::Queue, &Read::Pointer(op.queue), pen.known, pen.output);
        }
        let stream = match op.stream {
            0 => call.stream,
            stream => Some(stream),
        };
        if let Some(stream) = stream {
            annotations.push(Key::Stream, &Read::Pointer(stream), pen.known, pen.output);
        }
        let has_call = op.correlation != 0;
        if has_call && pen.run.flows != Flows::Arrows {
            annotations.push_number(pen.output.correlation(), op.correlation);
        }
        let flows =
            (has_call && pen.run.flows != Flows::Numbers).then(|| pen.output.flow(op.correlation));
        let line = match (stream, op.queue) {
            (Some(stream), _) => Line::Stream(stream),
            (None, 0) => Line::Copies,
            (None, queue) => Line::Queue(queue),
        };
        let device = self
            .devices
            .entry(op.device)
            .or_insert_with(|| Device::new(op.device, pen.known, pen.output));
        if matches!(op.kind, OpKind::Kernel | OpKind::Copy | OpKind::Fill) {
            let operation = Operation {
                start_ns,
                end_ns,
                submitted_ns,
                stack: call.stack,
            };
            pen.digest.operation(op.device, &device.name, operation);
            if let Some(overview) = &mut pen.overview {
                overview.operation(op.device, &device.name, (start_ns, end_ns));
            }
        }
        let track = device.track(line, (start_ns, end_ns), pen.known, pen.output);
        let category = pen
            .output
            .operation_category(op.kind, pen.run.category_names);
        let out = pen.output.buffer();
        let event = Drawn {
            name: Name::Interned(name),
            category: Some(category),
            flows: flows.as_slice(),
            annotations: &annotations.list(),
            ..Drawn::default()
        };
        track.event(out, start_ns, EventKind::SliceBegin, &event);
        track.slice_end(out, end_ns);
        if op.kind == OpKind::Kernel {
            self.sample(name, (op.device, &call), (start_ns, end_ns), pen);
        }
    }

    /// The program gave something a name: what comes from now on is drawn on a track of that name.
    /// (Viewers keep the first name of a track.)
    pub fn rename(&mut self, what: Labelled, id: u64, known: &EventTables) {
        let line = match what {
            Labelled::Stream => Line::Stream(id),
            Labelled::NamedDevice | Labelled::NamedOrdinal => {
                self.devices
                    .retain(|number, device| describe(*number, known).0 == device.name);
                return;
            }
            Labelled::Device | Labelled::Queue | Labelled::Thread => return,
        };
        if let Some(name) = labelled(known, what, id) {
            for device in self.devices.values_mut() {
                if device.lines.get(&line).is_some_and(|at| at.name != name) {
                    device.lines.remove(&line);
                }
            }
        }
    }

    /// Adds a kernel's time under the stack that launched it.
    fn sample(
        &mut self,
        kernel: StringId,
        (device, call): (u32, &Call),
        (start_ns, end_ns): (u64, u64),
        pen: &mut EventWriter<'_>,
    ) {
        let stack = pen.known.stack(call.stack);
        pen.tally.launch_stacks += u64::from(!stack.is_empty());
        pen.tally.kernel_ns = pen.tally.kernel_ns.saturating_add(end_ns - start_ns);
        // Without time it would be one that had not ended.
        if start_ns == end_ns {
            return;
        }
        let (tid, [root, leaf]) = self.add_sample(kernel, call, (start_ns, end_ns - start_ns), pen);
        pen.digest.kernel(leaf, end_ns - start_ns);
        if let Some(overview) = &mut pen.overview {
            let all = || frames_of(root, pen.known.stack(call.stack), leaf);
            overview.kernel(device, tid, (start_ns, end_ns), all, pen.frames);
        }
    }

    /// Adds a sample of a kernel under the stack that launched it. The thread that it is of, and its outermost and innermost frames.
    fn add_sample(
        &mut self,
        kernel: StringId,
        call: &Call,
        (start_ns, time_ns): (u64, u64),
        pen: &mut EventWriter<'_>,
    ) -> (u32, [FrameId; 2]) {
        let stack = pen.known.stack(call.stack);
        let frames = &mut *pen.frames;
        let root = *self.root.get_or_insert_with(|| frames.pseudo_frame(ROOT));
        let leaf = *self.frames.entry(kernel).or_insert_with(|| {
            let name = pen.output.buffer().strings().text(kernel);
            frames.pseudo_frame(name)
        });
        // A stack that is not known has no id either: it may become known.
        let stack_id = if stack.is_empty() { 0 } else { call.stack };
        let all = || frames_of(root, stack, leaf);
        let callstack = pen.output.gpu_callstack(frames, (stack_id, kernel), all);
        let tid = match call.tid {
            0 => pen.output.pid(),
            tid => tid,
        };
        let sample = pen.output.sample(start_ns, tid, callstack, time_ns);
        self.samples.push(sample);
        (tid, [root, leaf])
    }

    /// Adds the last kernels that had not ended, as samples without time at their launches: which they were, and who launched them.
    pub fn finish(&mut self, pen: &mut EventWriter<'_>) {
        let is_kept = |(_, start_ns): &(Call, u64)| pen.run.windows.events.active(*start_ns);
        let unended: Vec<_> = pen.known.unended().filter(is_kept).take(UNENDED).collect();
        for (call, start_ns) in unended.into_iter().rev() {
            if let Some(name) = pen.output.event_text(pen.known, call.kernel) {
                self.add_sample(name, &call, (start_ns, 0), pen);
            }
        }
    }

    /// Writes the samples of a batch.
    pub fn flush(&mut self, output: &mut Output) {
        if !self.samples.is_empty() {
            output.gpu_samples(&mut self.samples);
        }
    }
}

/// The frames of a kernel's time, outermost first.
fn frames_of(root: FrameId, stack: &[FrameId], leaf: FrameId) -> Vec<FrameId> {
    let inner = stack.iter().copied().chain([leaf]);
    std::iter::once(root).chain(inner).collect()
}

/// What an operation without a name is called.
fn default_name(kind: OpKind, call: &Call, args: Args<'_>, known: &EventTables) -> String {
    let name = match kind {
        OpKind::Kernel => "kernel",
        OpKind::Copy => "Copy",
        OpKind::Fill => "Fill",
        OpKind::Barrier => "Barrier",
        OpKind::Scratch => "Scratch",
        OpKind::Other => "GPU operation",
    };
    let direction = args
        .get(Key::Direction)
        .or((call.direction != 0).then_some(Read::Known(call.direction)))
        .filter(|_| kind == OpKind::Copy);
    match direction {
        Some(direction) => format!("{name} {}", known.plain(&direction)),
        None => name.to_owned(),
    }
}

impl Device {
    fn new(number: u32, known: &EventTables, output: &mut Output) -> Self {
        let (name, description) = describe(number, known);
        Self {
            group: output.group(number, &name, &description),
            name,
            lines: FastMap::default(),
            streams: 0,
            queues: 0,
        }
    }

    fn track(
        &mut self,
        line: Line,
        (start_ns, end_ns): (u64, u64),
        known: &EventTables,
        output: &mut Output,
    ) -> &mut TrackSequence {
        let (streams, queues) = (&mut self.streams, &mut self.queues);
        let group = &mut self.group;
        let rows = self.lines.entry(line).or_insert_with(|| Rows {
            name: match line {
                Line::Stream(0) => labelled(known, Labelled::Stream, 0)
                    .unwrap_or_else(|| "default stream".to_owned()),
                Line::Stream(handle) => {
                    let number = count(streams);
                    labelled(known, Labelled::Stream, handle)
                        .unwrap_or_else(|| format!("stream {number}"))
                }
                Line::Queue(handle) => {
                    let number = count(queues);
                    labelled(known, Labelled::Queue, handle)
                        .unwrap_or_else(|| format!("queue {number}"))
                }
                Line::Copies => "copies".to_owned(),
            },
            rank: group.next_rank(),
            lanes: Lanes::default(),
            rows: Vec::new(),
        });
        let row = rows.lanes.place(start_ns, end_ns);
        if rows.rows.len() <= row {
            rows.rows
                .push(output.group_track(group, rows.rank, &rows.name));
        }
        &mut rows.rows[row]
    }
}

/// The name of a GPU's group of tracks, and what more there is to say.
fn describe(number: u32, known: &EventTables) -> (String, String) {
    let mut name = format!("GPU {number}");
    let mut description = String::from("What this GPU did for the process");
    if let Some(given) = known.device_name(number) {
        name.push_str(" · ");
        name.push_str(given);
    }
    if let Some(label) = known.label(Labelled::Device, u64::from(number)) {
        if !label.text.is_empty() {
            name.push_str(" · ");
            name.push_str(&label.text);
        }
        for (key, value) in &label.more {
            description.push_str(&format!("\n{key}: {value}"));
        }
    }
    (name, description)
}

fn count(counter: &mut usize) -> usize {
    *counter += 1;
    *counter
}

fn labelled(known: &EventTables, what: Labelled, handle: u64) -> Option<String> {
    let label = known.label(what, handle)?;
    (!label.text.is_empty()).then(|| label.text.clone())
}
