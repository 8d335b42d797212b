//! Any text as the value of any setting, as path keys and as a list of ranks or nodes. What is accepted must be accepted again as it
//! is written back, with the same meaning. Run with `cargo fuzz run values` in `config/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rsys_config::keys::{KeyValues, expand};
use rsys_config::{Environment, Nodes, Numbers, Settings, Value, table};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let count = table::all().count();
    let Some(setting) = table::all().nth(usize::from(*first) % count) else { return };
    if let Ok(value) = Value::parse(setting, text) {
        // Lists are written with blanks for the eye, and with commas for files.
        let written = match &value {
            Value::List(names) => names.join(","),
            other => other.to_string(),
        };
        assert_eq!(Value::parse(setting, &written).as_ref(), Ok(&value), "{}: {written}", setting.name);
        let mut settings = Settings::defaults();
        let origin = rsys_config::Origin::CommandLine(String::from("-x"));
        assert!(settings.set(setting.name, text, origin).is_ok());
        drop(settings.resolve());
    }
    drop(expand(text, &KeyValues::of_job(&Environment::from_pairs([("SLURM_PROCID", text)]))));
    if let Some(numbers) = Numbers::parse(text) {
        assert_eq!(Numbers::parse(&numbers.to_string()), Some(numbers));
    }
    let _ = Nodes::parse(text).has(Some(1), ["n1"]);
    drop(rsys_config::rates(text));
});
