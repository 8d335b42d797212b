//! Telling return addresses from other words: the instruction before one is a call.

use super::names::*;
use crate::Memory;
use crate::arch::Registers;

/// What the instruction before an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallBefore {
    /// `call rel32`, which leads to this address.
    Direct(u64),
    /// `call r/m64`.
    Indirect,
}

/// The call instruction that ends at `address`, if the bytes before it can be read as one.
pub(crate) fn call_before<M: Memory>(memory: &M, address: u64) -> Option<CallBefore> {
    let start = address.wrapping_sub(8);
    let word = match memory.read_u64(start) {
        Some(word) => word,
        // The page before may be missing: the code may begin just there.
        None => {
            let mut word = 0;
            for back in 1..=7 {
                match memory.read_u8(address.wrapping_sub(back)) {
                    Some(byte) => word |= u64::from(byte) << (64_u64.wrapping_sub(8 * back) & 63),
                    None => break,
                }
            }
            word
        }
    };
    let [_, m7, m6, m5, m4, m3, m2, m1] = word.to_le_bytes();

    // E8 rel32.
    if m5 == 0xe8 {
        let displacement = i32::from_le_bytes([m4, m3, m2, m1]);
        return Some(CallBefore::Direct(
            address.wrapping_add_signed(i64::from(displacement)),
        ));
    }
    // FF /2, by the length that its ModRM and SIB bytes ask for. A REX prefix before it changes nothing.
    let indirect = (m2 == 0xff && call_length(m1, 0) == 2)
        || (m3 == 0xff && call_length(m2, m1) == 3)
        || (m4 == 0xff && call_length(m3, m2) == 4)
        || (m6 == 0xff && call_length(m5, m4) == 6)
        || (m7 == 0xff && call_length(m6, m5) == 7);
    indirect.then_some(CallBefore::Indirect)
}

/// The length of `FF modrm [sib] [disp]` when it is a near indirect call (`/2`), else 0.
fn call_length(modrm: u8, sib: u8) -> u32 {
    if modrm & 0b0011_1000 != 0b0001_0000 {
        return 0;
    }
    let has_sib = modrm & 7 == 4;
    match modrm >> 6 {
        0b11 => 2,
        0b00 if has_sib && sib & 7 == 5 => 7, // No base register: disp32.
        0b00 if has_sib => 3,
        0b00 if modrm & 7 == 5 => 6, // rip + disp32.
        0b00 => 2,
        0b01 if has_sib => 4,
        0b01 => 3,
        _ if has_sib => 7,
        _ => 6,
    }
}

/// The register that holds the return address during a system call, where no table says so: it was taken off the stack, and is pushed
/// back next, as in `vfork`.
pub(crate) fn pushed_behind_system_call<M: Memory>(memory: &M, pc: u64) -> Option<u8> {
    const SYSCALL: u16 = 0x050f;
    /// By their numbers in instructions.
    const REGISTERS: [u8; 16] = [
        RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15,
    ];
    if memory.read_u16(pc.wrapping_sub(2))? != SYSCALL {
        return None;
    }
    // push r64, with the prefix of the upper eight.
    let (push, upper) = match memory.read_u8(pc)? {
        0x41 => (memory.read_u8(pc.wrapping_add(1))?, 8),
        push => (push, 0),
    };
    let number = push.wrapping_sub(0x50);
    if number > 7 {
        return None;
    }
    REGISTERS.get(usize::from(number | upper)).copied()
}

/// Where a stub of a procedure linkage table at `address` leads: `[endbr64] [bnd] jmp [rip + n]`, once the linker filled the word in.
pub(crate) fn stub_target<M: Memory>(memory: &M, address: u64) -> Option<u64> {
    const ENDBR64: u32 = 0xfa1e_0ff3;
    const BND: u8 = 0xf2;
    let mut at = address;
    if memory.read_u32(at)? == ENDBR64 {
        at = at.wrapping_add(4);
    }
    if memory.read_u8(at)? == BND {
        at = at.wrapping_add(1);
    }
    if memory.read_u16(at)? != 0x25ff {
        return None;
    }
    let displacement = memory.read_u32(at.wrapping_add(2))?.cast_signed();
    memory.read_u64(
        at.wrapping_add(6)
            .wrapping_add_signed(i64::from(displacement)),
    )
}

/// Where the call before an address leads if it is `call [rip + n]`, through the table that the linker filled in.
pub(crate) fn table_target<M: Memory>(memory: &M, address: u64) -> Option<u64> {
    if memory.read_u16(address.wrapping_sub(6))? != 0x15ff {
        return None;
    }
    let displacement = memory.read_u32(address.wrapping_sub(4))?.cast_signed();
    memory.read_u64(address.wrapping_add_signed(i64::from(displacement)))
}

