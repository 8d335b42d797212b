//! Names for code that was made at run time and that is in no map of names: one for each mapping.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::procfs;
use crate::resolve::{KERNEL_START, Symbolized, unknown_frame};

/// The mappings are read again after this many times the time that it took: a program that makes
/// code all the time costs a twentieth of a processor at most.
const PAUSE: u32 = 20;

/// The executable mappings of a process, as far as they were looked at.
#[derive(Debug)]
pub struct Mappings {
    path: PathBuf,
    /// By address.
    executable: Vec<(Range<u64>, Arc<str>)>,
    /// When they were read last, and how long that took.
    read: Option<(Instant, Duration)>,
}

impl Mappings {
    /// Those of a process, by its id as we see it.
    pub fn new(host_pid: u32) -> Self {
        Self {
            path: format!("/proc/{host_pid}/maps").into(),
            executable: Vec::new(),
            read: None,
        }
    }

    /// Reads the mappings, if an address is in none that is known, as long as the process is there.
    /// Returns whether they were read.
    pub fn look(&mut self, address: u64) -> bool {
        let is_due = self
            .read
            .is_none_or(|(read, took)| read.elapsed() >= took * PAUSE);
        if !is_due || address >= KERNEL_START || self.name(address).is_some() {
            return false;
        }
        let begin = Instant::now();
        // Of a process that has ended, what was seen before has to do.
        let maps = procfs::text(&self.path).unwrap_or_default();
        if !maps.is_empty() {
            self.executable = parse(&maps);
        }
        self.read = Some((Instant::now(), begin.elapsed()));
        !maps.is_empty()
    }

    /// The frame of code at an address that is in no module.
    pub fn frame(&mut self, address: u64) -> Symbolized {
        if address >= KERNEL_START {
            return unknown_frame(address);
        }
        let is_fresh = self.look(address);
        match self.name(address) {
            Some(name) => Symbolized::from_name(name),
            // It is in no mapping.
            None if is_fresh => unknown_frame(address),
            // It may have been in one that came later, or is gone.
            None => Symbolized::from_name("[unknown code]"),
        }
    }

    /// The absolute path of the file that is mapped at an address; `None` if there is none, or the process is gone.
    pub fn file_at(&self, address: u64) -> Option<String> {
        let maps = procfs::text(&self.path).ok()?;
        let mut lines = maps.lines();
        let line = lines.find(|line| range(line).is_some_and(|range| range.contains(&address)))?;
        Some(line[line.find('/')?..].to_owned())
    }

    fn name(&self, address: u64) -> Option<Arc<str>> {
        let after = self
            .executable
            .partition_point(|(range, _)| range.start <= address);
        let (range, name) = self.executable.get(after.checked_sub(1)?)?;
        range.contains(&address).then(|| Arc::clone(name))
    }
}

/// The addresses of a line of `/proc/PID/maps`.
fn range(line: &str) -> Option<Range<u64>> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    Some(number(start)?..number(end)?)
}

/// The executable mappings in the text of `/proc/PID/maps`, and their names. Neighbours without a
/// file are one: compilers make theirs page by page.
fn parse(maps: &str) -> Vec<(Range<u64>, Arc<str>)> {
    let mut found: Vec<(Range<u64>, Arc<str>)> = Vec::new();
    let mut last_is_anonymous = false;
    for line in maps.lines() {
        // start-end permissions offset device inode path
        let mut words = line.splitn(6, ' ').skip(1);
        let (Some(Range { start, end }), Some(permissions)) = (range(line), words.next()) else {
            continue;
        };
        if !permissions.contains('x') {
            continue;
        }
        let path = words.nth(3).unwrap_or_default().trim();
        if path.is_empty() {
            match found.last_mut() {
                Some((before, _)) if last_is_anonymous && before.end == start => before.end = end,
                _ => found.push((start..end, format!("[code at {start:#x}]").into())),
            }
        } else {
            let path = path.trim_end_matches(" (deleted)");
            let file = path.rsplit('/').next().unwrap_or(path);
            let file = file.trim_matches(['[', ']']);
            found.push((start..end, format!("[code in {file}]").into()));
        }
        last_is_anonymous = path.is_empty();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
50000000-50008000 rwxp 00008000 fe:01 1234    /usr/lib/sbcl/sbcl.core
7f0010000000-7f0010270000 rwxp 00000000 00:00 0 
7f0010270000-7f0010280000 r-xp 00000000 00:00 0 
7f0010280000-7f001f000000 ---p 00000000 00:00 0 
7f0020000000-7f0020010000 r-xp 00000000 00:00 0    [anon:v8]
7f0030000000-7f0030010000 r-xp 00000000 00:01 9    /memfd:jit code (deleted)
";

    #[test]
    fn each_mapping_has_one_name() {
        let mappings = Mappings {
            executable: parse(MAPS),
            ..Mappings::new(0)
        };
        let table = [
            (0x5000_0010, Some("[code in sbcl.core]")),
            (0x7f00_1000_0000, Some("[code at 0x7f0010000000]")),
            (0x7f00_1027_ffff, Some("[code at 0x7f0010000000]")),
            (0x7f00_1028_0000, None),
            (0x7f00_2000_0001, Some("[code in anon:v8]")),
            (0x7f00_3000_0001, Some("[code in memfd:jit code]")),
            (0x10, None),
        ];
        for (address, expected) in table {
            assert_eq!(mappings.name(address).as_deref(), expected, "{address:#x}");
        }
    }

    #[test]
    fn files_have_absolute_paths() {
        let mappings = Mappings::new(std::process::id());
        let here = files_have_absolute_paths as fn() as usize as u64;
        let own = std::env::current_exe().unwrap();
        assert_eq!(mappings.file_at(here), own.to_str().map(str::to_owned));
        assert_eq!(mappings.file_at(0x10), None);
    }

    #[test]
    fn where_nothing_can_be_seen_all_code_is_one() {
        let mut mappings = Mappings::new(0);
        for address in [0x10, 0x7f00_1000_0000] {
            assert_eq!(&*mappings.frame(address).name, "[unknown code]");
        }
    }

    #[test]
    fn what_is_not_executable_is_named_by_its_address() {
        let mut mappings = Mappings::new(std::process::id());
        assert_eq!(&*mappings.frame(0x10).name, "[unknown]+0x10");
    }
}
