//! Texts in whole words: names of a fixed length, and bytes padded with zeros.

/// A thread's name as the kernel keeps it: up to 15 bytes and NUL.
pub type ThreadName = [u8; 16];

pub(crate) fn name_words(name: &ThreadName) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h, rest @ ..] = *name;
    [
        u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        u64::from_le_bytes(rest),
    ]
}

pub(crate) fn name_of(words: &[u64]) -> Option<ThreadName> {
    bytes_of(words, 16)?.try_into().ok()
}

pub(crate) fn bytes_of(words: &[u64], length: usize) -> Option<Vec<u8>> {
    let words = words.get(..length.div_ceil(8))?;
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.truncate(length);
    Some(bytes)
}
