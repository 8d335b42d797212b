//! The program's arguments and environment, as the loader handed them over.

use rsys_wire::handshake::{ENV_SESSION, ENV_SETTINGS};
use rsys_wire::launchers::{base_name, is_launcher};
use rsys_wire::layout::{INFO_BYTES, InfoTag, push_info};
use rsys_wire::program::is_agent_file;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::sys;
use crate::sys::guard;

/// Prefixes of environment variables that name a rank, a job or a team.
const TELLING: [&[u8]; 15] = [
    b"SLURM_",
    b"SLURMD_NODENAME=",
    b"OMPI_COMM_WORLD_",
    b"PMIX_",
    b"PMI_",
    b"MPI_LOCAL",
    b"MV2_COMM_WORLD_",
    b"JSM_NAMESPACE_",
    b"FLUX_",
    b"RANK=",
    b"WORLD_SIZE=",
    b"LOCAL_RANK=",
    b"LOCAL_WORLD_SIZE=",
    b"GROUP_RANK=",
    b"TORCHELASTIC_",
];
/// No variable of interest is longer; a job's node list can be.
const MOST_VALUE: usize = 256;

/// Variables with options of the Java virtual machine, which may say that it writes a map of names at its end.
const JAVA: [&[u8]; 3] = [
    b"JAVA_TOOL_OPTIONS=",
    b"JDK_JAVA_OPTIONS=",
    b"_JAVA_OPTIONS=",
];
/// They are passed on up to this length.
const MOST_JAVA: usize = 4096;

/// What the process information has beside the program's description: the executable's path and some numbers.
const ROOM_FOR_OTHERS: usize = 1024 + 512;

// On a page that the loader has written already.
#[unsafe(link_section = ".data")]
static ARGUMENTS: AtomicPtr<*const c_char> = AtomicPtr::new(std::ptr::null_mut());
#[unsafe(link_section = ".data")]
static VARIABLES: AtomicPtr<*const c_char> = AtomicPtr::new(std::ptr::null_mut());

unsafe extern "C" {
    static mut environ: *const *const c_char;
}

/// The two vectors.
#[derive(Debug)]
pub struct Environment<'a> {
    arguments: *const *const c_char,
    variables: *const *const c_char,
    life: std::marker::PhantomData<&'a CStr>,
}

/// The strings of a vector of the program's own that ends with a null pointer.
fn strings<'a>(vector: *const *const c_char) -> impl Iterator<Item = &'a CStr> {
    raw_strings(vector).filter_map(c_string)
}

/// Their addresses. The length of a string that is not looked for is not asked for: there are many variables.
fn raw_strings(vector: *const *const c_char) -> impl Iterator<Item = *const c_char> {
    let mut next = vector;
    std::iter::from_fn(move || {
        if next.is_null() {
            return None;
        }
        // SAFETY: within the vector, whose end has not been met yet.
        let string = unsafe { *next };
        next = next.wrapping_add(1);
        (!string.is_null()).then_some(string)
    })
}

/// What follows `start` in a string of the program's own vectors that begins so, which `start` has no NUL for.
fn after(string: *const c_char, start: &[u8]) -> Option<*const c_char> {
    let bytes = string.cast::<u8>();
    // SAFETY: a byte is looked at only if those before it are none of them the string's end.
    let begins_so = (0..)
        .zip(start)
        .all(|(at, byte)| unsafe { *bytes.add(at) } == *byte);
    begins_so.then(|| string.wrapping_add(start.len()))
}

/// The pointers of a vector that a program hands over, up to the null at its end. `None` in place of what cannot be read: the kernel
/// refuses such a vector.
pub fn pointers(
    vector: *const *const c_char,
) -> impl Iterator<Item = Option<*const c_char>> + Clone {
    let mut next = vector.addr() as u64;
    std::iter::from_fn(move || {
        if next == 0 {
            return None;
        }
        let word = guard::read_u64(next);
        next = word.map_or(0, |_| next.wrapping_add(8));
        let pointer = word.map(|word| std::ptr::with_exposed_provenance::<c_char>(word as usize));
        pointer
            .is_none_or(|pointer| !pointer.is_null())
            .then_some(pointer)
    })
}

/// What follows `start` in a string that begins so. Reads no further than the two agree.
pub fn rest_of<'a>(string: *const c_char, start: &[u8]) -> Option<&'a CStr> {
    let address = string.addr() as u64;
    let begins_so = (address..)
        .zip(start)
        .all(|(at, byte)| guard::read_u8(at) == Some(*byte));
    begins_so.then_some(())?;
    c_string(string.wrapping_add(start.len()))
}

