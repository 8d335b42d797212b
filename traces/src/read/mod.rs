//! One reader for each kind of file. A reader turns a file into batches of records and knows nothing of what is asked.
//!
//! What cannot be read is left out with a [`Notice`](crate::model::Notice) that says where and how much; what remains is an answer still.

mod chain;
mod checked;
mod foreign;
mod json;
mod kineto;
mod known;
mod left_out;
mod named;
mod ordered;
mod perfetto;
mod rocprofv3;
mod seen;
mod xplane;

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use flate2::read::MultiGzDecoder;
use thiserror::Error;

use rsys_proto::reader::PacketReader;

use crate::model::{Batch, Kinds, Model};
use crate::perfetto::{EventHead, PacketHead, facts};
pub use chain::{Chain, further_parts, is_further_part};
use checked::Checked;
pub use foreign::foreign_kind;
use kineto::KinetoReader;
use ordered::{Ordered, Rows};
use perfetto::PerfettoReader;
use rocprofv3::{CsvReader, JsonReader};
use xplane::XplaneReader;

/// Records that a reader hands out at once, more or less.
pub const BATCH_RECORDS: usize = 8192;

/// Why a file cannot be read at all.
#[derive(Debug, Error)]
pub enum OpenError {
    /// It cannot be opened or its first bytes cannot be read.
    #[error("cannot read {}", .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// Its first bytes are of no kind that is known.
    #[error("{}: neither a Perfetto trace in protobuf form nor JSON or tables of a profiler, nor a database of one", .0.display())]
    Unknown(PathBuf),
    /// It is of a kind that is known, and that is not read.
    #[error("{path}: {what}", path = .0.display(), what = .1)]
    Named(PathBuf, &'static str),
    /// It is read in place, so it cannot be packed.
    #[error("{}: a packed database; unpack it first", .0.display())]
    Packed(PathBuf),
}

/// A kind of file that is read elsewhere, so that what reads it need not be built into this crate.
#[derive(Debug, Clone, Copy)]
pub struct FurtherKind {
    /// What such files begin with, at most 16 bytes.
    pub begins_with: &'static [u8],
    /// A reader for a file.
    pub open: fn(&Path, Kinds) -> Opened,
}

/// A reader, or why there is none.
pub type Opened = Result<Box<dyn Reader>, OpenError>;

static FURTHER_KINDS: OnceLock<&'static [FurtherKind]> = OnceLock::new();

/// Has [`open`] know further kinds of files from now on. Only the first call counts.
pub fn understand(kinds: &'static [FurtherKind]) {
    FURTHER_KINDS.get_or_init(|| kinds);
}

/// The further kind of a file that begins like this.
fn further_kind(start: &[u8]) -> Option<FurtherKind> {
    let kinds = FURTHER_KINDS.get()?.iter();
    kinds
        .copied()
        .find(|kind| start.starts_with(kind.begins_with))
}

/// The records of one file.
pub trait Reader: Send {
    /// Appends some [`BATCH_RECORDS`] records to `batch`, and what they refer to to `model`. `false` at the end of the file; there may be
    /// records in the batch even then.
    fn read(&mut self, model: &mut Model, batch: &mut Batch) -> bool;

