//! What a program asks for when it calls one of the functions.

use std::ffi::{c_char, c_int};

/// How many arguments come in registers.
pub const REGISTERS: usize = 6;

/// The arguments of a function, of any number.
#[derive(Debug, Clone, Copy)]
pub struct Words<'a> {
    /// Those in registers.
    pub first: &'a [usize; REGISTERS],
    /// Those on the stack.
    pub others: *const usize,
}

impl Words<'_> {
    /// # Safety
    /// The function must have been called with more than `index` arguments.
    unsafe fn get(&self, index: usize) -> usize {
        match self.first.get(index) {
            Some(word) => *word,
            // SAFETY: the caller's promise.
            None => unsafe { *self.others.wrapping_add(index - REGISTERS) },
        }
    }
}

/// Which file is to be executed.
#[derive(Debug, Clone, Copy)]
pub enum File {
    /// The one at this path.
    Path(*const c_char),
    /// The first of this name in the folders of PATH, unless it is a path.
    Searched(*const c_char),
    /// The open one.
    Descriptor(c_int),
    /// `execveat`: folder, path, flags.
    At(c_int, *const c_char, c_int),
}

impl File {
    /// That of a system call, its arguments and its environment.
    pub fn of_number(
        number: i64,
        words: [usize; 5],
    ) -> Option<(Self, *const *const c_char, *const *const c_char)> {
        let [a, b, c, d, e] = words;
        match number {
            libc::SYS_execve => Some((Self::Path(pointer(a)), pointer(b), pointer(c))),
            libc::SYS_execveat => {
                let file = Self::At(a as c_int, pointer(b), e as c_int);
                Some((file, pointer(c), pointer(d)))
            }
            _ => None,
        }
    }
}

/// Where the new program's arguments are.
#[derive(Debug, Clone, Copy)]
enum Arguments {
    /// In a vector.
    Vector(*const *const c_char),
    /// In the call itself, from the second on.
    Listed,
}

/// A call of one of the functions.
#[derive(Debug)]
pub struct Call<'a> {
    /// What is to be executed.
    pub file: File,
    /// The new program's variables.
    pub environment: *const *const c_char,
    arguments: Arguments,
    words: Words<'a>,
}

impl<'a> Call<'a> {
    /// Of the function with this number in [`crate::lifecycle::exec::REALS`].
    ///
    /// # Safety
    /// `words` must be what the function was called with.
    pub unsafe fn new(number: u32, words: Words<'a>) -> Option<Self> {
        // SAFETY: all have at least two arguments; so below, each as its manual says.
        let word = |index| unsafe { words.get(index) };
        let path = || File::Path(pointer(word(0)));
        let searched = || File::Searched(pointer(word(0)));
        let vector = |index| Arguments::Vector(pointer(word(index)));
        let (file, arguments, environment) = match number {
            0 => (path(), vector(1), pointer(word(2))),
            1 => (path(), vector(1), variables()),
            2 => (searched(), vector(1), variables()),
            3 => (searched(), vector(1), pointer(word(2))),
            4 => (
                File::Descriptor(word(0) as c_int),
                vector(1),
                pointer(word(2)),
            ),
            5 => {
                let file = File::At(word(0) as c_int, pointer(word(1)), word(4) as c_int);
                (file, vector(2), pointer(word(3)))
            }
            6 => (path(), Arguments::Listed, variables()),
            7 => (searched(), Arguments::Listed, variables()),
            8 => {
                // Behind the null pointer that ends the list.
                let end = (1..).find(|index| word(*index) == 0)?;
                (path(), Arguments::Listed, pointer(word(end + 1)))
            }
            _ => return None,
        };
        Some(Call {
            file,
            environment,
            arguments,
            words,
        })
    }

    /// The new program's arguments, if they are in a vector. The kernel looks whether it is one.
    pub fn vector(&self) -> Option<*const *const c_char> {
        match self.arguments {
            Arguments::Vector(vector) => Some(vector),
            Arguments::Listed => None,
        }
    }

    /// The new program's arguments, if they are in the call itself; without the null pointer at their end.
    pub fn list(&self) -> impl Iterator<Item = *const c_char> + Clone {
        let mut index = 0;
        std::iter::from_fn(move || {
            if let Arguments::Vector(_) = self.arguments {
                return None;
            }
            index += 1;
            // SAFETY: the end of the list has not been met yet.
            let word: *const c_char = pointer(unsafe { self.words.get(index) });
            (!word.is_null()).then_some(word)
        })
    }
}

/// The variables of this process as they are now.
pub fn variables() -> *const *const c_char {
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: the C library's word, which the program may write, as the C library itself reads it.
    unsafe { (&raw const environ).read() }
}

fn pointer<T>(word: usize) -> *const T {
    std::ptr::with_exposed_provenance(word)
}
