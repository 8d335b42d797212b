//! One trampoline for many functions: a call of any signature of whole words, seen as its words.
//!
//! Libraries with hundreds of functions would need hundreds of wrappers. Here each function has a stub of two instructions that puts its
//! number into a scratch register and jumps to the trampoline of its library. That notes the registers in a [`Call`] and asks a handler,
//! which says where to jump with all registers and the stack as they were, or makes the call itself ([`Call::forward`]) and has its result
//! returned. Functions that take structures by value or more than one floating-point argument must not have a stub, nor those with `long double`.

/// How many arguments come in registers.
#[cfg(target_arch = "x86_64")]
const REGISTERS: usize = 6;
#[cfg(target_arch = "aarch64")]
const REGISTERS: usize = 8;

/// A call that is under way.
#[derive(Debug)]
#[repr(C)]
pub struct Call {
    registers: [usize; REGISTERS],
    /// `al` of variadic calls, or where a structure is returned to.
    scratch: usize,
    /// What the function returned, as a whole number.
    result: usize,
    /// The first floating-point argument, then what the function returned as such.
    double: f64,
    /// The arguments that did not fit into registers.
    stack: *const usize,
}

impl Call {
    /// The argument at this place, counted from 0.
    #[inline]
    pub fn argument(&self, place: usize) -> usize {
        match self.registers.get(place) {
            Some(word) => *word,
            // SAFETY: the caller put it there, as it says by the function that it calls.
            None => unsafe { *self.stack.wrapping_add(place.wrapping_sub(REGISTERS)) },
        }
    }

    /// Where the caller goes on.
    #[inline]
    pub fn return_address(&self) -> u64 {
        // SAFETY: where the trampoline below, or the call itself, put it.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            let place = self.stack.wrapping_sub(1);
            #[cfg(target_arch = "aarch64")]
            let place = std::ptr::from_ref(self).cast::<usize>().wrapping_sub(1);
            *place as u64
        }
    }

    /// Where on the stack the call is: a call within it is at a lower address.
    #[inline]
    pub fn depth(&self) -> usize {
        self.stack.addr()
    }

    /// What the function returned.
    #[inline]
    pub fn result(&self) -> usize {
        self.result
    }

    /// Has the caller get this result.
    #[inline]
    pub fn set_result(&mut self, result: usize) {
        self.result = result;
    }

    /// Calls the function with the caller's arguments; `arguments` is how many words they are.
    #[inline]
    pub fn forward(&mut self, function: *const (), arguments: usize) {
        let on_stack = arguments.saturating_sub(REGISTERS).next_multiple_of(2);
        // SAFETY: the function that the caller meant, with its arguments; up to one word behind them is copied, which is the caller's stack.
        unsafe { forward(function, self, on_stack) }
    }
}

/// Calls a function with registers and stack of a call, and notes what it returns.
///
/// # Safety
/// As the function; `words` is even, and the caller's stack has as many.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn forward(function: *const (), call: *mut Call, words: usize) {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "push rbx",
        ".cfi_offset rbx, -24",
        "sub rsp, 8",
        "mov rbx, rsi",
        "mov r11, rdi",
        "mov r10, [rsi + 72]",
        "lea rax, [rdx * 8]",
        "sub rsp, rax",
        "2:",
        "test rdx, rdx",
        "jz 3f",
        "sub rdx, 1",
        "mov rax, [r10 + rdx * 8]",
        "mov [rsp + rdx * 8], rax",
        "jmp 2b",
        "3:",
        "mov rdi, [rbx]",
        "mov rsi, [rbx + 8]",
        "mov rdx, [rbx + 16]",
        "mov rcx, [rbx + 24]",
        "mov r8, [rbx + 32]",
        "mov r9, [rbx + 40]",
        "mov rax, [rbx + 48]",
        "movsd xmm0, [rbx + 64]",
        "call r11",
        "mov [rbx + 56], rax",
        "movsd [rbx + 64], xmm0",
        "mov rbx, [rbp - 8]",
        "leave",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// As above.
