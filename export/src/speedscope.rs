//! JSON for speedscope: a profile for each thread, with the samples in order of time.
//!
//! <https://www.speedscope.app/file-format-schema.json>, `SampledProfile`.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use rsys_analysis::containers::packed_rows::PackedRows;

use crate::json::Quoted;
use crate::run::Run;
use crate::stacks::{Frame, Stacks, samples};
use crate::{Failure, Time};

/// A thread and its samples.
struct Thread {
    name: String,
    /// When, and how many came before; the stack, the number of the kernel plus one, nanoseconds.
    samples: PackedRows<5>,
    total_ns: u64,
}

/// Writes the samples of a time; of GPU time, the kernels by the threads that launched them.
///
/// # Errors
/// When the store is damaged, or `out` fails.
pub(crate) fn write(run: &Run<'_>, time: Time, out: &mut dyn Write) -> Result<(), Failure> {
    let stacks = Stacks::read(run.view)?;
    let (mut kernels, mut kernel_names) = (HashMap::new(), Vec::new());
    let mut threads: BTreeMap<(usize, u64), Thread> = BTreeMap::new();
    samples(run, time, |sample| {
        let kernel = match sample.kernel {
            "" => 0,
            name => match kernels.get(name) {
                Some(&number) => number,
                None => {
                    kernel_names.push(name.to_owned());
                    kernels.insert(name.to_owned(), kernel_names.len());
                    kernel_names.len()
                }
            },
        };
        let of_thread = threads.entry((sample.process, sample.thread));
        let of_thread = of_thread.or_insert_with(|| Thread {
            name: sample.thread_name.to_owned(),
            samples: run.rows(),
            total_ns: 0,
        });
        let before = of_thread.samples.len() as u64;
        let (stack, kernel) = (sample.stack as u64, kernel as u64);
        let row = [sample.time_ns, before, stack, kernel, sample.weight];
        of_thread.samples.push(row);
        of_thread.total_ns += sample.weight;
        Ok(())
    })?;
    let mut frames = Frames::default();
    let mut lists: HashMap<(u64, u64), String> = HashMap::new();
    for of_thread in threads.values_mut() {
        of_thread.samples.sort();
        for [_, _, stack, kernel, _] in of_thread.samples.iter() {
            lists.entry((stack, kernel)).or_insert_with(|| {
                let mut numbers: Vec<usize> = stacks
                    .frames(stack as usize)
                    .map(|frame| frames.number(frame))
                    .collect();
                numbers.reverse();
                if let Some(name) = kernel
                    .checked_sub(1)
                    .and_then(|place| kernel_names.get(place as usize))
                {
                    numbers.push(frames.number(Frame {
                        function: name,
                        ..Frame::default()
                    }));
                }
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                format!("[{}]", numbers.join(","))
            });
        }
    }
    write!(
        out,
        "{{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\",\"exporter\":\"rsys {}\",\"activeProfileIndex\":0,\"shared\":{{\"frames\":[",
        env!("CARGO_PKG_VERSION")
    )?;
    for (number, frame) in frames.order.iter().enumerate() {
        let comma = if number == 0 { "" } else { ",\n" };
        write!(out, "{comma}{{\"name\":{}", Quoted(frame.function))?;
        let file = if frame.source.is_empty() {
            frame.module
        } else {
            frame.source
        };
        if !file.is_empty() {
            write!(out, ",\"file\":{}", Quoted(file))?;
        }
        if frame.line > 0 {
            write!(out, ",\"line\":{}", frame.line)?;
        }
        out.write_all(b"}")?;
    }
    out.write_all(b"]},\"profiles\":[")?;
    let mut between = "";
    for ((process, thread), of_thread) in &threads {
        let Some(of) = run.process(*process as u64) else {
            continue;
        };
        let (title, name, total) = (of.title(), &of_thread.name, of_thread.total_ns);
        let name = format!("{title} {} \u{b7} {name} {thread}", of.pid);
        write!(
            out,
            "{between}\n{{\"type\":\"sampled\",\"name\":{},\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":{total},\"samples\":[",
            Quoted(&name),
        )?;
        between = ",";
        for (place, [_, _, stack, kernel, _]) in of_thread.samples.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let list = lists.get(&(stack, kernel)).map_or("[]", String::as_str);
            write!(out, "{comma}{list}")?;
        }
        out.write_all(b"],\"weights\":[")?;
        for (place, [.., weight]) in of_thread.samples.iter().enumerate() {
            write!(out, "{}{weight}", if place == 0 { "" } else { "," })?;
        }
        out.write_all(b"]}")?;
    }
    writeln!(out, "]}}")?;
    Ok(())
}

/// The frames of a file, in the order in which they were met.
#[derive(Debug, Default)]
struct Frames<'s> {
    numbers: HashMap<Frame<'s>, usize>,
    order: Vec<Frame<'s>>,
}

impl<'s> Frames<'s> {
    fn number(&mut self, frame: Frame<'s>) -> usize {
        let next = self.order.len();
        let number = *self.numbers.entry(frame).or_insert(next);
        if number == next {
            self.order.push(frame);
        }
        number
    }
}
