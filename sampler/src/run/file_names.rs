//! Which process gets which file names. Nothing is ever overwritten, and all files of a process
//! have the same id and number.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::path::PathBuf;

use rsys_config::rank::Rank;

use super::layout::{FileId, Layout, fuller_id, rank_name};

/// What the file is called that short processes share, in place of a process.
const SHARED: &str = "short";

/// How many numbers are tried behind a name that is taken.
const NUMBERS_MAX: u32 = 100_000;

/// Who asks for file names.
#[derive(Debug, Clone, Copy)]
pub struct Claimant<'a> {
    /// The place in a parallel job.
    pub rank: Option<&'a Rank>,
    /// Name of the machine.
    pub host: &'a str,
    /// Process id, as the process sees it.
    pub pid: u32,
    /// Its program.
    pub program: &'a str,
    /// Whether it is the process of the command itself.
    pub is_command: bool,
}

impl Claimant<'_> {
    /// Its process id, and for a child of the command its program, as far as that is fit for the name of a file.
    fn process_name(&self) -> String {
        const LONGEST: usize = 32;
        let is_plain = |letter: &char| letter.is_ascii_alphanumeric() || "._+".contains(*letter);
        let program: String = self
            .program
            .chars()
            .filter(is_plain)
            .take(LONGEST)
            .collect();
        match program.trim_matches('.') {
            program if !self.is_command && !program.is_empty() => format!("{}.{program}", self.pid),
            _ => self.pid.to_string(),
        }
    }
}

fn too_many() -> io::Error {
    io::Error::new(io::ErrorKind::AlreadyExists, "too many traces of that name")
}

fn is_taken(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::AlreadyExists
}

/// The names that were given out in a run.
#[derive(Debug, Default)]
pub struct FileNames {
    /// Ranks and restarts of which a process has files.
    ranks: HashSet<(u32, u32)>,
    /// For the path of a file without a number, the lowest number that may be free.
    next: HashMap<PathBuf, u32>,
    /// What is kept for the command until it has something to write.
    command: Option<FileId>,
}

impl FileNames {
    /// Keeps the first free name for the command, where files do not bear process ids: it must not
    /// depend on who writes first. To be called for each program that announces itself, before any
    /// file of it is made; the command's first call counts.
    pub fn reserve(&mut self, files: &[Layout], claimant: &Claimant<'_>) {
        let is_plain = files.iter().all(|file| !file.name_processes);
        if claimant.is_command && is_plain && self.command.is_none() {
            self.command = Some(self.choose(files, claimant));
        }
    }

    /// Chooses the name of a process's files, none of which is created yet.
    pub fn choose(&mut self, files: &[Layout], claimant: &Claimant<'_>) -> FileId {
        self.claim(files, claimant, |_, _| Ok(()))
            .map_or_else(|_| FileId::new(&claimant.pid.to_string(), 0), |(id, ())| id)
    }

    /// Chooses the name of a process's files and creates the first of them: other runs that write
    /// to the same folder see that the name is taken.
    ///
    /// # Errors
    /// When the file cannot be created.
    pub fn create(
        &mut self,
        files: &[Layout],
        claimant: &Claimant<'_>,
    ) -> io::Result<(FileId, File, PathBuf)> {
        let (id, (file, path)) = self.claim(files, claimant, Layout::create)?;
        Ok((id, file, path))
    }

