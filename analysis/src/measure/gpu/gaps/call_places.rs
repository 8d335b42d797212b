//! Where calls were made of which no sample and no stack says so.

use std::collections::BTreeMap;

use super::causes::Causes;
use crate::measure::idle_cause::IdleCause;
use rsys_traces::model::{Model, TextId, ThreadId};

/// The calls of one name by one thread.
#[derive(Debug, Default)]
struct Calls {
    /// Where others of them were made; `None` if at several places.
    seen_at: Option<Option<String>>,
    unplaced: Causes,
}

/// Calls that are too short to be sampled, such as those of a loop that polls, are placed where the others of their name and thread were made,
/// if that is a single place.
#[derive(Debug, Default)]
pub(super) struct CallPlaces {
    of: BTreeMap<(ThreadId, TextId), Calls>,
}

impl CallPlaces {
    /// A call was made at a place.
    pub(super) fn seen(&mut self, thread: ThreadId, name: TextId, place: &str) {
        let seen_at = &mut self.of.entry((thread, name)).or_default().seen_at;
        match seen_at {
            None => *seen_at = Some(Some(place.to_owned())),
            Some(Some(other)) if other != place => *seen_at = Some(None),
            Some(_) => {}
        }
    }

    /// A stretch of time in a call that was made at an unknown place.
    pub(super) fn add_unplaced(
        &mut self,
        (thread, name): (ThreadId, TextId),
        cause: IdleCause,
        start_ns: u64,
        ns: u64,
    ) {
        let calls = self.of.entry((thread, name)).or_default();
        calls.unplaced.add(cause, String::new(), start_ns, ns);
    }

    /// Adds what was not placed to the causes: at the place of the others, else by the name of the call alone.
    pub(super) fn place_all(self, model: &Model, causes: &mut Causes) {
        for ((_, name), calls) in self.of {
            let seen_at = calls.seen_at.flatten();
            let place = seen_at.as_deref().unwrap_or_else(|| model.text(name));
            causes.absorb(calls.unplaced, place);
        }
    }
}
