//! The format of a cache file: what is known about the addresses of one module.
//!
//! ```text
//! "RSYSSYM\n"  version u32  check u64 (of all that follows)
//! fingerprint u64  build-id: length, bytes
//! strings:   count, then each: length, bytes (UTF-8)
//! frames:    count of lists, then each: count, then per frame: name, mangled + 1, file + 1, line + 1, inlined, function start
//! addresses: count, then each: difference to the one before, list + 1 (0: the file says nothing of it)
//! ```
//!
//! Fixed numbers are little-endian, all others LEB128. A reader takes nothing on trust: the check
//! catches torn and damaged files, and every index and length is compared with what is there, so
//! that a file made by somebody else can at most give wrong names.

use std::sync::Arc;

use rsys_proto::hashing::FastMap;

use super::types::Symbolized;

const MAGIC: &[u8; 8] = b"RSYSSYM\n";

/// Changes with the format and with the rules by which names are displayed.
const VERSION: u32 = 8;

/// The frames of an address; `None` if the module has neither name nor function for it.
pub(super) type Frames = Option<Arc<[Symbolized]>>;

/// What a cache file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct CacheContent {
    /// Stands for the files that the names came from.
    pub fingerprint: u64,
    /// Frames by address, sorted.
    pub addresses: Vec<(u64, Frames)>,
}

/// The bytes of a cache file. The addresses are sorted and distinct.
pub(super) fn encode(build_id: &[u8], content: &CacheContent) -> Vec<u8> {
    let mut strings = Indexer::default();
    let mut lists = Indexer::default();
    // Most addresses share their list with others: those that were read or made together.
    let mut shared: FastMap<*const Symbolized, u64> = FastMap::default();
    let mut frames = Vec::new();
    let mut addresses = Vec::new();
    let mut before = 0;
    put(&mut addresses, content.addresses.len() as u64);
    for (vaddr, list) in &content.addresses {
        put(&mut addresses, vaddr.wrapping_sub(before));
        before = *vaddr;
        let Some(list) = list else {
            put(&mut addresses, 0);
            continue;
        };
        let known = lists.items.len();
        let index = *shared
            .entry(list.as_ptr())
            .or_insert_with(|| lists.index(&**list));
        put(&mut addresses, index + 1);
        if lists.items.len() == known {
            continue;
        }
        put(&mut frames, list.len() as u64);
        for frame in list.iter() {
            put(&mut frames, strings.index(&*frame.name));
            put(
                &mut frames,
                frame
                    .mangled
                    .as_deref()
                    .map_or(0, |mangled| strings.index(mangled) + 1),
            );
            put(
                &mut frames,
                frame
                    .file
                    .as_deref()
                    .map_or(0, |file| strings.index(file) + 1),
            );
            put(
                &mut frames,
                frame.line.map_or(0, |line| u64::from(line) + 1),
            );
            put(&mut frames, u64::from(frame.inlined));
            put(&mut frames, frame.function_start);
        }
    }

    let mut body = content.fingerprint.to_le_bytes().to_vec();
    put_bytes(&mut body, build_id);
    put(&mut body, strings.items.len() as u64);
    for string in &strings.items {
        put_bytes(&mut body, string.as_bytes());
    }
    put(&mut body, lists.items.len() as u64);
    body.extend_from_slice(&frames);
    body.extend_from_slice(&addresses);

    let mut file = MAGIC.to_vec();
    file.extend_from_slice(&VERSION.to_le_bytes());
    file.extend_from_slice(&check(&body).to_le_bytes());
    file.extend_from_slice(&body);
    file
}

/// Reads a cache file; `None` unless all of it is in order and it is about this build-id.
pub(super) fn decode(
    file: &[u8],
    build_id: &[u8],
    mut intern: impl FnMut(&str) -> Arc<str>,
) -> Option<CacheContent> {
    let body = file
        .strip_prefix(MAGIC)?
        .strip_prefix(&VERSION.to_le_bytes())?;
    let (expected, body) = body.split_first_chunk::<8>()?;
    if check(body) != u64::from_le_bytes(*expected) {
        return None;
    }
    let (fingerprint, body) = body.split_first_chunk::<8>()?;
    let mut reader = Reader(body);
    if reader.bytes()? != build_id {
        return None;
    }

    let count = reader.count()?;
    let mut strings = Vec::with_capacity(count);
    for _ in 0..count {
        strings.push(intern(std::str::from_utf8(reader.bytes()?).ok()?));
    }
    let string = |index: u64| strings.get(usize::try_from(index).ok()?).cloned();
    let optional = |index: u64| match index.checked_sub(1) {
        None => Some(None),
        Some(index) => string(index).map(Some),
    };

    let count = reader.count()?;
    let mut lists: Vec<Arc<[Symbolized]>> = Vec::with_capacity(count);
    for _ in 0..count {
        let frames = reader.count()?;
        if frames == 0 {
            return None;
        }
        let mut list = Vec::with_capacity(frames);
        for _ in 0..frames {
            list.push(Symbolized {
                name: string(reader.number()?)?,
                mangled: optional(reader.number()?)?,
                file: optional(reader.number()?)?,
                line: match reader.number()?.checked_sub(1) {
                    None => None,
                    Some(line) => Some(u32::try_from(line).ok()?),
                },
                inlined: reader.number()? != 0,
                function_start: reader.number()?,
            });
        }
        lists.push(list.into());
    }

    let count = reader.count()?;
    let mut addresses = Vec::with_capacity(count);
    let mut vaddr = 0_u64;
    for index in 0..count {
        let step = reader.number()?;
        if index > 0 && step == 0 {
            return None;
        }
        vaddr = vaddr.checked_add(step)?;
        let list = match reader.number()?.checked_sub(1) {
            None => None,
            Some(list) => Some(Arc::clone(lists.get(usize::try_from(list).ok()?)?)),
        };
        addresses.push((vaddr, list));
    }
    reader.0.is_empty().then(|| CacheContent {
        fingerprint: u64::from_le_bytes(*fingerprint),
        addresses,
    })
}

