//! A row of the call frame table: how the CFA and each register of the caller are found.

use crate::arch::REGISTER_COUNT;

/// How the canonical frame address is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cfa {
    /// No instruction has said it.
    Undefined,
    /// A register plus an offset.
    Register { register: u8, offset: i64 },
    /// The value of the expression at this address (which begins with its length).
    Expression(u64),
}

/// How the caller's value of a register is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RegisterRule {
    /// No instruction has said it: as the ABI says.
    Unspecified,
    /// The value is lost; for the return address: this is the outermost frame.
    Undefined,
    /// The callee's.
    Same,
    /// In memory at CFA plus this.
    Offset(i64),
    /// CFA plus this.
    ValueOffset(i64),
    /// In another register.
    Register(u8),
    /// In memory where the expression says.
    Expression(Location),
    /// What the expression says.
    ValueExpression(Location),
}

/// Where an expression is, relative to the FDE, so that a rule fits in four bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Location(i32);

/// One row. Rules are kept packed (three bits of kind, 29 of value): several rows must fit on a handler's stack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    fde: u64,
    pub(crate) cfa: Cfa,
    rules: [u32; REGISTER_COUNT],
}

const _: () = assert!(size_of::<Row>() <= 32 + 4 * (REGISTER_COUNT + 1));

impl Row {
    pub(crate) fn new(fde: u64) -> Self {
        Self {
            fde,
            cfa: Cfa::Undefined,
            rules: [0; REGISTER_COUNT],
        }
    }

    /// The rule of a register.
    pub(crate) fn rule(&self, register: u8) -> RegisterRule {
        let packed = self
            .rules
            .get(usize::from(register))
            .copied()
            .unwrap_or_default();
        let value = packed.cast_signed() >> 3;
        match packed & 7 {
            1 => RegisterRule::Undefined,
            2 => RegisterRule::Same,
            3 => RegisterRule::Offset(i64::from(value)),
            4 => RegisterRule::ValueOffset(i64::from(value)),
            5 => RegisterRule::Register((value & 0xff) as u8),
            6 => RegisterRule::Expression(Location(value)),
            7 => RegisterRule::ValueExpression(Location(value)),
            _ => RegisterRule::Unspecified,
        }
    }

    /// Sets the rule of a register; registers that a walk does not track are ignored. `None` when the offset is larger than
    /// any stack.
    #[inline]
    pub(crate) fn set_rule(&mut self, register: u8, rule: RegisterRule) -> Option<()> {
        let Some(slot) = self.rules.get_mut(usize::from(register)) else {
            return Some(());
        };
        let (kind, value) = match rule {
            RegisterRule::Unspecified => (0, 0),
            RegisterRule::Undefined => (1, 0),
            RegisterRule::Same => (2, 0),
            RegisterRule::Offset(offset) => (3, offset),
            RegisterRule::ValueOffset(offset) => (4, offset),
            RegisterRule::Register(register) => (5, i64::from(register)),
            RegisterRule::Expression(Location(at)) => (6, i64::from(at)),
            RegisterRule::ValueExpression(Location(at)) => (7, i64::from(at)),
        };
        if !(-(1 << 28)..1 << 28).contains(&value) {
            return None;
        }
        *slot = ((value << 3) as u32) | kind;
        Some(())
    }

    /// Takes the rules of all registers away but one's.
    pub(crate) fn keep_only(&mut self, register: u8) {
        for (number, rule) in self.rules.iter_mut().enumerate() {
            if number != usize::from(register) {
                *rule = 0;
            }
        }
    }

    /// Gives a register the rule that it has in `initial`.
    pub(crate) fn restore(&mut self, register: u8, initial: &Self) {
        if let (Some(slot), Some(old)) = (
            self.rules.get_mut(usize::from(register)),
            initial.rules.get(usize::from(register)),
        ) {
            *slot = *old;
        }
    }

    /// The location of an expression in this row's tables. One that is too far away becomes too large to be set.
    pub(crate) fn location_of(&self, address: u64) -> Location {
        let distance = address.wrapping_sub(self.fde).cast_signed();
        Location(i32::try_from(distance).unwrap_or(i32::MAX))
    }

    /// The address of an expression.
    pub(crate) fn address_of(&self, Location(distance): Location) -> u64 {
        self.fde.wrapping_add_signed(i64::from(distance))
    }
}
