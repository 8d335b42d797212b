//! Keys in output paths: `%tag%`, `%pid%`, `%env{HOME}%` and their kin.
//!
//! [`unknown`] finds a key that there is none of before it becomes part of a file's name; `%%` writes a percent sign.

use std::collections::BTreeMap;

use crate::environment::Environment;
use crate::job::job_id;
use crate::rank::rank_from_env;

/// What the keys stand for in one process.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KeyValues {
    /// Process id.
    pub pid: u32,
    /// Id of the parent.
    pub parent_pid: u32,
    /// Process group.
    pub process_group: u32,
    /// Session.
    pub session: u32,
    /// Rank in a parallel job (see [`crate::rank`]).
    pub rank: Option<u32>,
    /// How many ranks there are.
    pub size: Option<u32>,
    /// Id of the batch job.
    pub job: Option<String>,
    /// Name of the host.
    pub host: String,
    /// When the run started, as it shall stand in a path.
    pub launch_time: String,
    /// The command with its arguments.
    pub command: Vec<String>,
    /// The variables for `%env{NAME}%`.
    pub environment: BTreeMap<String, String>,
}

impl KeyValues {
    /// Rank, size and id of the job from the environment, and the environment itself.
    #[must_use]
    pub fn of_job(environment: &Environment) -> Self {
        let rank = rank_from_env(|name| environment.get(name).map(str::to_owned));
        Self {
            rank: rank.as_ref().map(|rank| rank.rank),
            size: rank.and_then(|rank| rank.size),
            job: environment
                .get("SLURM_JOB_ID")
                .map(str::to_owned)
                .or_else(|| job_id(|name| environment.get(name).map(str::to_owned))),
            environment: environment
                .iter()
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .collect(),
            ..Self::default()
        }
    }
}

/// A key for help texts: how it is written, and what it stands for.
pub type KeyHelp = (&'static str, &'static str);

/// All keys, for help texts.
pub const KEYS: &[KeyHelp] = &[
    ("%tag%", "name of the command, without its folder"),
    ("%argv%", "the whole command"),
    ("%argt%", "name of the command and its arguments"),
    ("%args%", "the arguments alone"),
    (
        "%arg0%...%argN%",
        "one word of the command; nothing where there is none",
    ),
    (
        "%argv_hash% and so on",
        "a short hash of any of these; %m is %argt_hash%",
    ),
    ("%pid%, %p", "process id"),
    ("%ppid%", "process id of the parent"),
    ("%pgid%, %psid%", "process group, session"),
    ("%rank%, %r", "rank in the parallel job, or 0"),
    ("%size%, %s", "number of ranks, or 1"),
    ("%nid%", "rank, or the process id where there is none"),
    ("%job%, %j", "id of the batch job, or 0"),
    ("%host%", "name of the host"),
    ("%launch_time%", "when the run started"),
    (
        "%env{NAME}%, $env{NAME}",
        "an environment variable; nothing where it is not set",
    ),
    ("%%", "a percent sign"),
];

/// What may stand between two signs, to guess what was meant.
const WORDS: [&str; 17] = [
    "tag",
    "argv",
    "argt",
    "args",
    "arg0",
    "pid",
    "ppid",
    "pgid",
    "psid",
    "rank",
    "size",
    "nid",
    "job",
    "host",
    "hostname",
    "launch_time",
    "env{NAME}",
];

/// The first `%word%` that is no key, as it is written.
#[must_use]
pub fn unknown(template: &str) -> Option<&str> {
    let values = KeyValues::default();
    let mut rest = template;
    while let Some(position) = rest.find(['%', '$']) {
        rest = &rest[position..];
        let length = match replace_first(rest, &values) {
            Some((_, length)) => length,
            None => match literal_length(rest) {
                1 => 1,
                length => return Some(&rest[..length]),
            },
        };
        rest = &rest[length..];
    }
    None
}

/// The key that `written` (`%rnak%`) most probably was meant to be, without its signs.
pub(crate) fn nearest(written: &str) -> Option<&'static str> {
    let word = written.trim_matches('%').to_ascii_lowercase();
    crate::nearest::nearest(&word, WORDS.into_iter())
}