/// How many bytes a function may have taken off the stack pointer, by the `sub rsp, n` at its start; the most likely numbers first, ended
/// by zero. `size` is the length of its code.
///
/// Large frames are touched page by page where the compiler protects against clashes of stacks: `lea r11, [rsp - n]` says then how far
/// a loop goes.
pub(crate) fn frame_sizes<M: Memory>(memory: &M, start: u64, size: u64) -> [u64; 4] {
    const PROLOGUE_BYTES: u64 = 96;
    let mut sizes = [0; 4];
    let mut places = sizes.iter_mut();
    let mut sum = 0_u64;
    let mut in_loop = false;
    let mut at = start;
    let end = start.wrapping_add(size.min(PROLOGUE_BYTES));
    while at < end {
        let Some(word) = memory.read_u64(at) else {
            break;
        };
        let [b0, b1, b2, b3, b4, b5, b6, b7] = word.to_le_bytes();
        let (taken, length) = match [b0, b1, b2] {
            // sub rsp, imm8 and imm32.
            [0x48, 0x83, 0xec] => (u64::from(b3), 4),
            [0x48, 0x81, 0xec] => (u64::from(u32::from_le_bytes([b3, b4, b5, b6])), 7),
            // lea r11, [rsp + disp32].
            [0x4c, 0x8d, 0x9c] if b3 == 0x24 => {
                in_loop = true;
                let distance = i32::from_le_bytes([b4, b5, b6, b7]);
                sum = sum.wrapping_add(u64::from(distance.unsigned_abs()));
                (0, 8)
            }
            // cmp rsp, r11, either way round.
            [0x4c, 0x39, 0xdc] | [0x49, 0x39, 0xe3] => {
                in_loop = false;
                (0, 3)
            }
            _ => (0, 1),
        };
        at = at.wrapping_add(length);
        if taken != 0 && !in_loop {
            sum = sum.wrapping_add(taken);
        }
        if (taken != 0 && !in_loop) || length == 3 {
            match places.next() {
                Some(place) => *place = sum,
                None => break,
            }
        }
    }
    sizes
}

/// The word on top of the stack, which is the return address at the first instruction of a function, and the stack pointer
/// of the caller.
pub(crate) fn leaf_return_address<M: Memory>(
    registers: &Registers,
    memory: &M,
) -> Option<(u64, u64)> {
    let sp = registers.sp();
    Some((memory.read_u64(sp)?, sp.wrapping_add(8)))
}

/// Whether the code at `pc` begins or ends a function: its frame holds the return address, and perhaps the frame pointer below it.
pub(crate) fn has_no_frame<M: Memory>(memory: &M, pc: u64) -> bool {
    let Some(word) = memory.read_u64(pc) else {
        return false;
    };
    matches!(
        word.to_le_bytes(),
        // ret; ret n; push rbp; pop rbp.
        [0xc3 | 0xc2 | 0x55 | 0x5d, ..]
            // endbr64.
            | [0xf3, 0x0f, 0x1e, 0xfa, ..]
            // mov rbp, rsp, in its two forms.
            | [0x48, 0x89, 0xe5, ..]
            | [0x48, 0x8b, 0xec, ..]
            // sub rsp, n, short and long.
            | [0x48, 0x83 | 0x81, 0xec, ..]
            // mov [rsp - n], eax: the JVM looks whether there is stack.
            | [0x89, 0x84, 0x24, _, _, _, 0xff, _]
    )
}

/// Whether a function begins by making itself a frame pointer: `[endbr64] push rbp; mov rbp, rsp`.
pub(crate) fn makes_frame_pointer<M: Memory>(memory: &M, start: u64) -> bool {
    const ENDBR64: u32 = 0xfa1e_0ff3;
    let start = match memory.read_u32(start) {
        Some(ENDBR64) => start.wrapping_add(4),
        _ => start,
    };
    matches!(
        memory.read_u32(start).map(u32::to_le_bytes),
        Some([0x55, 0x48, 0x89, 0xe5] | [0x55, 0x48, 0x8b, 0xec])
    )
}

