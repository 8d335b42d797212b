//! Any text as the formats of a counting unit's fields and as the terms of an event: lines `NAME config:0-7`, then the terms. Values stay
//! within the bits of the fields that are named. Run with `cargo fuzz run encode` in `machine/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rsys_machine::events::encode;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let (formats, terms) = text.rsplit_once('\n').unwrap_or(("", text));
    let formats: Vec<(&str, &str)> = formats.lines().filter_map(|line| line.split_once(' ')).collect();
    match encode(formats.iter().copied(), terms) {
        Err(reason) => assert!(!reason.is_empty()),
        Ok(config) => {
            // All bits of the same fields set: nothing lies outside of them.
            let names = terms.split(',').map(str::trim).filter(|term| !term.is_empty());
            let most: Vec<String> = names
                .map(|term| format!("{}=0xffffffffffffffff", term.split('=').next().unwrap_or(term)))
                .collect();
            let bits = encode(formats.iter().copied(), &most.join(",")).unwrap_or_else(|error| panic!("{error}"));
            for (word, bits) in config.iter().zip(bits) {
                assert_eq!(word & !bits, 0, "{terms}");
            }
        }
    }
});
