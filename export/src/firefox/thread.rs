//! The tables of a thread, to which samples and markers are added one by one.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io::{self, Write};

use rsys_analysis::containers::packed_rows::{PackedRows, Row};

use crate::put::Put;
use crate::rows::{ByWord, Word};
use crate::run::Run;
use crate::stacks::{Frame, Stacks};

use super::{GPU, KINDS, MARK, NATIVE, PYTHON};

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
pub(super) struct Marker<'t> {
    /// Its place in [`KINDS`].
    pub kind: usize,
    pub name: Word<'t>,
    pub start_ns: u64,
    /// `None` for a point in time.
    pub end_ns: Option<u64>,
    /// What its kind says in texts, in that order; empty ones say nothing.
    pub texts: [Word<'t>; 2],
    /// And in numbers.
    pub numbers: [Option<u64>; 2],
}

/// Numbers that may not be there, as rows have them.
fn known(row: u64) -> Option<u64> {
    row.checked_sub(1)
}

/// A call stack: the frame, its category, and the stack of the caller.
type Node = (usize, usize, Option<usize>);

/// A function: its name, its library and its file.
type Function = (usize, Option<usize>, Option<usize>);

/// A thread, or a stream of a GPU. Samples and markers are in a file.
#[derive(Debug)]
pub(super) struct Thread {
    pub texts: Texts,
    /// Texts by the words of the names of markers.
    names: ByWord<usize, usize>,
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
    /// Time, and how many came before; stack and one more, 0 for none, and nanoseconds.
    samples: PackedRows<4>,
    /// Begin, the time from the end to [`u64::MAX`], how many came before; kind, name, two texts, and two numbers and one more, 0 for none.
    markers: PackedRows<9>,
    /// The first begin and the last end.
    pub first_ns: u64,
    pub last_ns: u64,
}

impl Thread {
    /// Nothing so far.
    pub(super) fn new(run: &Run<'_>) -> Self {
        Self {
            texts: Texts::default(),
            names: ByWord::default(),
            rows: HashMap::new(),
            nodes: Vec::new(),
            frames: HashMap::new(),
            frame_order: Vec::new(),
            functions: HashMap::new(),
            function_order: Vec::new(),
            resources: HashMap::new(),
            resource_order: Vec::new(),
            samples: run.rows(),
            markers: run.rows(),
            first_ns: u64::MAX,
            last_ns: 0,
        }
    }

    fn covers(&mut self, start_ns: u64, end_ns: u64) {
        self.first_ns = self.first_ns.min(start_ns);
        self.last_ns = self.last_ns.max(end_ns);
    }

    /// Adds a sample.
    pub(super) fn sample(&mut self, time_ns: u64, stack: Option<usize>, weight: u64) {
        self.covers(time_ns, time_ns);
        let stack = stack.map_or(0, |stack| stack as u64 + 1);
        let before = self.samples.len() as u64;
        self.samples.push([time_ns, before, stack, weight]);
    }

    /// Adds a marker, whose texts have these numbers.
    pub(super) fn mark(&mut self, marker: &Marker<'_>, said: [usize; 2]) {
        let &Marker { start_ns, kind, .. } = marker;
        self.covers(start_ns, marker.end_ns.unwrap_or(start_ns));
        let number = |name: &str| Ok::<_, Infallible>(self.texts.number(name));
        let Ok(name) = self.names.get(kind, marker.name, number);
        let until_last_ns = u64::MAX - marker.end_ns.unwrap_or(0);
        let before = self.markers.len() as u64;
        let [first, second] = said.map(|text| text as u64);
        let numbers = marker.numbers;
        let [one, other] =
            numbers.map(|number| number.map_or(0, |number| number.saturating_add(1)));
        self.markers.push([
            start_ns,
            until_last_ns,
            before,
            kind as u64,
            name as u64,
            first,
            second,
            one,
            other,
        ]);
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
        said: &Texts,
        base_ns: u64,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        self.samples.sort();
        self.markers.sort();
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
        lists.list("stack", samples(), |line, [_, _, stack, _]| {
            line.optional(known(stack).map(|stack| stack as usize));
        })?;
        lists.list("time", samples(), |line, [time_ns, ..]| {
            line.put_millis(since(time_ns));
        })?;
        lists.list("weight", samples(), |line, [.., weight]| {
            line.put_millis(weight);
        })?;
        let markers = || self.markers.iter();
        lists.table("},\"markers\"", self.markers.len());
        let kind = |marker: Row<9>| marker[3] as usize;
        lists.list("name", markers(), |line, one| line.put(one[4] as usize))?;
        lists.list("startTime", markers(), |line, [start_ns, ..]| {
            line.put_millis(since(start_ns));
        })?;
        lists.list("endTime", markers(), |line, one| match kind(one) {
            MARK => line.put_text("null"),
            _ => line.put_millis(since(u64::MAX - one[1])),
        })?;
        // 0 is a point in time, 1 a time with both ends.
        lists.list("phase", markers(), |line, one| {
            line.put(usize::from(kind(one) != MARK));
        })?;
        lists.list("category", markers(), |line, one| {
            line.put(KINDS[kind(one)].1);
        })?;
        lists.list("data", markers(), |line, one| put_data(line, one, said))?;
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

/// Writes what a marker says, in JSON.
fn put_data(line: &mut Vec<u8>, marker: Row<9>, said: &Texts) {
    let [_, _, _, kind, _, first, second, one, other] = marker;
    let (name, _, fields) = KINDS[kind as usize];
    let (mut texts, mut numbers) = ([first, second].into_iter(), [one, other].into_iter());
    line.text("{\"type\":\"").text(name).text("\"");
    for [key, _, format] in fields {
        if *format == "string" {
            let text = texts.next().and_then(|text| said.order.get(text as usize));
            if let Some(text) = text.filter(|text| !text.is_empty()) {
                line.text(",\"").text(key).text("\":").quoted(text);
            }
        } else if let Some(number) = numbers.next().and_then(known) {
            line.text(",\"").text(key).text("\":").number(number);
        }
    }
    line.push(b'}');
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
        // Rows of packed lists come chunk by chunk so, which is faster than one by one.
        values.enumerate().try_for_each(|(place, value)| {
            if place > 0 {
                self.line.push(b',');
            }
            put(&mut self.line, value);
            if self.line.len() > LINE_BYTES {
                self.out.write_all(&self.line)?;
                self.line.clear();
            }
            Ok::<_, io::Error>(())
        })?;
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
