//! Any bytes as the command line of `rsys-avail`, one word a line: it is understood, or told what is wrong with it. Run with
//! `cargo fuzz run command_line` in `avail/`.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use rsys_avail::Options;

// To make them takes longer than to read a line.
static OPTIONS: LazyLock<Mutex<Options>> = LazyLock::new(Mutex::default);

fuzz_target!(|data: &[u8]| {
    // One word a line.
    let words: Vec<OsString> = data.split(|byte| *byte == b'\n').map(|word| OsString::from_vec(word.to_vec())).collect();
    let all = std::iter::once("rsys-avail".into()).chain(words);
    let mut options = OPTIONS.lock().unwrap_or_else(|error| panic!("{error}"));
    if let Err(error) = options.check(all) {
        assert!([0, 2].contains(&error.exit_code()));
        assert!(!error.to_string().is_empty());
    }
});
