//! What is exported in front of libgomp: functions that note who called, or jump on where another runtime answers.

/// Where the function that is called returns to: the exported functions leave it here for what they jump to.
pub mod caller {
    crate::thread_words! {
        pub fn place() -> *mut u64 = "rsys_gomp_caller"
    }

    /// Takes the address; 0 when the call came another way.
    #[inline]
    pub fn take() -> u64 {
        // SAFETY: the thread's own word.
        unsafe { std::mem::take(&mut *place()) }
    }
}

/// In place of an address that an exported function jumps to: not known yet.
pub const UNDECIDED: usize = 0;
/// The same: to the wrapper.
pub const WRAPPER: usize = 1;

/// Exports wrappers as [`crate::wrap!`] does, but leaves the return address in [`caller`].
macro_rules! wrap_with_caller {
    ($(fn $name:ident($($argument:ident: $type:ty),*) -> $result:ty = $body:path;)*) => {
        $(
            #[doc = concat!("`", stringify!($name), "` and what stands in front of it.")]
            #[allow(non_snake_case, reason = "named as the function")]
            pub mod $name {
                #[allow(unused_imports, reason = "not every signature needs them")]
                use super::*;
                /// The signature.
                pub type Function = unsafe extern "C" fn($($type),*) -> $result;
                /// The wrapper at each place.
                pub static WRAPPED: $crate::interpose::wrapped::Wrapped = $crate::interpose::wrapped::Wrapped::new(
                    match std::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                        Ok(name) => name,
                        Err(_) => panic!("a name without NUL"),
                    },
                    $crate::interpose::wrapped::Wrappers([
                        super::$name as *const (),
                        at::<1> as *const (),
                        at::<2> as *const (),
                        at::<3> as *const (),
                    ]),
                );
                /// Where the exported function jumps to: an address, or [`UNDECIDED`] or [`WRAPPER`].
                pub static NEXT: AtomicUsize = AtomicUsize::new(UNDECIDED);
                /// Decides it.
                pub extern "C" fn decide() {
                    super::decide(&WRAPPED, &NEXT);
                }
                /// The wrapper at one place.
                ///
                /// # Safety
                /// As the function itself.
                pub unsafe extern "C" fn at<const PLACE: usize>($($argument: $type),*) -> $result {
                    let real = WRAPPED.real::<PLACE>();
                    // SAFETY: libraries declare the function of this name so; null is None.
                    let real = unsafe { std::mem::transmute::<*mut (), Option<Function>>(real) };
                    $body(real, $($argument),*)
                }
            }

            /// # Safety
            /// As the function of the library.
            #[cfg_attr(not(test), unsafe(no_mangle))]
            #[allow(non_snake_case, reason = "the library's name for it")]
            #[unsafe(naked)]
            pub unsafe extern "C" fn $name($($argument: $type),*) -> $result {
                std::arch::naked_asm!(
                    ".cfi_startproc",
                    "mov r11, qword ptr [rip + {next}]",
                    "cmp r11, 1",
                    "ja 3f",
                    "je 2f",
                    "push rdi",
                    "push rsi",
                    "push rdx",
                    "push rcx",
                    "push r8",
                    "push r9",
                    "sub rsp, 8",
                    ".cfi_adjust_cfa_offset 56",
                    "call {decide}",
                    "add rsp, 8",
                    "pop r9",
                    "pop r8",
                    "pop rcx",
                    "pop rdx",
                    "pop rsi",
                    "pop rdi",
                    ".cfi_adjust_cfa_offset -56",
                    "mov r11, qword ptr [rip + {next}]",
                    "cmp r11, 1",
                    "ja 3f",
                    "2:",
                    "mov rax, qword ptr [rip + rsys_gomp_caller@GOTTPOFF]",
                    "mov r11, qword ptr [rsp]",
                    "mov qword ptr fs:[rax], r11",
                    "jmp {wrapper}",
                    "3:",
                    "jmp r11",
                    ".cfi_endproc",
                    next = sym $name::NEXT,
                    decide = sym $name::decide,
                    wrapper = sym $name::at::<0>,
                );
            }
        )*
        /// All that are wrapped here.
        pub static WRAPPED: &[&$crate::interpose::wrapped::Wrapped] = &[$(&$name::WRAPPED),*];
    };
}
pub(super) use wrap_with_caller;
