//! A look at a trace file without any trace processor: is it an exact sequence of packets, and what is in them?
//!
//! Cheap enough for hundreds of files, and independent of every decoder that the product has.

use std::collections::HashSet;
use std::fs;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use flate2::read::ZlibDecoder;

const TRACE_PACKET: u32 = 1;
const PACKET_PERF_SAMPLE: u32 = 66;
const PACKET_TRACK_EVENT: u32 = 11;
const SAMPLE_TIMEBASE_COUNT: u32 = 6;
const PACKET_SEQUENCE: u32 = 10;
const PACKET_COMPRESSED: u32 = 50;
const PACKET_DEFAULTS: u32 = 59;
const DEFAULTS_SAMPLE: u32 = 12;
const DEFAULTS_TIMEBASE: u32 = 1;
const TIMEBASE_FREQUENCY: u32 = 2;
const TIMEBASE_NAME: u32 = 10;
const PACKET_INTERNED: u32 = 12;
const INTERNED_CATEGORY: u32 = 1;
const CATEGORY_ID: u32 = 1;
const CATEGORY_NAME: u32 = 2;
const EVENT_CATEGORY_ID: u32 = 3;
const EVENT_TYPE: u32 = 9;
const TYPE_SLICE_BEGIN: u64 = 1;
const TYPE_SLICE_END: u64 = 2;

/// The time base of the samples of waiting threads.
pub(crate) const WAITING_TIME: &str = "waiting-time ns";

/// The time base of the samples of kernels.
pub(crate) const GPU_TIME: &str = "gpu-time ns";

/// The time base of the samples of calls.
pub(crate) const CALL_TIME: &str = "call-time ns";

/// What one file holds.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct PacketScan {
    /// All packets.
    pub packets: u64,
    /// `PerfSample` packets.
    pub samples: u64,
    /// The sum of their weights, in sampling periods.
    pub weight: u64,
    /// `PerfSample` packets of waiting threads; they are not among the others.
    pub wait_samples: u64,
    /// The sum of their weights.
    pub wait_ns: u64,
    /// `PerfSample` packets of kernels; they are not among the others either.
    pub gpu_samples: u64,
    /// The sum of their weights.
    pub gpu_ns: u64,
    /// `PerfSample` packets of calls that have their call stacks; they are not among the others either.
    pub call_samples: u64,
    /// Beginnings of slices.
    pub begins: u64,
    /// Those of kernels, by their category.
    pub kernel_begins: u64,
    /// Ends of slices.
    pub ends: u64,
    /// Bytes of a last, incomplete packet; 0 in a file that was closed.
    pub torn_bytes: usize,
}

/// Reads a whole file.
///
/// # Errors
/// When the file cannot be read, or something that is not a packet stands between two packets.
pub fn scan_packets(path: &Path) -> Result<PacketScan> {
    let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    scan(&bytes).with_context(|| format!("{} is not a sequence of packets", path.display()))
}

fn scan(bytes: &[u8]) -> Result<PacketScan> {
    let mut found = PacketScan::default();
    let mut time_base = TimeBase::default();
    found.torn_bytes = scan_sequence(bytes, &mut found, &mut time_base)?;
    found.weight = time_base.periods(found.weight);
    Ok(found)
}

/// Returns the bytes of a last, incomplete packet.
fn scan_sequence(bytes: &[u8], found: &mut PacketScan, time_base: &mut TimeBase) -> Result<usize> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let before = rest;
        match next_field(&mut rest) {
            Some((TRACE_PACKET, Value::Bytes(packet))) => scan_packet(packet, found, time_base)?,
            Some((number, _)) => bail!("field {number} at byte {}", bytes.len() - before.len()),
            None => return Ok(before.len()),
        }
    }
    Ok(0)
}

/// The unit in which the samples of a file are weighted.
#[derive(Default)]
struct TimeBase {
    hertz: u64,
    is_in_ns: bool,
    /// The sequences of samples of waiting threads, of kernels, and of calls.
    waiting: HashSet<u64>,
    kernels: HashSet<u64>,
    calls: HashSet<u64>,
    /// What stands for the category of kernels in each sequence.
    kernel_categories: HashSet<(u64, u64)>,
}

