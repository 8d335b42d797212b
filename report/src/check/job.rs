//! `job.json`, which `rsys-sample` writes beside the traces of a parallel job.
//!
//! It is read leniently: whatever is in it that is understood is used, and the rest is ignored.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde_json::Value;

/// Its name.
const NAME: &str = "job.json";

/// The newest version that is known.
const VERSION: u64 = 1;

/// What the job says of itself.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Job {
    /// How many ranks it had.
    pub rank_count: Option<u64>,
    /// The ranks that were profiled, if it names them.
    pub profiled_ranks: Option<BTreeSet<u64>>,
    /// Why ranks left no trace, and whether nothing is wrong with that.
    pub without_trace: BTreeMap<u64, (String, bool)>,
    /// What is worth knowing: ranks that failed.
    pub remarks: Vec<String>,
}

impl Job {
    /// The description in one of the folders, or in that of one of the traces; nothing if there is none.
    ///
    /// # Errors
    /// When there is one that cannot be read.
    pub fn find(paths: &[PathBuf]) -> Result<Option<Self>> {
        let folders = paths.iter().map(|path| match path.is_dir() {
            true => path.as_path(),
            false => path.parent().unwrap_or(Path::new("")),
        });
        let Some(path) = folders
            .map(|folder| folder.join(NAME))
            .find(|path| path.is_file())
        else {
            return Ok(None);
        };
        let told = || format!("{} is ignored", path.display());
        let text = std::fs::read_to_string(&path).with_context(told)?;
        let value: Value = serde_json::from_str(&text).with_context(told)?;
        Ok(Some(Self::read(&value)))
    }

    fn read(value: &Value) -> Self {
        let mut job = Self::default();
        if let Some(version) = number(&value["version"]).filter(|&version| version > VERSION) {
            job.remarks.push(format!(
                "{NAME} is of version {version}, newer than what is known here ({VERSION}): it may be misunderstood"
            ));
        }
        for key in [
            "rank_count",
            "ranks_total",
            "world_size",
            "size",
            "ntasks",
            "ranks",
        ] {
            job.rank_count = job.rank_count.or_else(|| number(&value[key]));
        }
        let counts = &value["counts"];
        job.rank_count = job.rank_count.or_else(|| number(&counts["ranks"]));
        let entries: Vec<(Option<u64>, &Value)> = match &value["ranks"] {
            Value::Array(entries) => entries
                .iter()
                .map(|entry| (number(entry).or_else(|| number(&entry["rank"])), entry))
                .collect(),
            Value::Object(entries) => entries
                .iter()
                .map(|(rank, entry)| (rank.parse().ok(), entry))
                .collect(),
            _ => Vec::new(),
        };
        let mut profiled = BTreeSet::new();
        for (rank, entry) in entries {
            let Some(rank) = rank else { continue };
            if entry["profiled"] != Value::Bool(false) {
                profiled.insert(rank);
            }
            let none = &entry["no_trace"];
            if let Some(reason) = none["reason"].as_str() {
                let expected = none["expected"] == Value::Bool(true);
                // Of several tasks with one rank, the one that should have left a trace counts.
                let known = job.without_trace.entry(rank);
                let told = known.or_insert_with(|| (reason.to_owned(), expected));
                if told.1 && !expected {
                    *told = (reason.to_owned(), expected);
                }
            }
            let code = number(&entry["exit_code"]).filter(|&code| code != 0);
            let signal = number(&entry["exit_signal"]).or_else(|| number(&entry["signal"]));
            if let Some(code) = code {
                job.remarks
                    .push(format!("rank {rank} ended with exit code {code}"));
            } else if let Some(signal) = signal.filter(|&signal| signal != 0) {
                job.remarks
                    .push(format!("rank {rank} was ended by signal {signal}"));
            }
        }
        job.profiled_ranks = (!profiled.is_empty()).then_some(profiled);
        job
    }
}

fn number(value: &Value) -> Option<u64> {
    value
        .as_u64()
        .or_else(|| value.as_str()?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn several_forms_are_understood() {
        for (value, count, profiled) in [
            (json!({}), None, None),
            (json!([1, 2]), None, None),
            (json!({ "ranks": 4 }), Some(4), None),
            (json!({ "rank_count": "8" }), Some(8), None),
            (json!({ "ranks": [0, 2] }), None, Some(vec![0, 2])),
            (
                json!({ "world_size": 9, "ranks": [{ "rank": 1 }, { "rank": 3, "profiled": false }, {}] }),
                Some(9),
                Some(vec![1]),
            ),
            (
                json!({ "ranks": { "5": {}, "x": {} } }),
                None,
                Some(vec![5]),
            ),
        ] {
            let job = Job::read(&value);
            let named = profiled.map(|ranks| ranks.into_iter().collect());
            assert_eq!(
                (job.rank_count, job.profiled_ranks),
                (count, named),
                "{value}"
            );
        }
    }

    #[test]
    fn failed_ranks_are_told() {
        let job = Job::read(&json!({ "ranks": [
            { "rank": 0, "exit_code": 0 },
            { "rank": 1, "exit_code": 3 },
            { "rank": 2, "exit_signal": 9 },
        ] }));
        assert_eq!(
            job.remarks,
            [
                "rank 1 ended with exit code 3",
                "rank 2 was ended by signal 9"
            ]
        );
    }
}
