//! Variables in values: `$env:NAME`, `$NAME`, `${NAME}`.

use std::collections::BTreeMap;

use crate::environment::Environment;
use crate::settings::Settings;

/// What variables may mean.
pub(super) struct Scope<'a> {
    /// Defined above in the same file.
    pub variables: &'a BTreeMap<String, String>,
    /// For `$env:NAME`.
    pub environment: &'a Environment,
    /// A setting may be used as a variable too.
    pub settings: &'a Settings,
}

impl Scope<'_> {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables
            .get(name)
            .cloned()
            .or_else(|| self.settings.get(name).map(ToString::to_string))
    }

    fn environment(&self, name: &str) -> &str {
        let exported = |name: &str| {
            let (_, value) = self
                .settings
                .exports()
                .iter()
                .find(|(key, _)| key == name)?;
            Some(value.as_str())
        };
        self.environment
            .get(name)
            .or_else(|| exported(name))
            .unwrap_or("")
    }
}

/// Replaces variables in `value`. An unset environment variable is empty; an undefined `$NAME` is an error that names it.
///
/// `$$` is a dollar sign. `$env{NAME}` and `$cfg{NAME}` are path keys: they stay, and are replaced when paths are made.
pub(super) fn expand(value: &str, scope: &Scope<'_>) -> Result<String, String> {
    let mut result = String::with_capacity(value.len());
    let mut rest = value;
    while let Some(position) = rest.find('$') {
        result.push_str(&rest[..position]);
        rest = &rest[position + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            result.push('$');
            rest = after;
        } else if let Some(after) = rest.strip_prefix("env:") {
            let name = identifier(after);
            result.push_str(scope.environment(name));
            rest = &after[name.len()..];
        } else if rest.starts_with("env{") || rest.starts_with("cfg{") {
            result.push('$');
        } else if let Some((name, after)) = rest
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'))
        {
            result.push_str(&scope.variable(name).ok_or_else(|| name.to_owned())?);
            rest = after;
        } else {
            let name = identifier(rest);
            if name.is_empty() {
                result.push('$');
                continue;
            }
            result.push_str(&scope.variable(name).ok_or_else(|| name.to_owned())?);
            rest = &rest[name.len()..];
        }
    }
    result.push_str(rest);
    Ok(result)
}

fn identifier(text: &str) -> &str {
    let end = text
        .find(|character: char| !(character.is_ascii_alphanumeric() || character == '_'))
        .unwrap_or(text.len());
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced() {
        let variables = BTreeMap::from([("A".to_owned(), "x".to_owned())]);
        let environment = Environment::from_pairs([("HOME", "/h")]);
        let scope = Scope {
            variables: &variables,
            environment: &environment,
            settings: &Settings::defaults(),
        };
        let cases = [
            ("plain", Ok("plain")),
            ("$env:HOME/out", Ok("/h/out")),
            ("$env:UNSET!", Ok("!")),
            ("a$A/${A}b", Ok("ax/xb")),
            ("$SAMPLING_FREQ", Ok("300")),
            ("$env{HOME} 5$ $", Ok("$env{HOME} 5$ $")),
            ("$NOPE", Err("NOPE")),
            ("${NOPE}", Err("NOPE")),
            ("${A", Ok("${A")),
            ("$$A $$$A $$", Ok("$A $x $")),
        ];
        for (value, expected) in cases {
            let expanded = expand(value, &scope);
            let expanded = expanded.as_deref().map_err(String::as_str);
            assert_eq!(expanded, expected, "{value}");
        }
    }
}
