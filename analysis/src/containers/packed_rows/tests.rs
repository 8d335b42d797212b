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
    let bytes: usize = rows.runs[0].pieces.iter().map(Piece::kept_bytes).sum();
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

fn row_file() -> Arc<RowFile> {
    let file = tempfile::tempfile().unwrap();
    Arc::new(RowFile::new(file))
}

/// Bytes of packed rows in memory.
fn kept<const N: usize>(rows: &PackedRows<N>) -> usize {
    let pieces = rows.runs.iter().flat_map(|run| &run.pieces);
    pieces.map(Piece::kept_bytes).sum()
}

#[test]
fn rows_that_were_moved_to_a_file_are_read_as_before() {
    let file = row_file();
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
        assert_eq!(kept(&rows), 0);
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

#[test]
fn rows_go_to_a_file_as_they_come() {
    let file = row_file();
    // Nearly in order, in two stretches that take turns, and backwards in blocks: then there are many runs.
    let orders: [fn(u64) -> u64; 3] = [
        |number| 3 * number + number % 5,
        |number| number / 2 + number % 2 * 1_000_000,
        |number| 1_000_000 - number / 5_000 * 5_000 + number % 5_000,
    ];
    for order in orders {
        let row = |number: u64| [order(number), scramble(number), number];
        let (mut rows, count) = (PackedRows::in_file(&file), 500_000_u64);
        let mut most = 0;
        for number in 0..count {
            rows.push(row(number));
            most = most.max(kept(&rows));
        }
        // A stretch of rows is packed before what is too much goes.
        assert!(most < KEPT_BYTES + (1 << 18), "{most} bytes");
        assert_eq!(rows.len() as u64, count);
        rows.sort();
        assert_eq!(rows.runs.len(), 1);
        assert!(kept(&rows) <= PIECE_BYTES_IN_FILE);
        let mut expected: Vec<_> = (0..count).map(row).collect();
        expected.sort_unstable();
        assert!(rows.iter().eq(expected.iter().copied()));
        assert_eq!(rows.get(77_777), Some(expected[77_777]));
    }
    assert!(file.failure().is_none());
}

#[test]
fn rows_are_found_by_their_first_numbers_from_wherever_the_last_search_was() {
    let file = row_file();
    for mut rows in [PackedRows::default(), PackedRows::in_file(&file)] {
        assert_eq!(Finder::new(&rows).first([7]), None);
        // Each key three times, but for every fourth, which is not there.
        let keys = (0..10_000_u64).filter(|key| key % 4 != 3);
        let all =
            keys.flat_map(|key| (0..3).map(move |turn| [key / 8, key % 8, scramble(key) + turn]));
        let all: Vec<_> = all.collect();
        all.iter().for_each(|row| rows.push(*row));
        rows.sort();
        let mut finder = Finder::new(&rows);
        let searches = (0..10_010).chain((0..20_000).map(|search| scramble(search) % 10_010));
        // Queues that take turns.
        let searches = searches.chain((0..5_000).map(|search| search / 3 + search % 3 * 3_000));
        for key in searches {
            let key = [key / 8, key % 8];
            let expected = || all.iter().filter(|row| row[..2] == key).copied();
            let expected: Vec<_> = expected().collect();
            assert_eq!(finder.first(key), expected.first().copied(), "{key:?}");
            assert_eq!(finder.last(key), expected.last().copied(), "{key:?}");
            assert_eq!(finder.all(key).collect::<Vec<_>>(), expected, "{key:?}");
        }
        assert_eq!(finder.around(|_| true), (all.last().copied(), None));
        assert_eq!(finder.around(|_| false), (None, all.first().copied()));
    }
}

#[test]
fn owners_that_take_turns_have_few_runs() {
    const OWNERS: u64 = 37;
    let file = row_file();
    let count = 3 * (RUNS_MAX * WAITING / 2) as u64 + 1234;
    for mut rows in [PackedRows::default(), PackedRows::in_file(&file)] {
        let row = |number: u64| [scramble(number) % OWNERS, number, 7 * number];
        let mut most = 0;
        for number in 0..count {
            rows.push(row(number));
            most = most.max(rows.runs.len());
        }
        assert!(most <= RUNS_MAX, "{most} runs");
        // Otherwise none had to be merged.
        let levels = || rows.runs.iter().map(|run| run.level);
        assert!(levels().max() > Some(0));
        assert!(levels().max() <= Some(2));
        rows.sort();
        let mut expected: Vec<_> = (0..count).map(row).collect();
        expected.sort_unstable();
        assert!(rows.iter().eq(expected));
    }
    assert!(file.failure().is_none());
}

#[test]
fn a_list_is_empty_when_it_has_no_rows() {
    let mut rows = PackedRows::default();
    assert!(rows.is_empty());
    rows.push([7]);
    assert!(!rows.is_empty());
    // A run is left, without rows.
    rows.settle(|_| false);
    assert_eq!((rows.len(), rows.is_empty()), (0, true));
    rows.push([8]);
    assert_eq!((rows.len(), rows.is_empty()), (1, false));
}
