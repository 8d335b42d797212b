//! Which rows stay: regular expressions, categories, what is available.

use anyhow::{Result, anyhow};
use regex_lite::{Regex, RegexBuilder};

use rsys_config::table::{PREFIXES, bare_name};

use crate::table::{Cell, Table};
use rsys_machine::roots::natural_key;

/// What a row must be like to be shown.
#[derive(Debug, Default)]
pub struct Filter {
    texts: Patterns,
    categories: Patterns,
    /// `table::category` names in lower case; none means all.
    chosen: Vec<String>,
    available_only: bool,
    alphabetical: bool,
}

/// Regular expressions: one of the wanted must match, none of the unwanted. One without capitals finds them too.
#[derive(Debug, Default)]
struct Patterns {
    wanted: Vec<Regex>,
    unwanted: Vec<Regex>,
}

impl Patterns {
    fn new(words: &[String], ignore_case: bool) -> Result<Self> {
        let mut patterns = Self::default();
        for word in words {
            let (text, list) = match word.strip_prefix('~') {
                Some(text) => (text, &mut patterns.unwanted),
                None => (word.as_str(), &mut patterns.wanted),
            };
            let has_capitals = text.contains(char::is_uppercase);
            let regex = RegexBuilder::new(text)
                .case_insensitive(ignore_case || !has_capitals)
                .build()
                .map_err(|error| {
                    anyhow!(
                        "'{text}' is not a regular expression: {error}; put a backslash in front of signs that stand for themselves"
                    )
                })?;
            list.push(regex);
        }
        Ok(patterns)
    }

    fn accept(&self, texts: &[String]) -> bool {
        let hits = |regex: &Regex| texts.iter().any(|text| regex.is_match(text));
        (self.wanted.is_empty() || self.wanted.iter().any(hits)) && !self.unwanted.iter().any(hits)
    }
}

/// The filter's part of the command line.
#[derive(Debug, Default)]
pub struct Choice {
    /// Regular expressions for rows; a leading `~` turns one around.
    pub texts: Vec<String>,
    /// The same for categories.
    pub categories: Vec<String>,
    /// Whether capitals and small letters are the same.
    pub ignore_case: bool,
    /// Categories by name: `table::category`.
    pub chosen: Vec<String>,
    /// Only what is available.
    pub available_only: bool,
    /// Sorted by name.
    pub alphabetical: bool,
}

/// The names of a setting as they may stand in files and in the environment, of all versions.
fn spellings(name: &str, others: &[String]) -> Vec<String> {
    let bare = bare_name(name);
    let names = std::iter::once(&bare).chain(others);
    names
        .flat_map(|name| PREFIXES.map(|prefix| format!("{prefix}{name}")))
        .collect()
}

impl Filter {
    /// Compiles the regular expressions.
    pub fn new(choice: Choice) -> Result<Self> {
        Ok(Self {
            texts: Patterns::new(&choice.texts, choice.ignore_case)?,
            categories: Patterns::new(&choice.categories, choice.ignore_case)?,
            chosen: choice
                .chosen
                .iter()
                .map(|name| name.to_lowercase())
                .collect(),
            available_only: choice.available_only,
            alphabetical: choice.alphabetical,
        })
    }

    /// Whether the user looks for something, and not at everything.
    pub fn is_search(&self) -> bool {
        !self.texts.wanted.is_empty()
    }

    /// Whether a category was named by `-c`.
    pub fn chooses(&self, table: &str, category: &str) -> bool {
        let name = format!("{table}::{category}").to_lowercase();
        self.chosen.contains(&name)
    }

    /// Whether rows of this category are all that can stay.
    pub fn chooses_only(&self, table: &str, category: &str) -> bool {
        let prefix = format!("{table}::");
        let of_table = self.chosen.iter().filter(|name| name.starts_with(&prefix));
        self.chooses(table, category) && of_table.count() == 1
    }

    /// Takes away the rows that do not fit, and says so when none is left.
    pub fn apply(&self, table: &mut Table) {
        let before = table.rows.len();
        let shown: Vec<usize> = table.shown_columns().collect();
        let category = table.column("category");
        let available = table.column("available");
        let other_names = table.column("also");
        let prefix = format!("{}::", table.name);
        let chosen: Vec<&str> = self
            .chosen
            .iter()
            .filter_map(|name| name.strip_prefix(&prefix))
            .collect();
        table.rows.retain(|row| {
            let categories = match category.map(|place| &row[place]) {
                Some(Cell::List(names)) => names.clone(),
                Some(cell) => vec![cell.shown()],
                None => Vec::new(),
            };
            let in_category = chosen.is_empty()
                || categories
                    .iter()
                    .any(|name| chosen.contains(&name.to_lowercase().as_str()));
            let mut texts: Vec<String> = shown.iter().map(|place| row[*place].shown()).collect();
            if let Some(Cell::List(others)) = other_names.map(|place| &row[place]) {
                texts.extend(spellings(&row[0].shown(), others));
            }
            in_category
                && (category.is_none() || self.categories.accept(&categories))
                && self.texts.accept(&texts)
                && !(self.available_only
                    && available.is_some_and(|place| row[place] == Cell::Flag(false)))
        });
        if self.alphabetical {
            table
                .rows
                .sort_by_cached_key(|row| natural_key(&row[0].shown().to_lowercase()));
        }
        if table.rows.is_empty() && before > 0 {
            table.notes.insert(
                0,
                format!("None of the {before} {} fits the filter.", table.name),
            );
        }
    }

    /// The places in `text` that a wanted expression matches, in order and apart.
    pub fn hits(&self, text: &str) -> Vec<std::ops::Range<usize>> {
        let mut hits: Vec<_> = self
            .texts
            .wanted
            .iter()
            .flat_map(|regex| regex.find_iter(text).map(|hit| hit.range()))
            .filter(|hit| !hit.is_empty())
            .collect();
        hits.sort_by_key(|hit| hit.start);
        hits.dedup_by(|later, earlier| later.start < earlier.end);
        hits
    }
}
