//! Any text as a file of GPU counter definitions, and its expressions: the readers of both forms must end without a crash, and what is understood must be
//! understood as it shows itself. Run with `cargo fuzz run definitions` in `machine/`.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use rsys_machine::gpu::definitions::{self, Formula};
use rsys_machine::gpu::expression::Expression;

fuzz_target!(|data: &[u8]| {
    let Some((first, rest)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(rest) else { return };
    let name = ["a.yaml", "a.xml"][usize::from(*first) % 2];
    for definition in definitions::of_text(name.as_ref(), text).unwrap_or_default() {
        drop((definition.summary(), definition.fits("gfx942"), definition.fits(&definition.name)));
        if let Formula::Computed(text) = &definition.formula
            && let Ok(expression) = Expression::parse(text)
        {
            drop(expression.values(&BTreeMap::new()));
            assert_eq!(Expression::parse(&expression.to_string()).as_ref(), Ok(&expression));
        }
    }
});