impl TimeBase {
    /// Finds the category of kernels in interned data.
    fn read_categories(&mut self, mut interned: &[u8], sequence: u64) -> Result<()> {
        while !interned.is_empty() {
            if let (INTERNED_CATEGORY, Value::Bytes(category)) =
                next_field(&mut interned).context("interned data hold a torn field")?
                && bytes_in(category, CATEGORY_NAME)? == Some(b"kernel")
                && let Some(id) = number_in(category, CATEGORY_ID)?
            {
                self.kernel_categories.insert((sequence, id));
            }
        }
        Ok(())
    }

    fn read(&mut self, defaults: &[u8], sequence: u64) -> Result<()> {
        let Some(sample) = bytes_in(defaults, DEFAULTS_SAMPLE)? else {
            return Ok(());
        };
        let Some(time_base) = bytes_in(sample, DEFAULTS_TIMEBASE)? else {
            return Ok(());
        };
        let name = bytes_in(time_base, TIMEBASE_NAME)?;
        for (other, sequences) in [
            (WAITING_TIME, &mut self.waiting),
            (GPU_TIME, &mut self.kernels),
            (CALL_TIME, &mut self.calls),
        ] {
            if name == Some(other.as_bytes()) {
                sequences.insert(sequence);
                return Ok(());
            }
        }
        self.hertz = number_in(time_base, TIMEBASE_FREQUENCY)?.unwrap_or(0);
        self.is_in_ns =
            bytes_in(time_base, TIMEBASE_NAME)?.is_some_and(|name| name.ends_with(b" ns"));
        Ok(())
    }

    fn periods(&self, weight: u64) -> u64 {
        if !self.is_in_ns {
            return weight;
        }
        let periods = u128::from(weight) * u128::from(self.hertz) + 500_000_000;
        u64::try_from(periods / 1_000_000_000).unwrap_or(u64::MAX)
    }
}

fn scan_packet(mut packet: &[u8], found: &mut PacketScan, time_base: &mut TimeBase) -> Result<()> {
    found.packets += 1;
    let sequence = number_in(packet, PACKET_SEQUENCE)?.unwrap_or(0);
    // They may stand behind the event that refers to them.
    if let Some(interned) = bytes_in(packet, PACKET_INTERNED)? {
        time_base.read_categories(interned, sequence)?;
    }
    while !packet.is_empty() {
        match next_field(&mut packet).context("a packet holds a torn field")? {
            (PACKET_PERF_SAMPLE, Value::Bytes(sample)) if time_base.waiting.contains(&sequence) => {
                found.wait_samples += 1;
                found.wait_ns += number_in(sample, SAMPLE_TIMEBASE_COUNT)?.unwrap_or(0);
            }
            (PACKET_PERF_SAMPLE, Value::Bytes(sample)) if time_base.kernels.contains(&sequence) => {
                found.gpu_samples += 1;
                found.gpu_ns += number_in(sample, SAMPLE_TIMEBASE_COUNT)?.unwrap_or(0);
            }
            (PACKET_PERF_SAMPLE, Value::Bytes(_)) if time_base.calls.contains(&sequence) => {
                found.call_samples += 1;
            }
            (PACKET_PERF_SAMPLE, Value::Bytes(sample)) => {
                found.samples += 1;
                // Without a count the sample stands for itself.
                found.weight += number_in(sample, SAMPLE_TIMEBASE_COUNT)?.unwrap_or(1);
            }
            (PACKET_COMPRESSED, Value::Bytes(compressed)) => {
                let mut inner = Vec::new();
                ZlibDecoder::new(compressed)
                    .read_to_end(&mut inner)
                    .context("packets do not inflate")?;
                let torn = scan_sequence(&inner, found, time_base)?;
                ensure!(torn == 0, "compressed packets end in a torn one");
            }
            (PACKET_DEFAULTS, Value::Bytes(defaults)) => time_base.read(defaults, sequence)?,
            (PACKET_TRACK_EVENT, Value::Bytes(event)) => match number_in(event, EVENT_TYPE)? {
                Some(TYPE_SLICE_BEGIN) => {
                    found.begins += 1;
                    let category = number_in(event, EVENT_CATEGORY_ID)?.unwrap_or(0);
                    let is_kernel = time_base.kernel_categories.contains(&(sequence, category));
                    found.kernel_begins += u64::from(is_kernel);
                }
                Some(TYPE_SLICE_END) => found.ends += 1,
                _ => {}
            },
            _ => {}
        }
    }
    Ok(())
}

