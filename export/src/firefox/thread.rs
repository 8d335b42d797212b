//! The tables of a thread, to which samples and markers are added one by one.

use std::collections::HashMap;
use std::io::{self, Write};

use crate::put::Put;
use crate::stacks::{Frame, Stacks};

use super::{GPU, NATIVE, PYTHON};

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
    /// Where the rest is, in JSON: from this byte on, up to that.
    data: (usize, usize),
}

/// What a marker says, in JSON.
pub(super) struct Data<'t>(&'t mut Vec<u8>);

impl Data<'_> {
    /// A number, if it is known.
    pub(super) fn number(&mut self, key: &str, number: Option<u64>) {
        if let Some(number) = number {
            self.0.text(",\"").text(key).text("\":").number(number);
        }
    }

    /// A text that is not empty.
    pub(super) fn text(&mut self, key: &str, text: &str) {
        if !text.is_empty() {
            self.0.text(",\"").text(key).text("\":").quoted(text);
        }
    }
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
    /// What markers say, one behind the other.
    data: Vec<u8>,
}

impl Thread {
    /// Adds a marker of a kind; `say` adds what it says.
    pub(super) fn mark(
        &mut self,
        kind: &str,
        category: usize,
        name: &str,
        (start_ns, end_ns): (u64, Option<u64>),
        say: impl FnOnce(&mut Data<'_>),
    ) {
        let begin = self.data.len();
        self.data.text("{\"type\":\"").text(kind).text("\"");
        say(&mut Data(&mut self.data));
        self.data.push(b'}');
        let marker = Marker {
            name: self.texts.number(name),
            start_ns,
            end_ns,
            category,
            data: (begin, self.data.len()),
        };
        self.markers.push(marker);
    }

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

        let mut lists = Lists {
            line: Vec::new(),
            out,
        };
        let samples = || self.samples.iter();
        lists.table("\"samples\"", self.samples.len());
        lists.line.text(",\"weightType\":\"tracing-ms\"");
        let since = |time_ns: u64| time_ns.saturating_sub(base_ns);
        lists.list("stack", samples(), |line, one| line.optional(one.1))?;
        lists.list("time", samples(), |line, one| line.put_millis(since(one.0)))?;
        lists.list("weight", samples(), |line, one| line.put_millis(one.2))?;
        let markers = || self.markers.iter();
        lists.table("},\"markers\"", self.markers.len());
        lists.list("name", markers(), |line, one| line.put(one.name))?;
        lists.list("startTime", markers(), |line, one| {
            line.put_millis(since(one.start_ns));
        })?;
        lists.list("endTime", markers(), |line, one| match one.end_ns {
            Some(end_ns) => line.put_millis(since(end_ns)),
            None => line.put_text("null"),
        })?;
        // 0 is a point in time, 1 a time with both ends.
        lists.list("phase", markers(), |line, one| {
            line.put(usize::from(one.end_ns.is_some()));
        })?;
        lists.list("category", markers(), |line, one| line.put(one.category))?;
        lists.list("data", markers(), |line, one| {
            line.extend_from_slice(&self.data[one.data.0..one.data.1]);
        })?;
        let nodes = || self.nodes.iter();
        lists.table("},\n\"stackTable\"", self.nodes.len());
        lists.list("frame", nodes(), |line, node| line.put(node.0))?;
        lists.list("category", nodes(), |line, node| line.put(node.1))?;
        lists.list("subcategory", nodes(), |line, _| line.put(0))?;
        lists.list("prefix", nodes(), |line, node| line.optional(node.2))?;
        let frames = || self.frame_order.iter();
        lists.table("},\n\"frameTable\"", self.frame_order.len());
        lists.list("address", frames(), |line, _| line.put_text("-1"))?;
        lists.list("inlineDepth", frames(), |line, _| line.put(0))?;
        lists.list("category", frames(), |line, frame| line.put(frame.2))?;
        lists.list("subcategory", frames(), |line, _| line.put(0))?;
        lists.list("func", frames(), |line, frame| line.put(frame.0))?;
        for key in ["nativeSymbol", "innerWindowID", "implementation", "column"] {
            lists.list(key, frames(), |line, _| line.put_text("null"))?;
        }
        lists.list("line", frames(), |line, frame| {
            line.optional((frame.1 > 0).then_some(frame.1 as usize));
        })?;
        let functions = || self.function_order.iter();
        lists.table("},\n\"funcTable\"", self.function_order.len());
        for key in ["isJS", "relevantForJS"] {
            lists.list(key, functions(), |line, _| line.put_text("false"))?;
        }
        lists.list("name", functions(), |line, one| line.put(one.0))?;
        lists.list("resource", functions(), |line, one| match one.1 {
            Some(resource) => line.put(resource),
            None => line.put_text("-1"),
        })?;
        lists.list("fileName", functions(), |line, one| line.optional(one.2))?;
        for key in ["lineNumber", "columnNumber"] {
            lists.list(key, functions(), |line, _| line.put_text("null"))?;
        }
        lists.table("},\n\"resourceTable\"", names.len());
        let resources = self.resource_order.iter();
        lists.list("lib", resources, |line, library| line.put(*library))?;
        lists.list("name", names.iter(), |line, name| line.put(*name))?;
        lists.list("host", names.iter(), |line, _| line.put_text("null"))?;
        // A library.
        lists.list("type", names.iter(), |line, _| line.put(1))?;
        lists.line.text("},\"nativeSymbols\":{\"length\":0,\"libIndex\":[],\"address\":[],\"name\":[],\"functionSize\":[]}");
        let texts = self.texts.order.iter();
        lists.list("stringArray", texts, |line, text| {
            line.quoted(text);
        })
    }
}

/// The name of a file without its folders.
pub(super) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Bytes that are kept before they are written.
const LINE_BYTES: usize = 1 << 16;

/// Tables whose columns are lists.
struct Lists<'o> {
    line: Vec<u8>,
    out: &'o mut dyn Write,
}

impl Lists<'_> {
    /// Begins a table behind what ends the one before.
    fn table(&mut self, name: &str, length: usize) {
        self.line
            .text(name)
            .text(":{\"length\":")
            .number(length as u64);
    }

    /// A member that is a list.
    fn list<T>(
        &mut self,
        key: &str,
        values: impl Iterator<Item = T>,
        put: impl Fn(&mut Vec<u8>, T),
    ) -> io::Result<()> {
        self.line.text(",\"").text(key).text("\":[");
        for (place, value) in values.enumerate() {
            if place > 0 {
                self.line.push(b',');
            }
            put(&mut self.line, value);
            if self.line.len() > LINE_BYTES {
                self.out.write_all(&self.line)?;
                self.line.clear();
            }
        }
        self.line.push(b']');
        self.out.write_all(&self.line)?;
        self.line.clear();
        Ok(())
    }
}

/// Values of lists.
trait PutValue {
    fn put(&mut self, number: usize);
    fn put_millis(&mut self, time_ns: u64);
    fn put_text(&mut self, text: &str);
    fn optional(&mut self, number: Option<usize>);
}

impl PutValue for Vec<u8> {
    fn put(&mut self, number: usize) {
        self.number(number as u64);
    }

    fn put_millis(&mut self, time_ns: u64) {
        self.millis(time_ns);
    }

    fn put_text(&mut self, text: &str) {
        self.text(text);
    }

    fn optional(&mut self, number: Option<usize>) {
        match number {
            Some(number) => self.put(number),
            None => self.put_text("null"),
        }
    }
}