/// Numbers distinct values in the order in which they come.
struct Indexer<'a, T: ?Sized> {
    indices: FastMap<&'a T, u64>,
    items: Vec<&'a T>,
}

impl<T: ?Sized> Default for Indexer<'_, T> {
    fn default() -> Self {
        Self {
            indices: FastMap::default(),
            items: Vec::new(),
        }
    }
}

impl<'a, T: ?Sized + Eq + std::hash::Hash> Indexer<'a, T> {
    fn index(&mut self, item: &'a T) -> u64 {
        let next = self.items.len() as u64;
        let index = *self.indices.entry(item).or_insert(next);
        if index == next {
            self.items.push(item);
        }
        index
    }
}

fn put(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let (&byte, rest) = self.0.split_first()?;
            self.0 = rest;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// A number of things of at least one byte each: never more than there are bytes, so that it is
    /// safe to allocate for it.
    fn count(&mut self) -> Option<usize> {
        let count = usize::try_from(self.number()?).ok()?;
        (count <= self.0.len()).then_some(count)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = self.count()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }
}

/// A check of eight bytes at a time; finds accidents, not attacks.
fn check(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut state = FACTOR ^ bytes.len() as u64;
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        let mut word = [0; 8];
        word.copy_from_slice(chunk);
        state = (state ^ u64::from_le_bytes(word)).wrapping_mul(FACTOR);
        state ^= state >> 29;
    }
    for &byte in chunks.remainder() {
        state = (state ^ u64::from(byte)).wrapping_mul(FACTOR);
        state ^= state >> 29;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUILD_ID: &[u8] = &[1, 2, 3, 4, 5, 6, 7, 8];

    fn sample() -> CacheContent {
        let frame = |name: &str, line: Option<u32>, inlined: bool| Symbolized {
            name: name.into(),
            mangled: (line == Some(7)).then(|| "_Zmangled".into()),
            file: line.map(|_| "/src/ä.c".into()),
            line,
            inlined,
            function_start: 0x1000,
        };
        let plain: Arc<[Symbolized]> = [frame("outer", None, false)].into();
        let inlined: Arc<[Symbolized]> = [
            frame("inner", Some(7), true),
            frame("outer", Some(u32::MAX), false),
        ]
        .into();
        CacheContent {
            fingerprint: 99,
            addresses: vec![
                (0, Some(Arc::clone(&plain))),
                (0x1000, Some(inlined)),
                (0x1001, None),
                (u64::MAX, Some(plain)),
            ],
        }
    }

    fn read(file: &[u8]) -> Option<CacheContent> {
        decode(file, BUILD_ID, |text| Arc::from(text))
    }

    #[test]
    fn round_trip() {
        let content = sample();
        assert_eq!(read(&encode(BUILD_ID, &content)), Some(content));
        let empty = CacheContent::default();
        assert_eq!(read(&encode(BUILD_ID, &empty)), Some(empty));
    }

    #[test]
    fn another_build_id_is_refused() {
        assert_eq!(read(&encode(&[9; 8], &sample())), None);
    }

    #[test]
    fn torn_and_damaged_files_are_refused() {
        let file = encode(BUILD_ID, &sample());
        for length in 0..file.len() {
            assert_eq!(read(&file[..length]), None, "cut at {length}");
        }
        for at in 0..file.len() {
            for bit in 0..8 {
                let mut damaged = file.clone();
                damaged[at] ^= 1 << bit;
                assert_eq!(read(&damaged), None, "bit {bit} of byte {at}");
            }
        }
    }

    /// Files whose check is right and whose content is not: what an attacker could write.
    #[test]
    fn hostile_files_do_no_harm() {
        let file = encode(BUILD_ID, &sample());
        let mut state = 42_u64;
        for _ in 0..50_000 {
            let mut body = file[20..].to_vec();
            for _ in 0..3 {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let at = (state >> 33) as usize % body.len();
                body[at] =
                    [0, 1, 0x7f, 0x80, 0xff, (state >> 20) as u8][(state >> 50) as usize % 6];
            }
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            body.truncate(body.len() - (state >> 60) as usize % 3);
            let mut hostile = file[..12].to_vec();
            hostile.extend_from_slice(&check(&body).to_le_bytes());
            hostile.extend_from_slice(&body);
            if let Some(content) = read(&hostile) {
                assert!(
                    content
                        .addresses
                        .is_sorted_by(|left, right| left.0 < right.0)
                );
                assert!(
                    content
                        .addresses
                        .iter()
                        .all(|(_, list)| list.as_ref().is_none_or(|list| !list.is_empty()))
                );
            }
        }
    }
}
