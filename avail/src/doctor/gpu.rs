//! GPUs: the driver and the right to use it, runtimes of ROCm, who would record what, libraries for sensors.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nix::unistd::{AccessFlags, eaccess};
use rsys_config::{Resolved, Settings};
use rsys_machine::gpu;
use rsys_machine::rocm::{Environment, Kind, Library, Program, installed};
use rsys_machine::roots::{Roots, names};
use rsys_wire::gpu::Recorder;

use super::asked::Asked;
use super::finding::{Finding, Level};
use crate::rocm::program::{choice, sources};

/// All of them.
pub fn findings(
    roots: &Roots,
    asked: &Asked,
    (settings, resolved): (&Settings, &Resolved),
    program: Option<&Program>,
) -> Vec<Finding> {
    let mut found = driver(roots, asked);
    let libraries = installed(roots, &Environment::of_this_process());
    let libraries: Vec<&Library> = libraries.iter().map(|(library, _)| library).collect();
    found.extend(runtimes(&libraries, (settings, asked), program));
    if let Some(program) = program {
        found.extend(recorded(program, settings, asked));
    }
    found.push(sensors(&libraries, resolved, asked));
    found
}

/// The options that ask for anything of GPUs.
fn askers(asked: &Asked) -> Vec<String> {
    asked.gpu.iter().chain(&asked.sensors).cloned().collect()
}

fn driver(roots: &Roots, asked: &Asked) -> Vec<Finding> {
    const NAME: &str = "GPU";
    let gpus = gpu::find(roots);
    if gpus.is_empty() {
        let remedy = gpu::no_gpu_remedy(roots);
        return vec![
            Finding::missing(NAME, &askers(asked), Level::Note, gpu::NO_GPU)
                .means("no kernels, copies and sensors")
                .mend(remedy),
        ];
    }
    let titles: Vec<String> = gpus.iter().map(gpu::Gpu::title).collect();
    let version = roots.text("sys/module/amdgpu/version");
    let version = version.map_or_else(String::new, |version| format!(", amdgpu {version}"));
    let mut found = vec![Finding::ok(NAME, format!("{}{version}", titles.join(", ")))];
    let folder = roots.path("dev/dri");
    let nodes = names(&folder);
    let nodes = nodes.iter().filter(|name| name.starts_with("renderD"));
    let nodes = nodes.map(|name| format!("dev/dri/{name}"));
    let devices = std::iter::once("dev/kfd".to_owned()).chain(nodes);
    let refused: Vec<Finding> = devices
        .filter_map(|device| usable(roots, &device, &asked.gpu))
        .collect();
    if refused.is_empty() {
        found.push(Finding::ok(
            "GPU devices",
            "may be used: /dev/kfd, /dev/dri",
        ));
    }
    found.extend(refused);
    found
}

/// What stands in the way of using a device.
fn usable(roots: &Roots, device: &str, asked_by: &[String]) -> Option<Finding> {
    const NAME: &str = "GPU devices";
    let path = roots.path(device);
    let means =
        "runtimes cannot use the GPU: programs do not run on it, so nothing is recorded of it";
    if !path.exists() {
        return Some(
            Finding::missing(NAME, asked_by, Level::Warning, format!("/{device} is not here"))
                .means(means)
                .mend("in a container: docker run --device /dev/kfd --device /dev/dri …; else: sudo modprobe amdgpu"),
        );
    }
    if eaccess(&path, AccessFlags::R_OK | AccessFlags::W_OK).is_ok() {
        return None;
    }
    let group = fs::metadata(&path).map_or(0, |metadata| metadata.gid());
    let group = group_name(roots, group);
    Some(
        Finding::missing(
            NAME,
            asked_by,
            Level::Warning,
            format!("/{device} may not be opened by this user (its group is {group})"),
        )
        .means(means)
        .mend(format!(
            "sudo usermod -aG {group} $USER, and log in again; in a container: --group-add {group}"
        )),
    )
}

/// The name of a group, or its number where it has none.
fn group_name(roots: &Roots, id: u32) -> String {
    let text = roots.text("etc/group").unwrap_or_default();
    let found = text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == id.to_string()).then(|| name.to_owned())
    });
    found.unwrap_or_else(|| id.to_string())
}

/// As it is said: `HIP 6.4.43483 of ROCm 6.4.1 (/opt/rocm/lib/libamdhip64.so.6)`.
fn title(library: &Library) -> String {
    let mut text = library.kind.name().to_owned();
    if !library.version.is_empty() {
        text.push_str(&format!(" {}", library.version));
    }
    if let Some(rocm) = &library.rocm {
        text.push_str(&format!(" of ROCm {rocm}"));
    }
    format!("{text} ({})", library.path.display())
}

