//! The libraries that are loaded into programs.

use std::path::{Path, PathBuf};

use rsys_machine::roots::Roots;
use rsys_wire::program::{AGENT_FILE, AGENT_FOLDERS};
use rsys_wire::sources::Build;

use super::asked::Asked;
use super::finding::{Finding, Level};

const NAME: &str = "agent";

/// Whether what the settings ask for can be loaded into programs. On another machine than this one nothing is said.
pub fn findings(roots: &Roots, asked: &Asked) -> Option<Finding> {
    if roots.is_simulated() {
        return None;
    }
    let Some(agent) = find() else {
        return Some(
            Finding::at(Level::Problem, NAME, format!("{AGENT_FILE} is not found"))
                .means("rsys-sample does not start")
                .mend("keep the folder lib beside bin, or name the file: export RSYS_AGENT_LIBRARY=PATH"),
        );
    };
    let build = asked.build.unwrap_or(Build::Plain);
    let file = agent.with_file_name(build.file());
    if !file.is_file() {
        return Some(
            Finding::at(Level::Problem, NAME, format!("{} is not found", file.display()))
                .means("what the settings ask for of MPI, OpenMP, Kokkos, PyTorch or locks is not recorded")
                .mend("keep all three files librsys_agent*.so together"),
        );
    }
    let has_sign = file.to_string_lossy().contains([' ', '\t', ':', '$']);
    Some(if has_sign {
        Finding::at(Level::Problem, NAME, file.display().to_string())
            .means("LD_PRELOAD cannot name a path with a blank, a colon or a dollar sign: rsys-sample does not start")
            .mend("move the installation")
    } else {
        Finding::ok(NAME, file.display().to_string())
    })
}

fn find() -> Option<PathBuf> {
    let chosen = std::env::var_os("RSYS_AGENT_LIBRARY").filter(|path| !path.is_empty());
    let candidates = match chosen {
        Some(path) => vec![PathBuf::from(path)],
        None => {
            let executable = std::env::current_exe().ok()?;
            let folder = executable.parent().unwrap_or(Path::new("/")).to_owned();
            let folders = AGENT_FOLDERS.iter().map(|below| folder.join(below));
            folders.map(|folder| folder.join(AGENT_FILE)).collect()
        }
    };
    let found = candidates.into_iter().find(|path| path.is_file())?;
    found.canonicalize().ok()
}
