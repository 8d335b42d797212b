//! Whatever a text setting holds, each format (chosen by the first byte) either says that it cannot hold it, or reads back as the
//! same. Run with `cargo fuzz run generate` in `config/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rsys_config::generate::{Choice, Format, generate};
use rsys_config::{Environment, Origin, Settings};

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let format = Format::ALL[usize::from(*first) % Format::ALL.len()];
    let mut settings = Settings::defaults();
    let set = settings.set("OUTPUT_PREFIX", text, Origin::CommandLine(String::from("-x")));
    if set.is_err() {
        return;
    }
    let Ok(file) = generate(&settings, format, Choice::default(), "fuzz") else { return };
    let mut back = Settings::defaults();
    let name = format!("a.{}", format.extension());
    back.read_text(name.as_ref(), &file, &Environment::default())
        .unwrap_or_else(|error| panic!("{error}\n{file}"));
    assert_eq!(back.get("OUTPUT_PREFIX"), settings.get("OUTPUT_PREFIX"), "{file}");
});
