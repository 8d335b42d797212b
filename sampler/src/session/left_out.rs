//! Programs that run without the agent.

use std::collections::BTreeMap;
use std::fmt;

use rsys_wire::program::Obstacle;

/// All of them, by what keeps the agent out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeMap<Obstacle, Programs>);

/// Programs with the same obstacle.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Programs {
    /// The path of the first.
    first: String,
    /// How many more processes there were.
    more: u64,
}

impl LeftOut {
    /// Notes one more process.
    pub fn add(&mut self, obstacle: Obstacle, path: &[u8]) {
        self.0
            .entry(obstacle)
            .and_modify(|programs| programs.more += 1)
            .or_insert_with(|| Programs {
                first: String::from_utf8_lossy(path).into_owned(),
                more: 0,
            });
    }

    /// Whether there was none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// A sentence for each obstacle.
    pub fn lines(&self) -> impl Iterator<Item = String> {
        self.0
            .iter()
            .map(|(obstacle, programs)| Sentence { obstacle, programs }.to_string())
    }
}

struct Sentence<'a> {
    obstacle: &'a Obstacle,
    programs: &'a Programs,
}

impl fmt::Display for Sentence<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Programs { first, more } = self.programs;
        write!(f, "{first} {}: it ran, but was not sampled", self.obstacle)?;
        match more {
            0 => Ok(()),
            1 => write!(f, "; so did 1 more process"),
            more => write!(f, "; so did {more} more processes"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_obstacle_has_one_sentence() {
        let mut left_out = LeftOut::default();
        assert!(left_out.is_empty());
        left_out.add(Obstacle::Static, b"/bin/busybox");
        for path in [&b"/opt/m"[..], b"/opt/n", b"/opt/m"] {
            left_out.add(Obstacle::Musl, path);
        }
        let lines: Vec<_> = left_out.lines().collect();
        assert_eq!(
            lines,
            [
                "/opt/m uses the musl C library: it ran, but was not sampled; so did 2 more processes",
                "/bin/busybox is statically linked: it ran, but was not sampled",
            ]
        );
    }
}
