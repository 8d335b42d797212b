//! The loader's own list of libraries, `/etc/ld.so.cache`.

use std::path::PathBuf;

use crate::roots::Roots;

const MAGIC: &[u8] = b"glibc-ld.so.cache1.1";
/// The kind of entry: ELF of glibc for x86-64.
const X86_64: u32 = 0x0303;
const ENTRY_BYTES: usize = 24;

/// Names and paths in the order of the file; none where there is no such file, or one of another kind.
#[must_use]
pub fn read(roots: &Roots) -> Vec<(String, PathBuf)> {
    let bytes = std::fs::read(roots.path("etc/ld.so.cache")).unwrap_or_default();
    parse(&bytes).unwrap_or_default()
}

fn parse(bytes: &[u8]) -> Option<Vec<(String, PathBuf)>> {
    // Older formats stand before the one that is read.
    let start = bytes
        .windows(MAGIC.len())
        .position(|window| window == MAGIC)?;
    let cache = bytes.get(start..)?;
    let number = |at: usize| -> Option<u32> {
        let bytes = cache.get(at..at.checked_add(4)?)?;
        Some(u32::from_le_bytes(bytes.try_into().ok()?))
    };
    let text = |at: u32| -> Option<String> {
        let tail = cache.get(usize::try_from(at).ok()?..)?;
        let end = tail.iter().position(|byte| *byte == 0)?;
        Some(String::from_utf8_lossy(&tail[..end]).into_owned())
    };
    let count = usize::try_from(number(MAGIC.len())?).ok()?;
    let entries = (0..count).map_while(|place| {
        let at = 48_usize.checked_add(place.checked_mul(ENTRY_BYTES)?)?;
        // Variants for certain processors have capabilities.
        let capabilities = u64::from(number(at + 16)?) | u64::from(number(at + 20)?) << 32;
        let fits = number(at)? == X86_64 && capabilities == 0;
        Some(
            fits.then(|| {
                Some((
                    text(number(at + 4)?)?,
                    PathBuf::from(text(number(at + 8)?)?),
                ))
            })
            .flatten(),
        )
    });
    Some(entries.flatten().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with one library, as ldconfig writes it.
    fn cache(kind: u32, capabilities: u64) -> Vec<u8> {
        let names = b"libx.so.1\0/opt/x/libx.so.1\0";
        let mut bytes = MAGIC.to_vec();
        bytes.extend(1_u32.to_le_bytes());
        bytes.extend((names.len() as u32).to_le_bytes());
        bytes.resize(48, 0);
        for word in [kind, 72, 82, 0] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(capabilities.to_le_bytes());
        bytes.extend(names);
        bytes
    }

    #[test]
    fn entries_of_this_processor_count() {
        let expected = vec![("libx.so.1".to_owned(), PathBuf::from("/opt/x/libx.so.1"))];
        assert_eq!(parse(&cache(X86_64, 0)), Some(expected));
        assert_eq!(parse(&cache(3, 0)), Some(Vec::new()));
        assert_eq!(parse(&cache(X86_64, 1 << 62)), Some(Vec::new()));
    }

    #[test]
    fn any_bytes_are_read() {
        let whole = cache(X86_64, 0);
        for end in 0..whole.len() {
            parse(&whole[..end]);
        }
        for at in MAGIC.len()..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] = 0xff;
            parse(&damaged);
        }
    }
}
