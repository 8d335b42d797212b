//! The machine code that a stopped thread executes for us.
//!
//! It knows all numbers that it needs: nothing is handed over in memory that somebody would have to look after. It ends with a jump to where
//! the thread was, with all its registers, and does so whether we are still there or not.

use super::stop::Registers;

/// Numbers of registers in instructions.
const RAX: u8 = 0;
const RCX: u8 = 1;
const RDX: u8 = 2;
const RBX: u8 = 3;
const RSP: u8 = 4;
const RBP: u8 = 5;
const RSI: u8 = 6;
const RDI: u8 = 7;
const R10: u8 = 10;

/// x87, SSE, AVX and AVX-512 state, as bits of XCR0: what functions of the C library may change.
const VECTORS: u64 = 0b1110_0111;

/// Instructions, one after another.
#[derive(Debug, Default)]
struct Code(Vec<u8>);

impl Code {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    /// `mov register, value`
    fn set(&mut self, register: u8, value: u64) -> &mut Self {
        self.bytes(&[0x48 | register >> 3, 0xb8 | register & 7]);
        self.bytes(&value.to_le_bytes())
    }

    /// A system call. The kernel keeps all registers but RAX, RCX and R11.
    fn system_call(&mut self, number: i64, arguments: &[u64]) -> &mut Self {
        for (register, value) in [RDI, RSI, RDX, 10, 8, 9].into_iter().zip(arguments) {
            self.set(register, *value);
        }
        self.set(RAX, number.cast_unsigned()).bytes(&[0x0f, 0x05])
    }

    /// `call address`, by RAX.
    fn call(&mut self, address: u64) -> &mut Self {
        self.set(RAX, address).bytes(&[0xff, 0xd0])
    }

    /// Leaves in R10 the milliseconds from now to a time, rounded up; none if it is over. `time` is room for a `timespec`.
    fn time_left(&mut self, ends_ns: u64, time: u64) -> &mut Self {
        self.system_call(
            libc::SYS_clock_gettime,
            &[libc::CLOCK_MONOTONIC as u64, time],
        );
        // mov rax, [rcx]; imul rax, rax, 1000000000; add rax, [rcx + 8]
        self.set(RCX, time).bytes(&[0x48, 0x8b, 0x01]);
        self.bytes(&[0x48, 0x69, 0xc0, 0x00, 0xca, 0x9a, 0x3b]);
        self.bytes(&[0x48, 0x03, 0x41, 0x08]);
        // xor ecx, ecx; sub rdx, rax; cmovs rdx, rcx
        self.set(RDX, ends_ns)
            .bytes(&[0x31, 0xc9, 0x48, 0x29, 0xc2, 0x48, 0x0f, 0x48, 0xd1]);
        // lea rax, [rdx + 999999]; xor edx, edx
        self.bytes(&[0x48, 0x8d, 0x82, 0x3f, 0x42, 0x0f, 0x00, 0x31, 0xd2]);
        // div rcx; mov r10, rax
        self.set(RCX, 1_000_000)
            .bytes(&[0x48, 0xf7, 0xf1, 0x49, 0x89, 0xc2])
    }

    /// `jmp address`, by no register.
    fn jump(&mut self, address: u64) -> &mut Self {
        self.bytes(&[0xff, 0x25, 0, 0, 0, 0])
            .bytes(&address.to_le_bytes())
    }
}

/// What is mapped for us.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// Where code is.
    pub code: u64,
    /// Its length.
    pub code_bytes: u64,
    /// Where stack, data and request are; directly behind the code, but for a page that nothing can be done with.
    pub data: u64,
    /// Their length.
    pub data_bytes: u64,
}

/// The first registers for [`map`], at `place`.
#[must_use]
pub fn registers_to_map(at: &Registers, place: u64, memory: &Memory) -> Registers {
    let mut registers = *at;
    registers.rip = place;
    registers.rax = libc::SYS_mmap as u64;
    registers.rdi = memory.code;
    registers.rsi = memory.code_bytes;
    registers.rdx = (libc::PROT_READ | libc::PROT_EXEC) as u64;
    registers.r10 = MAP_FLAGS;
    registers.r8 = u64::MAX;
    registers.r9 = 0;
    registers
}

const MAP_FLAGS: u64 =
    (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED_NOREPLACE)
        as u64;

