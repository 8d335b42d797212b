//! Damage of all kinds, the same for the same number.

use super::seeds::Seed;

/// Numbers that are at the edges of what types hold.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "255",
    "2147483648",
    "4294967295",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "-9223372036854775808",
    "1e308",
    "0.0000000000000000001",
    "\"7\"",
];

/// Bytes that mean something in one of the formats.
const BYTES: &[u8] = b"{}[]\",:\\\n\r0-9.e\0\xFF\x80\x7F\x01";

/// Numbers that look random (splitmix64, Steele et al. 2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % end.max(1) as u64) as usize
    }
}

/// Makes `bytes` the file, damaged in one to six places.
pub fn damaged(seed: &Seed, all: &[Seed], number: u64, bytes: &mut Vec<u8>) {
    let of_name = seed.name.bytes().fold(0_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(byte.into())
    });
    let mut random = Random(of_name ^ number.wrapping_mul(0x2545_F491_4F6C_DD1D));
    bytes.clone_from(&seed.bytes);
    for _ in 0..=random.below(6) {
        once(bytes, all, &mut random);
    }
}

fn once(bytes: &mut Vec<u8>, all: &[Seed], random: &mut Random) {
    if bytes.is_empty() {
        return;
    }
    let at = random.below(bytes.len());
    let length = random.below(64.min(bytes.len() - at)) + 1;
    let part = at..(at + length).min(bytes.len());
    match random.below(10) {
        0 => bytes[at] ^= 1 << random.below(8),
        1 => bytes[at] = random.next() as u8,
        2 => bytes[at] = BYTES[random.below(BYTES.len())],
        3 => drop(bytes.drain(part)),
        4 => {
            let copy = bytes[part].to_vec();
            let to = random.below(bytes.len());
            bytes.splice(to..to, copy);
        }
        5 if random.below(4) == 0 => bytes.truncate(at),
        6 => {
            let other = &all[random.below(all.len())].bytes;
            let from = random.below(other.len());
            let end = (from + length).min(other.len());
            bytes.splice(at..at, other[from..end].iter().copied());
        }
        7 | 8 => replace_number(bytes, at, random),
        _ => {
            let wide = (random.next() >> random.below(64)).to_le_bytes();
            let end = (at + 1 + random.below(8)).min(bytes.len());
            bytes[at..end].copy_from_slice(&wide[..end - at]);
        }
    }
}

/// Puts another number in the place of the next one that is written in digits.
fn replace_number(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit) else {
        return;
    };
    let start = at + start;
    let digits = bytes[start..]
        .iter()
        .take_while(|byte| byte.is_ascii_digit());
    let end = start + digits.count();
    let number = NUMBERS[random.below(NUMBERS.len())];
    bytes.splice(start..end, number.bytes());
}