fn number_in(mut message: &[u8], wanted: u32) -> Result<Option<u64>> {
    let mut found = None;
    while !message.is_empty() {
        if let (number, Value::Number(value)) =
            next_field(&mut message).context("a message holds a torn field")?
            && number == wanted
        {
            found = Some(value);
        }
    }
    Ok(found)
}

fn bytes_in(mut message: &[u8], wanted: u32) -> Result<Option<&[u8]>> {
    let mut found = None;
    while !message.is_empty() {
        if let (number, Value::Bytes(bytes)) =
            next_field(&mut message).context("a message holds a torn field")?
            && number == wanted
        {
            found = Some(bytes);
        }
    }
    Ok(found)
}

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// Takes one field off the front; nothing when it is cut off or malformed.
fn next_field<'a>(rest: &mut &'a [u8]) -> Option<(u32, Value<'a>)> {
    let tag = varint(rest)?;
    let number = u32::try_from(tag >> 3).ok().filter(|&number| number > 0)?;
    let value = match tag & 7 {
        0 => Value::Number(varint(rest)?),
        1 => Value::Bytes(take(rest, 8)?),
        2 => {
            let length = usize::try_from(varint(rest)?).ok()?;
            Value::Bytes(take(rest, length)?)
        }
        5 => Value::Bytes(take(rest, 4)?),
        _ => return None,
    };
    Some((number, value))
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, tail) = rest.split_at_checked(length)?;
    *rest = tail;
    Some(head)
}

fn varint(rest: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, tail) = rest.split_first()?;
        *rest = tail;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with one sample of weight 3, and one with the beginning of a slice.
    const TWO: &[u8] = &[0x0a, 5, 0x92, 0x04, 2, 0x30, 3, 0x0a, 4, 0x5a, 2, 0x48, 1];

    #[test]
    fn counts_what_is_there() {
        let found = scan(TWO).unwrap();
        assert_eq!(
            found,
            PacketScan {
                packets: 2,
                samples: 1,
                weight: 3,
                begins: 1,
                ..PacketScan::default()
            }
        );
    }

    #[test]
    fn kernels_are_known_by_their_category() {
        // A beginning of category 7, which is named behind it; one of the same number in another sequence.
        let event: &[u8] = &[0x5a, 4, 0x48, 1, 0x18, 7];
        let names: &[u8] = &[
            0x62, 12, 0x0a, 10, 0x08, 7, 0x12, 6, b'k', b'e', b'r', b'n', b'e', b'l',
        ];
        let first = [event, names, &[0x50, 1]].concat();
        let second = [event, &[0x50, 2]].concat();
        let packet = |body: &[u8]| [&[0x0a, body.len() as u8], body].concat();
        let found = scan(&[packet(&first), packet(&second)].concat()).unwrap();
        assert_eq!((found.begins, found.kernel_begins), (2, 1));
    }

    #[test]
    fn any_cut_loses_only_the_last_packet() {
        for cut in 8..TWO.len() {
            let found = scan(&TWO[..cut]).unwrap();
            assert_eq!((found.samples, found.torn_bytes), (1, cut - 7));
        }
    }

    #[test]
    fn a_stray_byte_between_packets_is_an_error() {
        let stray: Vec<u8> = [&TWO[..7], &[0x10, 0x00], &TWO[7..]].concat();
        assert!(scan(&stray).is_err());
    }
}