///
/// # Safety
/// As above.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn forward(function: *const (), call: *mut Call, words: usize) {
    std::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-32]!",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset x29, -32",
        ".cfi_offset x30, -24",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "str x19, [sp, #16]",
        ".cfi_offset x19, -16",
        "mov x19, x1",
        "mov x16, x0",
        "ldr x9, [x1, #88]",
        "sub sp, sp, x2, lsl #3",
        "2:",
        "cbz x2, 3f",
        "sub x2, x2, #1",
        "ldr x10, [x9, x2, lsl #3]",
        "str x10, [sp, x2, lsl #3]",
        "b 2b",
        "3:",
        "ldp x0, x1, [x19]",
        "ldp x2, x3, [x19, #16]",
        "ldp x4, x5, [x19, #32]",
        "ldp x6, x7, [x19, #48]",
        "ldr x8, [x19, #64]",
        "ldr d0, [x19, #80]",
        "blr x16",
        "str x0, [x19, #72]",
        "str d0, [x19, #80]",
        "mov sp, x29",
        "ldr x19, [sp, #16]",
        "ldp x29, x30, [sp], #32",
        "ret",
        ".cfi_endproc",
    )
}

/// Makes the trampoline of a library: `trampoline!(name, handler)`, where `handler(number, &mut Call)` is an `extern "C"` function that
/// returns where to jump, or null when it has made the call.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! trampoline {
    ($name:ident, $handler:path) => {
        /// # Safety
        /// Jumped to by a stub, with the number of its function in `r11d`.
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "push rbp",
                ".cfi_def_cfa_offset 16",
                ".cfi_offset rbp, -16",
                "mov rbp, rsp",
                ".cfi_def_cfa_register rbp",
                "sub rsp, 80",
                "mov [rsp], rdi",
                "mov [rsp + 8], rsi",
                "mov [rsp + 16], rdx",
                "mov [rsp + 24], rcx",
                "mov [rsp + 32], r8",
                "mov [rsp + 40], r9",
                "mov [rsp + 48], rax",
                "movsd [rsp + 64], xmm0",
                "lea rax, [rbp + 16]",
                "mov [rsp + 72], rax",
                "mov edi, r11d",
                "mov rsi, rsp",
                "call {handler}",
                "test rax, rax",
                "jz 2f",
                "mov r11, rax",
                "mov rdi, [rsp]",
                "mov rsi, [rsp + 8]",
                "mov rdx, [rsp + 16]",
                "mov rcx, [rsp + 24]",
                "mov r8, [rsp + 32]",
                "mov r9, [rsp + 40]",
                "mov rax, [rsp + 48]",
                "movsd xmm0, [rsp + 64]",
                ".cfi_remember_state",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "jmp r11",
                ".cfi_restore_state",
                "2:",
                "mov rax, [rsp + 56]",
                "movsd xmm0, [rsp + 64]",
                "leave",
                ".cfi_def_cfa rsp, 8",
                "ret",
                ".cfi_endproc",
                handler = sym $handler,
            )
        }
    };
}

/// As above; the number is in `w16`.
#[cfg(target_arch = "aarch64")]
#[macro_export]
macro_rules! trampoline {
    ($name:ident, $handler:path) => {
        /// # Safety
        /// Jumped to by a stub, with the number of its function in `w16`.
        #[unsafe(naked)]
        unsafe extern "C" fn $name() {
            std::arch::naked_asm!(
                ".cfi_startproc",
                "stp x29, x30, [sp, #-112]!",
                ".cfi_def_cfa_offset 112",
                ".cfi_offset x29, -112",
                ".cfi_offset x30, -104",
                "mov x29, sp",
                "stp x0, x1, [sp, #16]",
                "stp x2, x3, [sp, #32]",
                "stp x4, x5, [sp, #48]",
                "stp x6, x7, [sp, #64]",
                "str x8, [sp, #80]",
                "str d0, [sp, #96]",
                "add x9, sp, #112",
                "str x9, [sp, #104]",
                "mov w0, w16",
                "add x1, sp, #16",
                "bl {handler}",
                "mov x16, x0",
                "cbz x16, 2f",
                "ldp x0, x1, [sp, #16]",
                "ldp x2, x3, [sp, #32]",
                "ldp x4, x5, [sp, #48]",
                "ldp x6, x7, [sp, #64]",
                "ldr x8, [sp, #80]",
                "ldr d0, [sp, #96]",
                "ldp x29, x30, [sp], #112",
                "br x16",
                "2:",
                "ldr x0, [sp, #88]",
                "ldr d0, [sp, #96]",
                "ldp x29, x30, [sp], #112",
                "ret",
                ".cfi_endproc",
                handler = sym $handler,
            )
        }
    };
}

/// The body of a stub: `stub!(number, trampoline)` within a naked function.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! stub {
    ($number:expr, $trampoline:path) => {
        std::arch::naked_asm!("mov r11d, {number}", "jmp {trampoline}", number = const $number, trampoline = sym $trampoline)
    };
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[macro_export]
macro_rules! stub {
    ($number:expr, $trampoline:path) => {
        std::arch::naked_asm!("mov w16, #{number}", "b {trampoline}", number = const $number, trampoline = sym $trampoline)
    };
}

