//! The table of settings.

use rsys_config::documents::{allowed_text, option_text};
use rsys_config::table::{Kind, Setting};
use rsys_config::{IGNORED_SETTINGS, Origin, Settings, Value, generate};

use crate::request::Request;
use crate::table::{Cell, Column, Table};

/// The category of the original's settings that have no effect.
pub const ORIGINAL: &str = "Original";

/// One row per setting; with `--advanced` also those of the original that have no effect.
pub fn table(settings: &Settings, request: &Request) -> Table {
    let columns = request.columns;
    let mut table = Table {
        name: "settings",
        title: "Settings",
        columns: vec![
            Column::new("name", true),
            Column::new("value", !columns.brief),
            Column::new("type", columns.value),
            Column::new("default", columns.value),
            Column::new("origin", columns.value),
            Column::new("option", columns.string),
            Column::new("also", columns.string),
            Column::new("category", columns.category),
            Column::new("description", true),
            Column::new("advanced", false),
        ],
        ..Table::default()
    };
    let mut hidden = 0;
    for (setting, value, origin) in settings.iter() {
        let is_asked_for = request.advanced || request.filter.is_search();
        if setting.advanced && *origin == Origin::Default && !is_asked_for {
            hidden += 1;
            continue;
        }
        table
            .rows
            .push(row(setting, value, origin, columns.description));
    }
    let of_original = request.advanced
        || request.filter.is_search()
        || request.filter.chooses("settings", ORIGINAL);
    if of_original {
        let empty = || Cell::text("");
        table.rows.extend(IGNORED_SETTINGS.iter().map(|ignored| {
            vec![
                Cell::text(format!("ROCPROFSYS_{}", ignored.name)),
                empty(),
                empty(),
                empty(),
                empty(),
                empty(),
                Cell::list::<String>([]),
                Cell::text(ORIGINAL),
                Cell::text(format!("Accepted without effect: {}", ignored.reason)),
                Cell::Flag(true),
            ]
        }));
    }
    if hidden > 0 {
        table.notes.push(format!(
            "{hidden} advanced settings and the settings of the original that have no effect are not listed; --advanced shows them."
        ));
    }
    table
}

fn row(setting: &'static Setting, value: &Value, origin: &Origin, whole: bool) -> Vec<Cell> {
    let description = if whole {
        let mut text = generate::description(setting);
        text.push_str(&format!(" Takes {}.", allowed_text(setting)));
        if let Kind::Choice(choices) = setting.kind {
            let choices: Vec<String> = choices
                .iter()
                .map(|choice| format!("{}: {}", choice.name, choice.help))
                .collect();
            text.push_str(&format!(" {}.", choices.join("; ")));
        }
        if !setting.aliases.is_empty() {
            text.push_str(&format!(" Also called {}.", setting.aliases.join(", ")));
        }
        text
    } else {
        setting.summary.to_owned()
    };
    vec![
        Cell::text(format!("RSYS_{}", setting.name)),
        Cell::text(value.to_string()),
        Cell::text(type_name(setting)),
        Cell::text(setting.default),
        Cell::text(origin.to_string()),
        Cell::text(
            setting
                .option
                .as_ref()
                .map_or_else(String::new, option_text),
        ),
        Cell::list(setting.aliases.iter().copied()),
        Cell::text(setting.category.title()),
        Cell::text(description),
        Cell::Flag(setting.advanced),
    ]
}

fn type_name(setting: &Setting) -> String {
    let name = match setting.kind {
        Kind::Bool => "bool",
        Kind::Int { .. } => "int",
        Kind::Float { .. } => "float",
        Kind::Seconds { .. } | Kind::SecondsOr { .. } => "seconds",
        Kind::Periods => "periods",
        Kind::Limits => "size or time",
        Kind::Numbers { .. } => "list of numbers",
        Kind::Text => "text",
        Kind::Choice(_) => "choice",
        Kind::Path { .. } => "path",
        Kind::PathList => "list of paths",
        Kind::Backends => "list of backends",
        Kind::Metrics => "list of sensors",
    };
    match setting.unit() {
        "" | "s" => name.to_owned(),
        unit => format!("{name} ({unit})"),
    }
}
