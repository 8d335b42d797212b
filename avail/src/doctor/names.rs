//! Which of the files that a program loads have no names for their functions.

use std::path::{Path, PathBuf};

use rsys_machine::names::{Named, Names};
use rsys_machine::rocm::Program;
use rsys_machine::roots::Roots;

use super::finding::{Finding, Level};

const NAME: &str = "names";

/// Libraries that are named, the largest first: most time passes in those.
const MOST_LISTED: usize = 8;

/// That of the program itself, and one of its libraries.
pub fn findings(roots: &Roots, program: &Program) -> Vec<Finding> {
    let mut found = Vec::new();
    let (own, libraries) = match program.files.split_first() {
        Some((own, libraries)) => (own, libraries),
        None => return found,
    };
    found.extend(of_program(roots, own, program.is_python));
    let poor = |path: &&PathBuf| is_poor(roots, path);
    let poor: Vec<&PathBuf> = libraries.iter().filter(poor).collect();
    if poor.is_empty() {
        if !libraries.is_empty() {
            found.push(Finding::ok(
                NAME,
                "its libraries have names for their functions",
            ));
        }
        return found;
    }
    let mut largest_first = poor.clone();
    largest_first.sort_by_key(|path| std::cmp::Reverse(bytes_of(roots, path)));
    let listed = largest_first.iter().take(MOST_LISTED);
    let listed: Vec<_> = listed.map(|path| path.display().to_string()).collect();
    let more = match poor.len() - listed.len() {
        0 => String::new(),
        more => format!(", and {more} smaller ones"),
    };
    let finding = format!(
        "{} of {} libraries name the functions only that others may call: {}{more}",
        poor.len(),
        libraries.len(),
        listed.join(" ")
    );
    found.push(
        Finding::at(Level::Note, NAME, finding)
            .means("their other functions are called LIBRARY+0x1234")
            .mend(remedy(roots, &listed)),
    );
    found
}

fn bytes_of(roots: &Roots, path: &Path) -> u64 {
    std::fs::metadata(roots.inside(path)).map_or(0, |about| about.len())
}

/// Whether a file has no names for functions of its own.
fn is_poor(roots: &Roots, path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let named = Named::of(roots, path);
    !name.starts_with("ld-")
        && named.is_some_and(|named| matches!(named.names, Names::Exported | Names::None))
}

fn of_program(roots: &Roots, path: &Path, is_python: bool) -> Option<Finding> {
    let named = Named::of(roots, path)?;
    let shown = path.display();
    Some(match named.names {
        Names::Lines => Finding::ok(NAME, format!("{shown}: functions, inlined ones, lines")),
        Names::All => Finding::ok(NAME, format!("{shown}: functions"))
            .means("inlined functions and lines come with debug information")
            .mend("compile with -g"),
        Names::Exported | Names::None => {
            // A Python's own functions matter less than those of Python.
            let level = if is_python {
                Level::Note
            } else {
                Level::Warning
            };
            Finding::at(level, NAME, format!("{shown} is stripped"))
                .means("its functions are called PROGRAM+0x1234")
                .mend(if is_of_system(path) {
                    remedy(roots, &[shown.to_string()])
                } else {
                    "compile with -g, and link without -s; or install its debug symbols".to_owned()
                })
        }
    })
}

fn is_of_system(path: &Path) -> bool {
    ["/usr/bin", "/usr/lib", "/bin", "/lib"]
        .iter()
        .any(|folder| path.starts_with(folder))
}

/// The command that names or installs debug symbols, as the distribution has it.
fn remedy(roots: &Roots, files: &[String]) -> String {
    let release = roots.text("etc/os-release").unwrap_or_default();
    let ids: Vec<&str> = release
        .lines()
        .filter_map(|line| line.strip_prefix("ID=").or(line.strip_prefix("ID_LIKE=")))
        .flat_map(|value| value.trim_matches('"').split(' '))
        .collect();
    let is = |id: &str| ids.contains(&id);
    let files = files.join(" ");
    if is("debian") || is("ubuntu") {
        format!("find-dbgsym-packages {files}   (of debian-goodies; names the packages to install)")
    } else if is("fedora") || is("rhel") {
        format!("sudo dnf debuginfo-install $(rpm -qf --qf '%{{name}} ' {files})")
    } else {
        "install debug symbols; they are found by build id below /usr/lib/debug/.build-id"
            .to_owned()
    }
}
