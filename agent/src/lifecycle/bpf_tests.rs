//! Filters of which it is known what they say, and random ones against the reference.

use super::*;

#[path = "bpf_reference.rs"]
mod reference;

const fn word(code: u16, if_true: u8, if_false: u8, operand: u32) -> u64 {
    code as u64 | (if_true as u64) << 16 | (if_false as u64) << 24 | (operand as u64) << 32
}

const LOAD: u16 = 0x20;
const RETURN: u16 = 0x06;
const EQUAL: u16 = 0x15;
const KILL: u32 = 0x8000_0000;

fn verdict_of(code: &[u64], number: i64) -> Option<u32> {
    verdict(code.len(), |at| code.get(at).copied(), number)
}

#[test]
fn a_filter_that_kills_one_call_allows_the_others() {
    let code = [
        word(LOAD, 0, 0, 4),
        word(EQUAL, 1, 0, AUDIT_ARCH),
        word(RETURN, 0, 0, KILL),
        word(LOAD, 0, 0, 0),
        word(EQUAL, 0, 1, 35),
        word(RETURN, 0, 0, KILL),
        word(RETURN, 0, 0, ALLOW),
    ];
    assert_eq!(verdict_of(&code, 35), Some(KILL));
    assert_eq!(verdict_of(&code, 36), Some(ALLOW));
}

#[test]
fn what_depends_on_an_argument_is_not_known() {
    let code = [
        word(LOAD, 0, 0, 16),
        word(EQUAL, 0, 1, 1),
        word(RETURN, 0, 0, KILL),
        word(RETURN, 0, 0, ALLOW),
    ];
    assert_eq!(verdict_of(&code, 1), None);
    // An argument that is loaded and not looked at does not matter.
    let code = [word(LOAD, 0, 0, 16), word(RETURN, 0, 0, ERRNO | 1)];
    assert_eq!(verdict_of(&code, 1), Some(ERRNO));
}

#[test]
fn filters_that_end_nowhere_say_nothing() {
    assert_eq!(verdict_of(&[], 1), None);
    assert_eq!(verdict_of(&[word(0x05, 0, 0, u32::MAX)], 1), None);
    assert_eq!(verdict_of(&[word(0xff, 0, 0, 0)], 1), None);
}

/// What is said by the number alone holds whatever the arguments are.
#[test]
fn random_filters_say_what_the_reference_says() {
    const CODES: [u16; 30] = [
        0x20, 0x20, 0x00, 0x80, 0x60, 0x01, 0x61, 0x81, 0x02, 0x03, 0x07, 0x87, 0x04, 0x0c, 0x14,
        0x24, 0x34, 0x44, 0x54, 0x64, 0x74, 0xa4, 0x84, 0x15, 0x1d, 0x25, 0x35, 0x45, 0x06, 0x16,
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut known = 0;
    for _ in 0..200_000 {
        let mut code: Vec<u64> = (0..random() % 12)
            .map(|_| {
                let operand = [0, 4, 8, 16, 1, 35, 31, 7][random() as usize % 8];
                let jumps = random();
                word(
                    CODES[random() as usize % CODES.len()],
                    jumps as u8 % 4,
                    (jumps >> 8) as u8 % 4,
                    operand,
                )
            })
            .collect();
        code.push(word(RETURN, 0, 0, ALLOW));
        let number = (random() % 64) as u32;
        let Some(said) = verdict_of(&code, i64::from(number)) else {
            continue;
        };
        for _ in 0..3 {
            let mut data = [0; 16].map(|_: u32| random() as u32);
            data[..2].copy_from_slice(&[number, AUDIT_ARCH]);
            if let Some(returned) = reference::run(&code, &data) {
                assert_eq!(said, returned & ACTION, "{code:x?} for call {number}");
                known += 1;
            }
        }
    }
    assert!(known > 10_000, "{known}");
}