/// Maps the memory, and goes on where the thread was. Needs no stack.
#[must_use]
pub fn map(back: &Registers, memory: &Memory) -> Vec<u8> {
    let mut code = Code::default();
    code.bytes(&[0x0f, 0x05]);
    code.set(RDI, memory.data)
        .set(RSI, memory.data_bytes)
        .set(RDX, (libc::PROT_READ | libc::PROT_WRITE) as u64)
        .set(RAX, libc::SYS_mmap as u64)
        .bytes(&[0x0f, 0x05]);
    let registers = [
        (RDI, back.rdi),
        (RSI, back.rsi),
        (RDX, back.rdx),
        (10, back.r10),
        (8, back.r8),
        (9, back.r9),
        (RCX, back.rcx),
        (11, back.r11),
        (RAX, back.rax),
    ];
    for (register, value) in registers {
        code.set(register, value);
    }
    code.jump(back.rip);
    code.0
}

/// Functions of the process's C library.
#[derive(Debug, Clone, Copy)]
pub struct Library {
    /// `pthread_create`
    pub pthread_create: u64,
    /// `pthread_detach`
    pub pthread_detach: u64,
    /// `__errno_location`
    pub errno_location: u64,
    /// `dlopen`
    pub dlopen: u64,
    /// How it is to load.
    pub dlopen_flags: u64,
    /// `dlsym`
    pub dlsym: u64,
}

/// Addresses in the data.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    /// The end of the stack: aligned to 16 bytes.
    pub stack: u64,
    /// Room for the vectors: zeros, aligned to 64 bytes.
    pub vectors: u64,
    /// A signal set ([`BLOCKED`]), one that is written, the new thread's number, and a result: eight bytes each.
    pub words: u64,
    /// The request.
    pub request: u64,
}

/// What is blocked while the new thread is made, and in that thread: all but the signals of the C library (nptl: SIGCANCEL, SIGSETXID). `setuid` waits
/// until every thread has taken the latter.
pub const BLOCKED: u64 = !(0b11 << 31);

/// How far the routine of the new thread is from the start of [`begin`].
pub const ROUTINE: u64 = 1024;

/// Makes the thread that loads the agent, and goes on where the thread was: in a system call whose time is over at `ends_ns` (CLOCK_MONOTONIC), if
/// that is given.
#[must_use]
pub fn begin(
    back: &Registers,
    at: u64,
    library: &Library,
    places: &Places,
    ends_ns: Option<u64>,
) -> Vec<u8> {
    const SET: u64 = libc::SIG_SETMASK as u64;
    let [all, before, thread, result] = [0, 8, 16, 24].map(|offset| places.words + offset);
    let mut code = Code::default();
    code.system_call(libc::SYS_rt_sigprocmask, &[SET, all, before, 8]);
    // xsave64 [rdi]
    code.set(RAX, VECTORS).set(RDX, 0).set(RDI, places.vectors);
    code.bytes(&[0x48, 0x0f, 0xae, 0x27]);
    // cld; errno is kept in r12d, its place in rbx.
    code.bytes(&[0xfc]).call(library.errno_location);
    code.bytes(&[0x48, 0x89, 0xc3, 0x44, 0x8b, 0x20]);
    code.set(RDI, thread)
        .set(RSI, 0)
        .set(RDX, at + ROUTINE)
        .set(RCX, places.request)
        .call(library.pthread_create);
    // mov [rcx], eax; mov [rbx], r12d
    code.set(RCX, result).bytes(&[0x89, 0x01, 0x44, 0x89, 0x23]);
    // xrstor64 [rdi]
    code.set(RAX, VECTORS).set(RDX, 0).set(RDI, places.vectors);
    code.bytes(&[0x48, 0x0f, 0xae, 0x2f]);
    code.system_call(libc::SYS_rt_sigprocmask, &[SET, before, 0, 8]);
    if let Some(ends_ns) = ends_ns {
        code.time_left(ends_ns, places.words + 32);
    }
    // push rax; popfq
    code.set(RAX, back.eflags).bytes(&[0x50, 0x9d]);
    let registers = [
        (RCX, back.rcx),
        (RDX, back.rdx),
        (RBX, back.rbx),
        (RBP, back.rbp),
        (RSI, back.rsi),
        (RDI, back.rdi),
        (8, back.r8),
        (9, back.r9),
        (R10, back.r10),
        (11, back.r11),
        (12, back.r12),
        (13, back.r13),
        (14, back.r14),
        (15, back.r15),
        (RAX, back.rax),
        (RSP, back.rsp),
    ];
    for (register, value) in registers {
        if register != R10 || ends_ns.is_none() {
            code.set(register, value);
        }
    }
    code.jump(back.rip);
    debug_assert!(code.0.len() < ROUTINE as usize);
    // int3 in between: never executed.
    code.0.resize(ROUTINE as usize, 0xcc);
    code.bytes(&routine(library));
    code.0
}

