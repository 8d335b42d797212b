//! JSON, as the original's `avail -G` writes it: `{"rocprofiler-systems": {"settings": {"NAME": {"value": ...}}}}`.
//!
//! Shorter forms are read too: the settings alone, and a plain value in the place of an object.

use std::iter::Peekable;
use std::ops::Range;
use std::str::CharIndices;

use super::{Entry, Place, SyntaxError};

/// Nothing that holds settings is nested deeper.
const MAX_DEPTH: usize = 32;

/// Reads all entries in the order of the text.
pub(super) fn read(text: &str) -> (Vec<Entry>, Vec<SyntaxError>) {
    let mut reader = Reader {
        text,
        rest: text.char_indices().peekable(),
    };
    let document = reader.document();
    let mut found = Found {
        text,
        entries: Vec::new(),
        errors: Vec::new(),
    };
    match document {
        Ok(Node {
            kind: Kind::Object(members),
            ..
        }) => found.settings_of(&members),
        Ok(other) => found.error(
            &other.bytes,
            "a configuration in JSON is an object".to_owned(),
            OBJECT,
        ),
        Err((bytes, message)) => {
            found.error(&bytes, format!("this is not JSON: {message}"), SYNTAX);
        }
    }
    (found.entries, found.errors)
}

const OBJECT: &str = "write {\"settings\": {\"NAME\": {\"value\": ...}}}";
const SYNTAX: &str = "names and texts stand in double quotes; members are separated by commas";
const VALUE: &str =
    "write \"NAME\": {\"value\": ...} with a text, a number, true or false, or a list of these";

/// A value with its place in the text.
#[derive(Debug)]
struct Node {
    bytes: Range<usize>,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// A text, number or truth value, as it would stand in the permissive syntax.
    Plain(String),
    List(Vec<Node>),
    Object(Vec<Member>),
    Null,
}

#[derive(Debug)]
struct Member {
    name: String,
    bytes: Range<usize>,
    value: Node,
}

/// Where, and what is wrong there.
type Wrong = (Range<usize>, String);

struct Found<'t> {
    text: &'t str,
    entries: Vec<Entry>,
    errors: Vec<SyntaxError>,
}

impl Found<'_> {
    fn error(&mut self, bytes: &Range<usize>, message: String, remedy: &'static str) {
        self.errors.push(SyntaxError {
            place: Place::of_bytes(self.text, bytes),
            message,
            remedy,
        });
    }

    /// Goes down to the object of the settings: the member `settings`, or that of the only member that is an object and no setting.
    fn settings_of(&mut self, members: &[Member]) {
        let inner = members
            .iter()
            .find(|member| member.name.eq_ignore_ascii_case("settings"))
            .or_else(|| {
                members.iter().find(|member| match &member.value.kind {
                    Kind::Object(inner) => inner.iter().any(|inner| inner.name == "settings"),
                    _ => false,
                })
            });
        match inner.map(|member| &member.value) {
            Some(Node {
                kind: Kind::Object(inner),
                ..
            }) => self.settings_of(inner),
            Some(other) => {
                self.error(
                    &other.bytes,
                    "'settings' is not an object".to_owned(),
                    OBJECT,
                );
            }
            None => members.iter().for_each(|member| self.setting(member)),
        }
    }

    fn setting(&mut self, member: &Member) {
        let value = match &member.value.kind {
            Kind::Object(inner) => inner
                .iter()
                .find(|inner| inner.name == "value")
                .map(|inner| &inner.value),
            _ => Some(&member.value),
        };
        let Some(value) = value else {
            let message = format!("'{}' has no \"value\"", member.name);
            self.error(&member.bytes, message, VALUE);
            return;
        };
        let Some(text) = plain(value) else {
            let message = format!(
                "'{}' has a value of a kind that no setting takes",
                member.name
            );
            self.error(&value.bytes, message, VALUE);
            return;
        };
        self.entries.push(Entry {
            key: member.name.clone(),
            key_place: Place::of_bytes(self.text, &member.bytes),
            value: text,
            value_place: Place::of_bytes(self.text, &value.bytes),
            grouped_key: None,
        });
    }
}

fn plain(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Plain(text) => Some(text.clone()),
        Kind::List(items) => {
            let items: Option<Vec<String>> = items.iter().map(plain).collect();
            items.map(|items| items.join(","))
        }
        Kind::Object(_) | Kind::Null => None,
    }
}

struct Reader<'t> {
    text: &'t str,
    rest: Peekable<CharIndices<'t>>,
}

