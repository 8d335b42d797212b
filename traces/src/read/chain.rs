//! A trace in several files: `t.proto`, `t.part2.proto`, `t.part3.proto`, as `rsys-sample --split` writes it.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::rocprofv3::csv_companions;

/// What stands in front of the number of a file, and behind the name of the first.
const PART: &str = ".part";

/// The number of a file in its trace, from 1, and the path of number `other`.
fn numbered(path: &Path) -> Option<(u64, impl Fn(u64) -> PathBuf + '_)> {
    let name = path.file_name()?.to_str()?;
    let (stem, extension) = name.rsplit_once('.')?;
    let (stem, number) = match stem.rsplit_once(PART) {
        Some((first, number)) if number.parse::<u64>().is_ok_and(|number| number > 1) => {
            (first, number.parse().ok()?)
        }
        _ => (stem, 1),
    };
    let of = move |other: u64| match other {
        1 => path.with_file_name(format!("{stem}.{extension}")),
        _ => path.with_file_name(format!("{stem}{PART}{other}.{extension}")),
    };
    Some((number, of))
}

/// The files that are read with a file: those in which its trace goes on, in their order, or the other tables of its process. None if there are
/// none.
#[must_use]
pub fn further_parts(path: &Path) -> Vec<PathBuf> {
    let mut further = parts(path);
    further.extend(csv_companions(path));
    further
}

/// The files in which the trace of a file goes on.
fn parts(path: &Path) -> Vec<PathBuf> {
    let Some((number, of)) = numbered(path) else {
        return Vec::new();
    };
    let further = (number + 1..).map(of);
    further.take_while(|path| path.is_file()).collect()
}

/// Whether a file is one in which the trace of another goes on that is there.
#[must_use]
pub fn is_further_part(path: &Path) -> bool {
    numbered(path).is_some_and(|(number, of)| number > 1 && of(number - 1).is_file())
}

/// The bytes of a file and of those in which its trace goes on. Files that were written so are one trace when they stand behind each other.
#[derive(Debug)]
pub struct Chain {
    current: File,
    further: VecDeque<PathBuf>,
}

impl Chain {
    /// Opens the first file.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            current: File::open(path)?,
            further: parts(path).into(),
        })
    }
}

impl Read for Chain {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.current.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            match self.further.pop_front() {
                Some(path) => self.current = File::open(path)?,
                None => return Ok(0),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_follow_each_other_until_one_is_missing() {
        let folder = std::env::temp_dir().join(format!("rsys-chain-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in [
            "a.proto",
            "a.part2.proto",
            "a.part3.proto",
            "a.part5.proto",
            "a.partly.proto",
        ] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let at = |name: &str| folder.join(name);
        let parts = [at("a.part2.proto"), at("a.part3.proto")];
        assert_eq!(further_parts(&at("a.proto")), parts);
        assert_eq!(further_parts(&parts[1]), [""; 0].map(PathBuf::from));
        let further: Vec<_> = [
            "a.proto",
            "a.part2.proto",
            "a.part3.proto",
            "a.part5.proto",
            "a.partly.proto",
        ]
        .into_iter()
        .filter(|name| is_further_part(&at(name)))
        .collect();
        assert_eq!(further, ["a.part2.proto", "a.part3.proto"]);
        let mut text = String::new();
        Chain::open(&at("a.proto"))
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        assert_eq!(text, "a.protoa.part2.protoa.part3.proto");
    }
}