/// Replaces all keys in `template`. What is not a key stays as it is.
#[must_use]
pub fn expand(template: &str, values: &KeyValues) -> String {
    let mut result = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some(position) = rest.find(['%', '$']) {
        result.push_str(&rest[..position]);
        rest = &rest[position..];
        match replace_first(rest, values) {
            Some((replacement, consumed)) => {
                result.push_str(&replacement);
                rest = &rest[consumed..];
            }
            None => {
                let literal = literal_length(rest);
                result.push_str(&rest[..literal]);
                rest = &rest[literal..];
            }
        }
    }
    result.push_str(rest);
    result
}

/// The replacement for the key at the beginning of `text`, and the key's length.
fn replace_first(text: &str, values: &KeyValues) -> Option<(String, usize)> {
    for (opening, closing) in [("%env{", "}%"), ("$env{", "}")] {
        if let Some(inner) = text.strip_prefix(opening) {
            let (name, _) = inner.split_once(closing)?;
            let value = values.environment.get(name).cloned().unwrap_or_default();
            return Some((value, opening.len() + name.len() + closing.len()));
        }
    }
    let inner = text.strip_prefix('%')?;
    if inner.starts_with('%') {
        return Some(("%".to_owned(), 2));
    }
    if let Some(word) = word_key(inner)
        && word.len() > 1
    {
        return Some((named(word, values)?, word.len() + 2));
    }
    let name = match inner.chars().next()? {
        'm' => "argt_hash",
        'p' => "pid",
        'j' => "job",
        'r' => "rank",
        's' => "size",
        _ => return None,
    };
    Some((named(name, values)?, 2))
}

/// The word before the next `%`, if there is nothing but a word.
fn word_key(inner: &str) -> Option<&str> {
    let (word, _) = inner.split_once('%')?;
    let is_word = word
        .chars()
        .all(|character| character.is_ascii_alphanumeric() || character == '_');
    (is_word && !word.is_empty()).then_some(word)
}

/// How much of `text`, which begins with a sign but with no key, stays as it is.
fn literal_length(text: &str) -> usize {
    // An unknown `%word%` stays whole, so that its second sign does not open another key.
    match text.strip_prefix('%').and_then(word_key) {
        Some(word) if word.len() > 1 => word.len() + 2,
        _ => 1,
    }
}

fn named(name: &str, values: &KeyValues) -> Option<String> {
    if let Some(base) = name.strip_suffix("_hash") {
        return command_text(base, values).map(|text| hash(&text));
    }
    let value = match name {
        "pid" => values.pid.to_string(),
        "ppid" => values.parent_pid.to_string(),
        "pgid" => values.process_group.to_string(),
        "psid" => values.session.to_string(),
        "rank" => values.rank.unwrap_or(0).to_string(),
        "size" => values.size.unwrap_or(1).to_string(),
        "nid" => values.rank.unwrap_or(values.pid).to_string(),
        "job" => values.job.clone().unwrap_or_else(|| "0".to_owned()),
        "host" | "hostname" => values.host.clone(),
        "launch_time" => values.launch_time.clone(),
        _ => return command_text(name, values).map(|text| text.replace('/', "_")),
    };
    Some(value)
}

/// The keys that are made of the command's words.
fn command_text(name: &str, values: &KeyValues) -> Option<String> {
    let words = &values.command;
    let program = words.first().map_or("", String::as_str);
    let base = program.rsplit('/').next().unwrap_or(program);
    let arguments = words.get(1..).unwrap_or(&[]);
    match name {
        "tag" => Some(base.to_owned()),
        "argv" => Some(words.join("_")),
        "args" => Some(arguments.join("_")),
        "argt" => {
            let all: Vec<&str> = std::iter::once(base)
                .chain(arguments.iter().map(String::as_str))
                .collect();
            Some(all.join("_"))
        }
        _ => {
            let index: usize = name.strip_prefix("arg")?.parse().ok()?;
            Some(words.get(index).cloned().unwrap_or_default())
        }
    }
}

