//! Any bytes as the file of each GPU sensor: a number, or nothing. Run with `cargo fuzz run sensors` in `machine/`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rsys_machine::gpu::sensors::understood;

fuzz_target!(|data: &[u8]| {
    for (name, value) in understood(data) {
        assert!(value.is_none_or(|value| !value.is_nan()), "{name}");
    }
});