impl Reader<'_> {
    fn document(&mut self) -> Result<Node, Wrong> {
        let node = self.value(0)?;
        self.blanks();
        match self.rest.peek() {
            None => Ok(node),
            Some(_) => Err(self.wrong("there is more after its end")),
        }
    }

    fn position(&mut self) -> usize {
        self.rest.peek().map_or(self.text.len(), |(at, _)| *at)
    }

    /// What stands here is wrong.
    fn wrong(&mut self, message: &str) -> Wrong {
        let at = self.position();
        let width = self.rest.peek().map_or(0, |(_, next)| next.len_utf8());
        (at..at + width, message.to_owned())
    }

    fn blanks(&mut self) {
        while self
            .rest
            .next_if(|(_, next)| next.is_ascii_whitespace())
            .is_some()
        {}
    }

    fn take(&mut self, wanted: char) -> bool {
        self.blanks();
        self.rest.next_if(|(_, next)| *next == wanted).is_some()
    }

    fn value(&mut self, depth: usize) -> Result<Node, Wrong> {
        self.blanks();
        if depth > MAX_DEPTH {
            return Err(self.wrong("it is nested too deeply"));
        }
        let start = self.position();
        let kind = match self.rest.peek() {
            Some((_, '{')) => self.object(depth)?,
            Some((_, '[')) => self.list(depth)?,
            Some((_, '"')) => Kind::Plain(self.string()?),
            Some(_) => self.word()?,
            None => return Err(self.wrong("a value is missing at the end")),
        };
        let end = self.position();
        Ok(Node {
            bytes: start..end,
            kind,
        })
    }

    fn object(&mut self, depth: usize) -> Result<Kind, Wrong> {
        self.take('{');
        let mut members = Vec::new();
        while !self.take('}') {
            if !members.is_empty() && !self.take(',') {
                return Err(self.wrong("expected ',' or '}'"));
            }
            self.blanks();
            let start = self.position();
            if !matches!(self.rest.peek(), Some((_, '"'))) {
                return Err(self.wrong("expected a name in double quotes"));
            }
            let name = self.string()?;
            let end = self.position();
            if !self.take(':') {
                return Err(self.wrong("expected ':'"));
            }
            members.push(Member {
                name,
                bytes: start..end,
                value: self.value(depth + 1)?,
            });
        }
        Ok(Kind::Object(members))
    }

    fn list(&mut self, depth: usize) -> Result<Kind, Wrong> {
        self.take('[');
        let mut items = Vec::new();
        while !self.take(']') {
            if !items.is_empty() && !self.take(',') {
                return Err(self.wrong("expected ',' or ']'"));
            }
            items.push(self.value(depth + 1)?);
        }
        Ok(Kind::List(items))
    }

    /// A word without quotes: a number or a name of the language.
    fn word(&mut self) -> Result<Kind, Wrong> {
        let start = self.position();
        let mut word = String::new();
        let belongs = |next: &(usize, char)| {
            next.1.is_ascii_alphanumeric() || matches!(next.1, '+' | '-' | '.' | '_')
        };
        while let Some((_, next)) = self.rest.next_if(belongs) {
            word.push(next);
        }
        match word.as_str() {
            "" => Err(self.wrong("expected a value")),
            "null" => Ok(Kind::Null),
            "true" | "false" => Ok(Kind::Plain(word)),
            _ if word.starts_with(|first: char| first.is_ascii_digit() || first == '-')
                && word.parse::<f64>().is_ok_and(f64::is_finite) =>
            {
                Ok(Kind::Plain(word))
            }
            _ => Err((
                start..self.position(),
                format!("'{word}' is not a value; a text needs double quotes"),
            )),
        }
    }

    fn string(&mut self) -> Result<String, Wrong> {
        let start = self.position();
        self.rest.next();
        let mut result = String::new();
        loop {
            match self.rest.next() {
                Some((_, '"')) => return Ok(result),
                Some((_, '\\')) => result.push(self.escape()?),
                Some((_, '\n')) | None => {
                    let end = self.text[start..]
                        .find('\n')
                        .map_or(self.text.len(), |length| start + length);
                    return Err((start..end, "the quote is not closed".to_owned()));
                }
                Some((_, character)) => result.push(character),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Wrong> {
        let at = self.position();
        let character = match self.rest.next() {
            Some((_, same @ ('"' | '\\' | '/'))) => Some(same),
            Some((_, 'b')) => Some('\u{8}'),
            Some((_, 'f')) => Some('\u{c}'),
            Some((_, 'n')) => Some('\n'),
            Some((_, 'r')) => Some('\r'),
            Some((_, 't')) => Some('\t'),
            Some((_, 'u')) => self.unicode(),
            _ => None,
        };
        character.ok_or_else(|| (at.saturating_sub(1)..at + 1, "unknown escape".to_owned()))
    }

    /// The character of `\uXXXX`, or of two such that make one.
    fn unicode(&mut self) -> Option<char> {
        let first = self.hexadecimal()?;
        if !(0xd800..0xdc00).contains(&first) {
            return char::from_u32(first);
        }
        self.rest.next_if(|(_, next)| *next == '\\')?;
        self.rest.next_if(|(_, next)| *next == 'u')?;
        let second = self.hexadecimal()?;
        char::decode_utf16([u16::try_from(first).ok()?, u16::try_from(second).ok()?])
            .next()?
            .ok()
    }

    fn hexadecimal(&mut self) -> Option<u32> {
        (0..4).try_fold(0, |number, _| {
            let (_, digit) = self.rest.next_if(|(_, next)| next.is_ascii_hexdigit())?;
            Some(number * 16 + digit.to_digit(16)?)
        })
    }
}
