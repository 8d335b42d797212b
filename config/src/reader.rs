//! Reads settings as the types that the table gives them.

use std::path::Path;
use std::time::Duration;

use crate::backends::{BACKENDS, Selection};
use crate::numbers::Numbers;
use crate::origin::Origin;
use crate::settings::Settings;
use crate::text::event_names;
use crate::value::Value;
use crate::windows::{self, Period};

/// Reads values whose type the table fixes; a test resolves the defaults, so a wrong type cannot go unseen.
pub(crate) struct Reader<'a>(pub(crate) &'a Settings);

impl<'a> Reader<'a> {
    pub(crate) fn bool(&self, name: &str) -> bool {
        matches!(self.0.get(name), Some(Value::Bool(true)))
    }

    pub(crate) fn int(&self, name: &str) -> i64 {
        match self.0.get(name) {
            Some(Value::Int(value)) => *value,
            other => unreachable!("{name} is not a whole number: {other:?}"),
        }
    }

    pub(crate) fn float(&self, name: &str) -> f64 {
        match self.0.get(name) {
            Some(Value::Float(value)) => *value,
            other => unreachable!("{name} is not a number: {other:?}"),
        }
    }

    pub(crate) fn seconds(&self, name: &str) -> Duration {
        Duration::from_secs_f64(self.float(name))
    }

    /// `None` where another setting counts.
    pub(crate) fn seconds_or(&self, name: &str) -> Option<Duration> {
        let own = self.float(name);
        (own >= 0.0).then(|| Duration::from_secs_f64(own))
    }

    pub(crate) fn periods(&self, name: &str) -> Vec<Period> {
        windows::parse(self.text(name)).unwrap_or_default()
    }

    pub(crate) fn numbers(&self, name: &str) -> Numbers {
        Numbers::parse(self.text(name)).unwrap_or_default()
    }

    fn rank(&self, name: &str) -> u8 {
        self.0.origin(name).map_or(0, Origin::rank)
    }

    pub(crate) fn backends(&self) -> Selection {
        let switch = |name: &'static str| match (self.0.get(name), self.rank(name)) {
            (Some(Value::Bool(on)), rank) if rank > 0 => Some((name, *on, rank)),
            _ => None,
        };
        let domains = event_names(self.text("ROCM_DOMAINS"));
        Selection {
            include: self.list("INCLUDE_BACKENDS").to_vec(),
            include_rank: self.rank("INCLUDE_BACKENDS"),
            exclude: self.list("EXCLUDE_BACKENDS").to_vec(),
            exclude_rank: self.rank("EXCLUDE_BACKENDS"),
            switches: BACKENDS
                .iter()
                .filter_map(|backend| switch(backend.switch))
                .collect(),
            domains: (!domains.is_empty()).then_some(domains),
            domains_rank: self.rank("ROCM_DOMAINS"),
        }
    }

    /// Folder and name of the trace, where `-o` names a file and not a folder.
    pub(crate) fn output_file(&self) -> Option<(String, String)> {
        const EXTENSIONS: [&str; 3] = [".proto", ".pftrace", ".perfetto-trace"];
        let by_option = |name| matches!(self.0.origin(name), Some(Origin::CommandLine(_)));
        let path = self.text("OUTPUT_PATH");
        let (folder, name) = path.rsplit_once('/').unwrap_or((".", path));
        let is_trace = EXTENSIONS
            .iter()
            .any(|end| name.len() > end.len() && name.ends_with(end));
        let is_file = by_option("OUTPUT_PATH")
            && !by_option("PERFETTO_FILE")
            && is_trace
            && !Path::new(path).is_dir();
        let folder = if folder.is_empty() { "/" } else { folder };
        is_file.then(|| (folder.to_owned(), name.to_owned()))
    }

    pub(crate) fn text(&self, name: &str) -> &'a str {
        match self.0.get(name) {
            Some(Value::Text(value)) => value,
            other => unreachable!("{name} is not a text: {other:?}"),
        }
    }

    pub(crate) fn list(&self, name: &str) -> &'a [String] {
        match self.0.get(name) {
            Some(Value::List(values)) => values,
            other => unreachable!("{name} is not a list: {other:?}"),
        }
    }
}
