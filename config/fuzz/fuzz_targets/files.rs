//! Any text as a configuration file of each syntax: the reader must end without a crash, and every problem must
//! have words and a place inside the text. Run with `cargo fuzz run files` in `config/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rsys_config::{Environment, Origin, Settings};

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let environment = Environment::from_pairs([("HOME", "/h"), ("X", "$Y")]);
    let lines = text.lines().count().max(1) + 1;
    for name in ["a.cfg", "a.toml", "a.json", "a.xml"] {
        let mut settings = Settings::defaults();
        if let Err(error) = settings.read_text(name.as_ref(), text, &environment) {
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
        drop(settings.resolve());
    }
});