/// Bytes from one stub of `later_stubs!` to the next.
pub const STUB_BYTES: usize = 16;

/// Makes stubs without names, for numbers from `first` on, in a row at a symbol: for functions of the same names in other libraries.
#[cfg(target_arch = "x86_64")]
#[macro_export]
macro_rules! later_stubs {
    ($symbol:literal, $first:expr, $count:expr, $trampoline:path) => {
        std::arch::global_asm!(
            ".text",
            ".balign 16",
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!($symbol, ":"),
            concat!(".set ", $symbol, "_number, {first}"),
            ".rept {count}",
            concat!("movl $", $symbol, "_number, %r11d"),
            "jmp {trampoline}",
            ".balign 16",
            concat!(".set ", $symbol, "_number, ", $symbol, "_number + 1"),
            ".endr",
            first = const $first,
            count = const $count,
            trampoline = sym $trampoline,
            options(att_syntax),
        );
    };
}

/// As above.
#[cfg(target_arch = "aarch64")]
#[macro_export]
macro_rules! later_stubs {
    ($symbol:literal, $first:expr, $count:expr, $trampoline:path) => {
        std::arch::global_asm!(
            ".text",
            ".balign 16",
            concat!(".globl ", $symbol),
            concat!(".hidden ", $symbol),
            concat!($symbol, ":"),
            concat!(".set ", $symbol, "_number, {first}"),
            ".rept {count}",
            concat!("mov w16, #", $symbol, "_number"),
            "b {trampoline}",
            ".balign 16",
            concat!(".set ", $symbol, "_number, ", $symbol, "_number + 1"),
            ".endr",
            first = const $first,
            count = const $count,
            trampoline = sym $trampoline,
        );
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    extern "C" fn weigh(
        a: i64,
        b: i64,
        c: i64,
        d: i64,
        e: i64,
        f: i64,
        g: i64,
        h: i64,
        i: i64,
        j: i64,
        k: i64,
    ) -> i64 {
        [a, b, c, d, e, f, g, h, i, j, k]
            .iter()
            .fold(0, |sum, digit| sum * 10 + digit)
    }

    extern "C" fn three() -> f64 {
        3.0
    }

    extern "C" fn half(number: f64, divisor: i64) -> f64 {
        number / divisor as f64
    }

    extern "C" fn handler(number: u32, call: &mut Call) -> *const () {
        match number {
            1 => return weigh as *const (),
            2 => call.forward(weigh as *const (), 11),
            3 => call.forward(three as *const (), 0),
            5 => return half as *const (),
            6 => call.forward(half as *const (), 1),
            _ => call.set_result(call.argument(10).wrapping_add(call.argument(0))),
        }
        std::ptr::null()
    }

    trampoline!(trampoline, handler);

    /// # Safety
    /// As `weigh`.
    #[unsafe(naked)]
    unsafe extern "C" fn jumps() {
        stub!(1, trampoline)
    }

    /// # Safety
    /// As `weigh`.
    #[unsafe(naked)]
    unsafe extern "C" fn forwards() {
        stub!(2, trampoline)
    }

    later_stubs!("rsys_test_stubs", 3, 4, trampoline);

    unsafe extern "C" {
        fn rsys_test_stubs();
    }

    #[test]
    fn words_and_results_pass_through() {
        type Eleven = extern "C" fn(i64, i64, i64, i64, i64, i64, i64, i64, i64, i64, i64) -> i64;
        let call = |address: *const ()| {
            // SAFETY: stubs of functions of this signature.
            let function = unsafe { std::mem::transmute::<*const (), Eleven>(address) };
            function(1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1)
        };
        let later = rsys_test_stubs as *const ();
        assert_eq!(call(jumps as *const ()), 12_345_678_901);
        assert_eq!(call(forwards as *const ()), 12_345_678_901);
        assert_eq!(call(later.wrapping_byte_add(STUB_BYTES)), 2);
        // SAFETY: a stub of a function without arguments.
        let three = unsafe { std::mem::transmute::<*const (), extern "C" fn() -> f64>(later) };
        assert_eq!(three(), 3.0);
        for number in [2, 3] {
            let stub = later.wrapping_byte_add(number * STUB_BYTES);
            // SAFETY: stubs of a function of this signature.
            let half =
                unsafe { std::mem::transmute::<*const (), extern "C" fn(f64, i64) -> f64>(stub) };
            assert_eq!(half(7.0, 2), 3.5);
        }
    }
}
