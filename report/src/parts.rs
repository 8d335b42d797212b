//! Parts: what is found of each trace, kept in a file each, so that many nodes find and one puts together.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail};
use clap::Args;
use rsys_analysis::parquet::PartError;
use rsys_analysis::ranks;
use rsys_traces::model::Notice;
use rsys_traces::read;

/// Where parts are, and which are made.
#[derive(Debug, Args)]
pub(crate) struct PartOptions {
    /// Keep what is found of each trace in this folder, a Parquet file each, and take what is there already
    #[arg(long, value_name = "FOLDER")]
    parts: Option<PathBuf>,
    /// Make only these parts, and give no answer: of N shares that which has number I, from 0 on
    #[arg(long, value_name = "I/N", requires = "parts", value_parser = share)]
    share: Option<Share>,
}

/// One of several shares of the traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    number: usize,
    of: usize,
}

fn share(word: &str) -> Result<Share, String> {
    let parts = word.split_once('/');
    let numbers = parts.and_then(|(number, of)| Some((number.parse().ok()?, of.parse().ok()?)));
    match numbers {
        Some((number, of)) if number < of => Ok(Share { number, of }),
        _ => Err("it is not a share, such as 0/4, which is the first of four".to_owned()),
    }
}

/// What a question finds in a file, as it is kept.
pub(crate) trait Part: Sized {
    /// What the names of the files of its parts end with.
    const END: &'static str;
    /// What the question is asked with.
    type Options;

    /// A part of a file in which nothing is found but this.
    fn wrong(notice: Notice) -> Self;

    /// The part in a file.
    fn read(file: &[u8], options: &Self::Options, source: &str) -> Result<Self, PartError>;

    /// The file of a part.
    fn write(&self, options: &Self::Options, source: &str) -> std::io::Result<Vec<u8>>;
}

impl PartOptions {
    /// Whether parts are kept.
    pub(crate) fn is_given(&self) -> bool {
        self.parts.is_some()
    }

    /// Makes the folder for parts, and leaves of the traces those of the share that is wanted.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub(crate) fn prepare(&self, files: &mut Vec<PathBuf>) -> Result<()> {
        if let Some(share) = self.share {
            files.sort();
            let own = std::mem::take(files).into_iter();
            *files = own.skip(share.number).step_by(share.of).collect();
        }
        if let Some(folder) = &self.parts {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(())
    }

    /// A file in the folder for parts that nobody else has and that is gone when it is closed; `None` if there is no such folder, or no room in it.
    pub(crate) fn working_file(&self) -> Option<fs::File> {
        let path = self
            .parts
            .as_ref()?
            .join(format!(".rows.{}.draft", std::process::id()));
        let mut options = fs::File::options();
        let options = options.read(true).write(true).create_new(true);
        let file = options.open(&path).ok()?;
        fs::remove_file(&path).ok()?;
        Some(file)
    }

    /// What is kept of a trace, else what `find` finds, which is then kept.
    pub(crate) fn part<P: Part>(
        &self,
        file: &Path,
        options: &P::Options,
        find: impl FnOnce() -> P,
    ) -> P {
        let Some(folder) = &self.parts else {
            return find();
        };
        kept(folder, file, options, find).unwrap_or_else(|error| {
            P::wrong(Notice {
                file: file.display().to_string(),
                offset: None,
                text: format!("{error:#}"),
            })
        })
    }

    /// Makes the parts of these files, if nothing else is wanted; the folder, if so. `part` makes one, and says what is wrong with the file.
    ///
    /// # Errors
    /// When one of them has none then.
    pub(crate) fn only_parts<P: Part>(
        &self,
        files: &[PathBuf],
        jobs: usize,
        part: impl Fn(&Path) -> Vec<Notice> + Sync,
    ) -> Result<Option<PathBuf>> {
        let (Some(_), Some(folder)) = (self.share, &self.parts) else {
            return Ok(None);
        };
        let lost: Mutex<Vec<(PathBuf, Option<Notice>)>> = Mutex::default();
        ranks::each(files, jobs, |file| {
            let notices = part(file);
            if !path::<P>(folder, file).exists() {
                let why = notices.into_iter().next();
                let mut lost = lost.lock().unwrap_or_else(PoisonError::into_inner);
                lost.push((file.to_path_buf(), why));
            }
        });
        let lost = lost.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let Some((file, why)) = lost.into_iter().min_by(|one, other| one.0.cmp(&other.0)) {
            let why = why.map_or_else(String::new, |why| format!(": {}", why.text));
            bail!("{} has no part{why}", file.display());
        }
        Ok(Some(folder.clone()))
    }
}

/// The file of the part of a trace: two traces of one name in different folders have two.
fn path<P: Part>(folder: &Path, file: &Path) -> PathBuf {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let parent = file.parent().unwrap_or(Path::new(""));
    let parent = parent
        .canonicalize()
        .unwrap_or_else(|_| parent.to_path_buf());
    // FNV-1a, the same on all nodes.
    let hash = parent
        .as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xCBF2_9CE4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3)
        });
    folder.join(format!("{name}.{hash:016x}.{}.parquet", P::END))
}

fn kept<P: Part>(
    folder: &Path,
    file: &Path,
    options: &P::Options,
    find: impl FnOnce() -> P,
) -> Result<P> {
    let path = path::<P>(folder, file);
    let source = source(file)?;
    if let Ok(bytes) = fs::read(&path)
        && let Ok(part) = P::read(&bytes, options, &source)
    {
        return Ok(part);
    }
    let bytes = find().write(options, &source)?;
    // Whoever looks meanwhile sees the old part, or the new one.
    let draft = path.with_extension(format!("{}.draft", std::process::id()));
    let written = fs::write(&draft, &bytes).and_then(|()| fs::rename(&draft, &path));
    written.with_context(|| format!("cannot write {}", path.display()))?;
    // What is read later is what counts now.
    Ok(P::read(&bytes, options, &source)?)
}

/// What a trace is, and when it changed, with the files in which it goes on.
fn source(file: &Path) -> Result<String> {
    let parts = read::further_parts(file);
    let mut text = String::new();
    for one in std::iter::once(file.to_path_buf()).chain(parts) {
        let known = fs::metadata(&one).with_context(|| one.display().to_string())?;
        let changed = known
            .modified()
            .ok()
            .and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let nanoseconds = changed.map_or(0, |since| since.as_nanos());
        let name = one.file_name().unwrap_or_default().to_string_lossy();
        text.push_str(&format!("{name}: {} {nanoseconds}\n", known.len()));
    }
    Ok(text)
}
