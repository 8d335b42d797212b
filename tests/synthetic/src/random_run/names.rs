//! Names that break writers.

use super::draw::Draw;

/// Texts that a name is made of, or is.
const PARTS: [&str; 26] = [
    "gemm",
    "Cijk_Ailk_Bljk_SB_MT64",
    "void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor<float>>(int)",
    "ncclDevKernel_Generic_1",
    "\u{4e2d}\u{6587}\u{5185}\u{6838}",
    "\u{1f525}\u{200d}\u{1f680}",
    "e\u{301}",
    "\u{202e}backwards",
    "\u{feff}",
    "\"quoted\"",
    "it's",
    "back\\slash\\",
    "\\u0041",
    "\\\"",
    "a,b;c",
    "line\nend",
    "carriage\r\nreturn",
    "tab\there",
    "\u{0}",
    "\u{1}\u{1f}\u{7f}\u{85}\u{2028}",
    " spaces around ",
    "{\"ph\":\"X\"}",
    "</script>",
    "%s%n",
    "1e5",
    "null",
];

impl Draw {
    /// A name.
    pub(super) fn name(&mut self) -> String {
        match self.below(12) {
            0 => String::new(),
            1 => self.pick(&PARTS).repeat(1 + self.below(40) as usize),
            2..=4 => format!("kernel_{}", self.below(8)),
            5..=8 => self.pick(&PARTS).to_owned(),
            _ => (0..=self.below(3)).map(|_| self.pick(&PARTS)).collect(),
        }
    }
}

/// One of the names that runs are made of, by a number.
#[must_use]
pub fn any_name(number: u64) -> String {
    Draw::new(number).name()
}
