//! GPU counters as ROCm describes them: `counter_defs.yaml` of rocprofiler-sdk (schema 1, and the form before it), and the XML files
//! of older releases.

mod loose_xml;

use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use yaml_rust2::{Yaml, YamlLoader};

use crate::roots::{Roots, names};

/// How the values of a counter come about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Formula {
    /// An event that the hardware counts.
    Event {
        /// The block that counts it: `SQ`.
        block: String,
        /// The event's number.
        event: u32,
    },
    /// It is computed from other counters ([`super::expression`]).
    Computed(String),
    /// The definition does not say.
    Unknown,
}

impl Formula {
    fn new(expression: Option<String>, block: Option<String>, event: &str) -> Self {
        let given = |text: Option<String>| text.filter(|text| !text.is_empty());
        match (given(expression), given(block), event.parse()) {
            (Some(expression), ..) => Self::Computed(expression),
            (None, Some(block), Ok(event)) => Self::Event { block, event },
            _ => Self::Unknown,
        }
    }
}

impl Display for Formula {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Event { block, event } => write!(f, "Block {block}, event {event}"),
            Self::Computed(expression) => write!(f, "= {expression}"),
            Self::Unknown => Ok(()),
        }
    }
}

/// A counter for some architectures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    /// Its name.
    pub name: String,
    /// What it counts.
    pub description: String,
    /// `gfx942` and so on.
    pub architectures: Vec<String>,
    /// How its values come about.
    pub formula: Formula,
}

impl Definition {
    /// Whether the counter is for this architecture. `gfx9` stands for all of its family.
    #[must_use]
    pub fn fits(&self, architecture: &str) -> bool {
        let family = |name: &str| {
            // The last two digits are minor version and stepping.
            architecture.len().checked_sub(2).is_some_and(|length| {
                architecture.is_char_boundary(length) && architecture[..length] == *name
            })
        };
        let named = |name: &String| name == architecture;
        self.architectures.iter().any(named)
            || self.architectures.iter().any(|name| family(name))
            || self.architectures.is_empty()
    }

    /// The description's first sentence.
    #[must_use]
    pub fn summary(&self) -> String {
        let end = self
            .description
            .find(". ")
            .map_or(self.description.len(), |at| at + 1);
        self.description[..end].trim_end_matches('.').to_owned()
    }
}

/// The variable that names another folder of definitions to ROCm.
const METRICS_VARIABLE: &str = "ROCPROFILER_METRICS_PATH";

/// Below the folder of a ROCm, the best first. The XML files of a folder belong together.
const PLACES: [&[&str]; 4] = [
    &["share/rocprofiler-sdk/counter_defs.yaml"],
    &[
        "share/rocprofiler-sdk/basic_counters.xml",
        "share/rocprofiler-sdk/derived_counters.xml",
    ],
    &[
        "libexec/rocprofiler/counters/basic_counters.xml",
        "libexec/rocprofiler/counters/derived_counters.xml",
    ],
    &[
        "lib/rocprofiler/gfx_metrics.xml",
        "lib/rocprofiler/metrics.xml",
    ],
];

/// The definitions of the installed ROCm; files that cannot be read get a note.
pub fn installed(roots: &Roots, notes: &mut Vec<String>) -> Vec<Definition> {
    let mut candidates: Vec<Vec<PathBuf>> = Vec::new();
    if let Some(folder) = std::env::var_os(METRICS_VARIABLE) {
        let folder = PathBuf::from(folder);
        candidates.push(vec![folder.join("counter_defs.yaml")]);
        candidates.push(vec![
            folder.join("basic_counters.xml"),
            folder.join("derived_counters.xml"),
        ]);
    }
    for rocm in rocm_folders(roots) {
        candidates.extend(
            PLACES
                .iter()
                .map(|files| files.iter().map(|file| rocm.join(file)).collect()),
        );
    }
    for files in candidates {
        let present: Vec<PathBuf> = files.into_iter().filter(|file| file.is_file()).collect();
        if present.is_empty() {
            continue;
        }
        match read_all(&present) {
            Ok(definitions) => return definitions,
            Err(error) => notes.push(format!("GPU counters: {error:#}.")),
        }
    }
    Vec::new()
}

fn rocm_folders(roots: &Roots) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = if roots.is_simulated() {
        Vec::new()
    } else {
        std::env::var_os("ROCM_PATH")
            .map(PathBuf::from)
            .into_iter()
            .collect()
    };
    folders.push(roots.path("opt/rocm"));
    let mut numbered: Vec<String> = names(&roots.path("opt"))
        .into_iter()
        .filter(|name| name.starts_with("rocm-"))
        .collect();
    // The newest first.
    numbered.reverse();
    folders.extend(numbered.iter().map(|name| roots.path("opt").join(name)));
    folders
}

/// Reads files of any of the forms.
///
/// # Errors
/// When one cannot be read or understood.
pub fn read_all(files: &[PathBuf]) -> Result<Vec<Definition>> {
    let mut definitions = Vec::new();
    for file in files {
        let text = std::fs::read_to_string(file)
            .with_context(|| format!("cannot read the counter definitions {}", file.display()))?;
        let read = of_text(file, &text)
            .with_context(|| format!("cannot understand {}", file.display()))?;
        if read.is_empty() {
            return Err(anyhow!(
                "{} defines no counter; counter_defs.yaml, basic_counters.xml and their kin are expected",
                file.display()
            ));
        }
        definitions.extend(read);
    }
    Ok(definitions)
}

