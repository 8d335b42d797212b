use super::*;

/// A number that looks random.
fn scramble(number: u64) -> u64 {
    let mixed = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9)
}

#[test]
fn rows_are_read_in_order_whenever_they_came() {
    let count = 3 * WAITING as u64 + 77;
    let mut rows = PackedRows::default();
    let mut expected = Vec::new();
    for number in 0..count {
        // One in a thousand comes very late, and numbers have all lengths.
        let late = number % 1000 == 999;
        let key = if late {
            number / 2
        } else {
            3 * number + scramble(number) % 16
        };
        let row = [key, scramble(number) >> (number % 64)];
        rows.push(row);
        expected.push(row);
    }
    expected.sort_unstable();
    assert_eq!(rows.len(), expected.len());
    rows.sort();
    for (number, row) in expected.iter().enumerate() {
        assert_eq!(rows.get(number), Some(*row));
    }
    assert_eq!(rows.get(expected.len()), None);
    for key in [0, 1, 3 * 65, count, 4 * count] {
        let place = rows.partition_point(|row| row[0] < key);
        assert_eq!(place, expected.partition_point(|row| row[0] < key), "{key}");
    }
}

#[test]
fn rows_are_made_one_with_those_behind_them() {
    let mut rows = PackedRows::default();
    let expected: Vec<[u64; 2]> = (0..1000)
        .map(|number| [10 * number, 10 * number + 7])
        .collect();
    for part in 0..3 {
        let parts = expected
            .iter()
            .map(|row| [row[0] + 2 * part, row[0] + 2 * part + 3]);
        parts.for_each(|row| rows.push(row));
        rows.unite(|before, row| {
            let touches = row[0] <= before[1];
            before[1] = if touches {
                row[1].max(before[1])
            } else {
                before[1]
            };
            touches
        });
    }
    assert_eq!(rows.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn rows_of_calls_take_few_bytes() {
    let mut rows = PackedRows::default();
    let count = 10 * WAITING as u64;
    for number in 0..count {
        rows.push([
            number,
            4_000 * number,
            3_000 + scramble(number) % 1_000,
            7,
            12,
        ]);
    }
    rows.sort();
    let bytes: usize = rows.runs[0].pieces.iter().map(Vec::len).sum();
    assert!(bytes as u64 <= 8 * count, "{bytes} bytes for {count} rows");
}

#[test]
fn what_is_not_kept_is_gone() {
    let mut rows = PackedRows::default();
    (0..1000_u64).for_each(|number| rows.push([number]));
    rows.pop_while(|row| row[0] >= 900);
    rows.settle(|row| row[0] % 2 == 0);
    assert_eq!(rows.len(), 450);
    assert_eq!(rows.get(449), Some([898]));
    let mut none = PackedRows::<1>::default();
    none.sort();
    assert_eq!((none.get(0), none.partition_point(|_| true)), (None, 0));
}

#[test]
fn rows_that_were_moved_to_a_file_are_read_as_before() {
    let path = std::env::temp_dir().join(format!("rsys-rows-{}", std::process::id()));
    let file = std::fs::File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path)
        .unwrap();
    std::fs::remove_file(&path).unwrap();
    let file = Arc::new(RowFile::new(file));
    // More than one piece each.
    let expected = |of: u64| -> Vec<[u64; 2]> {
        (0..200_000)
            .map(|number| [3 * number, scramble(number + of)])
            .collect()
    };
    let both = [7, 1000].map(|of| {
        let mut rows = PackedRows::default();
        expected(of).into_iter().for_each(|row| rows.push(row));
        rows.sort();
        assert!(rows.runs[0].pieces.len() > 1);
        rows.move_to(&file);
        assert!(rows.runs[0].pieces.is_empty());
        // Again, which changes nothing.
        rows.move_to(&file);
        (of, rows)
    });
    for (of, mut rows) in both {
        let expected = expected(of);
        assert!(rows.iter().eq(expected.iter().copied()));
        assert_eq!(rows.get(199_999), expected.last().copied());
        let place = rows.partition_point(|row| row[0] < 300_001);
        assert_eq!(place, 100_001);
        rows.forget_chunk();
        assert_eq!(rows.get(5), Some(expected[5]));
        // It can be gone through, and becomes another list.
        rows.settle(|row| row[0] % 2 == 0);
        assert_eq!(rows.len(), 100_000);
        assert_eq!(rows.get(1), Some(expected[2]));
    }
    assert!(file.failure().is_none());
}

#[test]
fn a_file_that_takes_nothing_leaves_rows_where_they_are() {
    let file = Arc::new(RowFile::new(std::fs::File::open("/dev/null").unwrap()));
    let mut rows = PackedRows::default();
    (0..1000_u64).for_each(|number| rows.push([number]));
    rows.sort();
    rows.move_to(&file);
    assert_eq!(rows.get(999), Some([999]));
    // What cannot be read is said.
    assert!(file.read(0, 10).is_empty());
    assert!(file.failure().is_some());
}