/// Whether a byte separates the entries of LD_PRELOAD (ld.so(8)), HSA_TOOLS_LIB or KOKKOS_TOOLS_LIBS.
pub fn is_separator(byte: u8) -> bool {
    matches!(byte, b':' | b' ' | b';')
}

/// The agent's path in a list of libraries.
pub fn agent_in(list: &[u8]) -> Option<&[u8]> {
    list.split(|byte| is_separator(*byte)).find(|entry| {
        let name = entry.rsplit(|byte| *byte == b'/').next();
        name.is_some_and(|name| name.len() < entry.len() && is_agent_file(name))
    })
}

/// The path of the running program, in a buffer. A process that asks for it costs more at its end: the kernel drops what `/proc` knows
/// of it.
pub fn executable(buffer: &mut [u8; 1024]) -> &[u8] {
    let bytes = sys::readlink(c"/proc/self/exe", buffer);
    buffer.get(..bytes).unwrap_or(&[])
}

impl<'a> Environment<'a> {
    /// The vectors of the program, remembered for fork children.
    ///
    /// # Safety
    /// They must be what the loader passes to constructors.
    pub unsafe fn new(arguments: *const *const c_char, variables: *const *const c_char) -> Self {
        ARGUMENTS.store(arguments.cast_mut(), Ordering::Relaxed);
        VARIABLES.store(variables.cast_mut(), Ordering::Relaxed);
        Self::current()
    }

    /// The vectors of the program, found from libc's `environ`.
    pub fn find() -> Self {
        // SAFETY: libc sets it before any constructor of ours or others runs.
        let variables = unsafe { environ };
        // The kernel puts the argument count, the arguments and a null pointer in front of the
        // environment. A program that has replaced its environment by now has nothing there that
        // looks so, hence the bound.
        const MOST_ARGUMENTS: usize = 4096;
        let is_stack_vector = guard::read_u64((variables.addr() as u64).wrapping_sub(8)) == Some(0);
        let arguments = (1..MOST_ARGUMENTS)
            .take_while(|_| is_stack_vector)
            .map(|count| (count, variables.wrapping_sub(count + 1)))
            .find(|(count, start)| {
                guard::read_u64((start.addr() as u64).wrapping_sub(8)) == Some(*count as u64)
            })
            .map_or(std::ptr::null(), |(_, start)| start);
        // SAFETY: both are what the kernel laid out, or null.
        unsafe { Self::new(arguments, variables) }
    }

    /// The vectors that were remembered.
    pub fn current() -> Self {
        Environment {
            arguments: ARGUMENTS.load(Ordering::Relaxed),
            variables: VARIABLES.load(Ordering::Relaxed),
            life: std::marker::PhantomData,
        }
    }

