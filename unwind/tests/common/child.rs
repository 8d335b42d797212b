//! A traced child process: its memory and its modules, read from outside.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::CString;
use std::ops::Range;
use std::{fs, ptr};

use rsys_unwind::{Memory, ModuleTables, Modules, Registers, register};

const PAGE: u64 = 4096;

/// A process that this one traces.
pub struct Child {
    pub pid: libc::pid_t,
    pages: RefCell<HashMap<u64, Option<Box<[u8; PAGE as usize]>>>>,
    /// Mappings that cannot change: their pages are kept from step to step.
    constant: Vec<Range<u64>>,
    maps: String,
    pub modules: Vec<ModuleTables>,
    /// Where the vDSO is.
    pub vdso: Range<u64>,
}

impl Child {
    /// Starts a program that stops itself with a trap, and waits for that. Its environment has nothing but these variables.
    pub fn start(arguments: &[&str], environment: &[&str]) -> Self {
        let strings = |words: &[&str]| -> Vec<CString> {
            words
                .iter()
                .map(|word| CString::new(*word).unwrap())
                .collect()
        };
        let vector = |strings: &[CString]| -> Vec<*const libc::c_char> {
            let pointers = strings.iter().map(|string| string.as_ptr());
            pointers.chain([ptr::null()]).collect()
        };
        let (arguments, environment) = (strings(arguments), strings(environment));
        let (arguments, environment) = (vector(&arguments), vector(&environment));
        // SAFETY: between fork and exec the child makes system calls only, with arrays that live on this stack.
        let pid = unsafe {
            let pid = libc::fork();
            if pid == 0 {
                libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
                libc::execve(arguments[0], arguments.as_ptr(), environment.as_ptr());
                libc::_exit(127);
            }
            pid
        };
        assert!(pid > 0, "fork");
        let mut child = Self {
            pid,
            pages: RefCell::default(),
            constant: Vec::new(),
            maps: String::new(),
            modules: Vec::new(),
            vdso: 0..0,
        };
        assert_eq!(child.wait(), Some(libc::SIGTRAP), "exec");
        child.resume(libc::PTRACE_CONT, 0);
        assert_eq!(child.wait(), Some(libc::SIGTRAP), "the first int3");
        child.read_modules();
        child
    }

    /// Waits for the next stop; the signal that caused it, or `None` when the child is gone.
    pub fn wait(&mut self) -> Option<i32> {
        let mut status = 0;
        // SAFETY: waits for our own child.
        let waited = unsafe { libc::waitpid(self.pid, &mut status, 0) };
        assert_eq!(waited, self.pid);
        let constant = &self.constant;
        self.pages
            .borrow_mut()
            .retain(|page, _| constant.iter().any(|range| range.contains(page)));
        libc::WIFSTOPPED(status).then(|| libc::WSTOPSIG(status))
    }

    /// Lets the child run on, with a signal when it is not 0.
    pub fn resume(&self, request: libc::c_uint, signal: i32) {
        // SAFETY: the child is ours and stopped.
        let result = unsafe { libc::ptrace(request, self.pid, 0, i64::from(signal)) };
        assert_eq!(result, 0, "ptrace");
    }

    /// The child's registers.
    pub fn registers(&self) -> Registers {
        // SAFETY: the structure consists of integers.
        let mut user: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the child is ours and stopped; the kernel fills in the structure.
        let result = unsafe {
            libc::ptrace(
                libc::PTRACE_GETREGS,
                self.pid,
                0,
                ptr::from_mut(&mut user).cast::<libc::c_void>(),
            )
        };
        assert_eq!(result, 0, "PTRACE_GETREGS");
        let mut registers = Registers::new(user.rip, user.rsp, user.rbp);
        for (number, value) in [
            (register::RAX, user.rax),
            (register::RDX, user.rdx),
            (register::RCX, user.rcx),
            (register::RBX, user.rbx),
            (register::RSI, user.rsi),
            (register::RDI, user.rdi),
            (register::R8, user.r8),
            (register::R9, user.r9),
            (register::R10, user.r10),
            (register::R11, user.r11),
            (register::R12, user.r12),
            (register::R13, user.r13),
            (register::R14, user.r14),
            (register::R15, user.r15),
        ] {
            registers.set(number, value);
        }
        registers
    }

