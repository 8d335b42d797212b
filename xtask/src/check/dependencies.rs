//! What `deny.toml` says of dependencies, so far as the lock file and the manifests tell: licences,
//! versions that stand side by side, and where crates come from. `cargo deny check` reads the same file
//! and looks at licence texts and security advisories too.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::steps::{cargo, say, workspace_dir};

/// The only place that crates come from.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";
/// Crates for other systems are in the lock file, but never compiled.
const TARGET: &str = "x86_64-unknown-linux-gnu";

#[derive(Debug, Deserialize)]
struct Rules {
    licenses: Licenses,
    bans: Bans,
}

#[derive(Debug, Deserialize)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Bans {
    skip: Vec<Skipped>,
}

/// A version that may stand beside another.
#[derive(Debug, Deserialize)]
struct Skipped {
    #[serde(rename = "crate")]
    name: String,
    reason: String,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
    license: Option<String>,
    /// None for members of the workspace.
    source: Option<String>,
}

/// Checks all dependencies of the workspace.
///
/// # Errors
/// What breaks a rule; or a file that cannot be read.
pub(super) fn check() -> Result<()> {
    let text = std::fs::read_to_string(workspace_dir().join("deny.toml")).context("deny.toml")?;
    let rules: Rules = toml::from_str(&text).context("deny.toml")?;
    let output = cargo()
        .args(["metadata", "--format-version", "1", "--locked"])
        .args(["--filter-platform", TARGET])
        .output()
        .context("cannot start cargo")?;
    if !output.status.success() {
        bail!(
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
    let metadata: Metadata = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let problems = problems(&rules, &metadata.packages);
    for problem in &problems {
        say(problem);
    }
    match problems.len() {
        0 => Ok(()),
        count => bail!("{count} rules of deny.toml are broken"),
    }
}

fn problems(rules: &Rules, packages: &[Package]) -> Vec<String> {
    let mut problems = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages.iter().filter(|package| package.source.is_some()) {
        let Package { name, version, .. } = package;
        versions.entry(name).or_default().push(version);
        let license = package.license.as_deref().unwrap_or("no licence");
        if !permits(license, &rules.licenses.allow) {
            problems.push(format!("{name} {version}: {license} is not allowed"));
        }
        if package.source.as_deref() != Some(REGISTRY) {
            problems.push(format!("{name} {version} does not come from the registry"));
        }
    }
    let skipped = |name: &str, version: &str| {
        let wanted = format!("{name}@{version}");
        rules.bans.skip.iter().any(|skip| skip.name == wanted)
    };
    for (name, mut versions) in versions {
        versions.retain(|version| !skipped(name, version));
        if versions.len() > 1 {
            problems.push(format!("{name} is there as {}", versions.join(" and ")));
        }
    }
    for skip in &rules.bans.skip {
        let is_there = |one: &Package| format!("{}@{}", one.name, one.version) == skip.name;
        if !packages.iter().any(is_there) {
            problems.push(format!("{} is not there any more", skip.name));
        } else if skip.reason.is_empty() {
            problems.push(format!("{} is there twice without a reason", skip.name));
        }
    }
    problems
}

/// Whether an expression of licences (SPDX, or the older form with a slash) leaves a choice of allowed ones.
fn permits(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.replace('/', " OR ");
    let words = expression.replace('(', " ( ").replace(')', " ) ");
    let mut words: Vec<&str> = words.split_whitespace().rev().collect();
    either(&mut words, allowed) && words.is_empty()
}

fn either(words: &mut Vec<&str>, allowed: &[String]) -> bool {
    let mut good = both(words, allowed);
    while words.last() == Some(&"OR") {
        words.pop();
        good |= both(words, allowed);
    }
    good
}

fn both(words: &mut Vec<&str>, allowed: &[String]) -> bool {
    let mut good = one(words, allowed);
    while words.last() == Some(&"AND") {
        words.pop();
        good &= one(words, allowed);
    }
    good
}

fn one(words: &mut Vec<&str>, allowed: &[String]) -> bool {
    match words.pop() {
        Some("(") => {
            let good = either(words, allowed);
            words.pop() == Some(")") && good
        }
        Some(name) => {
            let mut name = name.to_owned();
            if words.last() == Some(&"WITH") {
                words.pop();
                name = format!("{name} WITH {}", words.pop().unwrap_or_default());
            }
            allowed.contains(&name)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_of_licences() {
        let allowed = [
            "MIT",
            "Apache-2.0",
            "Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception",
        ];
        let allowed = allowed.map(str::to_owned);
        for (expression, expected) in [
            ("MIT", true),
            ("MIT/GPL-3.0", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR LGPL-2.1", false),
            ("(MIT OR GPL-3.0) AND Unicode-3.0", true),
            ("MIT AND GPL-3.0", false),
            ("GPL-3.0 OR MIT AND Unicode-3.0", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("GPL-3.0 WITH LLVM-exception", false),
            ("(MIT", false),
            ("", false),
        ] {
            assert_eq!(permits(expression, &allowed), expected, "{expression}");
        }
    }

    #[test]
    fn two_versions_need_a_reason() {
        let package = |version: &str| Package {
            name: "syn".to_owned(),
            version: version.to_owned(),
            license: Some("MIT".to_owned()),
            source: Some(REGISTRY.to_owned()),
        };
        let rules = |skip: &[(&str, &str)]| Rules {
            licenses: Licenses {
                allow: vec!["MIT".to_owned()],
            },
            bans: Bans {
                skip: skip
                    .iter()
                    .map(|(name, reason)| Skipped {
                        name: (*name).to_owned(),
                        reason: (*reason).to_owned(),
                    })
                    .collect(),
            },
        };
        let both = [package("2.0.1"), package("3.0.1")];
        let found = problems(&rules(&[]), &both);
        assert_eq!(found, ["syn is there as 2.0.1 and 3.0.1"]);
        let named = rules(&[("syn@2.0.1", "older macros")]);
        assert_eq!(problems(&named, &both), [""; 0]);
        let found = problems(&named, &both[1..]);
        assert_eq!(found, ["syn@2.0.1 is not there any more"]);
        let elsewhere = Package {
            source: Some("git+https://example.org/syn".to_owned()),
            license: None,
            ..package("3.0.1")
        };
        assert_eq!(problems(&rules(&[]), &[elsewhere]).len(), 2);
    }
}