    /// Creates the file that short processes share.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create_shared(&mut self, files: &[Layout]) -> io::Result<(File, PathBuf)> {
        // It is called what it is also where files do not name their processes.
        let mut files = files.to_vec();
        files.iter_mut().for_each(|file| file.name_processes = true);
        let name = (SHARED.to_owned(), NUMBERS_MAX);
        let (_, made) = self.claim_one_of(&files, vec![name], Layout::create)?;
        Ok(made)
    }

    fn claim<T>(
        &mut self,
        files: &[Layout],
        claimant: &Claimant<'_>,
        make: impl Fn(&Layout, &FileId) -> io::Result<T>,
    ) -> io::Result<(FileId, T)> {
        let first = files.first().ok_or_else(too_many)?;
        if let Some(id) = self.command.take_if(|_| claimant.is_command) {
            match make(first, &id) {
                Err(error) if is_taken(&error) => {}
                result => return result.map(|made| (id, made)),
            }
        }
        let names = self.processes(claimant);
        self.claim_one_of(files, names, make)
    }

    /// The first that is free of some names, with a number behind where that helps.
    fn claim_one_of<T>(
        &mut self,
        files: &[Layout],
        names: Vec<(String, u32)>,
        make: impl Fn(&Layout, &FileId) -> io::Result<T>,
    ) -> io::Result<(FileId, T)> {
        let first = files.first().ok_or_else(too_many)?;
        for (process, numbers_max) in names {
            let unnumbered: Vec<PathBuf> = files
                .iter()
                .map(|file| file.path(&FileId::new(&process, 0)))
                .collect();
            let next = unnumbered.iter().filter_map(|path| self.next.get(path));
            for number in next.max().copied().unwrap_or(0)..numbers_max {
                let id = FileId::new(&process, number);
                if files
                    .iter()
                    .any(|file| file.path(&id).symlink_metadata().is_ok())
                {
                    continue;
                }
                match make(first, &id) {
                    Err(error) if is_taken(&error) => {}
                    Err(error) => return Err(error),
                    Ok(made) => {
                        let taken = unnumbered.into_iter().map(|path| (path, number + 1));
                        self.next.extend(taken);
                        return Ok((id, made));
                    }
                }
            }
        }
        Err(too_many())
    }

    /// How the process may be called, best first, and how many numbers may stand behind: the rank
    /// for the first process that has it, rank, process id and program for others (its children
    /// have the same rank); process id and program without a rank. Where a rank's name is taken by another start of
    /// the same job, host and process id follow.
    fn processes(&mut self, claimant: &Claimant<'_>) -> Vec<(String, u32)> {
        let Claimant {
            rank, host, pid, ..
        } = *claimant;
        let Some(own) = rank else {
            return vec![(claimant.process_name(), NUMBERS_MAX)];
        };
        let mut name = rank_name(own);
        if !self.ranks.insert((own.rank, own.restart)) {
            name = format!("{name}.{}", claimant.process_name());
        }
        let fuller = fuller_id(own, host, pid);
        vec![(name, 1), (fuller, NUMBERS_MAX)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rsys_config::rank::rank_from_env;

    fn layout(file_name: &str, name_processes: bool) -> Layout {
        let folder = format!("rsys-names-{}-{file_name}", std::process::id());
        let directory = std::env::temp_dir().join(folder);
        Layout {
            directory,
            prefix: "deeper/".to_owned(),
            file_name: file_name.to_owned(),
            name_processes,
        }
    }

    fn claimant(pid: u32) -> Claimant<'static> {
        Claimant {
            rank: None,
            host: "host",
            pid,
            program: "",
            is_command: false,
        }
    }

    #[test]
    fn the_first_process_of_a_rank_has_its_name() {
        let mut names = FileNames::default();
        let files = [layout("ranks", true)];
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
            let of_rank = Claimant {
                rank: rank.as_ref(),
                ..claimant(pid)
            };
            assert_eq!(names.choose(&files, &of_rank), FileId::new(expected, 0));
        }
    }

    #[test]
    fn children_have_the_name_of_their_program() {
        let files = [layout("programs", true)];
        for (program, is_command, expected) in [
            ("cc1", false, "7.cc1"),
            ("cc1", true, "7"),
            ("../my program-π", false, "7.myprogram"),
            ("...", false, "7"),
            (&*"x".repeat(99), false, &*format!("7.{}", "x".repeat(32))),
        ] {
            let child = Claimant {
                program,
                is_command,
                ..claimant(7)
            };
            let id = FileNames::default().choose(&files, &child);
            assert_eq!(id, FileId::new(expected, 0));
        }
    }

    #[test]
    fn files_are_never_overwritten() {
        let rank = rank_from_env(|name| (name == "PMI_RANK").then(|| "1".to_owned()));
        let of_rank = Claimant {
            rank: rank.as_ref(),
            ..claimant(7)
        };
        let files = [layout("t.proto", true)];
        let create = |claimant: &Claimant<'_>| {
            // Of another run each.
            let path = FileNames::default().create(&files, claimant).unwrap().2;
            path.file_name().unwrap().to_str().unwrap().to_owned()
        };
        let names = [
            claimant(1),
            claimant(1),
            claimant(1),
            of_rank,
            of_rank,
            of_rank,
        ];
        let names = names.map(|claimant| create(&claimant));
        std::fs::remove_dir_all(&files[0].directory).unwrap();
        assert_eq!(
            names,
            [
                "t-1.proto",
                "t-1-1.proto",
                "t-1-2.proto",
                "t-1.host.7.proto",
                "t-1.host.7-1.proto",
                "t-1.host.7-2.proto",
            ]
        );
    }

    #[test]
    fn the_command_has_the_plain_name_and_all_files_of_a_process_one_number() {
        let trace = layout("plain.proto", false);
        let files = [trace.of_file("plain.proto"), trace.of_file("profile.txt")];
        let command = Claimant {
            is_command: true,
            ..claimant(4)
        };
        let run = |names: &mut FileNames| {
            names.reserve(&files, &command);
            [claimant(5), claimant(6), command, command].map(|claimant| {
                let (id, ..) = names.create(&files, &claimant).unwrap();
                files[1].create(&id).unwrap();
                id.number
            })
        };
        let (first, second) = (
            run(&mut FileNames::default()),
            run(&mut FileNames::default()),
        );
        std::fs::remove_dir_all(&trace.directory).unwrap();
        assert_eq!(first, [1, 2, 0, 3]);
        assert_eq!(second, [5, 6, 4, 7]);
    }
}
