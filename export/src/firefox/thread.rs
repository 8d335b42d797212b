//! The tables of a thread, to which samples and markers are added one by one.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::json::Quoted;
use crate::stacks::{Frame, Stacks};

use super::{GPU, NATIVE, PYTHON};

/// Milliseconds with all digits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Millis(pub u64);

impl std::fmt::Display for Millis {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            formatter,
            "{}.{:06}",
            self.0 / 1_000_000,
            self.0 % 1_000_000
        )
    }
}

/// Texts, each once.
#[derive(Debug, Default)]
pub(super) struct Texts {
    numbers: HashMap<String, usize>,
    pub order: Vec<String>,
}

impl Texts {
    pub(super) fn number(&mut self, text: &str) -> usize {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let number = self.order.len();
        self.numbers.insert(text.to_owned(), number);
        self.order.push(text.to_owned());
        number
    }
}

/// What happened at a time, or for a time.
#[derive(Debug)]
pub(super) struct Marker {
    pub name: usize,
    pub start_ns: u64,
    /// `None` for a point in time.
    pub end_ns: Option<u64>,
    pub category: usize,
    /// The rest, in JSON.
    pub data: String,
}

/// A call stack: the frame, its category, and the stack of the caller.
type Node = (usize, usize, Option<usize>);

/// A function: its name, its library and its file.
type Function = (usize, Option<usize>, Option<usize>);

/// A thread, or a stream of a GPU.
#[derive(Debug, Default)]
pub(super) struct Thread {
    pub texts: Texts,
    /// Rows of `stacks` and kernels by their place in `nodes`.
    rows: HashMap<(usize, usize), usize>,
    nodes: Vec<Node>,
    frames: HashMap<(usize, u64, usize), usize>,
    frame_order: Vec<(usize, u64, usize)>,
    functions: HashMap<Function, usize>,
    function_order: Vec<Function>,
    /// Libraries of the file, in the order in which the thread met them.
    resources: HashMap<usize, usize>,
    resource_order: Vec<usize>,
    /// Time, stack, nanoseconds.
    pub samples: Vec<(u64, Option<usize>, u64)>,
    pub markers: Vec<Marker>,
}

impl Thread {
    fn node(
        &mut self,
        frame: Frame<'_>,
        caller: Option<usize>,
        is_kernel: bool,
        libraries: &mut Texts,
    ) -> usize {
        let name = self.texts.number(frame.function);
        let source = (!frame.source.is_empty()).then(|| self.texts.number(frame.source));
        let resource = (!frame.module.is_empty()).then(|| {
            let library = libraries.number(frame.module);
            let next = self.resource_order.len();
            let number = *self.resources.entry(library).or_insert(next);
            if number == next {
                self.resource_order.push(library);
            }
            number
        });
        let function = (name, resource, source);
        let next = self.function_order.len();
        let function_number = *self.functions.entry(function).or_insert(next);
        if function_number == next {
            self.function_order.push(function);
        }
        let category = match () {
            () if is_kernel => GPU,
            () if frame.source.ends_with(".py") => PYTHON,
            () => NATIVE,
        };
        let frame = (function_number, frame.line, category);
        let next = self.frame_order.len();
        let number = *self.frames.entry(frame).or_insert(next);
        if number == next {
            self.frame_order.push(frame);
        }
        self.nodes.push((number, category, caller));
        self.nodes.len() - 1
    }

    /// The place of a call stack, below which a kernel may be.
    pub(super) fn stack(
        &mut self,
        stacks: &Stacks,
        stack: usize,
        kernel: (&str, usize),
        libraries: &mut Texts,
    ) -> Option<usize> {
        if let Some(&node) = self.rows.get(&(stack, kernel.1)) {
            return Some(node);
        }
        let mut rows: Vec<usize> = stacks.rows(stack).collect();
        rows.reverse();
        let mut caller = None;
        for row in rows {
            let node = match self.rows.get(&(row, 0)) {
                Some(&node) => node,
                None => {
                    let node = self.node(stacks.frame(row), caller, false, libraries);
                    self.rows.insert((row, 0), node);
                    node
                }
            };
            caller = Some(node);
        }
        if kernel.1 > 0 {
            let frame = Frame {
                function: kernel.0,
                ..Frame::default()
            };
            let node = self.node(frame, caller, true, libraries);
            self.rows.insert((stack, kernel.1), node);
            caller = Some(node);
        }
        caller
    }

