//! What records refer to: processes, threads, GPUs, queues, tracks of counters, call stacks, and texts.

use std::io;

use rsys_analysis::program::code_place::own_place;
use rsys_traces::model::{Model, TextId, Texts};

use super::NONE;
use crate::store::{Rows, StoreWriter};

/// Texts of the model, and those that are added to them.
struct AllTexts<'m> {
    texts: &'m Texts,
    added: Vec<&'m str>,
}

impl<'m> AllTexts<'m> {
    /// The number of a text that is none of the model's.
    fn add(&mut self, text: &'m str) -> u64 {
        if text.is_empty() {
            return TextId::EMPTY.index() as u64;
        }
        self.added.push(text);
        (self.texts.len() + self.added.len() - 1) as u64
    }
}

fn text(id: TextId) -> u64 {
    id.index() as u64
}

/// Writes all of them.
pub(super) fn write(model: &Model, out: &mut StoreWriter) -> io::Result<()> {
    let mut texts = AllTexts {
        texts: &model.texts,
        added: Vec::new(),
    };
    processes(model, &mut texts, out)?;
    devices(model, &mut texts, out)?;
    let columns = [("process", false), ("tid", false), ("name", false)];
    let mut rows = Rows::new("threads", columns);
    for thread in &model.threads {
        let process = thread.process.index() as u64;
        rows.push([process, thread.tid.into(), text(thread.name)], out)?;
    }
    rows.flush(out)?;
    let mut rows = Rows::new("queues", [("device", false), ("name", false)]);
    for queue in &model.queues {
        rows.push([queue.device.index() as u64, text(queue.name)], out)?;
    }
    rows.flush(out)?;
    let columns = ["process", "group", "name", "unit"].map(|name| (name, false));
    let mut rows = Rows::new("counter_tracks", columns);
    for counter in &model.counters {
        let process = counter.process.index() as u64;
        let [group, name, unit] = [counter.group, counter.name, counter.unit].map(text);
        rows.push([process, group, name, unit], out)?;
    }
    rows.flush(out)?;
    stacks(model, out)?;
    let all = (0..model.texts.len()).map(|index| model.texts.at(index));
    out.texts(all.chain(texts.added))
}

fn processes<'m>(
    model: &'m Model,
    texts: &mut AllTexts<'m>,
    out: &mut StoreWriter,
) -> io::Result<()> {
    let columns = [
        "pid",
        "rank",
        "start",
        "end",
        "cpu",
        "samples",
        "events",
        "lost",
        "sample_period",
        "name",
        "command",
        "host",
        "file",
    ];
    let mut rows = Rows::new("processes", columns.map(|name| (name, false)));
    for process in &model.processes {
        let account = process.account.as_ref();
        let row = [
            process.pid.into(),
            process.rank.unwrap_or(NONE),
            process.start_ns,
            process.end_ns,
            account.map_or(0, |account| account.cpu_ns),
            account.map_or(NONE, |account| account.samples),
            account.map_or(NONE, |account| account.events),
            account.map_or(NONE, |account| account.lost),
            process.sample_period_ns,
            texts.add(&process.name),
            texts.add(&process.command_line),
            texts.add(&process.host),
            texts.add(&process.file),
        ];
        rows.push(row, out)?;
    }
    rows.flush(out)
}

fn devices<'m>(
    model: &'m Model,
    texts: &mut AllTexts<'m>,
    out: &mut StoreWriter,
) -> io::Result<()> {
    let columns = ["process", "ordinal", "name"].map(|name| (name, false));
    let mut rows = Rows::new("devices", columns);
    for device in &model.devices {
        let process = device.process.index() as u64;
        rows.push(
            [process, device.ordinal.into(), texts.add(&device.name)],
            out,
        )?;
    }
    rows.flush(out)
}

/// Each stack with its innermost frame and the frame that stands for it in answers.
fn stacks(model: &Model, out: &mut StoreWriter) -> io::Result<()> {
    let columns = [
        "caller",
        "depth",
        "function",
        "module",
        "source",
        "line",
        "own_function",
        "own_source",
        "own_line",
    ];
    let mut rows = Rows::new("stacks", columns.map(|name| (name, false)));
    let mut depths: Vec<u64> = Vec::with_capacity(model.stacks.len());
    for stack in model.stacks.ids() {
        let own = own_place(stack, model).copied().unwrap_or_default();
        let own = [text(own.function), text(own.source), own.line.into()];
        let (frame, caller, depth) = match model.stacks.split(stack) {
            Some((frame, caller)) => {
                // The caller of a stack has a smaller number.
                let depth = depths.get(caller.index()).copied().unwrap_or_default() + 1;
                (*frame, caller.index() as u64, depth)
            }
            None => Default::default(),
        };
        depths.push(depth);
        let [function, module, source] = [frame.function, frame.mapping, frame.source].map(text);
        let row = [
            caller,
            depth,
            function,
            module,
            source,
            frame.line.into(),
            own[0],
            own[1],
            own[2],
        ];
        rows.push(row, out)?;
    }
    rows.flush(out)
}
