//! What the doctor finds.

/// How good or bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// As it should be.
    Ok,
    /// Worth knowing; nothing that the settings ask for suffers.
    Note,
    /// What the settings ask for is recorded less well.
    Warning,
    /// What the settings ask for is not recorded.
    Problem,
}

impl Level {
    /// All of them, the worst first.
    pub const ALL: [Self; 4] = [Self::Problem, Self::Warning, Self::Note, Self::Ok];

    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Note => "note",
            Self::Warning => "warning",
            Self::Problem => "problem",
        }
    }
}

/// The result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// What was checked.
    pub name: &'static str,
    /// How good it is.
    pub level: Level,
    /// What was found.
    pub finding: String,
    /// What that means for the recording.
    pub meaning: String,
    /// What helps: a command where there is one.
    pub remedy: String,
    /// The options that ask for it.
    pub asked_by: Vec<String>,
}

impl Finding {
    /// One that is as it should be.
    pub fn ok(name: &'static str, finding: impl Into<String>) -> Self {
        Self::at(Level::Ok, name, finding)
    }

    /// One of this level.
    pub fn at(level: Level, name: &'static str, finding: impl Into<String>) -> Self {
        Self {
            name,
            level,
            finding: finding.into(),
            meaning: String::new(),
            remedy: String::new(),
            asked_by: Vec::new(),
        }
    }

    /// What is missing: a problem if the settings ask for it (by these options), else of this level.
    pub fn missing(
        name: &'static str,
        asked_by: &[String],
        else_level: Level,
        finding: impl Into<String>,
    ) -> Self {
        let level = if asked_by.is_empty() {
            else_level
        } else {
            Level::Problem
        };
        Self {
            asked_by: asked_by.to_vec(),
            ..Self::at(level, name, finding)
        }
    }

    /// With what it means for the recording.
    pub fn means(self, meaning: impl Into<String>) -> Self {
        Self {
            meaning: meaning.into(),
            ..self
        }
    }

    /// With what helps.
    pub fn mend(self, remedy: impl Into<String>) -> Self {
        Self {
            remedy: remedy.into(),
            ..self
        }
    }
}