/// The definitions of a file's text.
///
/// # Errors
/// When it cannot be understood.
pub fn of_text(file: &Path, text: &str) -> Result<Vec<Definition>> {
    if is_xml(file, text) {
        Ok(loose_xml::definitions(text))
    } else {
        of_yaml(text)
    }
}

fn is_xml(file: &Path, text: &str) -> bool {
    file.extension().is_some_and(|extension| extension == "xml")
        || text.trim_start().starts_with('<')
}

fn of_yaml(text: &str) -> Result<Vec<Definition>> {
    let documents = YamlLoader::load_from_str(text).map_err(|error| anyhow!("{error}"))?;
    let Some(document) = documents.first() else {
        return Ok(Vec::new());
    };
    let sdk = &document["rocprofiler-sdk"];
    if !sdk.is_badvalue() {
        let version = sdk["counters-schema-version"].as_i64().unwrap_or(1);
        if version != 1 {
            return Err(anyhow!(
                "its schema has version {version}, and version 1 is known here"
            ));
        }
        let counters = sdk["counters"].as_vec().map_or(&[][..], Vec::as_slice);
        return Ok(counters.iter().flat_map(of_schema_1).collect());
    }
    Ok(document
        .as_hash()
        .into_iter()
        .flatten()
        .flat_map(|(name, counter)| of_old_schema(name, counter))
        .collect())
}

/// `name`, `description`, and a list `definitions` with `architectures` and a formula each.
fn of_schema_1(counter: &Yaml) -> Vec<Definition> {
    let Some(name) = counter["name"].as_str() else {
        return Vec::new();
    };
    let definitions = counter["definitions"].as_vec();
    definitions
        .into_iter()
        .flatten()
        .map(|definition| Definition {
            name: name.to_owned(),
            description: written(&counter["description"]),
            architectures: definition["architectures"]
                .as_vec()
                .into_iter()
                .flatten()
                .map(written)
                .collect(),
            formula: formula(definition),
        })
        .collect()
}

/// The name as key; below it `description`, and below `architectures` keys such as `gfx90a/gfx942` with a formula each.
fn of_old_schema(name: &Yaml, counter: &Yaml) -> Vec<Definition> {
    let architectures = counter["architectures"].as_hash();
    architectures
        .into_iter()
        .flatten()
        .map(|(names, definition)| Definition {
            name: written(name),
            description: match written(&definition["description"]) {
                empty if empty.is_empty() => written(&counter["description"]),
                own => own,
            },
            architectures: written(names).split('/').map(str::to_owned).collect(),
            formula: formula(definition),
        })
        .collect()
}

fn formula(definition: &Yaml) -> Formula {
    let [expression, block, event] =
        ["expression", "block", "event"].map(|key| written(&definition[key]));
    Formula::new(Some(expression), Some(block), &event)
}

/// A plain value as a text on one line.
fn written(value: &Yaml) -> String {
    match value {
        Yaml::String(text) | Yaml::Real(text) => {
            text.split_whitespace().collect::<Vec<_>>().join(" ")
        }
        Yaml::Integer(number) => number.to_string(),
        Yaml::Boolean(flag) => flag.to_string(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA_1: &str = "
rocprofiler-sdk:
  counters-schema-version: 1
  counters:
    - name: SQ_WAVES
      description: \"Count number of waves sent. Includes all.\"
      properties: []
      definitions:
        - architectures: [gfx942, gfx90a]
          block: SQ
          event: 4
        - architectures:
            - gfx10
          block: SQ
          event: 5
    - name: MfmaUtil
      description: Unit percent
      properties: []
      definitions:
        - architectures:
            - gfx942
          expression: 100*reduce(SQ_X,sum)/CU_NUM
";

    const BEFORE: &str = "
SQ_WAVES:
  architectures:
    gfx942/gfx90a:
      block: SQ
      event: 4
    gfx10:
      block: SQ
      event: 5
      description: Waves on gfx10.
  description: Count number of waves sent. Includes all.
";

    #[test]
    fn both_schemas_are_read() {
        for text in [SCHEMA_1, BEFORE] {
            let definitions = of_yaml(text).expect("good");
            let on = |architecture: &str| -> Vec<&Definition> {
                definitions
                    .iter()
                    .filter(|definition| {
                        definition.name == "SQ_WAVES" && definition.fits(architecture)
                    })
                    .collect()
            };
            assert_eq!(on("gfx942").len(), 1);
            assert_eq!(on("gfx942")[0].formula.to_string(), "Block SQ, event 4");
            assert_eq!(on("gfx942")[0].summary(), "Count number of waves sent");
            assert_eq!(on("gfx1030")[0].formula.to_string(), "Block SQ, event 5");
            assert!(on("gfx1100").is_empty() && on("").is_empty());
        }
        let derived = of_yaml(SCHEMA_1).expect("good").pop().expect("one");
        assert_eq!(derived.formula.to_string(), "= 100*reduce(SQ_X,sum)/CU_NUM");
    }

    #[test]
    fn other_files_are_told() {
        assert!(of_yaml("rocprofiler-sdk:\n  counters-schema-version: 9\n").is_err());
        assert!(of_yaml("a: [1").is_err());
        assert!(of_yaml("just text").expect("yaml").is_empty());
        assert!(of_yaml("").expect("yaml").is_empty());
    }
}
