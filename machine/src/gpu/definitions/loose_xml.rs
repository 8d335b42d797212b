//! The counter definitions of older ROCm releases: almost XML. Values often have no quotes, there is no root element, and
//! `#include` lines stand between.
//!
//! ```text
//! <gfx9>
//!   <metric name="SQ_WAVES" block=SQ event=4 descr="Count number of waves."></metric>
//! </gfx9>
//! <gfx90a base="gfx9"> ... </gfx90a>
//! ```

use std::collections::BTreeMap;

use super::{Definition, Formula};

/// One tag: its name and attributes.
#[derive(Debug, PartialEq, Eq)]
struct Tag {
    name: String,
    attributes: BTreeMap<String, String>,
}

/// All metrics. One below `gfx*` is for that architecture and those that have it as base; one elsewhere is for all.
pub fn definitions(text: &str) -> Vec<Definition> {
    let mut bases: BTreeMap<String, String> = BTreeMap::new();
    let mut found = Vec::new();
    let mut open = String::new();
    let mut rest = text;
    while let Some((tag, after)) = next_tag(rest) {
        rest = after;
        let attribute = |name: &str| tag.attributes.get(name).cloned();
        if tag.name == "metric" {
            let Some(name) = attribute("name") else {
                continue;
            };
            let event = attribute("event").unwrap_or_default();
            let formula = Formula::new(attribute("expr"), attribute("block"), &event);
            found.push((
                open.clone(),
                Definition {
                    name,
                    description: attribute("descr").unwrap_or_default(),
                    architectures: Vec::new(),
                    formula,
                },
            ));
        } else if let Some(closed) = tag.name.strip_prefix('/') {
            if closed == open {
                open.clear();
            }
        } else if tag.name.starts_with("gfx") {
            if let Some(base) = attribute("base") {
                bases.insert(tag.name.clone(), base);
            }
            open = tag.name;
        }
    }
    found
        .into_iter()
        .map(|(section, definition)| Definition {
            architectures: architectures(&section, &bases),
            ..definition
        })
        .collect()
}

/// The section's architecture and all that build on it.
fn architectures(section: &str, bases: &BTreeMap<String, String>) -> Vec<String> {
    let Some(own) = section.split('_').next().filter(|name| !name.is_empty()) else {
        return Vec::new();
    };
    let mut all = vec![own.to_owned()];
    let mut next = 0;
    while let Some(base) = all.get(next).cloned() {
        for (derived, of) in bases {
            if *of == base && !all.contains(derived) {
                all.push(derived.clone());
            }
        }
        next += 1;
    }
    all
}

/// The next tag and what follows it.
fn next_tag(text: &str) -> Option<(Tag, &str)> {
    let mut rest = &text[text.find('<')? + 1..];
    if let Some(comment) = rest.strip_prefix("!--") {
        return next_tag(comment.split_once("-->")?.1);
    }
    let name_end = rest.find(|next: char| next.is_whitespace() || next == '>')?;
    let mut tag = Tag {
        name: rest[..name_end].to_owned(),
        attributes: BTreeMap::new(),
    };
    rest = rest[name_end..].trim_start();
    loop {
        if let Some(after) = rest.strip_prefix('>') {
            return Some((tag, after));
        }
        let end = rest.find(['=', '>'])?;
        if rest[end..].starts_with('>') {
            // A word without a value, such as the slash of `/>`.
            rest = &rest[end..];
            continue;
        }
        let name = rest[..end].trim().to_owned();
        rest = rest[end + 1..].trim_start();
        let (value, after) = match rest.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => rest.split_at(rest.find(|next: char| next.is_whitespace() || next == '>')?),
        };
        tag.attributes
            .insert(name, value.trim_end_matches('/').to_owned());
        rest = after.trim_start();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loose_quotes_bases_and_comments() {
        let text = "#include \"gfx_metrics.xml\"\n<!-- <metric name=\"NO\"> -->\n\
            <gfx9>\n  <metric name=\"GRBM_COUNT\" block=GRBM event=0 descr=\"Tie high.\"></metric>\n\
              <metric name=SQ_WAVES block=SQ event=4 descr=\"Waves > 0, see docs.\"/>\n</gfx9>\n\
            <gfx90a base=\"gfx9\"><metric name=\"X\" expr=sum(TCC_HIT,32) descr='a'></metric></gfx90a>\n\
            <gfx942 base=gfx90a></gfx942>\n\
            <global><metric name=\"ALL\" expr=1 ></metric></global>";
        let found: Vec<_> = definitions(text)
            .into_iter()
            .map(|definition| {
                (
                    definition.name.clone(),
                    definition.architectures.join(" "),
                    definition.formula.to_string(),
                )
            })
            .collect();
        let expected = [
            ("GRBM_COUNT", "gfx9 gfx90a gfx942", "Block GRBM, event 0"),
            ("SQ_WAVES", "gfx9 gfx90a gfx942", "Block SQ, event 4"),
            ("X", "gfx90a gfx942", "= sum(TCC_HIT,32)"),
            ("ALL", "", "= 1"),
        ];
        let expected: Vec<_> = expected
            .iter()
            .map(|(name, on, formula)| {
                ((*name).to_owned(), (*on).to_owned(), (*formula).to_owned())
            })
            .collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn broken_text_ends() {
        for text in [
            "<",
            "<a",
            "<a b",
            "<a b=",
            "<a b=\"",
            "<!-- ",
            "<metric name=",
            "<a =>",
            "<a ==>",
        ] {
            assert!(definitions(text).is_empty(), "{text}");
        }
    }
}