    /// The time that records have whose file says 0.
    fn zero_ns(&self) -> u64 {
        0
    }
}

/// How many bytes of files were read so far, as they lie on the disk.
#[derive(Debug, Clone, Default)]
pub struct BytesRead(Arc<AtomicU64>);

impl BytesRead {
    /// The number.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A file, with those in which its trace goes on, whose bytes are counted as they are read.
struct Counted {
    file: Chain,
    read_bytes: BytesRead,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.file.read(buffer)?;
        self.read_bytes.0.fetch_add(count as u64, Ordering::Relaxed);
        Ok(count)
    }
}

/// A file, unpacked if it is gzip or zstd.
type Input = Box<dyn Read + Send>;

/// A reader for a file and those in which its trace goes on, whose kind is known by its first bytes. Records of other kinds than `kinds` may be left out. They
/// come as the file has them.
///
/// # Errors
/// When the file cannot be opened or is of no known kind.
pub fn open(path: &Path, kinds: Kinds) -> Opened {
    opened(path, kinds, &BytesRead::default(), true, Order::OfFile)
}

/// [`open`], which tells others meanwhile how much of the file was read, and unpacks it by a thread of its own only where `is_ahead`. The order in which a file
/// of another profiler lists things counts nowhere.
///
/// # Errors
/// As [`open`].
pub fn open_counted(path: &Path, kinds: Kinds, read_bytes: &BytesRead, is_ahead: bool) -> Opened {
    opened(path, kinds, read_bytes, is_ahead, Order::OfContents)
}

/// In which order records of files of other profilers come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    OfFile,
    OfContents,
}

fn opened(
    path: &Path,
    kinds: Kinds,
    read_bytes: &BytesRead,
    is_ahead: bool,
    order: Order,
) -> Opened {
    let checked = |reader: Box<dyn Reader>, rows: Rows| -> Box<dyn Reader> {
        let ordered: Box<dyn Reader> = match order {
            Order::OfFile => reader,
            Order::OfContents => Box::new(Ordered::new(reader, rows)),
        };
        // What others have written need not have times that can be right.
        Box::new(Checked::new(ordered, path.display().to_string()))
    };
    let failed = |error| OpenError::Io(path.to_path_buf(), error);
    let file = Counted {
        file: Chain::open(path).map_err(failed)?,
        read_bytes: read_bytes.clone(),
    };
    let (start, input, is_packed) = unpacked(Box::new(file)).map_err(failed)?;
    if let Some(what) = named::what_it_is(path, &start) {
        return Err(OpenError::Named(path.to_path_buf(), what));
    }
    if let Some(kind) = further_kind(&start) {
        if is_packed {
            return Err(OpenError::Packed(path.to_path_buf()));
        }
        let bytes = std::fs::metadata(path).map_or(0, |about| about.len());
        read_bytes.0.fetch_add(bytes, Ordering::Relaxed);
        return (kind.open)(path, kinds).map(|reader| checked(reader, Rows::Ordered));
    }
    if kineto::is_json(&start[..start.len().min(JSON_START_BYTES)]) {
        let reader: Box<dyn Reader> = match is_of_rocprofv3(&start) {
            true => Box::new(JsonReader::new(path, input, kinds)),
            false => Box::new(KinetoReader::new(path, input, kinds)),
        };
        return Ok(checked(reader, Rows::Unordered));
    }
    if xplane::is_one(&start) || has_ending(path, xplane::ENDING) {
        let reader = XplaneReader::new(path, input, kinds);
        return Ok(checked(Box::new(reader), Rows::Unordered));
    }
    // A table may be empty or damaged: the others of its process count.
    if rocprofv3::is_table(&start) || !rocprofv3::csv_companions(path).is_empty() {
        let reader = CsvReader::new(path, kinds, read_bytes);
        return Ok(checked(Box::new(reader), Rows::Unordered));
    }
    match start.first() {
        // An empty file is what a killed profiler leaves.
        None | Some(0x0A) => Ok(Box::new(PerfettoReader::new(path, input, kinds, is_ahead))),
        _ => Err(OpenError::Unknown(path.to_path_buf())),
    }
}

/// Whether a file begins as JSON with events, plain or packed, whatever it is called.
#[must_use]
pub fn has_events(path: &Path) -> bool {
    let opened = Chain::open(path).and_then(|file| unpacked(Box::new(file)));
    opened.is_ok_and(|(start, ..)| {
        let keys: [&[u8]; 3] = [b"\"traceEvents\"", b"\"ph\"", rocprofv3::KEY];
        let has = |key: &&[u8]| memchr::memmem::find(&start, key).is_some();
        kineto::is_json(&start[..start.len().min(JSON_START_BYTES)]) && keys.iter().any(has)
    })
}

