//! The table of path keys.

use rsys_config::Environment;
use rsys_config::keys::{self, KeyValues};

use crate::request::Request;
use crate::table::{Cell, Column, Table};

/// One row per key; with `--expand-keys` what it stands for in this process.
pub fn table(request: &Request) -> Table {
    let values = values(request.tag.as_deref());
    Table {
        name: "keys",
        title: "Keys in output paths",
        columns: vec![
            Column::new("key", true),
            Column::new("value", request.expand_keys),
            Column::new("description", true),
        ],
        rows: keys::KEYS
            .iter()
            .map(|(key, meaning)| {
                vec![
                    Cell::text(*key),
                    Cell::text(value(key, &values)),
                    Cell::text(*meaning),
                ]
            })
            .collect(),
        notes: if request.expand_keys {
            vec!["The command is this one; in a run it is the program that is profiled.".to_owned()]
        } else {
            Vec::new()
        },
    }
}

/// What the first spelling of a key stands for; nothing where it needs a name.
fn value(key: &str, values: &KeyValues) -> String {
    let first = key.split([',', ' ']).next().unwrap_or(key);
    let first = first.split("...").next().unwrap_or(first);
    if first.contains('{') {
        return String::new();
    }
    keys::expand(first, values)
}

fn values(tag: Option<&str>) -> KeyValues {
    let id = |pid: nix::unistd::Pid| pid.as_raw().unsigned_abs();
    let words = std::env::args_os();
    let mut command: Vec<String> = words
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let (Some(tag), Some(program)) = (tag, command.first_mut()) {
        tag.clone_into(program);
    }
    KeyValues {
        pid: std::process::id(),
        parent_pid: std::os::unix::process::parent_id(),
        process_group: id(nix::unistd::getpgrp()),
        session: nix::unistd::getsid(None).map_or(0, id),
        host: nix::unistd::gethostname()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default(),
        launch_time: crate::config_file::local_time("%Y-%m-%d_%H.%M.%S"),
        command,
        ..KeyValues::of_job(&Environment::of_this_process())
    }
}
