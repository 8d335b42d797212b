//! What trace files are called. Nothing is ever overwritten.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rsys_config::rank::Rank;

/// How many numbers are tried behind a name that is taken.
const NUMBERS_MAX: u32 = 100_000;

/// Where the traces of a run go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The folder, with the run's own sub-folder.
    pub directory: PathBuf,
    /// In front of every file name; may hold `/`.
    pub prefix: String,
    /// The file name, behind whose stem the process is named.
    pub file_name: String,
    /// Whether the process is named at all.
    pub name_processes: bool,
}

impl Layout {
    /// The path of the trace that is called `id`, the `number`th of that name.
    #[must_use]
    pub fn path(&self, id: &str, number: u32) -> PathBuf {
        let (stem, extension) = match self.file_name.rsplit_once('.') {
            Some((stem, extension)) if !stem.is_empty() && !extension.contains('/') => {
                (stem, format!(".{extension}"))
            }
            _ => (self.file_name.as_str(), String::new()),
        };
        let id = if self.name_processes {
            format!("-{id}")
        } else {
            String::new()
        };
        let number = if number == 0 {
            String::new()
        } else {
            format!("-{number}")
        };
        self.directory
            .join(format!("{}{stem}{id}{number}{extension}", self.prefix))
    }

    /// Creates the trace that is called `id`, or `fuller` where that is taken, under the first name that is not.
    ///
    /// # Errors
    /// When no file can be created there.
    pub fn create(&self, id: &str, fuller: Option<&str>) -> io::Result<(File, PathBuf)> {
        let numbered = fuller.unwrap_or(id);
        let first = fuller.map(|_| self.path(id, 0));
        let others = (0..NUMBERS_MAX).map(|number| self.path(numbered, number));
        for (number, path) in first.into_iter().chain(others).enumerate() {
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok((file, path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound && number == 0 => {
                    // A prefix with a folder in it, or the folder vanished during the run.
                    std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
                    match OpenOptions::new().write(true).create_new(true).open(&path) {
                        Ok(file) => return Ok((file, path)),
                        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::Error::new(
            io::ErrorKind::AlreadyExists,
            "too many traces of that name",
        ))
    }
}

/// Gives each process of a run the id that its trace is called by.
#[derive(Debug, Default)]
pub struct Ids {
    ranks: HashSet<(u32, u32)>,
}

impl Ids {
    /// The rank, for the first process that has it; rank and process id for others (its children have the same rank); the process
    /// id for a process without a rank. Ranks that their launcher started anew say so.
    #[must_use]
    pub fn id(&mut self, rank: Option<&Rank>, pid: u32) -> String {
        let Some(rank) = rank else {
            return pid.to_string();
        };
        let name = rank_name(rank);
        if self.ranks.insert((rank.rank, rank.restart)) {
            name
        } else {
            format!("{name}.{pid}")
        }
    }
}

/// The id for a name that somebody else has: another start of the same job, or another program with the same rank. `None` for a
/// process without a rank.
#[must_use]
pub fn fuller_id(rank: Option<&Rank>, host: &str, pid: u32) -> Option<String> {
    let host: String = host
        .chars()
        .map(|letter| if letter == '/' { '_' } else { letter })
        .collect();
    rank.map(|rank| format!("{}.{host}.{pid}", rank_name(rank)))
}

fn rank_name(rank: &Rank) -> String {
    match rank.restart {
        0 => rank.rank.to_string(),
        restart => format!("{}.r{restart}", rank.rank),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_config::rank::rank_from_env;

    fn layout(prefix: &str, file_name: &str) -> Layout {
        Layout {
            directory: "/out/now".into(),
            prefix: prefix.to_owned(),
            file_name: file_name.to_owned(),
            name_processes: true,
        }
    }

    #[test]
    fn names_hold_prefix_id_and_number() {
        for (prefix, file_name, id, number, expected) in [
            ("", "perfetto-trace.proto", "7", 0, "perfetto-trace-7.proto"),
            (
                "",
                "perfetto-trace.proto",
                "3.77",
                2,
                "perfetto-trace-3.77-2.proto",
            ),
            ("a-", "t.x.proto", "7", 0, "a-t.x-7.proto"),
            ("sub/", "trace", "7", 1, "sub/trace-7-1"),
            ("", ".hidden", "7", 0, ".hidden-7"),
            ("", "v1.2/trace", "7", 0, "v1.2/trace-7"),
        ] {
            let path = layout(prefix, file_name).path(id, number);
            assert_eq!(path, Path::new("/out/now").join(expected));
        }
        let nameless = Layout {
            name_processes: false,
            ..layout("", "t.proto")
        };
        assert_eq!(nameless.path("7", 0), Path::new("/out/now/t.proto"));
    }

    #[test]
    fn the_first_process_of_a_rank_has_its_name() {
        let mut ids = Ids::default();
        for (variables, pid, expected) in [
            ("", 5, "5"),
            ("PMI_RANK=0", 6, "0"),
            ("PMI_RANK=0", 7, "0.7"),
            ("PMI_RANK=1", 8, "1"),
            ("PMI_RANK=0", 9, "0.9"),
            (
                "RANK=0 WORLD_SIZE=1 TORCHELASTIC_RESTART_COUNT=2",
                10,
                "0.r2",
            ),
        ] {
            let rank = rank_from_env(|name| {
                let pairs = variables.split(' ').filter_map(|pair| pair.split_once('='));
                let mut values = pairs.filter(|(key, _)| *key == name);
                values.next().map(|(_, value)| value.to_owned())
            });
            assert_eq!(ids.id(rank.as_ref(), pid), expected);
        }
    }

    #[test]
    fn files_are_never_overwritten() {
        let directory = std::env::temp_dir().join(format!("rsys-naming-{}", std::process::id()));
        let layout = Layout {
            directory: directory.clone(),
            ..layout("deeper/", "t.proto")
        };
        let fuller = [None, None, None, Some("1.host.7"), Some("1.host.7")];
        let paths = fuller.map(|fuller| layout.create("1", fuller).unwrap().1);
        std::fs::remove_dir_all(&directory).unwrap();
        let names: Vec<_> = paths
            .iter()
            .map(|path| path.strip_prefix(&directory).unwrap().to_str().unwrap())
            .collect();
        assert_eq!(
            names,
            [
                "deeper/t-1.proto",
                "deeper/t-1-1.proto",
                "deeper/t-1-2.proto",
                "deeper/t-1.host.7.proto",
                "deeper/t-1.host.7-1.proto",
            ]
        );
    }
}
