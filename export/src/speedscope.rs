//! JSON for speedscope: a profile for each thread, with the samples in order of time.
//!
//! <https://www.speedscope.app/file-format-schema.json>, `SampledProfile`.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use crate::json::Quoted;
use crate::run::Run;
use crate::stacks::{Frame, Stacks, samples};
use crate::{Failure, Time};

/// Samples by time: when, the stack, the number of the kernel plus one, nanoseconds.
type Samples = Vec<(u64, usize, usize, u64)>;

/// Writes the samples of a time; of GPU time, the kernels by the threads that launched them.
///
/// # Errors
/// When the store is damaged, or `out` fails.
pub(crate) fn write(run: &Run<'_>, time: Time, out: &mut dyn Write) -> Result<(), Failure> {
    let stacks = Stacks::read(run.view)?;
    let (mut kernels, mut kernel_names) = (HashMap::new(), Vec::new());
    let mut threads: BTreeMap<(usize, u64), (String, Samples)> = BTreeMap::new();
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
        let (_, of_thread) = threads
            .entry((sample.process, sample.thread))
            .or_insert_with(|| (sample.thread_name.to_owned(), Samples::new()));
        of_thread.push((sample.time_ns, sample.stack, kernel, sample.weight));
        Ok(())
    })?;
    let mut frames = Frames::default();
    let mut lists: HashMap<(usize, usize), String> = HashMap::new();
    for (_, of_thread) in threads.values_mut() {
        of_thread.sort_by_key(|(time_ns, ..)| *time_ns);
        for &(_, stack, kernel, _) in of_thread.iter() {
            lists.entry((stack, kernel)).or_insert_with(|| {
                let mut numbers: Vec<usize> = stacks
                    .frames(stack)
                    .map(|frame| frames.number(frame))
                    .collect();
                numbers.reverse();
                if let Some(name) = kernel
                    .checked_sub(1)
                    .and_then(|place| kernel_names.get(place))
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
    for ((process, thread), (name, of_thread)) in &threads {
        let Some(of) = run.process(*process as u64) else {
            continue;
        };
        let name = format!("{} {} \u{b7} {name} {thread}", of.title(), of.pid);
        let total: u64 = of_thread.iter().map(|(.., weight)| weight).sum();
        write!(
            out,
            "{between}\n{{\"type\":\"sampled\",\"name\":{},\"unit\":\"nanoseconds\",\"startValue\":0,\"endValue\":{total},\"samples\":[",
            Quoted(&name),
        )?;
        between = ",";
        for (place, (_, stack, kernel, _)) in of_thread.iter().enumerate() {
            let comma = if place == 0 { "" } else { "," };
            let list = lists.get(&(*stack, *kernel)).map_or("[]", String::as_str);
            write!(out, "{comma}{list}")?;
        }
        out.write_all(b"],\"weights\":[")?;
        for (place, (.., weight)) in of_thread.iter().enumerate() {
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
