//! One trampoline for many functions: a call of any signature of whole words, seen as its words.
//!
//! Libraries with hundreds of functions would need hundreds of wrappers. Here each function has a stub of two instructions that puts its
//! number into a scratch register and jumps to the trampoline of its library. That notes the registers in a [`Call`] and asks a handler,
//! which says where to jump with all registers and the stack as they were, or makes the call itself ([`Call::forward`]) and has its result
//! returned. Functions that take structures by value or more than one floating-point argument must not have a stub, nor those with `long double`.

/// How many arguments come in registers.
const REGISTERS: usize = 6;

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
            let place = self.stack.wrapping_sub(1);
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

/// Makes the trampoline of a library: `trampoline!(name, handler)`, where `handler(number, &mut Call)` is an `extern "C"` function that
/// returns where to jump, or null when it has made the call.
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

/// The body of a stub: `stub!(number, trampoline)` within a naked function.
#[macro_export]
macro_rules! stub {
    ($number:expr, $trampoline:path) => {
        std::arch::naked_asm!("mov r11d, {number}", "jmp {trampoline}", number = const $number, trampoline = sym $trampoline)
    };
}

/// Bytes from one stub of `later_stubs!` to the next.
pub const STUB_BYTES: usize = 16;

/// Makes stubs without names, for numbers from `first` on, in a row at a symbol: for functions of the same names in other libraries.
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