/// Who would record kernels and copies of programs that load this library, if it is one that decides that.
fn source_of(library: &Library, settings: &Settings) -> Option<String> {
    let hip = match library.kind {
        Kind::Hip => Some(library),
        Kind::Hsa => None,
        _ => return None,
    };
    let choice = choice(settings, hip);
    let by = match choice.recorder {
        Recorder::Hip => "HIP",
        Recorder::Hsa => "HSA",
        Recorder::Nobody => return Some(format!("no kernels and copies: {}", choice.why)),
    };
    let alone = if hip.is_none() {
        ", where HIP is not loaded"
    } else {
        ""
    };
    Some(format!("kernels and copies by {by}{alone}: {}", choice.why))
}

fn runtimes(
    libraries: &[&Library],
    (settings, asked): (&Settings, &Asked),
    program: Option<&Program>,
) -> Vec<Finding> {
    const NAME: &str = "runtime";
    let of_program: Vec<&Library> = program
        .into_iter()
        .flat_map(|program| program.libraries.iter().map(|(library, _)| library))
        .collect();
    let is_runtime = |library: &&&Library| {
        matches!(
            library.kind,
            Kind::Hip | Kind::Hsa | Kind::Rccl | Kind::Roctx
        )
    };
    let mut found = Vec::new();
    let used = if of_program.is_empty() {
        libraries
    } else {
        &of_program
    };
    for library in used.iter().filter(is_runtime) {
        found.push(match &library.unusable {
            None => Finding::ok(NAME, title(library))
                .means(source_of(library, settings).unwrap_or_default()),
            Some(why) => Finding::at(Level::Warning, NAME, format!("{}: {why}", title(library)))
                .means("programs cannot load it"),
        });
    }
    for (name, by) in program.iter().flat_map(|program| &program.missing) {
        found.push(
            Finding::at(
                Level::Problem,
                NAME,
                format!("{name}, which {by} needs, is not found"),
            )
            .means("the program does not start, or cannot use its GPU")
            .mend("export LD_LIBRARY_PATH=/opt/rocm/lib, or where it is: rsys-avail --runtimes"),
        );
    }
    if found.is_empty() {
        found.push(
            Finding::missing(NAME, &asked.gpu, Level::Note, "no runtime of ROCm is found")
                .means("what programs do on GPUs is recorded where they load HIP or HSA")
                .mend(
                    "export ROCM_PATH=PATH, or LD_LIBRARY_PATH, where one is installed elsewhere",
                ),
        );
    }
    found
}

/// Who would record what of the program, by the table of `--for`.
fn recorded(program: &Program, settings: &Settings, asked: &Asked) -> Vec<Finding> {
    const NAME: &str = "GPU source";
    let table = sources(program, settings);
    let cell = |row: &[crate::table::Cell], id: &str| {
        let place = table.column(id);
        place
            .and_then(|place| row.get(place))
            .map_or_else(String::new, crate::table::Cell::shown)
    };
    let mut found = Vec::new();
    for row in &table.rows {
        let [what, source, reason, limits] =
            ["name", "source", "reason", "limits"].map(|id| cell(row, id));
        if source != "none" {
            found.push(Finding::ok(NAME, format!("{what}: by {source} ({reason})")).means(limits));
        } else if !asked.gpu.is_empty() {
            // What the program opens while it runs is not seen: no certain problem.
            found.push(Finding {
                asked_by: asked.gpu.clone(),
                ..Finding::at(Level::Warning, NAME, format!("{what}: none, {reason}")).means(
                    "nothing is recorded of GPUs, unless the program opens a runtime while it runs",
                )
            });
        }
    }
    found
}

fn sensors(libraries: &[&Library], resolved: &Resolved, asked: &Asked) -> Finding {
    const NAME: &str = "SMI library";
    let chosen = resolved.smi_library.as_str();
    if !resolved.gpu_sensors {
        return Finding::ok(NAME, "not needed: sensors of GPUs are switched off");
    }
    match chosen {
        "none" => {
            return Finding::ok(
                NAME,
                "not used (SMI_LIBRARY is none): the driver's files are read",
            );
        }
        "auto" => {}
        path if Path::new(path).is_file() => return Finding::ok(NAME, path),
        path => {
            let asked_by = ["--smi-library".to_owned()];
            return Finding::missing(
                NAME,
                &asked_by,
                Level::Warning,
                format!("{path} is not found"),
            )
            .means("sensors of GPUs are read from the driver's files alone")
            .mend("--smi-library auto");
        }
    }
    let is_smi = |library: &&&Library| matches!(library.kind, Kind::AmdSmi | Kind::RocmSmi);
    let usable = |library: &&&Library| library.unusable.is_none();
    match libraries.iter().filter(is_smi).find(usable) {
        Some(library) => Finding::ok(NAME, title(library)),
        None => Finding::at(Level::Note, NAME, "none is found")
            .means(if asked.sensors.is_empty() {
                "sensors of GPUs are read from the driver's files"
            } else {
                "sensors of GPUs are read from the driver's files: a few that the library alone has are missing"
            })
            .mend("apt install librocm-smi64-1 (Debian), or amd-smi-lib of AMD's packages"),
    }
}
