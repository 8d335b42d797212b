//! Where the machine's own descriptions of itself are.

use std::fs;
use std::path::{Path, PathBuf};

/// The variable that names a folder to be taken for `/`: another machine, as a test has put it down. No system call is made about
/// counters then; the file `perf_event_open` in that folder says how the kernel would answer (see [`crate::perf::Simulated`]).
pub const ROOT_VARIABLE: &str = "RSYS_AVAIL_ROOT";

/// The folder below which `sys`, `proc`, `dev` and `opt` are.
#[derive(Debug, Clone)]
pub struct Roots {
    root: PathBuf,
    simulated: bool,
}

impl Roots {
    /// `/`, or what [`ROOT_VARIABLE`] names.
    #[must_use]
    pub fn of_this_process() -> Self {
        match std::env::var_os(ROOT_VARIABLE) {
            Some(root) => Self::simulated(PathBuf::from(root)),
            None => Self {
                root: PathBuf::from("/"),
                simulated: false,
            },
        }
    }

    /// A folder that stands for `/`.
    #[must_use]
    pub fn simulated(root: PathBuf) -> Self {
        Self {
            root,
            simulated: true,
        }
    }

    /// Whether this is another machine than the one that we run on.
    #[must_use]
    pub fn is_simulated(&self) -> bool {
        self.simulated
    }

    /// A path below `/`, without it: `sys/class/drm`.
    #[must_use]
    pub fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// Where a path of the machine, absolute there, is on ours.
    #[must_use]
    pub fn inside(&self, path: &Path) -> PathBuf {
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The text of a small file of the machine, by its path there.
    #[must_use]
    pub fn text_inside(&self, path: &Path) -> Option<String> {
        text(&self.inside(path))
    }

    /// An absolute path of the machine without links, `.` and `..`, if such a file exists. Links lead to places of that machine.
    #[must_use]
    pub fn resolve(&self, path: &Path) -> Option<PathBuf> {
        const MOST_LINKS: usize = 40;
        let mut links = 0;
        let mut done = PathBuf::from("/");
        let parts = |path: &Path| -> Vec<_> {
            let parts = path.components().rev();
            parts.map(|part| part.as_os_str().to_owned()).collect()
        };
        let mut rest = parts(path);
        while let Some(part) = rest.pop() {
            if part == "." {
                continue;
            }
            if part == ".." {
                done.pop();
                continue;
            }
            // What is absolute begins anew.
            let next = done.join(&part);
            match fs::read_link(self.inside(&next)) {
                Ok(target) => {
                    links += 1;
                    if links > MOST_LINKS {
                        return None;
                    }
                    rest.extend(parts(&target));
                }
                Err(_) => done = next,
            }
        }
        self.inside(&done).exists().then_some(done)
    }

    /// The text of a small file without blanks around it.
    #[must_use]
    pub fn text(&self, below: &str) -> Option<String> {
        text(&self.path(below))
    }
}

/// The text of a small file without blanks around it.
#[must_use]
pub fn text(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

/// The names in a folder, sorted as people count: `node2` before `node10`.
#[must_use]
pub fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .map(|entries| {
            entries
                .flatten()
                .filter_map(|entry| entry.file_name().into_string().ok())
                .collect()
        })
        .unwrap_or_default();
    names.sort_by_cached_key(|name| natural_key(name));
    names
}

/// A key by which numbers inside names count as numbers.
#[must_use]
pub fn natural_key(name: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let digits_start = rest
            .find(|character: char| character.is_ascii_digit())
            .unwrap_or(rest.len());
        let (word, after) = rest.split_at(digits_start);
        let digits_end = after
            .find(|character: char| !character.is_ascii_digit())
            .unwrap_or(after.len());
        let (digits, after) = after.split_at(digits_end);
        key.push((word.to_owned(), digits.parse().unwrap_or(u64::MAX)));
        rest = after;
    }
    key
}

/// A new folder for a test.
#[cfg(test)]
pub(crate) fn scratch(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("rsys-machine-{}-{name}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder for the test");
    folder
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count() {
        let mut names = ["cpu10", "cpu9", "cpu", "a2b10", "a2b9"];
        names.sort_by_cached_key(|name| natural_key(name));
        assert_eq!(names, ["a2b9", "a2b10", "cpu9", "cpu10", "cpu"]);
    }
}
