//! The environment that a program would have without us.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use rsys_wire::handshake::{ENV_SESSION, ENV_SETTINGS};

use crate::sys;
use crate::target::environment::{agent_in, c_string, pointers, rest_of};

/// Vectors of this many bytes are put on the stack, larger ones into a mapping.
const ON_STACK: usize = 4096;

/// Lists of libraries that have the agent in them, and what separates their entries.
const LISTS: [&[u8]; 7] = [
    b"LD_PRELOAD=",
    b"HSA_TOOLS_LIB=",
    b"KOKKOS_TOOLS_LIBS=",
    b"KOKKOS_PROFILE_LIBRARY=",
    b"INTEL_LIBITTNOTIFY64=",
    b"NVTX_INJECTION64_PATH=",
    b"NCCL_PROFILER_PLUGIN=",
];

/// Calls `execute` with copies of the variables, without what is ours, and of arguments that are in no vector. The strings are the
/// program's, but for lists of which a part is left. Returns what it returns: the call failed, or it started another process. `None`
/// if there is no memory.
///
/// A child after vfork leaves a mapping behind if there is no room on the stack: then variables and arguments are 500 or more.
#[inline(never)]
pub fn agent<R>(
    environment: *const *const c_char,
    arguments: impl Iterator<Item = *const c_char> + Clone,
    execute: impl FnOnce(*const *const c_char, *const *const c_char) -> R,
) -> Option<R> {
    let entries = pointers(environment).map_while(|entry| entry);
    // Where no other tool of the HSA runtime is named, the switch that lets it load tools is ours.
    let has_switch = entries.clone().any(is_our_tool_alone);
    let entries = entries.filter(move |entry| !(has_switch && is_switch(*entry)));
    // Each vector ends with null.
    let words = arguments.clone().count() + entries.clone().count() + 2;
    let lists = entries.clone().filter_map(list_of);
    let text_bytes: usize = lists.map(|list| list.to_bytes_with_nul().len()).sum();
    let bytes = words * size_of::<*const c_char>() + text_bytes;
    let mut stack = MaybeUninit::<Room>::uninit();
    let mut mapped = None;
    let memory: *mut u8 = if bytes <= size_of::<Room>() {
        stack.as_mut_ptr().cast()
    } else {
        let memory = sys::mmap(bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1).ok()?;
        *mapped.insert(memory)
    };
    let vectors: *mut *const c_char = memory.cast();
    let mut text: *mut u8 = vectors.wrapping_add(words).cast();
    // SAFETY: there is room for all words, and behind them for all lists.
    let result = unsafe {
        let kept = entries.filter_map(|entry| keep(entry, &mut text));
        let variables = fill(vectors, arguments);
        fill(variables, kept);
        execute(variables, vectors)
    };
    if let Some(memory) = mapped {
        // SAFETY: mapped above; the kernel has copied what it needed.
        unsafe { sys::munmap(memory.cast(), bytes) };
    }
    Some(result)
}

/// Calls `execute` with a vector of arguments that are in none. `None` if there is no memory.
///
/// A child after vfork leaves a mapping behind if there is no room on the stack, as in [`agent`].
#[inline(never)]
pub fn listed<R>(
    arguments: impl Iterator<Item = *const c_char> + Clone,
    execute: impl FnOnce(*const *const c_char) -> R,
) -> Option<R> {
    let none = [std::ptr::null()];
    agent(none.as_ptr(), arguments, |_, list| execute(list))
}

/// Whether the kernel has room for what a program would be started with: `bprm_stack_limits` in fs/exec.c.
pub fn fits(
    path: &[u8],
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> bool {
    /// Whatever the limit on stacks is (ARG_MAX), and at most.
    const LEAST: u64 = 128 << 10;
    const MOST: u64 = 6 << 20;
    let room = (sys::stack_limit() / 4).clamp(LEAST, MOST);
    /// One string (MAX_ARG_STRLEN).
    const MOST_OF_ONE: usize = 128 << 10;
    let strings = pointers(arguments).chain(pointers(environment));
    let lengths = strings
        .map_while(|entry| entry)
        .filter_map(c_string)
        .map(|text| text.to_bytes_with_nul().len());
    let bytes: usize = lengths
        .clone()
        .map(|bytes| bytes + size_of::<*const c_char>())
        .sum();
    // The path comes first.
    let bytes = bytes + path.len() + 1;
    bytes as u64 <= room && lengths.max().unwrap_or(0) <= MOST_OF_ONE
}

/// Memory for words on the stack.
#[repr(C, align(8))]
struct Room([u8; ON_STACK]);

/// Writes a vector with null at its end; returns where the next begins.
///
/// # Safety
/// There must be room for it.
unsafe fn fill(
    vector: *mut *const c_char,
    words: impl Iterator<Item = *const c_char>,
) -> *mut *const c_char {
    let mut next = vector;
    for word in words.chain([std::ptr::null()]) {
        // SAFETY: the caller's promise.
        unsafe { next.write(word) };
        next = next.wrapping_add(1);
    }
    next
}

/// The variable, if it is a list with the agent in it.
fn list_of<'a>(entry: *const c_char) -> Option<&'a CStr> {
    let list = LISTS.into_iter().find_map(|name| rest_of(entry, name))?;
    agent_in(list.to_bytes())?;
    c_string(entry)
}

/// Whether the variable names the agent as the only tool of the HSA runtime.
fn is_our_tool_alone(entry: *const c_char) -> bool {
    let tools = rest_of(entry, b"HSA_TOOLS_LIB=").map(CStr::to_bytes);
    tools.is_some_and(|tools| agent_in(tools).is_some_and(|agent| agent.len() == tools.len()))
}

fn is_switch(entry: *const c_char) -> bool {
    rest_of(entry, b"HSA_TOOLS_ROCPROFILER_V1_TOOLS=").is_some()
}

/// What stands in such a list in front of the agent, with the name, and what behind.
fn around_agent(list: &[u8]) -> Option<(&[u8], &[u8])> {
    let start = list.iter().position(|byte| *byte == b'=')? + 1;
    let libraries = list.get(start..)?;
    let agent = agent_in(libraries)?;
    let at = start + (agent.as_ptr().addr() - libraries.as_ptr().addr());
    let (front, behind) = (list.get(..at)?, list.get(at + agent.len()..)?);
    // One of the separators around it goes too.
    match behind.split_first() {
        Some((_, behind)) => Some((front, behind)),
        None if at > start => Some((front.split_last()?.1, behind)),
        None => Some((front, behind)),
    }
}

/// What is kept of a variable: nothing, itself, or a part, which is written to `text`.
///
/// # Safety
/// At `text` there must be room for it.
unsafe fn keep(entry: *const c_char, text: &mut *mut u8) -> Option<*const c_char> {
    let is_ours = [ENV_SESSION, ENV_SETTINGS].iter().any(|name| {
        let rest = rest_of(entry, name.as_bytes());
        rest.is_some_and(|rest| rest.to_bytes().first() == Some(&b'='))
    });
    if is_ours {
        return None;
    }
    let list = list_of(entry).map(CStr::to_bytes);
    let Some((front, behind)) = list.and_then(around_agent) else {
        return Some(entry);
    };
    if behind.is_empty() && front.ends_with(b"=") {
        return None;
    }
    let start = *text;
    for byte in [front, behind, b"\0"].into_iter().flatten() {
        // SAFETY: what is written is no longer than the variable.
        unsafe { text.write(*byte) };
        *text = text.wrapping_add(1);
    }
    Some(start.cast_const().cast())
}
