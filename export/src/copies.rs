//! Directions of copies.

/// Where a copy goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    HostToHost,
    HostToDevice,
    DeviceToHost,
    DeviceToDevice,
}

/// All of them, in the order of `hipMemcpyKind`, with the words that traces have for them.
const WORDS: [(Direction, [&str; 3]); 4] = [
    (
        Direction::HostToHost,
        ["host to host", "HostToHost", "HOST_TO_HOST"],
    ),
    (
        Direction::HostToDevice,
        ["host to device", "HostToDevice", "HOST_TO_DEVICE"],
    ),
    (
        Direction::DeviceToHost,
        ["device to host", "DeviceToHost", "DEVICE_TO_HOST"],
    ),
    (
        Direction::DeviceToDevice,
        ["device to device", "DeviceToDevice", "DEVICE_TO_DEVICE"],
    ),
];

impl Direction {
    /// The direction of a copy by what its trace says of it, else by its name.
    pub(crate) fn of_copy(direction: &str, name: &str) -> Option<Self> {
        Self::of(direction).or_else(|| Self::of(name))
    }

    /// The direction that a text names.
    fn of(text: &str) -> Option<Self> {
        let lower = text.to_ascii_lowercase();
        let names = |words: &[&str; 3]| {
            lower.contains(words[0]) || words[1..].iter().any(|word| text.contains(word))
        };
        let found = WORDS.iter().find(|(_, words)| names(words))?;
        Some(found.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_traces_are_known() {
        for (text, expected) in [
            ("CopyHostToDevice", Some(Direction::HostToDevice)),
            ("device to host", Some(Direction::DeviceToHost)),
            (
                "MEMORY_COPY_DEVICE_TO_DEVICE",
                Some(Direction::DeviceToDevice),
            ),
            ("Copy host to device", Some(Direction::HostToDevice)),
            ("", None),
            ("Copy", None),
        ] {
            assert_eq!(Direction::of(text), expected, "{text}");
        }
    }
}