/// FNV-1a: the same text gives the same 16 digits everywhere and always.
fn hash(text: &str) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for byte in text.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values() -> KeyValues {
        let words = ["/usr/bin/python3", "train.py", "--data", "/a/b"];
        KeyValues {
            pid: 42,
            parent_pid: 41,
            process_group: 40,
            session: 39,
            rank: Some(3),
            size: Some(8),
            job: Some("777".to_owned()),
            host: "node1".to_owned(),
            launch_time: "2026-01-02_03.04.05".to_owned(),
            command: words.map(str::to_owned).to_vec(),
            environment: BTreeMap::from([("USER".to_owned(), "ann".to_owned())]),
        }
    }

    #[test]
    fn keys_are_replaced() {
        let cases = [
            ("rsys-%tag%-output", "rsys-python3-output"),
            ("%pid%-%ppid%-%pgid%-%psid%", "42-41-40-39"),
            ("%rank%of%size%", "3of8"),
            ("%nid%", "3"),
            (
                "%job%/%host%/%launch_time%",
                "777/node1/2026-01-02_03.04.05",
            ),
            ("%argv%", "_usr_bin_python3_train.py_--data__a_b"),
            ("%argt%", "python3_train.py_--data__a_b"),
            ("%args%", "train.py_--data__a_b"),
            ("%arg0% %arg1% %arg9%.", "_usr_bin_python3 train.py ."),
            ("%env{USER}%/$env{USER}/%env{NOPE}%", "ann/ann/"),
            ("%p.%j.%r.%s", "42.777.3.8"),
            ("%p%j", "42777"),
            ("%p-%r", "42-3"),
            ("100%", "100%"),
            ("%nonsense%pid%", "%nonsense%pid%"),
            ("%nonsense%%pid%", "%nonsense%42"),
            ("%%nonsense%%", "%nonsense%"),
            ("%F_%H.%M", "%F_%H.%M"),
            ("%env{USER", "%env{USER"),
            ("$cfg{X}$", "$cfg{X}$"),
            ("%%pid%", "%pid%"),
            ("100%%-%pid%", "100%-42"),
            ("%%%pid%%%", "%42%"),
            ("ä%pid%ö", "ä42ö"),
        ];
        for (template, expected) in cases {
            assert_eq!(expand(template, &values()), expected, "{template}");
        }
    }

    #[test]
    fn what_is_no_key_is_found() {
        for (template, expected) in [
            ("%tag%/%pid%-%env{X}%-$env{X}-%p%j-%m-100%", None),
            ("a-%rnak%-b", Some("%rnak%")),
            ("%pid%%hots%", Some("%hots%")),
            ("%%hots%%", None),
            ("%F_%H.%M", Some("%F_%")),
            ("%arg12%%args_hash%", None),
            ("%ärg%%cfg{X}%$cfg{X}", None),
        ] {
            assert_eq!(unknown(template), expected, "{template}");
        }
        for (written, meant) in [
            ("%rnak%", "rank"),
            ("%hots%", "host"),
            ("%HOST%", "host"),
            ("%lauch_time%", "launch_time"),
        ] {
            assert_eq!(nearest(written), Some(meant));
        }
        assert_eq!(nearest("%zzz%"), None);
    }

    #[test]
    fn without_a_job_the_numbers_have_stand_ins() {
        let values = KeyValues {
            pid: 7,
            ..KeyValues::default()
        };
        assert_eq!(
            expand("%rank% %size% %job% %nid% [%tag%]", &values),
            "0 1 0 7 []"
        );
    }

    #[test]
    fn hashes_differ_and_stay() {
        let hashed = expand("%argt_hash%", &values());
        assert_eq!(hashed, expand("%m", &values()));
        assert_eq!(hashed.len(), 16);
        assert_ne!(hashed, expand("%args_hash%", &values()));
        assert_eq!(hash("a"), "af63dc4c8601ec8c");
    }
}
