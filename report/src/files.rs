//! Which files a command line means.

use std::collections::HashSet;
use std::fs::{File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// How traces in Perfetto's protobuf form end.
pub const PERFETTO: &[&str] = &[".proto", ".pftrace", ".perfetto-trace", ".perfetto"];

/// How traces end that questions can be put to: those, also packed, and what other profilers write.
pub const READABLE: &[&str] = &[
    ".proto",
    ".pftrace",
    ".perfetto-trace",
    ".perfetto",
    ".proto.gz",
    ".pftrace.gz",
    ".perfetto-trace.gz",
    ".proto.zst",
    ".pftrace.zst",
    ".perfetto-trace.zst",
    ".trace.json",
    ".trace.json.gz",
    ".trace.json.zst",
    ".xplane.pb",
    ".rpd",
    ".sqlite",
    "_results.json",
    "_results.json.gz",
    "_results.json.zst",
    "_results.db",
    "kernel_trace.csv",
    "memory_copy_trace.csv",
    "hip_api_trace.csv",
    "counter_collection.csv",
];

/// How the files that rocprofv3 writes of one process end, those first that say most.
const FORMS: &[&[&str]] = &[
    &["_results.json", "_results.json.gz", "_results.json.zst"],
    &["_results.db"],
    &["_results.pftrace"],
    &[
        "kernel_trace.csv",
        "memory_copy_trace.csv",
        "hip_api_trace.csv",
        "counter_collection.csv",
    ],
];

/// The form that a file of rocprofv3 has, and what stands in front of its ending.
fn form(path: &Path) -> Option<(usize, PathBuf)> {
    let name = path.file_name()?.to_str()?;
    FORMS.iter().enumerate().find_map(|(form, endings)| {
        let mut stems = endings
            .iter()
            .filter_map(|ending| name.strip_suffix(ending));
        let stem = stems.next()?.trim_end_matches('_');
        Some((form, path.with_file_name(stem)))
    })
}

/// The file that JAX's or TensorFlow's profiler makes JSON of, by the name of that.
fn xplane_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let endings = [".trace.json.gz", ".trace.json"];
    let stem = endings.iter().find_map(|end| name.strip_suffix(end))?;
    Some(path.with_file_name(format!("{stem}.xplane.pb")))
}

/// Whether a file is named like one that rocprofv3 writes and the Perfetto UI cannot show.
pub fn is_other_form_of_rocprofv3(path: &Path) -> bool {
    form(path).is_some_and(|(form, _)| !FORMS[form][0].ends_with(".pftrace"))
}

/// Of the files that rocprofv3 wrote of one process in several forms, or as several tables that are read together, the one that says most; and notes
/// on those that are left out.
pub fn one_of_each_process(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<String>) {
    let mut best = std::collections::HashMap::<PathBuf, (usize, PathBuf)>::new();
    for file in &files {
        if let Some((form, stem)) = form(file) {
            let kept = best.entry(stem).or_insert_with(|| (form, file.clone()));
            if form < kept.0 {
                *kept = (form, file.clone());
            }
        }
    }
    let all: HashSet<PathBuf> = files.iter().cloned().collect();
    let mut notes = Vec::new();
    let files = files.into_iter().filter(|file| {
        if let Some(whole) = xplane_of(file).filter(|whole| all.contains(whole)) {
            let whole = short_name(&whole);
            notes.push(format!(
                "{}: made of {whole}, which says more, left out",
                file.display()
            ));
            return false;
        }
        let Some((of_file, stem)) = form(file) else {
            return true;
        };
        match best.get(&stem) {
            Some((form, kept)) if kept != file => {
                if *form != of_file {
                    let kept = short_name(kept);
                    notes.push(format!(
                        "{}: the process of {kept} in another form, left out",
                        file.display()
                    ));
                }
                false
            }
            _ => true,
        }
    });
    (files.collect(), notes)
}

/// Files without those packed that are there as they are, and notes on what is left out. One that is empty was to be unpacked, and was not.
pub fn without_packed(files: Vec<PathBuf>) -> (Vec<PathBuf>, Vec<String>) {
    let all: HashSet<PathBuf> = files.iter().cloned().collect();
    let is_there = |path: &Path| path.metadata().is_ok_and(|data| data.len() > 0);
    let mut notes = Vec::new();
    let files = files.into_iter().filter(|file| {
        let unpacked = file.with_extension("");
        let is_packed = file
            .extension()
            .is_some_and(|end| end == "gz" || end == "zst");
        let is_twice = is_packed && all.contains(&unpacked) && is_there(&unpacked);
        if is_twice {
            let unpacked = short_name(&unpacked);
            notes.push(format!(
                "{}: {unpacked} beside it is read, which is not packed",
                file.display()
            ));
        }
        !is_twice
    });
    (files.collect(), notes)
}

