//! What the files of a process are called: a folder, a prefix, a file name, and who the process is.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use rsys_config::ProfileForms;
use rsys_config::rank::Rank;

/// The summary as text.
pub const TEXT_FILE: &str = "profile.txt";
/// The summary for programs.
pub const JSON_FILE: &str = "profile.json";

/// The files that summaries in these forms are written to.
#[must_use]
pub fn summary_files(forms: ProfileForms) -> Vec<&'static str> {
    let files = [(forms.text, TEXT_FILE), (forms.json, JSON_FILE)];
    let wanted = files.iter().filter(|(is_wanted, _)| *is_wanted);
    wanted.map(|(_, name)| *name).collect()
}

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

/// What distinguishes the files of one process from those of others. All its files have the same.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileId {
    /// The rank or the process id.
    pub process: String,
    /// Behind it, unless it is 0.
    pub number: u32,
    /// Which of the files it is, where a trace has several.
    pub part: Part,
}

/// One of the files of a trace.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Part {
    /// The first, or the only one.
    #[default]
    First,
    /// One in which it goes on, from 2.
    Further(u32),
    /// The small one of the whole run.
    Overview,
}

impl FileId {
    /// The `number`th of the files of `process`.
    #[must_use]
    pub fn new(process: &str, number: u32) -> Self {
        Self {
            process: process.to_owned(),
            number,
            part: Part::First,
        }
    }

    /// The file in which the trace goes on.
    #[must_use]
    pub fn next_part(&self) -> Self {
        let number = match self.part {
            Part::Further(number) => number,
            Part::First | Part::Overview => 1,
        };
        Self {
            part: Part::Further(number + 1),
            ..self.clone()
        }
    }

    /// The small file of the whole run.
    #[must_use]
    pub fn overview(&self) -> Self {
        Self {
            part: Part::Overview,
            ..self.clone()
        }
    }
}

impl Layout {
    /// The same for another file of the process.
    #[must_use]
    pub fn of_file(&self, file_name: &str) -> Self {
        Self {
            file_name: file_name.to_owned(),
            ..self.clone()
        }
    }

    /// The path of the file that is called `id`.
    #[must_use]
    pub fn path(&self, id: &FileId) -> PathBuf {
        let (stem, extension) = match self.file_name.rsplit_once('.') {
            Some((stem, extension)) if !stem.is_empty() && !extension.contains('/') => {
                (stem, format!(".{extension}"))
            }
            _ => (self.file_name.as_str(), String::new()),
        };
        let process = if self.name_processes {
            format!("-{}", id.process)
        } else {
            String::new()
        };
        let number = match id.number {
            0 => String::new(),
            number => format!("-{number}"),
        };
        let part = match id.part {
            Part::First => String::new(),
            Part::Further(number) => format!(".part{number}"),
            Part::Overview => ".overview".to_owned(),
        };
        let name = format!("{}{stem}{process}{number}{part}{extension}", self.prefix);
        self.directory.join(name)
    }

    /// Creates the file that is called `id`, with the folders above it.
    ///
    /// # Errors
    /// `AlreadyExists` where there is one, or when no file can be created there.
    pub fn create(&self, id: &FileId) -> io::Result<(File, PathBuf)> {
        let path = self.path(id);
        let open = || OpenOptions::new().write(true).create_new(true).open(&path);
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // A prefix with a folder in it, or the folder vanished during the run.
                std::fs::create_dir_all(path.parent().unwrap_or(Path::new("/")))?;
                open()?
            }
            result => result?,
        };
        Ok((file, path))
    }
}

/// The id for a name that another process has: of another start of the same job, or another program
/// with the same rank.
#[must_use]
pub fn fuller_id(rank: &Rank, host: &str, pid: u32) -> String {
    let host: String = host
        .chars()
        .map(|letter| if letter == '/' { '_' } else { letter })
        .collect();
    format!("{}.{host}.{pid}", rank_name(rank))
}

/// The rank, and how often its launcher started it anew.
#[must_use]
pub fn rank_name(rank: &Rank) -> String {
    match rank.restart {
        0 => rank.rank.to_string(),
        restart => format!("{}.r{restart}", rank.rank),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_prefix_id_and_number() {
        let layout = |prefix: &str, file_name: &str| Layout {
            directory: "/out/now".into(),
            prefix: prefix.to_owned(),
            file_name: file_name.to_owned(),
            name_processes: true,
        };
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
            let path = layout(prefix, file_name).path(&FileId::new(id, number));
            assert_eq!(path, Path::new("/out/now").join(expected));
        }
        let second = FileId::new("7.cc1", 3).next_part();
        let path = layout("", "t.proto").path(&second);
        assert_eq!(path, Path::new("/out/now/t-7.cc1-3.part2.proto"));
        let nameless = Layout {
            name_processes: false,
            ..layout("", "t.proto")
        };
        let plain = nameless.path(&FileId::new("7", 0));
        assert_eq!(plain, Path::new("/out/now/t.proto"));
    }
}
