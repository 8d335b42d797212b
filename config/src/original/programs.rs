//! The original's programs, whose names may be links to ours.

use std::ffi::OsStr;
use std::path::Path;

const BEGINNINGS: [&str; 2] = ["rocprof-sys-", "omnitrace-"];

/// What to tell a user who has called `program` by a name of the original's; nothing if it was called by its own. `first_word` is the
/// first of the command line.
#[must_use]
pub fn told_of(program: &str, version: &str, first_word: &OsStr) -> Option<String> {
    let name = Path::new(first_word).file_name()?.to_str()?;
    let is_old = BEGINNINGS.iter().any(|begin| name.starts_with(begin));
    is_old.then(|| format!("note: {name} is {program} {version} here"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_called_by_old_names() {
        let told = |word: &str| told_of("rsys-sample", "1.2", OsStr::new(word));
        let line = "note: omnitrace-sample is rsys-sample 1.2 here";
        assert_eq!(told("/opt/bin/omnitrace-sample").as_deref(), Some(line));
        assert!(told("rocprof-sys-sample").is_some());
        for own in ["rsys-sample", "/rocprof-sys-1/rsys-sample", ""] {
            assert_eq!(told(own), None, "{own}");
        }
    }
}
