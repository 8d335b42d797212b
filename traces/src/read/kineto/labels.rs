//! Ranks in names of files, and process ids with the rank in front, as SGLang's merger of profiles writes them: `[TP03] 4711`, `[TP00-DP01-PP00-EP00] 4711`;
//! others write `rank3/4711`.

/// The rank that a label says, and the id behind it. `None` for an id without a label.
pub(super) fn labelled(id: &[u8]) -> Option<(u32, &[u8])> {
    if let [b'r' | b'R', ..] = id {
        return with_word(id);
    }
    let (label, behind) = split(id.strip_prefix(b"[")?, b']')?;
    let mut rank = None;
    for part in label.split(|byte| *byte == b'-') {
        let letters = part.iter().take_while(|byte| byte.is_ascii_alphabetic());
        let (kind, number) = part.split_at(letters.count());
        // Ranks of experts are those of tensors again.
        let step = match kind {
            b"TP" => 1,
            b"DP" => 1_000,
            b"PP" => 1_000_000,
            _ => continue,
        };
        let number: u32 = std::str::from_utf8(number).ok()?.parse().ok()?;
        rank = Some(number.checked_mul(step)?.checked_add(rank.unwrap_or(0))?);
    }
    Some((rank?, behind.trim_ascii_start()))
}

/// The rank in the name of a file, as in `rank3.pt.trace.json` or `trace_rank_12.json`.
pub(super) fn rank_in_name(file: &str) -> Option<u64> {
    let name = file.rsplit('/').next()?.to_ascii_lowercase();
    let mut places = name.match_indices("rank");
    places.find_map(|(at, word)| {
        let is_begun = name[..at].ends_with(|one: char| one.is_ascii_alphanumeric());
        let behind = name[at + word.len()..].trim_start_matches(['_', '-']);
        let end = behind.find(|one: char| !one.is_ascii_digit());
        let (digits, rest) = behind.split_at(end.unwrap_or(behind.len()));
        let is_date =
            rest.starts_with('-') && rest[1..].starts_with(|one: char| one.is_ascii_digit());
        let is_whole =
            !is_begun && !is_date && !rest.starts_with(|one: char| one.is_ascii_alphabetic());
        digits.parse().ok().filter(|_| is_whole)
    })
}

/// The rank in front of an id, and the id, as in `rank3/4711` and `Rank 3: 4711`.
fn with_word(id: &[u8]) -> Option<(u32, &[u8])> {
    let (word, behind) = id.split_at_checked(b"rank".len())?;
    let begin = behind.iter().position(u8::is_ascii_digit)?;
    let (between, behind) = behind.split_at(begin);
    let end = behind.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, behind) = behind.split_at(end);
    let id = behind.iter().position(u8::is_ascii_alphanumeric)?;
    let is_rank = word.eq_ignore_ascii_case(b"rank")
        && !between.iter().any(u8::is_ascii_alphabetic)
        && !behind[0].is_ascii_alphabetic();
    let rank = std::str::from_utf8(digits).ok()?.parse().ok();
    rank.filter(|_| is_rank).map(|rank| (rank, &behind[id..]))
}

/// An id without its label, if it has one.
pub(super) fn without_label(id: &[u8]) -> &[u8] {
    labelled(id).map_or(id, |(_, behind)| behind)
}

fn split(bytes: &[u8], at: u8) -> Option<(&[u8], &[u8])> {
    let place = bytes.iter().position(|byte| *byte == at)?;
    Some((&bytes[..place], &bytes[place + 1..]))
}

#[cfg(test)]
mod tests {
    use super::{labelled, rank_in_name};

    #[test]
    fn names_of_files_say_ranks() {
        for (file, expected) in [
            ("run/rank0.pt.trace.json", Some(0)),
            ("trace_rank_12.json.gz", Some(12)),
            ("Rank-3_of_8.json", Some(3)),
            ("rank3/trace.json", None),
            ("ranking.json", None),
            ("rank3d.json", None),
            ("pagerank_500.pt.trace.json", None),
            ("rank-2026-05-01.json", None),
            ("n01_4711.1234.pt.trace.json", None),
        ] {
            assert_eq!(rank_in_name(file), expected, "{file}");
        }
    }

    #[test]
    fn labels_say_ranks() {
        for (id, expected) in [
            ("[TP03] 4711", Some((3, "4711"))),
            ("[TP01-DP02-PP00-EP01] 7", Some((2_001, "7"))),
            ("[TP00]stream 7", Some((0, "stream 7"))),
            ("rank2/1002", Some((2, "1002"))),
            ("Rank 12: 7", Some((12, "7"))),
            ("rank2", None),
            ("rank2d/7", None),
            ("ranking 2/7", None),
            ("4711", None),
            ("[EP01] 7", None),
            ("[TPx] 7", None),
            ("[TP99999999999] 7", None),
            ("[TP4294967295-DP1] 7", None),
            ("[TP00", None),
            ("", None),
        ] {
            let expected = expected.map(|(rank, behind)| (rank, behind.as_bytes()));
            assert_eq!(labelled(id.as_bytes()), expected, "{id}");
        }
    }
}