    /// Writes all tables, behind the members that say what thread it is.
    pub(super) fn write(
        &mut self,
        libraries: &[String],
        base_ns: u64,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.samples.sort_by_key(|(time_ns, ..)| *time_ns);
        self.markers
            .sort_by_key(|marker| (marker.start_ns, std::cmp::Reverse(marker.end_ns)));
        // Texts come last, for names of libraries are among them.
        let names = self.resource_order.iter();
        let names = names.filter_map(|&library| libraries.get(library));
        let names: Vec<String> = names.map(|path| file_name(path).to_owned()).collect();
        let names: Vec<usize> = names.iter().map(|name| self.texts.number(name)).collect();

        write!(
            out,
            "\"samples\":{{\"length\":{},\"weightType\":\"tracing-ms\"",
            self.samples.len()
        )?;
        let samples = || self.samples.iter();
        list(
            out,
            "stack",
            samples().map(|(_, stack, _)| optional(*stack)),
        )?;
        list(
            out,
            "time",
            samples().map(|(time_ns, ..)| Millis(time_ns.saturating_sub(base_ns))),
        )?;
        list(out, "weight", samples().map(|(.., weight)| Millis(*weight)))?;
        let markers = || self.markers.iter();
        write!(out, "}},\"markers\":{{\"length\":{}", self.markers.len())?;
        list(out, "name", markers().map(|marker| marker.name))?;
        list(
            out,
            "startTime",
            markers().map(|marker| Millis(marker.start_ns.saturating_sub(base_ns))),
        )?;
        list(
            out,
            "endTime",
            markers().map(|marker| match marker.end_ns {
                Some(end_ns) => Millis(end_ns.saturating_sub(base_ns)).to_string(),
                None => "null".to_owned(),
            }),
        )?;
        // 0 is a point in time, 1 a time with both ends.
        list(
            out,
            "phase",
            markers().map(|marker| u8::from(marker.end_ns.is_some())),
        )?;
        list(out, "category", markers().map(|marker| marker.category))?;
        list(out, "data", markers().map(|marker| &marker.data))?;
        let nodes = || self.nodes.iter();
        write!(out, "}},\n\"stackTable\":{{\"length\":{}", self.nodes.len())?;
        list(out, "frame", nodes().map(|node| node.0))?;
        list(out, "category", nodes().map(|node| node.1))?;
        list(out, "subcategory", nodes().map(|_| 0))?;
        list(out, "prefix", nodes().map(|node| optional(node.2)))?;
        let frames = || self.frame_order.iter();
        write!(
            out,
            "}},\n\"frameTable\":{{\"length\":{}",
            self.frame_order.len()
        )?;
        list(out, "address", frames().map(|_| -1))?;
        list(out, "inlineDepth", frames().map(|_| 0))?;
        list(out, "category", frames().map(|frame| frame.2))?;
        list(out, "subcategory", frames().map(|_| 0))?;
        list(out, "func", frames().map(|frame| frame.0))?;
        for key in ["nativeSymbol", "innerWindowID", "implementation", "column"] {
            list(out, key, frames().map(|_| "null"))?;
        }
        list(
            out,
            "line",
            frames().map(|frame| optional((frame.1 > 0).then_some(frame.1))),
        )?;
        let functions = || self.function_order.iter();
        write!(
            out,
            "}},\n\"funcTable\":{{\"length\":{}",
            self.function_order.len()
        )?;
        for key in ["isJS", "relevantForJS"] {
            list(out, key, functions().map(|_| false))?;
        }
        list(out, "name", functions().map(|function| function.0))?;
        list(
            out,
            "resource",
            functions().map(|function| match function.1 {
                Some(resource) => resource.to_string(),
                None => "-1".to_owned(),
            }),
        )?;
        list(
            out,
            "fileName",
            functions().map(|function| optional(function.2)),
        )?;
        for key in ["lineNumber", "columnNumber"] {
            list(out, key, functions().map(|_| "null"))?;
        }
        write!(out, "}},\n\"resourceTable\":{{\"length\":{}", names.len())?;
        list(out, "lib", self.resource_order.iter())?;
        list(out, "name", names.iter())?;
        list(out, "host", names.iter().map(|_| "null"))?;
        // A library.
        list(out, "type", names.iter().map(|_| 1))?;
        out.write_all(
            b"},\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[]}",
        )?;
        list(
            out,
            "stringArray",
            self.texts.order.iter().map(|text| Quoted(text)),
        )
    }
}

/// The name of a file without its folders.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn optional(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "null".to_owned(), |number| number.to_string())
}

/// A member that is a list.
fn list(
    out: &mut dyn Write,
    key: &str,
    values: impl Iterator<Item = impl std::fmt::Display>,
) -> io::Result<()> {
    write!(out, ",\"{key}\":[")?;
    for (place, value) in values.enumerate() {
        let comma = if place == 0 { "" } else { "," };
        write!(out, "{comma}{value}")?;
    }
    out.write_all(b"]")
}
