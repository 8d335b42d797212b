//! Any bytes as the command line of `rsys-sample`, one word a line: it is told what is wrong, or
//! the command is what stands at its end, byte by byte. Run with `cargo fuzz run command_line` in
//! `sampler/`.
#![no_main]

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::sync::{LazyLock, Mutex};

use libfuzzer_sys::fuzz_target;
use rsys_config::{Environment, Sources};
use rsys_sampler::cli::Parser;

// To make it takes longer than to read a line.
static PARSER: LazyLock<Mutex<Parser>> = LazyLock::new(Mutex::default);

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    // Files of this machine are not to be read or written.
    if text.contains('/') || text.contains("--export-config") {
        return;
    }
    // One word a line.
    let words: Vec<OsString> = data.split(|byte| *byte == b'\n').map(|word| OsString::from_vec(word.to_vec())).collect();
    let sources = Sources::without_files(Environment::default());
    let mut parser = PARSER.lock().unwrap_or_else(|error| panic!("{error}"));
    match parser.parse(words.iter().cloned(), &sources) {
        Ok(invocation) => {
            assert!(!invocation.command.is_empty());
            assert!(words.ends_with(&invocation.command), "{words:?}: {:?}", invocation.command);
        }
        Err(exit) => {
            assert!([0, 2].contains(&exit.code));
            assert_eq!(exit.to_stdout, exit.code == 0);
            assert!(!exit.to_string().is_empty(), "{words:?}");
        }
    }
});
