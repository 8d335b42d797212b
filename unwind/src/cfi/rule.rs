//! What the cache holds for an address: two words, of which the lowest three bits say what they are.

/// The kind of a [`Rule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// Compact: the CFA is a register plus an offset.
    Register = 1,
    /// Compact: the CFA is a word in memory, at a register plus an offset.
    Dereference = 2,
    /// Too complicated to be compact. The second word is the address of the FDE.
    Evaluate = 3,
    /// The trampoline to which a signal handler returns.
    Signal = 4,
    /// The outermost frame.
    Root = 5,
    /// There is no call frame information for this address.
    NoTables = 6,
    /// There is, and it cannot be used.
    BadTables = 7,
}

/// What a rule says that needs the stack pointer or the frame pointer alone, and reads the return address alone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Simple {
    /// Whether the CFA is computed from the frame pointer.
    pub by_fp: bool,
    /// How far the CFA is above that register, in bytes.
    pub offset: u64,
    /// Where the return address lies from the CFA, in bytes.
    pub return_slot: u64,
    /// Where the frame pointer was saved, in bytes from the CFA; 0: nowhere.
    pub fp_slot: u64,
}

/// Bit of the first word of a rule to evaluate.
const LEAVES: u64 = 1 << 3;

/// How to find the caller of a frame. The layout of compact ones is the architecture's (`rules.rs` in its folder).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rule(pub(crate) [u64; 2]);

impl Rule {
    /// The outermost frame of a stack that was built by hand: its return address is a function's first instruction.
    pub(crate) const ENTRY: Self = Self([Kind::Root as u64, 1]);

    /// A rule without further data.
    pub(crate) const fn of(kind: Kind) -> Self {
        Self([kind as u64, 0])
    }

    /// The rule that says: evaluate this FDE.
    pub(crate) const fn evaluate(fde: u64) -> Self {
        Self([Kind::Evaluate as u64, fde])
    }

    /// The same for a function that can return elsewhere than to its caller; see `landing`.
    pub(crate) const fn leave(fde: u64) -> Self {
        Self([Kind::Evaluate as u64 | LEAVES, fde])
    }

    /// Whether the rule was made by [`Rule::leave`].
    #[inline]
    pub(crate) fn leaves(self) -> bool {
        let Self([word, _]) = self;
        word & LEAVES != 0
    }

    /// What the rule is.
    #[inline(always)]
    pub(crate) fn kind(self) -> Kind {
        let Self([word, _]) = self;
        match word & 7 {
            1 => Kind::Register,
            2 => Kind::Dereference,
            3 => Kind::Evaluate,
            4 => Kind::Signal,
            5 => Kind::Root,
            6 => Kind::NoTables,
            _ => Kind::BadTables,
        }
    }

    /// The FDE of a rule that is to be evaluated.
    #[inline]
    pub(crate) fn fde(self) -> u64 {
        let Self([_, fde]) = self;
        fde
    }
}
