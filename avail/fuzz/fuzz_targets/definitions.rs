//! Any text as a file of GPU counter definitions: the readers of both forms must end without a crash, and what they find must have
//! a name. Run with `cargo fuzz run definitions` in `avail/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rsys_avail::gpu::definitions;

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let name = ["a.yaml", "a.xml"][usize::from(*first) % 2];
    for definition in definitions::of_text(name.as_ref(), text).unwrap_or_default() {
        drop((definition.summary(), definition.fits("gfx942"), definition.fits(&definition.name)));
    }
});
