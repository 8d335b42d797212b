//! Whether an agent can be loaded into a program, judged by the first bytes of its file.

/// How many bytes of a file are enough: headers and the interpreter's name are at its start.
pub const HEAD_BYTES: usize = 64 * 1024;

/// What the head of an executable file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// An ELF program of this machine that the loader at this path starts.
    Dynamic(String),
    /// An ELF program of this machine without a loader.
    Static,
    /// An ELF file that does not fit; why, in words.
    Foreign(String),
    /// A script that this program interprets.
    Script(String),
    /// Something else: a shell takes it for a script.
    Other,
}

#[cfg(target_arch = "x86_64")]
const OUR_MACHINE: u16 = 62;
#[cfg(target_arch = "aarch64")]
const OUR_MACHINE: u16 = 183;
#[cfg(target_arch = "riscv64")]
const OUR_MACHINE: u16 = 243;

const CLASS_64: u8 = 2;
const LITTLE_ENDIAN: u8 = 1;
const PT_INTERP: u32 = 3;

/// What `head`, the first [`HEAD_BYTES`] of a file, says.
#[must_use]
pub fn kind_of(head: &[u8]) -> Kind {
    if let Some(line) = head.strip_prefix(b"#!") {
        return script_kind(line);
    }
    if !head.starts_with(b"\x7fELF") {
        return Kind::Other;
    }
    if head.get(4) != Some(&CLASS_64) {
        return Kind::Foreign("is a 32-bit program".to_owned());
    }
    if head.get(5) != Some(&LITTLE_ENDIAN) {
        return Kind::Foreign("is a program of another byte order".to_owned());
    }
    elf_kind(head).unwrap_or_else(|| Kind::Foreign("is a damaged ELF file".to_owned()))
}

fn script_kind(line: &[u8]) -> Kind {
    let line = line.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let interpreter = line
        .split(|byte| matches!(byte, b' ' | b'\t'))
        .find(|word| !word.is_empty());
    match interpreter {
        Some(path) => Kind::Script(String::from_utf8_lossy(path).into_owned()),
        None => Kind::Other,
    }
}

fn elf_kind(head: &[u8]) -> Option<Kind> {
    let machine = u16_at(head, 18)?;
    if machine != OUR_MACHINE {
        let text = format!("is a program for another machine (ELF machine {machine})");
        return Some(Kind::Foreign(text));
    }
    let table = usize::try_from(u64_at(head, 32)?).ok()?;
    let entry_bytes = usize::from(u16_at(head, 54)?);
    let entries = usize::from(u16_at(head, 56)?);
    for entry in 0..entries {
        let at = table.checked_add(entry * entry_bytes)?;
        if u32_at(head, at)? != PT_INTERP {
            continue;
        }
        let start = usize::try_from(u64_at(head, at + 8)?).ok()?;
        let size = usize::try_from(u64_at(head, at + 32)?).ok()?;
        // Some linkers put the name at the end of the file; the loader's identity is then unknown, its existence is not.
        let name = start
            .checked_add(size)
            .and_then(|end| head.get(start..end))
            .and_then(|name| name.split(|&byte| byte == 0).next())
            .unwrap_or_default();
        return Some(Kind::Dynamic(String::from_utf8_lossy(name).into_owned()));
    }
    Some(Kind::Static)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..at.checked_add(2)?)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let bytes = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_le_bytes(bytes.try_into().ok()?))
}

fn u64_at(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(8)?)?;
    Some(u64::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An ELF head of this machine with the given loader.
    fn elf(loader: Option<&str>) -> Vec<u8> {
        let mut head = vec![0; 64];
        head[..6].copy_from_slice(&[0x7f, b'E', b'L', b'F', CLASS_64, LITTLE_ENDIAN]);
        head[18..20].copy_from_slice(&OUR_MACHINE.to_le_bytes());
        head[32] = 64;
        head[54] = 56;
        if let Some(loader) = loader {
            head[56] = 1;
            let mut segment = [0; 56];
            segment[0] = 3;
            segment[8] = 120;
            segment[32] = loader.len() as u8 + 1;
            head.extend_from_slice(&segment);
            head.extend_from_slice(loader.as_bytes());
            head.push(0);
        }
        head
    }

    #[test]
    fn kinds_are_told_apart() {
        let mut small = elf(None);
        small[4] = 1;
        let mut arm = elf(None);
        arm[18] = 40;
        let table: &[(&[u8], Kind)] = &[
            (b"", Kind::Other),
            (b"echo hello\n", Kind::Other),
            (b"#!/bin/sh\n", Kind::Script("/bin/sh".into())),
            (
                b"#! /usr/bin/env python3\n",
                Kind::Script("/usr/bin/env".into()),
            ),
            (b"#!\n", Kind::Other),
            (&elf(None), Kind::Static),
            (
                &elf(Some("/lib64/ld.so")),
                Kind::Dynamic("/lib64/ld.so".into()),
            ),
            (&small, Kind::Foreign("is a 32-bit program".into())),
            (
                &arm,
                Kind::Foreign("is a program for another machine (ELF machine 40)".into()),
            ),
            (
                &elf(None)[..40],
                Kind::Foreign("is a damaged ELF file".into()),
            ),
        ];
        for (head, expected) in table {
            assert_eq!(
                kind_of(head),
                *expected,
                "{:?}",
                String::from_utf8_lossy(head)
            );
        }
    }

    proptest! {
        #[test]
        fn damaged_heads_are_survived(
            mut tail in proptest::collection::vec(any::<u8>(), 0..200),
            loader in any::<bool>(),
            at in 6_usize..120,
        ) {
            let mut head = elf(loader.then_some("/lib/ld.so"));
            let at = at.min(head.len());
            head.truncate(at);
            head.append(&mut tail);
            std::hint::black_box(kind_of(&head));
        }
    }
}