    /// The value of a variable.
    #[unsafe(link_section = "rsys_start")]
    pub fn get(&self, name: &str) -> Option<&'a CStr> {
        raw_strings(self.variables).find_map(|entry| {
            let value = after(entry, name.as_bytes())?;
            c_string(after(value, b"=")?)
        })
    }

    /// Writes the command line and telling variables into the process information. Leaves room for what else is said.
    #[unsafe(link_section = "rsys_start")]
    pub fn describe(&self, info: &mut [u8; INFO_BYTES]) -> usize {
        let mut line = [0_u8; 2048];
        let mut used = 0;
        for argument in strings(self.arguments) {
            for byte in argument.to_bytes_with_nul() {
                if let Some(to) = line.get_mut(used) {
                    *to = *byte;
                    used += 1;
                }
            }
        }
        let mut length = push_info(info, 0, InfoTag::CommandLine, &line[..used]);
        let begins = |entry, starts: &[&[u8]]| {
            let mut starts = starts.iter();
            starts.any(|start| after(entry, start).is_some())
        };
        // Ranks first: options of Java may be long.
        for (starts, most) in [(&TELLING[..], MOST_VALUE), (&JAVA, MOST_JAVA)] {
            for variable in raw_strings(self.variables).filter(|one| begins(*one, starts)) {
                let entry = c_string(variable).map_or(&[][..], CStr::to_bytes);
                let end = length + size_of::<u64>() + entry.len();
                if (1..=most).contains(&entry.len()) && end <= INFO_BYTES - ROOM_FOR_OTHERS {
                    length = push_info(info, length, InfoTag::Environment, entry);
                }
            }
        }
        length
    }

    /// Whether the program starts ranks of a job and does nothing else.
    #[unsafe(link_section = "rsys_start")]
    pub fn is_launcher(&self) -> bool {
        let mut path = [0_u8; 1024];
        let file = match self.own_path(&mut path) {
            Some(known) => known,
            None => executable(&mut path),
        };
        is_launcher(base_name(file), strings(self.arguments).map(CStr::to_bytes))
    }

    /// The program's path where it can be known without `/proc`, in a buffer: that by which it was executed, and where links of that name lead. (An
    /// interpreter's first argument is the script that was executed.)
    fn own_path<'b>(&self, buffer: &'b mut [u8; 1024]) -> Option<&'b [u8]> {
        let path = sys::execution_path()?;
        let may_be_script = strings(self.arguments).nth(1) == Some(path);
        if may_be_script {
            return None;
        }
        sys::follow_links(path, buffer)
    }

    /// Empties the name of the session in place: agents of programs that are executed from now on sleep.
    pub fn end_session(&self) {
        if let Some(session) = self.get(ENV_SESSION) {
            let first = std::ptr::with_exposed_provenance_mut::<u8>(session.as_ptr().addr());
            // SAFETY: the kernel's copy of the variables is writable; a reader sees the old name or an empty one.
            unsafe { first.write_volatile(0) };
        }
    }

    /// Changes the settings in place: agents of programs that are executed from now on start at once, and look for a debugger.
    pub fn defer_no_start(&self) {
        let Some(line) = self.get(ENV_SETTINGS) else {
            return;
        };
        let Some(digits) = late_digits(line.to_bytes()) else {
            return;
        };
        let start = std::ptr::with_exposed_provenance_mut::<u8>(line.as_ptr().addr());
        for at in digits {
            // SAFETY: within the kernel's copy of the variable, which is writable; zeros are the same number with all its digits.
            unsafe { start.wrapping_add(at).write_volatile(b'0') };
        }
    }

    /// Takes the agent out of the environment, so that programs started from here run without it.
    ///
    /// The C library gets a vector without our variables. In the kernel's they become empty strings: programs and runtimes that know its place, as Go's, look
    /// for the auxiliary vector behind its end, which is copied too.
    pub fn stop_following(&self) {
        let (all, auxiliary) = self.lengths();
        let bytes = (all + auxiliary).wrapping_mul(size_of::<*const c_char>());
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let Ok(memory) = sys::mmap(bytes, flags, -1) else {
            return;
        };
        let copy = memory.cast::<*const c_char>();
        let mut kept = copy;
        for number in 0..all {
            let place = self.variables.wrapping_add(number).cast_mut();
            // SAFETY: within the vector.
            let entry = unsafe { *place };
            let is_ours = c_string(entry).is_some_and(|string| {
                let bytes = string.to_bytes();
                let is_named = |name: &&str| {
                    bytes
                        .strip_prefix(name.as_bytes())
                        .is_some_and(|rest| rest.first() == Some(&b'='))
                };
                [ENV_SESSION, ENV_SETTINGS].iter().any(is_named)
                    || (bytes.starts_with(b"LD_PRELOAD=") && !without_agent(entry.cast_mut()))
            });
            // SAFETY: the loader's vectors are writable, and the copy has room for all of them.
            unsafe {
                if is_ours {
                    place.write(c"".as_ptr());
                } else {
                    kept.write(entry);
                    kept = kept.wrapping_add(1);
                }
            }
        }
        // SAFETY: what lies behind the last variable was counted; no other thread reads the C library's pointer before the program has started.
        unsafe {
            kept.copy_from(self.variables.wrapping_add(all), auxiliary);
            if environ == self.variables {
                environ = copy;
            }
        }
    }

    /// How many variables there are, and words behind them: the null pointer, and where the kernel made the vector, the auxiliary vector (getauxval(3)).
    fn lengths(&self) -> (usize, usize) {
        const AUXILIARY_MAX: usize = 128;
        // SAFETY: within the vector, up to its end.
        let is_there =
            |number: &usize| unsafe { !(*self.variables.wrapping_add(*number)).is_null() };
        let all = (0..).take_while(is_there).count();
        let key = |number: usize| {
            let place = self.variables.wrapping_add(all + 1 + 2 * number);
            guard::read_u64(place.addr() as u64)
        };
        let pairs =
            (0..AUXILIARY_MAX).take_while(|number| key(*number).is_some_and(|key| key != 0));
        let pairs = pairs.count();
        // The kernel puts the arguments in front.
        let arguments = raw_strings(self.arguments).count();
        let is_kernels = self.arguments.wrapping_add(arguments + 1) == self.variables;
        let is_whole = is_kernels && key(pairs) == Some(0);
        (all, 1 + if is_whole { 2 * (pairs + 1) } else { 0 })
    }
}

