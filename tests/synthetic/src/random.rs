//! Numbers that look random and are the same each time.

/// A number for these places.
pub(crate) fn random(places: [u64; 5]) -> u64 {
    let mut mixed: u64 = 0x243F_6A88_85A3_08D3;
    for place in places {
        mixed = (mixed ^ place).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^= mixed >> 32;
    }
    mixed
}

/// A duration that varies by some parts of a thousand, evenly to both sides.
pub(crate) fn varied(base_ns: u64, thousandths: u64, places: [u64; 5]) -> u64 {
    let span = base_ns * thousandths / 1000;
    base_ns - span + random(places) % (2 * span + 1)
}
