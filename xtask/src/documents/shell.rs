//! As much of the shell's language as command lines in the pages have: words, quotes, comments, and what stands between commands.

/// The simple commands of a line, each as its words without redirections. A command within a quoted word
/// (`bash -c 'a; b'`) is one too, in front of the one that it belongs to.
pub fn commands(line: &str) -> Vec<Vec<String>> {
    let mut found = vec![Vec::new()];
    let mut is_target = false;
    for token in tokens(line) {
        match token {
            Token::Between => {
                found.push(Vec::new());
                is_target = false;
            }
            Token::Redirection => is_target = true,
            Token::Word { .. } if is_target => is_target = false,
            Token::Word { text, is_quoted } => {
                let inner = if is_quoted && text.contains(' ') {
                    commands(&text)
                } else {
                    Vec::new()
                };
                if let Some(last) = found.last_mut() {
                    last.push(text);
                }
                let at = found.len() - 1;
                found.splice(at..at, inner);
            }
        }
    }
    found.retain(|words| !words.is_empty());
    found
}

#[derive(Debug)]
enum Token {
    Word {
        text: String,
        is_quoted: bool,
    },
    /// `|`, `;`, `&`, `(`, `)`, also twice.
    Between,
    /// `>`, `<`, `>>`, with the number of a descriptor.
    Redirection,
}

fn tokens(line: &str) -> Vec<Token> {
    let mut found = Vec::new();
    let mut signs = line.chars().peekable();
    while let Some(sign) = signs.next() {
        match sign {
            '#' => break,
            ' ' | '\t' => {}
            '|' | ';' | '&' | '(' | ')' => found.push(Token::Between),
            '>' | '<' => {
                while signs.next_if(|next| matches!(next, '>' | '&')).is_some() {}
                found.push(Token::Redirection);
            }
            _ => {
                let (text, is_quoted) = word(sign, &mut signs);
                let is_descriptor = text.chars().all(|sign| sign.is_ascii_digit());
                let goes_elsewhere = matches!(signs.peek(), Some('>' | '<'));
                if !(is_descriptor && goes_elsewhere && !is_quoted) {
                    found.push(Token::Word { text, is_quoted });
                }
            }
        }
    }
    found
}

/// The word that begins with a sign, and whether a part of it was quoted.
fn word(first: char, signs: &mut std::iter::Peekable<std::str::Chars<'_>>) -> (String, bool) {
    let mut text = String::new();
    let mut is_quoted = false;
    let mut next = Some(first);
    while let Some(sign) = next {
        match sign {
            '\'' | '"' => {
                is_quoted = true;
                text.extend(signs.by_ref().take_while(|other| *other != sign));
            }
            '\\' => text.extend(signs.next()),
            _ => text.push(sign),
        }
        // `a|b` offers a choice in the pages; a pipe has blanks around it.
        let mut ahead = signs.clone();
        let is_choice = ahead.next() == Some('|')
            && ahead.next().is_some_and(|sign| sign.is_alphanumeric())
            && !text.is_empty();
        let goes_on = |sign: &char| is_choice || !" \t|;&()<>".contains(*sign);
        next = signs.next_if(goes_on);
    }
    (text, is_quoted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_of_lines() {
        for (line, expected) in [
            ("a -b c  # d", vec!["a -b c"]),
            (
                "A=1 a > file 2>&1 | b; c && d",
                vec!["A=1 a", "b", "c", "d"],
            ),
            ("a 'b c; d' e", vec!["b c", "d", "a b c; d e"]),
            ("x=$(a b) \"$c\"/d", vec!["x=$", "a b", "$c/d"]),
            ("a b|c d\\|e", vec!["a b|c d|e"]),
            ("a <in >>out b", vec!["a b"]),
        ] {
            let found: Vec<String> = commands(line).iter().map(|words| words.join(" ")).collect();
            assert_eq!(found, expected, "{line}");
        }
    }
}