/// Where the settings have the number of [`rsys_wire::handshake::AgentSettings::late_unless_child_of`].
fn late_digits(line: &[u8]) -> Option<std::ops::Range<usize>> {
    const KEY: &[u8] = b" late=";
    let start = line.windows(KEY.len()).position(|part| part == KEY)? + KEY.len();
    let digits = line.iter().skip(start);
    let count = digits.take_while(|byte| byte.is_ascii_digit()).count();
    Some(start..start + count)
}

/// Removes our library, the first entry, from an `LD_PRELOAD=...` string in place. Returns whether
/// anything is left.
fn without_agent(entry: *mut c_char) -> bool {
    let Some(string) = c_string(entry) else {
        return false;
    };
    let prefix = b"LD_PRELOAD=".len();
    let value = &string.to_bytes()[prefix..];
    let mut entries = value.split(|byte| is_separator(*byte));
    let first = entries.next().unwrap_or(value);
    if agent_in(first).is_none() {
        return true;
    }
    let rest_at = prefix + (first.len() + 1).min(value.len());
    let rest_bytes = string.to_bytes_with_nul().len() - rest_at;
    // SAFETY: both within the string with its NUL; the regions may overlap.
    unsafe {
        std::ptr::copy(
            entry.wrapping_add(rest_at),
            entry.wrapping_add(prefix),
            rest_bytes,
        );
    }
    rest_bytes > 1
}

/// A C string of the program's own vectors, for [`Environment`].
pub fn c_string<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the vectors hold valid strings that live as long as the process.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::ffi::CString;

    use rsys_wire::handshake::AgentSettings;
    use rsys_wire::program::{AGENT_FILE, AGENT_FILES};

    /// What is found in a program with these arguments and variables.
    fn with<R>(
        arguments: &[&str],
        variables: &[&str],
        look: impl FnOnce(&Environment<'_>) -> R,
    ) -> R {
        let own = |texts: &[&str]| -> Vec<CString> {
            texts
                .iter()
                .map(|text| CString::new(*text).unwrap_or_default())
                .collect()
        };
        let (arguments, variables) = (own(arguments), own(variables));
        let vector = |texts: &[CString]| -> Vec<*const c_char> {
            let ends = std::iter::once(std::ptr::null());
            texts.iter().map(|text| text.as_ptr()).chain(ends).collect()
        };
        let (arguments, variables) = (vector(&arguments), vector(&variables));
        look(&Environment {
            arguments: arguments.as_ptr(),
            variables: variables.as_ptr(),
            life: std::marker::PhantomData,
        })
    }

    #[test]
    fn a_variable_is_found_by_its_whole_name() {
        let variables = ["PATH=/bin", "PATHS=/sbin", "EMPTY=", "NO_VALUE"];
        with(&["program"], &variables, |environment| {
            let get = |name| environment.get(name).and_then(|value| value.to_str().ok());
            assert_eq!(get("PATH"), Some("/bin"));
            assert_eq!(get("EMPTY"), Some(""));
            assert_eq!(
                (get("PAT"), get("NO_VALUE"), get("HOME")),
                (None, None, None)
            );
        });
    }

    #[test]
    fn the_settings_say_where_starts_are_not_deferred() {
        let settings = AgentSettings {
            late_unless_child_of: 4711,
            ..AgentSettings::default()
        };
        let mut line = settings.to_line().into_bytes();
        let digits = late_digits(&line).unwrap();
        assert_eq!(&line[digits.clone()], b"4711");
        line[digits].fill(b'0');
        let changed = AgentSettings::from_line(std::str::from_utf8(&line).unwrap());
        assert_eq!(changed, AgentSettings::default());
        assert_eq!(late_digits(b"freq=300"), None);
    }

    #[test]
    fn the_agent_is_found_in_any_list_of_libraries() {
        for file in AGENT_FILES {
            let agent = format!("/x/{file}");
            for list in [
                agent.clone(),
                format!("/a.so:{agent}"),
                format!("/a.so {agent} /b.so"),
            ] {
                assert_eq!(agent_in(list.as_bytes()), Some(agent.as_bytes()), "{list}");
            }
        }
        assert_eq!(agent_in(format!("/x/not{AGENT_FILE}").as_bytes()), None);
    }
}
