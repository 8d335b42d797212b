//! Wheels for pip: the programs with the Python module, and the original's names.
//!
//! The programs and libraries lie inside the package `rsys`, where they find one another. Nothing is compiled when it is installed, and
//! nothing else is needed. Format: <https://packaging.python.org/en/latest/specifications/binary-distribution-format/>.

mod zip;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use self::zip::Archive;
use super::stage::{self, Stage, empty};
use super::{VERSION, tools};
use crate::install::OLD_NAMES;
use crate::steps::workspace_dir;

/// glibc 2.17, as our programs need it (`tests/tests/programs/old_systems.rs`).
const PLATFORM: &str = "manylinux2014_x86_64";
/// What an index takes without asking, and what a slow line takes in a minute.
const LIMIT: u64 = 13_600_000;
const SUMMARY: &str =
    "Sampling profiler for CPUs and AMD GPUs: Perfetto timelines, and answers in words";
const OLD_SUMMARY: &str = "The programs of rsys by the names of rocprofiler-systems and omnitrace";
const DESCRIPTION: &str = include_str!("../../../../packaging/wheel/README.md");

/// Makes both.
pub fn make(stage: &Stage, output: &Path) -> Result<Vec<PathBuf>> {
    let tree = output.join("wheel");
    let programs = programs(stage, &tree, output)?;
    let bytes = fs::metadata(&programs)?.len();
    ensure!(
        bytes <= LIMIT,
        "{}: {bytes} bytes are more than {LIMIT}",
        programs.display()
    );
    let old_names = old_names(&tree, output)?;
    fs::remove_dir_all(tree)?;
    Ok(vec![programs, old_names])
}

fn programs(stage: &Stage, tree: &Path, output: &Path) -> Result<PathBuf> {
    empty(tree)?;
    stage.copy(&stage.files, tree, place_in_wheel)?;
    let sources = workspace_dir().join("packaging/wheel/rsys");
    for name in ["__main__.py", "_programs.py"] {
        stage::put(&sources.join(name), &tree.join("rsys").join(name))?;
    }
    let points = ["sample", "report", "avail"]
        .map(|name| format!("rsys-{name} = rsys._programs:{name}\n"))
        .concat();
    pack(&about_programs(points), tree, output)
}

fn about_programs(points: String) -> About<'static> {
    About {
        name: "rsys",
        summary: SUMMARY,
        needs: String::new(),
        description: DESCRIPTION,
        is_pure: false,
        points,
    }
}

/// What the source for pip says of itself.
pub fn metadata() -> String {
    about_programs(String::new()).metadata()
}

fn old_names(tree: &Path, output: &Path) -> Result<PathBuf> {
    empty(tree)?;
    let module = "rsys_old_names";
    let file = format!("{module}.py");
    let source = workspace_dir()
        .join("packaging/wheel/old_names")
        .join(&file);
    stage::put(&source, &tree.join(&file))?;
    let points = OLD_NAMES.iter().map(|(old, _)| {
        let function = old.replace('-', "_");
        format!("{old} = {module}:{function}\n")
    });
    let about = About {
        name: module,
        summary: OLD_SUMMARY,
        needs: format!("Requires-Dist: rsys=={VERSION}\n"),
        description: OLD_SUMMARY,
        is_pure: true,
        points: points.collect(),
    };
    pack(&about, tree, output)
}

/// Where a file of an installation is in the wheel: the demo keeps its place beside `bin`. Documents, manual pages and completions are not in it: pip would leave the folders behind
/// that they need outside of the package, and the programs print them (`--man`, `--completions`).
fn place_in_wheel(place: &Path) -> Option<PathBuf> {
    let licences = format!("rsys-{VERSION}.dist-info/licenses");
    let name = place.file_name()?;
    if let Ok(module) = place.strip_prefix("share/rsys/python") {
        return Some(module.into());
    }
    match place.to_str()? {
        text if text.starts_with("share/rsys/LICENSE") || name == "THIRD-PARTY.txt" => {
            Some(Path::new(&licences).join(name))
        }
        // A megabyte, of which a wheel has none to spare.
        text if text.starts_with("lib/rsys/") => None,
        text if text.starts_with("share/rsys/demo/") => Some(Path::new("rsys").join(place)),
        text if text.starts_with("share/") => None,
        _ => Some(Path::new("rsys").join(place)),
    }
}

