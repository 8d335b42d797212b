//! Which traces may be talked about: those in the folders that the server was started with.

use std::collections::BTreeMap;
use std::fs::Metadata;
use std::path::PathBuf;
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::files;

/// The most runs that are listed.
const RUNS_MAX: usize = 1000;

/// The folders that may be talked about.
#[derive(Debug)]
pub(super) struct Roots(Vec<PathBuf>);

impl Roots {
    /// These folders, or single traces.
    ///
    /// # Errors
    /// When one is not there.
    pub(super) fn new(folders: &[PathBuf]) -> Result<Self> {
        let folders = folders.iter().map(|folder| {
            let found = folder.canonicalize();
            found.with_context(|| format!("cannot read {}", folder.display()))
        });
        Ok(Self(folders.collect::<Result<_>>()?))
    }

    /// The path of a run that was asked for; without a name, the only one there is.
    ///
    /// # Errors
    /// When it is in none of the folders, or it is not clear which one is meant.
    pub(super) fn find(&self, name: Option<&str>) -> Result<PathBuf> {
        let Some(name) = name else {
            return match &self.0[..] {
                [only] => Ok(only.clone()),
                _ => bail!("`run` is missing: list_runs has them"),
            };
        };
        // Neither `..` nor a link leads out: what counts is where the path ends.
        let found = self.0.iter().filter_map(|root| {
            let path = root.join(name).canonicalize().ok()?;
            self.0
                .iter()
                .any(|root| path.starts_with(root))
                .then_some(path)
        });
        let found = found.into_iter().next();
        found.with_context(|| format!("there is no run {name}: list_runs has them"))
    }

    /// All folders with traces, as JSON.
    pub(super) fn list(&self) -> Value {
        // A folder without traces holds no run, which is no error here.
        let found = self.0.iter().filter_map(|root| {
            files::traces(std::slice::from_ref(root), files::READABLE, None).ok()
        });
        let mut runs: BTreeMap<PathBuf, Vec<Metadata>> = BTreeMap::new();
        for trace in found.flatten() {
            let folder = trace.parent().filter(|_| !self.0.contains(&trace));
            let run = folder.unwrap_or(&trace).to_owned();
            let abouts = runs.entry(run).or_default();
            abouts.extend(trace.metadata().ok());
        }
        let is_cut = runs.len() > RUNS_MAX;
        let runs = runs.iter().take(RUNS_MAX).map(|(path, abouts)| {
            let times = abouts.iter().filter_map(|about| about.modified().ok());
            let last = times
                .max()
                .and_then(|time| time.duration_since(UNIX_EPOCH).ok());
            json!({
                "run": path,
                "traces": abouts.len(),
                "size_bytes": abouts.iter().map(Metadata::len).sum::<u64>(),
                "written_unix_s": last.map(|last| last.as_secs()),
            })
        });
        json!({ "runs": runs.collect::<Vec<_>>(), "is_cut": is_cut })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nothing_outside_of_the_folders_is_a_run() {
        let base = std::env::temp_dir().join(format!("rsys-runs-{}", std::process::id()));
        for folder in ["in/one", "in/.hidden", "out"] {
            fs::create_dir_all(base.join(folder)).expect("a folder");
            fs::write(base.join(folder).join("a.proto"), "12").expect("a file");
        }
        std::os::unix::fs::symlink(base.join("out"), base.join("in/link")).expect("a link");
        let roots = Roots::new(&[base.join("in")]).expect("roots");
        for name in [
            "../out",
            "link",
            "/",
            "/etc/passwd",
            "none",
            "one/../../out",
        ] {
            assert!(roots.find(Some(name)).is_err(), "{name}");
        }
        let out = base.join("out").display().to_string();
        assert!(roots.find(Some(&out)).is_err());
        let one = base.join("in/one").canonicalize().expect("a folder");
        assert_eq!(roots.find(Some("one")).ok().as_ref(), Some(&one));
        let listed = roots.list();
        assert_eq!(listed["runs"].as_array().map(Vec::len), Some(1), "{listed}");
        assert_eq!(listed["runs"][0]["run"], one.display().to_string());
        assert_eq!(listed["runs"][0]["size_bytes"], 2);
        fs::remove_dir_all(&base).expect("it was there");
    }
}
