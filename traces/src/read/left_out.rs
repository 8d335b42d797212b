//! What was left out of a file.

use crate::model::Notice;

/// Events that were left out for one cause.
#[derive(Debug, Default)]
pub(in crate::read) struct Cause {
    count: u64,
    first: Option<u64>,
}

impl Cause {
    #[cold]
    pub(in crate::read) fn add(&mut self, offset: u64) {
        self.count += 1;
        self.first.get_or_insert(offset);
    }
}

/// Events that were left out.
#[derive(Debug, Default)]
pub(in crate::read) struct LeftOut {
    /// No JSON.
    pub(in crate::read) malformed: Cause,
    /// Their times are no numbers, or before the beginning of time.
    pub(in crate::read) timeless: Cause,
    /// They end before they begin.
    pub(in crate::read) backward: Cause,
    /// Ends of what never began.
    pub(in crate::read) unmatched: Cause,
}

impl LeftOut {
    /// A notice for each cause, at the place of its first event.
    pub(in crate::read) fn notices(&self, file: &str) -> Vec<Notice> {
        let causes = [
            (&self.malformed, "no JSON"),
            (&self.timeless, "their times are no numbers from 0 on"),
            (&self.backward, "they end before they begin"),
            (&self.unmatched, "ends of slices that never began"),
        ];
        causes
            .into_iter()
            .filter(|(cause, _)| cause.count > 0)
            .map(|(cause, why)| Notice {
                file: file.to_owned(),
                offset: cause.first,
                text: match cause.count {
                    1 => format!("an event is left out here: {why}"),
                    count => format!("the first of {count} events that are left out: {why}"),
                },
            })
            .collect()
    }
}
