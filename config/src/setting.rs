//! What a setting is: its name, its type with its limits, its texts, its option. The rows themselves are in [`crate::table`].

/// One setting: a row of the table.
#[derive(Debug, Clone, Copy)]
pub struct Setting {
    /// The name, in upper case and without a prefix: `SAMPLING_FREQ`.
    pub name: &'static str,
    /// Other names under which it is accepted in files and in the environment.
    pub aliases: &'static [&'static str],
    /// What values it takes.
    pub kind: Kind,
    /// The default, written as a user would write it.
    pub default: &'static str,
    /// The group under which it is listed.
    pub category: Category,
    /// What it is, in one line without a full stop.
    pub summary: &'static str,
    /// What else one should know, in sentences; may be empty.
    pub details: &'static str,
    /// The command-line option that sets it.
    pub option: Option<CommandOption>,
    /// What else it takes beside the words of a [`Kind::Choice`]; may be empty.
    pub also_takes: &'static str,
    /// Whether few users ever need it, so that lists leave it out unless asked.
    pub advanced: bool,
}

/// The type of a setting, with its limits.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    /// `true` or `false` (also on/off, yes/no, t/f, y/n, 1/0).
    Bool,
    /// A whole number.
    Int {
        /// Smallest allowed value.
        min: i64,
        /// Largest allowed value.
        max: i64,
        /// What is counted (`frames`, `KiB`); may be empty.
        unit: &'static str,
    },
    /// A number.
    Float {
        /// Smallest allowed value.
        min: f64,
        /// Largest allowed value.
        max: f64,
        /// What is measured (`Hz`); may be empty.
        unit: &'static str,
    },
    /// A length of time: a number of seconds, or a number with `ms`, `s`, `min` or `h`.
    Seconds {
        /// Longest allowed time, in seconds.
        max: f64,
    },
    /// The same, or a negative number for the value of another setting.
    SecondsOr {
        /// That other setting.
        inherits: &'static str,
    },
    /// A list of time windows that come again (see [`crate::Period`]).
    Periods,
    /// A size or a time at which a file is full, or both (see [`crate::FileLimits`]).
    Limits,
    /// Numbers and ranges of numbers: `0-3,7`; also `all` and `none`.
    Numbers {
        /// What an empty value means.
        empty_means: &'static str,
    },
    /// Any text, also none.
    Text,
    /// One of a few words.
    Choice(&'static [Choice]),
    /// A file or folder.
    Path {
        /// What an empty value means; where that is `None`, a value is needed.
        empty_means: Option<&'static str>,
    },
    /// A list of files.
    PathList,
    /// A list of names of backends (see [`crate::backends`]).
    Backends,
    /// A list of names of GPU sensors (see [`crate::gpu_metrics`]).
    Metrics,
}

/// One allowed word of a [`Kind::Choice`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Choice {
    /// The word.
    pub name: &'static str,
    /// What it stands for.
    pub help: &'static str,
}

/// The command-line option that sets a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CommandOption {
    /// The letter of `-f`.
    pub short: Option<char>,
    /// The word of `--freq`.
    pub long: &'static str,
    /// Other words with the same effect.
    pub aliases: &'static [&'static str],
    /// How its value is called in the help; empty for an on/off option.
    pub value_name: &'static str,
}

/// The group of a setting, in the order in which groups are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Category {
    /// Where settings come from, and the master switch.
    General,
    /// Files and their names.
    Output,
    /// How stacks are sampled.
    Sampling,
    /// When something is recorded.
    Windows,
    /// Summaries beside the trace.
    Profile,
    /// Which processes are followed.
    Processes,
    /// Counters of processes, host, GPUs and threads.
    Counters,
    /// Other sources of data.
    Backends,
    /// What the profiler says about itself.
    Diagnostics,
}

impl Category {
    /// All categories in the order in which they are listed.
    pub const ALL: [Self; 9] = [
        Self::General,
        Self::Output,
        Self::Sampling,
        Self::Windows,
        Self::Profile,
        Self::Processes,
        Self::Counters,
        Self::Backends,
        Self::Diagnostics,
    ];

    /// The heading of the group.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::General => "General",
            Self::Output => "Output",
            Self::Sampling => "Sampling",
            Self::Windows => "Time windows",
            Self::Profile => "Summaries",
            Self::Processes => "Processes",
            Self::Counters => "Counters",
            Self::Backends => "Backends",
            Self::Diagnostics => "Diagnostics",
        }
    }
}

impl Setting {
    /// Starts a row; the methods below fill in the rest.
    pub(crate) const fn new(
        category: Category,
        name: &'static str,
        kind: Kind,
        default: &'static str,
        summary: &'static str,
    ) -> Self {
        Self {
            name,
            aliases: &[],
            kind,
            default,
            category,
            summary,
            details: "",
            option: None,
            also_takes: "",
            advanced: false,
        }
    }

    pub(crate) const fn also_takes(mut self, words: &'static str) -> Self {
        self.also_takes = words;
        self
    }

    pub(crate) const fn advanced(mut self) -> Self {
        self.advanced = true;
        self
    }

    pub(crate) const fn aliases(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    pub(crate) const fn details(mut self, details: &'static str) -> Self {
        self.details = details;
        self
    }

    pub(crate) const fn option(
        mut self,
        short: Option<char>,
        long: &'static str,
        value_name: &'static str,
    ) -> Self {
        self.option = Some(CommandOption {
            short,
            long,
            aliases: &[],
            value_name,
        });
        self
    }

    pub(crate) const fn option_aliases(mut self, aliases: &'static [&'static str]) -> Self {
        if let Some(option) = &mut self.option {
            option.aliases = aliases;
        }
        self
    }

    /// The unit of the value, or an empty text.
    #[must_use]
    pub const fn unit(&self) -> &'static str {
        match self.kind {
            Kind::Int { unit, .. } | Kind::Float { unit, .. } => unit,
            Kind::Seconds { .. } | Kind::SecondsOr { .. } => "s",
            _ => "",
        }
    }
}

/// The prefixes that a name may carry in files and in the environment, strongest first.
pub const PREFIXES: [&str; 3] = ["RSYS_", "ROCPROFSYS_", "OMNITRACE_"];

/// The name in upper case, without its prefix.
#[must_use]
pub fn bare_name(name: &str) -> String {
    let upper = name.to_ascii_uppercase().replace('-', "_");
    let stripped = PREFIXES
        .iter()
        .find_map(|prefix| upper.strip_prefix(prefix))
        .map(str::to_owned);
    stripped.unwrap_or(upper)
}
