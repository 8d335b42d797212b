//! What a shorthand is: an option that sets several settings, or other ones than its own. The rows are in
//! [`crate::shorthands`].

use crate::setting::Category;

/// One such option.
#[derive(Debug, Clone, Copy)]
pub struct Shorthand {
    /// The letter of `-w`.
    pub short: Option<char>,
    /// The word of `--wait`.
    pub long: &'static str,
    /// Other words with the same effect.
    pub aliases: &'static [&'static str],
    /// What it takes.
    pub takes: Takes,
    /// The group under which it is listed.
    pub category: Category,
    /// What it is for, in one line without a full stop.
    pub summary: &'static str,
    /// Whether it is there for old command lines only.
    pub old: bool,
    /// What becomes of its value.
    pub(crate) effect: Effect,
}

/// What an option takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Takes {
    /// Nothing, or true or false.
    Bool,
    /// One value of this name.
    One(&'static str),
    /// Nothing, or a value behind `=`.
    Maybe(&'static str),
    /// One value or more.
    List(&'static str),
    /// Nothing, or one value or more.
    MaybeList(&'static str),
}

/// What becomes of the value.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Effect {
    /// All these settings get it.
    Same(&'static [&'static str]),
    /// Words that stand for backends; without words, the first ones.
    BackendWords(
        &'static [&'static str],
        &'static [(&'static str, &'static str)],
    ),
    /// A backend, and the words for this setting.
    Sensors(&'static str, &'static str),
    /// These settings are switched on; a number goes to the last.
    Rate(&'static str, &'static str),
    /// Words that switch on one setting each, and off the others.
    Formats(&'static [(&'static str, &'static str)]),
    /// The original's words for how much is said.
    LogLevel,
    /// `-T`.
    Trace,
    /// A variable of the command's environment.
    Variable(&'static str),
    /// Formats of the trace.
    TraceFormats,
    /// An event, how often it occurs, and threads.
    Overflow,
    /// Clocks of the original.
    Clocks,
}

pub(crate) const fn row(
    short: Option<char>,
    long: &'static str,
    takes: Takes,
    category: Category,
    effect: Effect,
    summary: &'static str,
) -> Shorthand {
    Shorthand {
        short,
        long,
        aliases: &[],
        takes,
        category,
        summary,
        old: false,
        effect,
    }
}

impl Shorthand {
    pub(crate) const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(crate) const fn old(mut self) -> Self {
        self.old = true;
        self
    }

    /// The settings that it sets, as far as they are known beforehand.
    #[must_use]
    pub fn settings(&self) -> Vec<&'static str> {
        match self.effect {
            Effect::Same(names) => names.to_vec(),
            Effect::BackendWords(..) => {
                vec!["INCLUDE_BACKENDS", "EXCLUDE_BACKENDS"]
            }
            Effect::Sensors(_, setting) => vec!["INCLUDE_BACKENDS", setting],
            Effect::Rate(switch, rate) => vec![switch, rate],
            Effect::Formats(formats) => formats.iter().map(|(_, setting)| *setting).collect(),
            Effect::LogLevel => vec!["VERBOSE"],
            Effect::Trace => vec!["TRACE", "PROFILE", "FLAT_PROFILE"],
            Effect::Overflow => vec![
                "SAMPLING_OVERFLOW",
                "SAMPLING_OVERFLOW_EVENT",
                "SAMPLING_OVERFLOW_FREQ",
            ],
            Effect::Clocks => vec!["SAMPLING_REALTIME", "SAMPLING_OVERFLOW"],
            Effect::Variable(_) | Effect::TraceFormats => Vec::new(),
        }
    }

    /// Whether it adds to what other options say, and so comes after them.
    #[must_use]
    pub fn is_late(&self) -> bool {
        matches!(self.effect, Effect::BackendWords(..) | Effect::Sensors(..))
    }
}
