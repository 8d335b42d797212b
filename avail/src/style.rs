//! How text for the eye is to look, and how it is broken into lines.

/// How a table is to look.
#[derive(Debug, Clone, Copy)]
pub struct Style {
    /// Characters of a line; `None` never breaks one.
    pub width: Option<usize>,
    /// Characters of a column; `None` leaves that to the contents.
    pub column_width: Option<usize>,
    /// Whether there are colours.
    pub colours: bool,
    /// Whether what the filter found is marked.
    pub highlight: bool,
    /// Whether findings that are as they should be are shown in full.
    pub whole: bool,
}

/// Breaks a text into lines at blanks, and words that are too long anywhere.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut used = 0;
    for word in text.split_whitespace() {
        let mut word = word;
        let mut length = word.chars().count();
        if used > 0 && used + 1 + length > width {
            lines.push(std::mem::take(&mut line));
            used = 0;
        }
        while length > width {
            let cut = word
                .char_indices()
                .nth(width)
                .map_or(word.len(), |(at, _)| at);
            lines.push(word[..cut].to_owned());
            word = &word[cut..];
            length -= width;
        }
        if used > 0 {
            line.push(' ');
            used += 1;
        }
        line.push_str(word);
        used += length;
    }
    lines.push(line);
    lines
}