/// Whether a return address is that of Go's `runtime.goexit`, to which the first function of a goroutine returns: `nop; call; nop`,
/// entered behind the first `nop`.
pub(crate) fn is_goroutine_end<M: Memory>(memory: &M, address: u64) -> bool {
    memory
        .read_u64(address.wrapping_sub(1))
        .is_some_and(|word| matches!(word.to_le_bytes(), [0x90, 0xe8, _, _, _, _, 0x90, _]))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Code<const N: usize>([u8; N]);

    impl<const N: usize> Memory for Code<N> {
        fn read_u64(&self, address: u64) -> Option<u64> {
            let at = usize::try_from(address.checked_sub(0x1000)?).ok()?;
            let bytes = self.0.get(at..at.checked_add(8)?)?;
            Some(u64::from_le_bytes(bytes.try_into().ok()?))
        }
    }

    #[test]
    fn every_form_of_call_is_recognised() {
        let direct = Some(CallBefore::Direct(0x1010 + 0x10));
        let indirect = Some(CallBefore::Indirect);
        let cases: &[(&str, &[u8], Option<CallBefore>)] = &[
            ("call +0x10", &[0xe8, 0x10, 0, 0, 0], direct),
            ("call rax", &[0xff, 0xd0], indirect),
            ("call r10", &[0x41, 0xff, 0xd2], indirect),
            ("call [rbx]", &[0xff, 0x13], indirect),
            ("call [r12]", &[0x41, 0xff, 0x14, 0x24], indirect),
            ("call [rax+8]", &[0xff, 0x50, 0x08], indirect),
            ("call [rsp+8]", &[0xff, 0x54, 0x24, 0x08], indirect),
            ("call [rax+rbx*8]", &[0xff, 0x14, 0xd8], indirect),
            ("call [rax+0x100]", &[0xff, 0x90, 0, 1, 0, 0], indirect),
            (
                "call [rsp+0x100]",
                &[0xff, 0x94, 0x24, 0, 1, 0, 0],
                indirect,
            ),
            ("call [rip+0x100]", &[0xff, 0x15, 0, 1, 0, 0], indirect),
            (
                "call [rax*8+0x100]",
                &[0xff, 0x14, 0xc5, 0, 1, 0, 0],
                indirect,
            ),
            ("jmp rax", &[0xff, 0xe0], None),
            ("push [rax]", &[0xff, 0x30], None),
            ("jmp +0x10", &[0xe9, 0x10, 0, 0, 0], None),
            ("ret", &[0xc3], None),
        ];
        for (name, code, expected) in cases {
            let mut bytes = [0x90; 16];
            bytes[16 - code.len()..].copy_from_slice(code);
            assert_eq!(call_before(&Code(bytes), 0x1010), *expected, "{name}");
        }
    }

    #[test]
    fn stubs_lead_where_their_word_says() {
        let endbr64_bnd = [0xf3, 0x0f, 0x1e, 0xfa, 0xf2];
        for head in [&[][..], &endbr64_bnd, &endbr64_bnd[..4]] {
            let mut bytes = [0x90; 16];
            bytes[..head.len()].copy_from_slice(head);
            // Back to the stub itself.
            let back = (-6 - head.len() as i8).cast_unsigned();
            let jump = [0xff, 0x25, back, 0xff, 0xff, 0xff];
            bytes[head.len()..head.len() + 6].copy_from_slice(&jump);
            let word = Code(bytes).read_u64(0x1000);
            assert_eq!(stub_target(&Code(bytes), 0x1000), word, "{head:x?}");
        }
        assert_eq!(stub_target(&Code([0x90; 16]), 0x1000), None);
    }

    #[test]
    fn frames_are_as_large_as_the_prologue_says() {
        // push rbp; mov rbp, rsp
        let head = [0x55, 0x48, 0x89, 0xe5];
        let cases: &[(&str, &[u8], [u64; 4])] = &[
            ("none", &[], [0; 4]),
            ("sub rsp, 0x10", &[0x48, 0x83, 0xec, 0x10], [0x10, 0, 0, 0]),
            (
                "sub rsp, 0x12345",
                &[0x48, 0x81, 0xec, 0x45, 0x23, 0x01, 0],
                [0x12345, 0, 0, 0],
            ),
            (
                "two pages",
                &[
                    0x48, 0x81, 0xec, 0, 0x10, 0, 0, // sub rsp, 0x1000
                    0x48, 0x83, 0x0c, 0x24, 0, // or qword [rsp], 0
                    0x48, 0x83, 0xec, 0x20, // sub rsp, 0x20
                ],
                [0x1000, 0x1020, 0, 0],
            ),
            (
                "a loop",
                &[
                    0x4c, 0x8d, 0x9c, 0x24, 0, 0x40, 0xff, 0xff, // lea r11, [rsp - 0xc000]
                    0x48, 0x81, 0xec, 0, 0x10, 0, 0, // sub rsp, 0x1000
                    0x48, 0x83, 0x0c, 0x24, 0, // or qword [rsp], 0
                    0x4c, 0x39, 0xdc, // cmp rsp, r11
                    0x75, 0xef, // jne
                    0x48, 0x81, 0xec, 0x50, 0x03, 0, 0, // sub rsp, 0x350
                ],
                [0xc000, 0xc350, 0, 0],
            ),
        ];
        for (name, code, expected) in cases {
            let mut bytes = [0x90; 64];
            bytes[..4].copy_from_slice(&head);
            bytes[4..4 + code.len()].copy_from_slice(code);
            assert_eq!(frame_sizes(&Code(bytes), 0x1000, 50), *expected, "{name}");
            assert_eq!(frame_sizes(&Code(bytes), 0x1000, 4), [0; 4], "{name}");
        }
    }

    #[test]
    fn a_call_in_the_first_bytes_of_the_code_is_recognised() {
        let mut bytes = [0x90; 16];
        bytes[..2].copy_from_slice(&[0xff, 0xd0]);
        assert_eq!(
            call_before(&Code(bytes), 0x1002),
            Some(CallBefore::Indirect)
        );
        assert_eq!(call_before(&Code(bytes), 0x1000), None);
    }
}
