//! `--preset`: a named set of values, or a file of them.

use std::path::{Path, PathBuf};

use rsys_config::{Environment, Origin, Problem, ProblemKind, Settings, presets};

/// Variables that name the folder of a user's own presets, strongest first.
const FOLDERS: [&str; 3] = [
    "RSYS_PRESET_DIR",
    "ROCPROFSYS_PRESET_DIR",
    "OMNITRACE_PRESET_DIR",
];

const EXTENSIONS: [&str; 5] = ["", ".cfg", ".toml", ".json", ".xml"];

/// Sets what the preset says over what is there, and returns what is wrong with it.
pub(super) fn load(settings: &mut Settings, name: &str, environment: &Environment) -> Vec<Problem> {
    let origin = Origin::CommandLine(format!("--preset {name}"));
    let is_path = name.contains('/') || Path::new(name).extension().is_some();
    let own = FOLDERS
        .iter()
        .find_map(|variable| environment.get(variable))
        .and_then(|folder| in_folder(Path::new(folder), name));
    if let Some(file) = own.or_else(|| is_path.then(|| PathBuf::from(name))) {
        return settings
            .load_file(&file, origin, environment)
            .map_or_else(|error| error.problems, |()| Vec::new());
    }
    match presets::find(name) {
        Some(preset) => preset
            .values
            .iter()
            .filter_map(|(name, value)| settings.set(name, value, origin.clone()).err())
            .collect(),
        None => vec![unknown(name, "--preset")],
    }
}

fn in_folder(folder: &Path, name: &str) -> Option<PathBuf> {
    EXTENSIONS
        .iter()
        .map(|extension| folder.join(format!("{name}{extension}")))
        .find(|path| path.is_file())
}

/// What to say of a name that no preset has.
pub(super) fn unknown(name: &str, option: &str) -> Problem {
    Problem {
        kind: Box::new(ProblemKind::UnknownPreset {
            name: name.to_owned(),
            nearest: presets::nearest(name),
        }),
        origin: Origin::CommandLine(option.to_owned()),
        line_text: None,
        width: 0,
    }
}
