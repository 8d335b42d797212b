//! What trace files are called. Nothing is ever overwritten.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

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

    /// Creates the trace that is called `id`, under the first name that is not taken.
    ///
    /// # Errors
    /// When no file can be created there.
    pub fn create(&self, id: &str) -> io::Result<(File, PathBuf)> {
        for number in 0..NUMBERS_MAX {
            let path = self.path(id, number);
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
    ranks: HashSet<u32>,
}

impl Ids {
    /// The rank, for the first process that has it; rank and process id for others (its children have the same rank); the process
    /// id for a process without a rank.
    #[must_use]
    pub fn id(&mut self, rank: Option<u32>, pid: u32) -> String {
        match rank {
            None => pid.to_string(),
            Some(rank) if self.ranks.insert(rank) => rank.to_string(),
            Some(rank) => format!("{rank}.{pid}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        for (rank, pid, expected) in [
            (None, 5, "5"),
            (Some(0), 6, "0"),
            (Some(0), 7, "0.7"),
            (Some(1), 8, "1"),
            (Some(0), 9, "0.9"),
        ] {
            assert_eq!(ids.id(rank, pid), expected);
        }
    }

    #[test]
    fn files_are_never_overwritten() {
        let directory = std::env::temp_dir().join(format!("rsys-naming-{}", std::process::id()));
        let layout = Layout {
            directory: directory.clone(),
            ..layout("deeper/", "t.proto")
        };
        let paths: Vec<_> = (0..3).map(|_| layout.create("1").unwrap().1).collect();
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
                "deeper/t-1-2.proto"
            ]
        );
    }
}
