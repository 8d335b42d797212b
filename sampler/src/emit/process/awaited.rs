//! What waits for a map of names that is written when the process ends.
//!
//! The Java virtual machine writes `/tmp/perf-PID.map` at its end when it is asked to
//! (`-XX:+DumpPerfMapAtExit`). Names in a trace cannot be changed later, so what such a process
//! recorded is kept until then. If that becomes much, it is written without the names.

use crate::emit::batch::RingWords;
use crate::identity::Identity;

/// What is kept of one process at most.
const KEPT_BYTES_MAX: usize = 256 << 20;

/// The option of the Java virtual machine, and the variables that may hold it beside the command
/// line.
const OPTION: &str = "+DumpPerfMapAtExit";
const VARIABLES: [&str; 3] = ["JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "_JAVA_OPTIONS"];

/// Words that wait.
#[derive(Debug, Default)]
pub(super) struct AwaitedMap {
    is_awaited: bool,
    rings: Vec<RingWords>,
    bytes: usize,
}

impl AwaitedMap {
    /// Whether a map comes at the end is in the arguments and the environment of the process.
    pub(super) fn of(identity: &Identity) -> Self {
        let in_arguments = identity
            .command_line
            .iter()
            .any(|word| word.contains(OPTION));
        let in_environment = VARIABLES
            .iter()
            .filter_map(|name| identity.variable(name))
            .any(|value| value.contains(OPTION));
        Self {
            is_awaited: in_arguments || in_environment,
            ..Self::default()
        }
    }

    /// Keeps words, or gives back all that are to be written now.
    pub(super) fn keep(&mut self, rings: Vec<RingWords>) -> Option<Vec<RingWords>> {
        if !self.is_awaited {
            return Some(rings);
        }
        self.bytes += rings.iter().map(|ring| ring.words.len() * 8).sum::<usize>();
        self.rings.extend(rings);
        if self.bytes <= KEPT_BYTES_MAX {
            return None;
        }
        Some(self.end())
    }

    /// Nothing is awaited any more: gives back what was kept.
    pub(super) fn end(&mut self) -> Vec<RingWords> {
        self.is_awaited = false;
        std::mem::take(&mut self.rings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_asks_for_a_map_waits_for_it() {
        let flags = |flags: &str| [("_JAVA_OPTIONS".to_owned(), flags.to_owned())];
        for (arguments, environment, waits) in [
            (
                &["java", "-XX:+DumpPerfMapAtExit", "Busy"][..],
                flags(""),
                true,
            ),
            (
                &["java", "-XX:-DumpPerfMapAtExit", "Busy"],
                flags("-Xmx1g"),
                false,
            ),
            (
                &["java", "Busy"],
                flags("-Xmx1g -XX:+DumpPerfMapAtExit"),
                true,
            ),
            (&["java", "Busy"], flags(""), false),
        ] {
            let mut awaited = AwaitedMap::of(&Identity {
                command_line: arguments.iter().map(|word| (*word).to_owned()).collect(),
                environment: environment.to_vec(),
                ..Identity::default()
            });
            assert_eq!(awaited.keep(vec![RingWords::default()]).is_none(), waits);
            assert_eq!(awaited.end().len(), usize::from(waits));
            assert!(awaited.keep(Vec::new()).is_some());
        }
    }
}
