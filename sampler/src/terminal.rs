//! What `rsys-sample` says on standard error, a line at a time, in colours where a person reads it.

use std::env;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use clap::builder::styling::{AnsiColor, Style};

/// Set where the user wants no colours.
static MONOCHROME: AtomicBool = AtomicBool::new(false);

/// Lines have no colours from now on.
pub fn set_monochrome() {
    MONOCHROME.store(true, Ordering::Relaxed);
}

/// One line on standard error. If nobody reads it, nothing is lost but the line.
pub fn say(line: &str) {
    let mut stream = std::io::stderr().lock();
    let coloured = are_coloured(stream.is_terminal());
    writeln!(stream, "rsys: {}", painted(line, coloured)).ok();
}

/// How many characters of a line fit behind the name that [`say`] puts in front.
#[must_use]
pub fn line_width() -> usize {
    const PREFIX: usize = "rsys: ".len();
    // Whoever reads a file or a pipe wants whole names.
    const ELSEWHERE: usize = 400;
    let size = terminal_size::terminal_size_of(std::io::stderr());
    size.map_or(ELSEWHERE, |(width, _)| {
        usize::from(width.0).saturating_sub(PREFIX)
    })
}

/// Whether text for a stream is coloured now.
#[must_use]
pub fn are_coloured(is_terminal: bool) -> bool {
    !MONOCHROME.load(Ordering::Relaxed) && wants_colours(is_terminal)
}

/// Whether text for a stream is coloured: on a terminal that can, unless the user said no by
/// `NO_COLOR` (no-color.org) or by `CLICOLOR=0` (bixense.com/clicolors).
#[must_use]
pub fn wants_colours(is_terminal: bool) -> bool {
    let value = |name| env::var_os(name).unwrap_or_default();
    is_terminal
        && value("NO_COLOR").is_empty()
        && value("CLICOLOR") != "0"
        && value("TERM") != "dumb"
}

/// What lines of a kind begin with, and the colour of that word.
const KINDS: [(&str, AnsiColor); 5] = [
    ("error:", AnsiColor::Red),
    ("warning:", AnsiColor::Yellow),
    ("no trace:", AnsiColor::Yellow),
    ("no samples:", AnsiColor::Yellow),
    ("note:", AnsiColor::Cyan),
];

fn painted(line: &str, coloured: bool) -> String {
    let kind = KINDS.iter().find(|(word, _)| line.starts_with(word));
    match kind {
        Some((word, colour)) if coloured => {
            let style = Style::new().bold().fg_color(Some((*colour).into()));
            format!("{style}{word}{style:#}{}", &line[word.len()..])
        }
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_kind_of_a_line_is_coloured() {
        let line = "warning: a warning: b";
        assert_eq!(painted(line, false), line);
        let coloured = painted(line, true);
        assert!(
            coloured.starts_with("\u{1b}[") && coloured.ends_with(" a warning: b"),
            "{coloured:?}"
        );
        assert_eq!(
            painted("/x/t.proto: 3 samples", true),
            "/x/t.proto: 3 samples"
        );
    }
}
