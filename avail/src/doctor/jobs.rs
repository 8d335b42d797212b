//! Parallel jobs: MPI and Slurm.

use std::path::PathBuf;

use rsys_config::rank::rank_from_env;
use rsys_machine::rocm::{Environment, Program};
use rsys_machine::roots::Roots;

use super::asked::Asked;
use super::finding::{Finding, Level};

/// All of them.
pub fn findings(roots: &Roots, asked: &Asked, program: Option<&Program>) -> Vec<Finding> {
    let environment = Environment::of_this_process();
    let mut found = vec![slurm(roots, &environment), mpi(roots, &environment)];
    if let Some(program) = program {
        found.extend(mpi_of(program, asked));
    }
    found
}

/// The file that a command stands for.
fn command(roots: &Roots, environment: &Environment, name: &str) -> Option<PathBuf> {
    let folders = environment.folders("PATH").into_iter();
    let mut paths = folders.map(|folder| folder.join(name));
    paths.find(|path| roots.inside(path).is_file())
}

fn slurm(roots: &Roots, environment: &Environment) -> Finding {
    const NAME: &str = "Slurm";
    let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let rank = rank_from_env(variable);
    if let Some(job) = variable("SLURM_JOB_ID") {
        let place = rank.map_or_else(String::new, |rank| {
            let size = rank
                .size
                .map_or_else(String::new, |size| format!(" of {size}"));
            format!(", rank {}{size} by {}", rank.rank, rank.source)
        });
        return Finding::ok(NAME, format!("in job {job}{place}"))
            .means("each step has a folder, each rank a trace in it");
    }
    match command(roots, environment, "srun") {
        Some(path) => Finding::ok(NAME, format!("{}; not in a job", path.display()))
            .means("srun rsys-sample -- PROGRAM records each rank"),
        None => Finding::ok(NAME, "not installed"),
    }
}

fn mpi(roots: &Roots, environment: &Environment) -> Finding {
    const NAME: &str = "MPI";
    let launchers = ["mpirun", "mpiexec", "flux", "jsrun"];
    let mut found = launchers
        .iter()
        .filter_map(|name| command(roots, environment, name));
    match found.next() {
        Some(path) => Finding::ok(NAME, path.display().to_string()),
        None => Finding::ok(NAME, "no launcher (mpirun) in PATH"),
    }
}

/// The MPI of a program, if calls are to be recorded.
fn mpi_of(program: &Program, asked: &Asked) -> Option<Finding> {
    const NAME: &str = "MPI calls";
    let is_mpi = |path: &&PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with("libmpi") || name.starts_with("libmpich")
    };
    let library = program.files.iter().find(is_mpi);
    match library {
        Some(path) if asked.mpi.is_empty() => Some(
            Finding::at(Level::Note, NAME, format!("the program loads {}", path.display()))
                .means("its calls are recorded with -I mpip")
                .mend("-I mpip"),
        ),
        Some(path) => Some(Finding::ok(NAME, path.display().to_string())),
        // What Python imports is not in any file.
        None if asked.mpi.is_empty() || program.is_python => None,
        None => Some(Finding {
            asked_by: asked.mpi.clone(),
            ..Finding::at(Level::Warning, NAME, "the program itself loads no MPI library")
                .means("no calls are recorded, unless it opens one while it runs, or is linked with it statically")
        }),
    }
}
