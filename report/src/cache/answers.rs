//! Answers that were given.

use std::io::{Read, Write};
use std::path::PathBuf;

use rsys_analysis::table::{Answer, Table};

use super::encode::{decode, encode};
use super::{Identity, Place, identity};

/// A file that is larger is none of ours.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// Answers with the names of their questions, and what profiling cost.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Kept {
    pub(crate) answers: Vec<(&'static str, Answer)>,
    pub(crate) cost: Option<Table>,
}

/// Where the answers about some files are.
#[derive(Debug)]
pub(crate) struct Answers {
    place: Place,
    name: String,
    identity: Identity,
    files: Vec<PathBuf>,
    label: String,
}

impl Answers {
    /// The answers about these files under this name. To be made before they are read; `None` if one of them cannot be.
    pub(crate) fn new(place: Place, files: &[PathBuf], label: &str) -> Option<Self> {
        Some(Self {
            place,
            name: format!("answers-{}", identity::name(files, label)),
            identity: Identity::of(files, label)?,
            files: files.to_vec(),
            label: label.to_owned(),
        })
    }

    /// What was kept, of the files as they are.
    fn load(&self) -> Option<Kept> {
        self.place.open(&self.name).find_map(|file| {
            let mut bytes = Vec::new();
            file.take(FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
            decode(&bytes, self.identity.text())
        })
    }

    /// The answers to these questions, if all are there.
    pub(crate) fn find(&self, names: &[&'static str]) -> Option<Kept> {
        let Kept { mut answers, cost } = self.load()?;
        let found = names.iter().map(|name| {
            let at = answers.iter().position(|(known, _)| known == name)?;
            Some(answers.swap_remove(at))
        });
        Some(Kept {
            answers: found.collect::<Option<_>>()?,
            cost,
        })
    }

    /// Keeps answers beside those that are there, unless the files have changed meanwhile.
    pub(crate) fn keep(&self, new: &Kept) {
        let is_same =
            Identity::of(&self.files, &self.label).is_some_and(|now| now == self.identity);
        if !is_same {
            return;
        }
        let mut kept = self.load().unwrap_or_default();
        let is_new = |name: &str| new.answers.iter().any(|(other, _)| *other == name);
        kept.answers.retain(|(name, _)| !is_new(name));
        kept.answers.extend(new.answers.iter().cloned());
        kept.cost.clone_from(&new.cost);
        let bytes = encode(&kept, self.identity.text());
        if let Some(mut draft) = self.place.draft(&self.name)
            && draft.file.write_all(&bytes).is_ok()
        {
            draft.keep().ok();
        }
    }
}
