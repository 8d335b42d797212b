//! Code objects that are put together byte by byte.

use super::*;

const BASE: u64 = 0x1600;

/// A unit of a line table with two kernels: lines 6 and 20 of its only file, each after a row that has no line.
fn unit(version: u16) -> Vec<u8> {
    let mut header = vec![4_u8];
    if version >= 4 {
        header.push(1);
    }
    // Default of is_stmt, line base -5, line range 14, first special opcode 13, and operands of the others.
    header.extend([1, (-5_i8).cast_unsigned(), 14, 13]);
    header.extend([0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1]);
    if version < 5 {
        header.extend(b"/here\0within\0\0");
        header.extend(b"other.py\0\x01\0\0kernels.py\0\x02\0\0\0");
    } else {
        // Directories: a path, in the text. Files: a path in `.debug_line_str`, a directory, a hash.
        header.extend([1, 1, 0x08, 2]);
        header.extend(b"/here\0within\0");
        header.extend([3, 1, 0x1f, 2, 0x0b, 5, 0x1e, 3]);
        for (text, directory) in [(0_u32, 0), (0, 0), (9, 1)] {
            header.extend(text.to_le_bytes());
            header.push(directory);
            header.extend([0; 16]);
        }
    }
    let mut program = vec![0, 9, 2];
    program.extend(BASE.to_le_bytes());
    // File 2; line 0 by -1; a row; line 6; the address by 2 × 4 and the line by 0, as a row.
    program.extend([4, 2, 3, 0x7f, 1, 3, 6, 13 + 5 + 2 * 14]);
    // Far beyond: the constant step of 17 × 4, by a number 46 × 4; line 20, as a row; the end.
    program.extend([8, 2, 46, 3, 14, 1, 2, 4, 0, 1, 1]);
    let header_bytes = (header.len() as u32).to_le_bytes();
    let mut content = version.to_le_bytes().to_vec();
    if version == 5 {
        content.extend([8, 0]);
    }
    content.extend(header_bytes);
    content.extend(header);
    content.extend(program);
    let mut unit = (content.len() as u32).to_le_bytes().to_vec();
    unit.extend(content);
    unit
}

/// A code object with two kernels, of which the second begins 260 bytes behind the first.
fn file(lines: &[u8]) -> Vec<u8> {
    let mut symbols = vec![0; 24];
    for (name, address, bytes) in [(1_u32, BASE, 256_u64), (7, BASE + 260, 64)] {
        symbols.extend(name.to_le_bytes());
        symbols.extend([0x12, 3]);
        symbols.extend(7_u16.to_le_bytes());
        symbols.extend(address.to_le_bytes());
        symbols.extend(bytes.to_le_bytes());
    }
    let names = b"\0.dynsym\0.dynstr\0.debug_line\0.debug_line_str\0.shstrtab\0";
    let at = |name: &[u8]| names.windows(name.len()).position(|part| part == name);
    let sections: [(&[u8], u32, &[u8], u32); 6] = [
        (b"\0", 0, b"", 0),
        (b".dynsym\0", 11, &symbols, 2),
        (b".dynstr\0", 3, b"\0first\0second\0", 0),
        (b".debug_line\0", 1, lines, 0),
        (b".debug_line_str\0", 1, b"other.py\0kernels.py\0", 0),
        (b".shstrtab\0", 3, names, 0),
    ];
    let mut file = vec![0; 64];
    let mut table = Vec::new();
    for (name, kind, content, link) in sections {
        table.extend((at(name).unwrap_or(0) as u32).to_le_bytes());
        table.extend(kind.to_le_bytes());
        table.extend([0; 16]);
        table.extend((file.len() as u64).to_le_bytes());
        table.extend((content.len() as u64).to_le_bytes());
        table.extend(link.to_le_bytes());
        table.extend([0; 20]);
        file.extend(content);
    }
    let table_at = (file.len() as u64).to_le_bytes();
    file.extend(table);
    file[..6].copy_from_slice(b"\x7fELF\x02\x01");
    file[18..20].copy_from_slice(&224_u16.to_le_bytes());
    file[40..48].copy_from_slice(&table_at);
    file[58..60].copy_from_slice(&64_u16.to_le_bytes());
    file[60..62].copy_from_slice(&(sections.len() as u16).to_le_bytes());
    file[62..64].copy_from_slice(&(sections.len() as u16 - 1).to_le_bytes());
    file
}

/// Names and lines, as [`each`] finds them.
fn found(file: &[u8]) -> Vec<(String, String)> {
    let Some(object) = CodeObject::new(file) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    BUSY.with(|| {
        each(&object, |name, line| {
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            found.push((text(name), text(line)));
        });
    });
    found
}

#[test]
fn kernels_are_named_by_file_and_line_in_every_version() {
    for version in 2..=5 {
        let kernels = found(&file(&unit(version)));
        let expected = [
            ("first".to_owned(), "/here/within/kernels.py:6".to_owned()),
            ("second".to_owned(), "/here/within/kernels.py:20".to_owned()),
        ];
        // Before version 5 directories are known by their own entries only.
        let expected = expected.map(|(name, line)| match version {
            5 => (name, line),
            _ => (name, line.replace("/here/", "")),
        });
        assert_eq!(kernels, expected, "version {version}");
    }
}

#[test]
fn damaged_code_objects_are_read_to_their_end() {
    for version in [4, 5] {
        let whole = file(&unit(version));
        for at in 0..whole.len() {
            found(&whole[..at]);
            for bit in [0x01, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= bit;
                found(&damaged);
            }
        }
    }
}

#[test]
fn what_has_no_line_table_or_a_large_one_is_left_alone() {
    assert_eq!(found(&file(&[])), []);
    let mut large = unit(4);
    assert_eq!(found(&file(&large)).len(), 2);
    large.resize((1 << 20) + 1, 0);
    assert_eq!(found(&file(&large)), []);
}

#[test]
fn lines_of_equal_names_stand_beside_each_other() {
    let mut buffer = [0; 64];
    let mut text = b"a.py:1".to_vec();
    for (said, all) in [
        ("a.py:1", "a.py:1"),
        ("a.py:12", "a.py:1 or a.py:12"),
        ("a.py:1", "a.py:1 or a.py:12"),
        ("a.py:2", "a.py:1 or a.py:12 or a.py:2"),
        (
            "/a/long/path/to/b.py:2000",
            "a.py:1 or a.py:12 or a.py:2 or others",
        ),
        ("c.py:1", "a.py:1 or a.py:12 or a.py:2 or others"),
    ] {
        text = join(&text, said.as_bytes(), &mut buffer).to_vec();
        assert_eq!(String::from_utf8_lossy(&text), all);
    }
}