/// What a wheel says of itself.
struct About<'a> {
    name: &'a str,
    summary: &'a str,
    /// Lines about what it needs.
    needs: String,
    description: &'a str,
    is_pure: bool,
    /// Lines `command = module:function`.
    points: String,
}

impl About<'_> {
    fn tag(&self) -> String {
        let platform = if self.is_pure { "any" } else { PLATFORM };
        format!("py3-none-{platform}")
    }

    fn metadata(&self) -> String {
        let Self {
            summary,
            needs,
            description,
            ..
        } = self;
        let name = self.name.replace('_', "-");
        format!(
            "Metadata-Version: 2.1\nName: {name}\nVersion: {VERSION}\nSummary: {summary}\nLicense: MIT OR Apache-2.0\n\
             Classifier: Operating System :: POSIX :: Linux\nClassifier: Topic :: Software Development :: Debuggers\n\
             Requires-Python: >=3.8\n{needs}Description-Content-Type: text/markdown\n\n{description}"
        )
    }

    fn wheel(&self) -> String {
        format!(
            "Wheel-Version: 1.0\nGenerator: cargo xtask package\nRoot-Is-Purelib: {}\nTag: {}\n",
            self.is_pure,
            self.tag()
        )
    }
}

/// Packs a tree, with what a wheel says of itself.
fn pack(about: &About<'_>, tree: &Path, output: &Path) -> Result<PathBuf> {
    let info = format!("{}-{VERSION}.dist-info", about.name);
    let folder = tree.join(&info);
    stage::write(&folder.join("METADATA"), about.metadata())?;
    stage::write(&folder.join("WHEEL"), about.wheel())?;
    let points = format!("[console_scripts]\n{}", about.points);
    stage::write(&folder.join("entry_points.txt"), points)?;
    let mut archive = Archive::default();
    let mut record = String::new();
    for (sum, name) in sums(tree)? {
        let file = tree.join(&name);
        let content = fs::read(&file)?;
        let mode = fs::metadata(&file)?.permissions().mode() & 0o777;
        archive.add(&name, &content, mode)?;
        let sum = base64(&sum);
        record.push_str(&format!("{name},sha256={sum},{}\n", content.len()));
    }
    let place = format!("{info}/RECORD");
    record.push_str(&format!("{place},,\n"));
    archive.add(&place, record.as_bytes(), 0o644)?;
    let file = output.join(format!("{}-{VERSION}-{}.whl", about.name, about.tag()));
    stage::write(&file, archive.finish()?)?;
    Ok(file)
}

/// All files below a folder with their sums: the package first, what is said of it last, as readers of wheels like it.
fn sums(tree: &Path) -> Result<Vec<(Vec<u8>, String)>> {
    let line = "find . -type f -print0 | xargs -0 sha256sum";
    let text = tools::run(Command::new("sh").args(["-c", line]).current_dir(tree))?;
    let mut found = Vec::new();
    for line in text.lines() {
        let (sum, name) = line.split_once("  ./").context("not a sum")?;
        let digits = sum.as_bytes().chunks(2);
        let bytes = digits.map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
        found.push((bytes.collect::<Result<Vec<u8>>>()?, name.to_owned()));
    }
    found.sort_by_key(|(_, name)| (name.contains(".dist-info/"), name.clone()));
    Ok(found)
}

/// In the alphabet for URLs, without what fills up (RFC 4648, section 5).
fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let word = group.iter().chain(&[0; 2]).take(3);
        let word = word.fold(0, |word, byte| word << 8 | usize::from(*byte));
        let letters = (0..=group.len()).map(|index| word >> (18 - 6 * index) & 63);
        text.extend(letters.filter_map(|index| LETTERS.get(index).copied().map(char::from)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_written_as_in_the_standard() {
        for (bytes, text) in [
            ("f", "Zg"),
            ("fo", "Zm8"),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg"),
        ] {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
        assert_eq!(base64(&[0xfb, 0xff]), "-_8");
    }
}
