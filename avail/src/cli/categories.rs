//! Categories of rows, as `-c` takes them.

use rsys_config::table::Category;

use crate::table::{Cell, Column, Table};
use crate::{components, counters};

/// All categories by table, as `-c` takes them.
fn all_categories() -> Vec<(&'static str, &'static str)> {
    let mut all: Vec<(&str, &str)> = Category::ALL
        .iter()
        .map(|category| ("settings", category.title()))
        .collect();
    all.push(("settings", crate::settings::ORIGINAL));
    all.extend(components::CATEGORIES.map(|name| ("components", name)));
    all.extend(counters::CATEGORIES.map(|name| ("counters", name)));
    all
}

/// The table for `--list-categories`.
pub fn category_table() -> Table {
    Table {
        name: "categories",
        title: "Categories for -c",
        columns: vec![Column::new("name", true)],
        rows: all_categories()
            .iter()
            .map(|(table, name)| vec![Cell::text(format!("{}::{name}", spoken(table)))])
            .collect(),
        notes: Vec::new(),
    }
}

/// The original's word for a table in `-c`.
fn spoken(table: &str) -> &str {
    match table {
        "components" => "component",
        "counters" => "hw_counters",
        other => other,
    }
}

/// Categories of settings in the original, and where their settings stand here.
const OF_ORIGINAL: &[(&[&str], &[Category])] = &[
    (
        &[
            "omnitrace",
            "rocprofsys",
            "rocprof-sys",
            "rocprofiler-systems",
            "native",
        ],
        &Category::ALL,
    ),
    (
        &["core", "config", "debugging"],
        &[Category::General, Category::Diagnostics],
    ),
    (&["io", "filename", "data"], &[Category::Output]),
    (
        &["perfetto", "trace"],
        &[Category::Output, Category::Windows],
    ),
    (&["timemory", "profile"], &[Category::Profile]),
    (
        &[
            "process_sampling",
            "hw_counters",
            "hardware_counters",
            "papi",
        ],
        &[Category::Counters],
    ),
    (
        &["rocm", "rocm_smi", "amd_smi", "gpu"],
        &[Category::Backends, Category::Counters],
    ),
    (
        &[
            "backend",
            "kokkos",
            "mpi",
            "ompt",
            "openmp",
            "parallelism",
            "rccl",
            "rocprofiler",
            "roctracer",
            "roctx",
        ],
        &[Category::Backends],
    ),
];

/// Categories of the original all of whose settings have no effect here, beside those of [`OF_ORIGINAL`].
const WITHOUT_EFFECT: [&str; 5] = [
    "timemory",
    "causal",
    "coverage",
    "instrumentation",
    "threading",
];

/// What the original's category of settings stands for here.
fn of_original(table: Option<&str>, name: &str) -> Vec<String> {
    let is = |other: &str| other.eq_ignore_ascii_case(name);
    if table.is_some_and(|table| !table.eq_ignore_ascii_case("settings")) {
        return Vec::new();
    }
    let rows = OF_ORIGINAL
        .iter()
        .filter(|(names, _)| names.iter().any(|one| is(one)));
    let ours = rows.flat_map(|(_, categories)| categories.iter().map(|one| one.title()));
    let theirs = WITHOUT_EFFECT.iter().any(|one| is(one));
    ours.chain(theirs.then_some(crate::settings::ORIGINAL))
        .map(|title| format!("settings::{title}"))
        .collect()
}

/// Gives each name the table that it belongs to; where there are several, those that are asked for come first.
pub(super) fn categories(words: &[String], asked: &[&str]) -> anyhow::Result<Vec<String>> {
    let all = all_categories();
    let found: anyhow::Result<Vec<Vec<String>>> = words
        .iter()
        .flat_map(|word| word.split(','))
        .map(|word| {
            let (table, name) = match word.split_once("::") {
                Some((table, name)) => (Some(table), name),
                None => (None, word),
            };
            let of_original = of_original(table, name);
            let mut fitting: Vec<_> = all
                .iter()
                .filter(|(other, category)| {
                    let in_table = table.is_none_or(|table| {
                        table.eq_ignore_ascii_case(other)
                            || table.eq_ignore_ascii_case(spoken(other))
                    });
                    in_table && category.eq_ignore_ascii_case(name)
                })
                .collect();
            if fitting.iter().any(|(table, _)| asked.contains(table)) {
                fitting.retain(|(table, _)| asked.contains(table));
            }
            match fitting.as_slice() {
                [(table, category)] => Ok(vec![format!("{table}::{category}")]),
                [] if !of_original.is_empty() => Ok(of_original),
                [] => Err(anyhow::anyhow!("{}", unknown_category(word, name, &all))),
                several => {
                    let names: Vec<String> = several
                        .iter()
                        .map(|(table, category)| format!("{}::{category}", spoken(table)))
                        .collect();
                    Err(anyhow::anyhow!(
                        "category '{word}' is in more than one table; write one of {}",
                        names.join(", ")
                    ))
                }
            }
        })
        .collect();
    Ok(found?.concat())
}

fn unknown_category(word: &str, name: &str, all: &[(&str, &str)]) -> String {
    let nearest = all
        .iter()
        .map(|(table, category)| {
            let likeness = strsim::jaro_winkler(&name.to_lowercase(), &category.to_lowercase());
            (likeness, format!("{}::{category}", spoken(table)))
        })
        .filter(|(likeness, _)| *likeness > 0.75)
        .max_by(|left, right| left.0.total_cmp(&right.0));
    let hint = nearest.map_or_else(String::new, |(_, name)| format!(" Did you mean '{name}'?"));
    format!(
        "unknown category '{word}'.{hint} '--list-categories' lists all; a regular expression goes after -r"
    )
}