/// What the new thread does: `void *routine(void *request)`.
fn routine(library: &Library) -> Vec<u8> {
    use rsys_wire::attach::{Request, Status};
    use std::mem::offset_of;
    let at = |offset: usize| u32::try_from(offset).unwrap_or(0).to_le_bytes();
    let status = offset_of!(Request, status);
    let mut code = Code::default();
    // push rbx; mov rbx, rdi
    code.bytes(&[0x53, 0x48, 0x89, 0xfb]);
    let say = |code: &mut Code, value: Status| {
        // mov dword [rbx + status], value
        code.bytes(&[0xc7, 0x83])
            .bytes(&at(status))
            .bytes(&(value as u32).to_le_bytes());
    };
    say(&mut code, Status::Loading);
    // mov rdi, fs:[16]: the thread itself, as glibc has it (tcbhead_t.self).
    code.bytes(&[0x64, 0x48, 0x8b, 0x3c, 0x25, 16, 0, 0, 0])
        .call(library.pthread_detach);
    // lea rdi, [rbx + library]
    code.bytes(&[0x48, 0x8d, 0xbb])
        .bytes(&at(offset_of!(Request, library)))
        .set(RSI, library.dlopen_flags)
        .call(library.dlopen);
    // test rax, rax; jnz over
    code.bytes(&[0x48, 0x85, 0xc0, 0x75, 0]);
    let jump = code.0.len();
    say(&mut code, Status::NotLoaded);
    // xor eax, eax; pop rbx; ret
    code.bytes(&[0x31, 0xc0, 0x5b, 0xc3]);
    let over = code.0.len() - jump;
    code.0[jump - 1] = over as u8;
    // mov rdi, rax; lea rsi, [rbx + function]
    code.bytes(&[0x48, 0x89, 0xc7, 0x48, 0x8d, 0xb3])
        .bytes(&at(offset_of!(Request, function)))
        .call(library.dlsym);
    code.bytes(&[0x48, 0x85, 0xc0, 0x75, 0]);
    let jump = code.0.len();
    say(&mut code, Status::NoFunction);
    code.bytes(&[0x31, 0xc0, 0x5b, 0xc3]);
    let over = code.0.len() - jump;
    code.0[jump - 1] = over as u8;
    // mov rdi, rbx; pop rbx; jmp rax: it returns to the C library.
    code.bytes(&[0x48, 0x89, 0xdf, 0x5b, 0xff, 0xe0]);
    code.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Executes code of ours that ends with `ret`, and returns R10.
    fn r10_after(code: &Code) -> u64 {
        let mut bytes = code.0.clone();
        // mov rax, r10; ret
        bytes.extend([0x4c, 0x89, 0xd0, 0xc3]);
        let mut memory = memmap2::MmapMut::map_anon(bytes.len()).unwrap();
        memory.copy_from_slice(&bytes);
        let memory = memory.make_exec().unwrap();
        // SAFETY: a function of the C convention that changes registers alone which are the callee's.
        let function: extern "C" fn() -> u64 = unsafe { std::mem::transmute(memory.as_ptr()) };
        function()
    }

    #[test]
    fn the_time_that_is_left_is_found_where_the_thread_goes_on() {
        let mut time = [0_u64; 2];
        let place = time.as_mut_ptr().expose_provenance() as u64;
        let left = |ends_ns: u64| {
            let mut code = Code::default();
            code.time_left(ends_ns, place);
            r10_after(&code)
        };
        let now_ns = crate::os::monotonic_ns();
        let hour_ms = 3_600_000;
        let found = left(now_ns + hour_ms * 1_000_000);
        assert!(found <= hour_ms && found > hour_ms / 2, "{found}");
        assert_eq!(left(now_ns), 0, "it is over");
        assert_eq!(left(1), 0);
    }
}
