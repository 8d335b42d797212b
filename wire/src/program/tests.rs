use super::*;
use proptest::prelude::*;

/// The head of a program of this machine with the given loader.
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

fn kind(file: &[u8]) -> Option<Kind> {
    kind_at("/opt/program", file)
}

fn kind_at(path: &str, file: &[u8]) -> Option<Kind> {
    kind_of(path.as_bytes(), |offset, buffer| {
        let rest = file.get(offset as usize..).unwrap_or_default();
        let length = rest.len().min(buffer.len());
        buffer[..length].copy_from_slice(&rest[..length]);
        length
    })
}

#[test]
fn kinds_are_told_apart() {
    let changed = |at: usize, value: u8| {
        let mut file = elf(None);
        file[at] = value;
        file
    };
    let script = |path: &[u8]| Kind::Script(Interpreter::new(path));
    let table: &[(&[u8], Kind)] = &[
        (b"echo hello\n", Kind::Other),
        (b"#!/bin/sh\n", script(b"/bin/sh")),
        (b"#! /usr/bin/env python3\n", script(b"/usr/bin/env")),
        (b"#!/bin/sh", script(b"/bin/sh")),
        (b"#!\n", Kind::Other),
        (&elf(None), Kind::Unfit(Obstacle::Static)),
        (&elf(Some("/lib64/ld-linux-x86-64.so.2")), Kind::Fits),
        (
            &elf(Some("/lib/ld-musl-x86_64.so.1")),
            Kind::Unfit(Obstacle::Musl),
        ),
        (
            &elf(Some("/lib/ld64-uClibc.so.1")),
            Kind::Unfit(Obstacle::OtherLibrary),
        ),
        (
            &elf(Some("/system/bin/linker64")),
            Kind::Unfit(Obstacle::OtherLibrary),
        ),
        (&changed(4, 1), Kind::Unfit(Obstacle::Bits32)),
        (&changed(5, 2), Kind::Unfit(Obstacle::ByteOrder)),
        (&changed(18, 40), Kind::Unfit(Obstacle::Machine)),
        (&elf(None)[..40], Kind::Unfit(Obstacle::Damaged)),
    ];
    for (file, expected) in table {
        let text = String::from_utf8_lossy(file);
        assert_eq!(kind(file), Some(*expected), "{text:?}");
    }
    assert_eq!(kind(b""), None);
}

#[test]
fn loaders_are_no_static_programs() {
    for (path, expected) in [
        ("/lib64/ld-linux-x86-64.so.2", Kind::Fits),
        ("/lib/x86_64-linux-gnu/ld-2.31.so", Kind::Fits),
        ("/usr/bin/ld.so", Kind::Fits),
        ("/lib/ld-musl-x86_64.so.1", Kind::Unfit(Obstacle::Musl)),
        ("/usr/bin/ld", Kind::Unfit(Obstacle::Static)),
    ] {
        assert_eq!(kind_at(path, &elf(None)), Some(expected), "{path}");
    }
}

#[test]
fn headers_behind_the_head_are_read() {
    let mut file = elf(Some("/lib/ld-musl-x86_64.so.1"));
    let far = HEAD_BYTES * 3;
    let segment = file.split_off(64);
    file.resize(far, 0);
    file.extend(segment);
    file[32..40].copy_from_slice(&(far as u64).to_le_bytes());
    let name_at = (far + 56) as u64;
    file[far + 8..far + 16].copy_from_slice(&name_at.to_le_bytes());
    assert_eq!(kind(&file), Some(Kind::Unfit(Obstacle::Musl)));
}

#[test]
fn obstacles_survive_their_numbers() {
    for obstacle in Obstacle::ALL {
        assert_eq!(Obstacle::from_number(obstacle as u32), Some(obstacle));
    }
    assert_eq!(Obstacle::from_number(0), None);
    assert_eq!(Obstacle::from_number(15), None);
}

proptest! {
    #[test]
    fn damaged_heads_are_survived(
        mut tail in proptest::collection::vec(any::<u8>(), 0..200),
        loader in any::<bool>(),
        at in 6_usize..120,
    ) {
        let mut head = elf(loader.then_some("/lib/ld.so"));
        head.truncate(at);
        head.append(&mut tail);
        std::hint::black_box(kind(&head));
    }
}