    /// Looks at what is mapped, and says whether that has changed.
    pub fn read_modules(&mut self) -> bool {
        let maps = fs::read_to_string(format!("/proc/{}/maps", self.pid)).unwrap();
        if maps == self.maps {
            return false;
        }
        self.constant.clear();
        self.modules.clear();
        for line in maps.lines() {
            let mut fields = line.split_whitespace();
            let (start, end) = fields.next().unwrap().split_once('-').unwrap();
            let start = u64::from_str_radix(start, 16).unwrap();
            let end = u64::from_str_radix(end, 16).unwrap();
            let access = fields.next().unwrap();
            let offset = fields.next().unwrap();
            if line.ends_with("[vdso]") {
                self.vdso = start..end;
            }
            if !access.contains('w') && self.read_u64(start).is_some() {
                self.constant.push(start..end);
            }
            if offset.trim_start_matches('0').is_empty()
                && let Some(module) = self.module(start)
            {
                self.modules.push(module);
            }
        }
        assert!(!self.modules.is_empty(), "the program itself");
        self.maps = maps;
        true
    }

    /// Reads the program headers of the object mapped at `base`.
    fn module(&self, base: u64) -> Option<ModuleTables> {
        if self.read_u32(base)? != u32::from_le_bytes(*b"\x7fELF") {
            return None;
        }
        let table = base + self.read_u64(base + 32)?;
        let mut range: Option<Range<u64>> = None;
        let mut eh_frame_hdr = None;
        for index in 0..u64::from(self.read_u16(base + 56)?) {
            let header = table + index * 56;
            let address = self.read_u64(header + 16)?;
            match self.read_u32(header)? {
                1 => {
                    let end = address + self.read_u64(header + 40)?;
                    let start = range.map_or(address, |range| range.start);
                    range = Some(start..end);
                }
                0x6474_e550 => eh_frame_hdr = Some(address),
                _ => {}
            }
        }
        let range = range?;
        let bias = base - range.start;
        Some(ModuleTables {
            range: range.start + bias..range.end + bias,
            eh_frame_hdr: eh_frame_hdr.map_or(0, |address| address + bias),
            eh_frame: 0,
        })
    }

    fn byte(&self, address: u64) -> Option<u8> {
        let start = address & !(PAGE - 1);
        let mut pages = self.pages.borrow_mut();
        let page = pages.entry(start).or_insert_with(|| {
            let mut page = Box::new([0; PAGE as usize]);
            let local = libc::iovec {
                iov_base: page.as_mut_ptr().cast(),
                iov_len: PAGE as usize,
            };
            let remote = libc::iovec {
                iov_base: ptr::without_provenance_mut(start as usize),
                iov_len: PAGE as usize,
            };
            // SAFETY: the kernel writes into the page that the local side names.
            let count = unsafe { libc::process_vm_readv(self.pid, &local, 1, &remote, 1, 0) };
            (count == PAGE as isize).then_some(page)
        });
        page.as_ref().map(|page| page[(address - start) as usize])
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // SAFETY: the child is ours; killing and reaping it cannot reach another process.
        unsafe {
            libc::kill(self.pid, libc::SIGKILL);
            libc::waitpid(self.pid, ptr::null_mut(), 0);
        }
    }
}

impl Memory for Child {
    fn read_u64(&self, address: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = self.byte(address.checked_add(index as u64)?)?;
        }
        Some(u64::from_le_bytes(bytes))
    }
}

impl Modules for Child {
    fn find(&self, pc: u64) -> Option<ModuleTables> {
        self.modules
            .iter()
            .find(|module| module.range.contains(&pc))
            .cloned()
    }

    fn generation(&self) -> u32 {
        1
    }
}