/// Whether a file is called so.
fn has_ending(path: &Path, ending: &str) -> bool {
    let name = path.file_name().map(|name| name.to_string_lossy());
    name.is_some_and(|name| name.ends_with(ending))
}

/// Whether the first bytes are enough to tell a trace in protobuf form from JSON: of more, some may be of any alphabet.
const JSON_START_BYTES: usize = 16;

/// The bytes from which the format of a file is recognised: a first line with the names of columns is long.
const START_BYTES: u64 = 16 << 10;

/// Whether JSON that begins like this is of rocprofv3: its member comes before a list of events.
fn is_of_rocprofv3(start: &[u8]) -> bool {
    let place = |key: &[u8]| start.windows(key.len()).position(|bytes| bytes == key);
    match (place(rocprofv3::KEY), place(b"traceEvents")) {
        (Some(ours), Some(events)) => ours < events,
        (ours, _) => ours.is_some(),
    }
}

/// The content of a file, for those who read it once more.
fn input(path: &Path) -> io::Result<Input> {
    counted_input(path, &BytesRead::default())
}

/// [`input`], whose bytes count.
fn counted_input(path: &Path, read_bytes: &BytesRead) -> io::Result<Input> {
    let file = Counted {
        file: Chain::open(path)?,
        read_bytes: read_bytes.clone(),
    };
    Ok(unpacked(Box::new(file))?.1)
}

/// The first bytes of what a file holds, all of it, and whether it was packed.
fn unpacked(packed: Input) -> io::Result<(Vec<u8>, Input, bool)> {
    let (start, whole) = with_start(packed)?;
    let whole: Input = match start.as_slice() {
        [0x1F, 0x8B, ..] => Box::new(MultiGzDecoder::new(whole)),
        // A frame, or one that is skipped (RFC 8878, 3.1). Frames that need more than 128 MiB are refused by the library.
        [0x28, 0xB5, 0x2F, 0xFD, ..] | [0x50..=0x5F, 0x2A, 0x4D, 0x18, ..] => {
            Box::new(zstd::stream::read::Decoder::new(whole)?)
        }
        _ => return Ok((start, whole, false)),
    };
    let (start, whole) = with_start(whole)?;
    Ok((start, whole, true))
}

/// The first bytes of an input, and the whole of it. Where it cannot be read further, that is said when it is read there again.
fn with_start(mut input: Input) -> io::Result<(Vec<u8>, Input)> {
    let mut start = Vec::with_capacity(START_BYTES as usize);
    let end: Input = match input.by_ref().take(START_BYTES).read_to_end(&mut start) {
        Ok(_) => input,
        Err(error) if start.is_empty() => return Err(error),
        Err(error) => Box::new(Failing(Some(error))),
    };
    let whole = io::Cursor::new(start.clone()).chain(end);
    Ok((start, Box::new(whole)))
}

/// What cannot be read.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

/// Whether a file is a trace that `rsys-report merge` made: the first event of such a one says so.
#[must_use]
pub fn is_merged(path: &Path) -> bool {
    /// A merged trace begins with descriptions and clocks; those of others may be long.
    const PACKETS_MAX: usize = 4096;
    let Ok(file) = File::open(path) else {
        return false;
    };
    let mut packets = PacketReader::new(file);
    for _ in 0..PACKETS_MAX {
        let Ok(Some(encoded)) = packets.next_encoded() else {
            return false;
        };
        let Ok(head) = PacketHead::read(encoded) else {
            return false;
        };
        if let Some(event) = head.event {
            let event = EventHead::read(event);
            return event.is_ok_and(|event| event.name == Some(facts::MERGED.as_bytes()));
        }
    }
    false
}
