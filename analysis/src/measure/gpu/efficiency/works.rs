//! The work of calls, each found once.

use std::collections::HashMap;

use rsys_traces::model::{Model, TextId};
use rsys_traces::work::{Why, Work, work};

/// What operators have to do, by their names and arguments.
#[derive(Debug, Default)]
pub(super) struct Works {
    known: HashMap<(TextId, TextId), Result<Work, Why>>,
}

impl Works {
    /// The work of a call.
    ///
    /// # Errors
    /// When the trace does not say enough of it.
    pub(super) fn of(
        &mut self,
        operator: TextId,
        arguments: TextId,
        model: &Model,
    ) -> &Result<Work, Why> {
        self.known
            .entry((operator, arguments))
            .or_insert_with(|| work(model.text(operator), model.text(arguments)))
    }
}
