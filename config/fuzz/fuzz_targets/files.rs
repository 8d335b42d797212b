//! Any text as a configuration file, whose syntax the first byte chooses: the reader must end without a crash, and every problem
//! must have words and a place inside the text. Run with `cargo fuzz run files` in `config/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rsys_config::{Environment, Origin, Settings};

const NAMES: [&str; 4] = ["a.cfg", "a.toml", "a.json", "a.xml"];

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let name = NAMES[usize::from(*first) % NAMES.len()];
    let environment = Environment::from_pairs([("HOME", "/h"), ("X", "$Y")]);
    let mut settings = Settings::defaults();
    match settings.read_text(name.as_ref(), text, &environment) {
        Ok(()) => drop(settings.resolve()),
        Err(error) => {
            let lines = text.lines().count().max(1) + 1;
            for problem in &error.problems {
                assert!(!problem.to_string().is_empty());
                if let Origin::File { path, line, column } = &problem.origin
                    && path.as_os_str() == name
                {
                    assert!(*line <= lines, "{name}: line {line} of {lines}");
                    assert!(*column >= 1 || *line == 0);
                }
            }
        }
    }
});