/// Whether a file is a database of another profiler.
pub fn is_database(path: &Path) -> bool {
    let magic = rsys_databases::OPENER.begins_with;
    let mut start = vec![0; magic.len()];
    let read = File::open(path).and_then(|mut file| file.read_exact(&mut start));
    read.is_ok() && start == magic
}

/// What stands in front of the ending of the small trace of a whole run.
const OVERVIEW: &str = ".overview";

/// How deep below a named folder traces are looked for: `<output>/<time>/<prefix>/`.
const DEPTH_MAX: usize = 4;

/// The files that `paths` name, and those in the folders that they name whose names end with one of `endings`, sorted and each once; of folders without
/// any, if all that is [`READABLE`] is meant, those that hold JSON with events. `except` is left out.
///
/// # Errors
/// When a path is not there or is neither file nor folder, or a folder holds no trace.
pub fn traces(paths: &[PathBuf], endings: &[&str], except: Option<&Path>) -> Result<Vec<PathBuf>> {
    let except = except.and_then(|path| path.canonicalize().ok());
    let mut found = Vec::new();
    for path in paths {
        let about =
            std::fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
        if about.is_dir() {
            let before = found.len();
            below(path, DEPTH_MAX, &|path| is_trace(path, endings), &mut found)?;
            if found.len() == before && endings == READABLE {
                below(path, DEPTH_MAX, &is_json_with_events, &mut found)?;
            }
            if found.len() == before {
                let is_packed = |ending: &str| ending.ends_with(".gz") || ending.ends_with(".zst");
                let plain: Vec<&str> = endings
                    .iter()
                    .copied()
                    .filter(|one| !is_packed(one))
                    .collect();
                let packed = match plain.len() < endings.len() {
                    true => ", plain or packed",
                    false => "",
                };
                bail!(
                    "{}: no traces in this folder (*{}{packed})",
                    path.display(),
                    plain.join(", *")
                );
            }
        } else {
            regular(path, &about)?;
            found.push(path.clone());
        }
    }
    found.sort();
    let mut seen = HashSet::new();
    found.retain(|path| {
        let same = path.canonicalize().unwrap_or_else(|_| path.clone());
        except.as_ref() != Some(&same) && seen.insert(same)
    });
    // Who names all files by a pattern means the run, not its overview as well.
    let overviews: HashSet<PathBuf> = found.iter().filter_map(|path| overview_of(path)).collect();
    found.retain(|path| !overviews.contains(path));
    if found.is_empty() {
        bail!("there is no trace to read");
    }
    Ok(found)
}

/// Refuses pipes, sockets and devices: files are read more than once, and the second time a pipe would block for ever.
///
/// # Errors
/// When `about` is not of a regular file.
pub fn regular(path: &Path, about: &Metadata) -> Result<()> {
    if !about.is_file() {
        bail!(
            "{}: not a regular file; write what it holds into one first",
            path.display()
        );
    }
    Ok(())
}

fn below(
    folder: &Path,
    depth: usize,
    is_meant: &dyn Fn(&Path) -> bool,
    found: &mut Vec<PathBuf>,
) -> Result<()> {
    let told = || format!("cannot read the folder {}", folder.display());
    for entry in std::fs::read_dir(folder).with_context(told)? {
        let entry = entry.with_context(told)?;
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        let kind = entry.file_type().with_context(told)?;
        if kind.is_dir() && depth > 0 && !hidden {
            below(&path, depth - 1, is_meant, found)?;
            continue;
        }
        // A link may lead to a file; what is none, such as a named pipe, could block for ever.
        let is_file = kind.is_file() || kind.is_symlink() && path.is_file();
        if !hidden && is_file && is_meant(&path) {
            found.push(path);
        }
    }
    Ok(())
}

/// Programs name what PyTorch's profiler writes as they like: `trace_rank0.json`.
fn is_json_with_events(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_json = [".json", ".json.gz", ".json.zst"]
        .iter()
        .any(|ending| name.ends_with(ending));
    is_json && rsys_traces::read::has_events(path)
}

/// Overviews are no traces of their own: the other files of the process hold all that is in them.
fn is_trace(path: &Path, endings: &[&str]) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| {
        let mut stems = endings
            .iter()
            .filter_map(|ending| name.strip_suffix(ending));
        stems.next().is_some_and(|stem| !stem.ends_with(OVERVIEW))
    })
}

/// The small trace of a whole run that `rsys-sample --split` leaves beside the files of a process, of which `path` is one.
pub fn overview_of(path: &Path) -> Option<PathBuf> {
    let name = path.file_name()?.to_str()?;
    let ending = PERFETTO.iter().find(|ending| name.ends_with(**ending))?;
    let stem = name.strip_suffix(ending)?;
    let (first, number) = stem.rsplit_once(".part").unwrap_or((stem, "1"));
    number.parse::<u32>().ok()?;
    let overview = path.with_file_name(format!("{first}{OVERVIEW}{ending}"));
    overview.is_file().then_some(overview)
}

/// The last part of a path, for messages.
pub fn short_name(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}
