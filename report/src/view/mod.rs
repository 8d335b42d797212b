//! Opening traces in the Perfetto UI: a server for one trace on the loopback interface, and the address of the page that asks it.
//!
//! The page may connect to port 9001 of 127.0.0.1 and to no other (its content security policy; see "Visualizing traces: opening with url="
//! in Perfetto's documentation). Other users of the machine can connect there as well, so the trace has a name that cannot be guessed.

mod browser;
mod copy;
mod http;
mod pages;
mod server;

use std::collections::HashSet;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rsys_traces::read;
use serde_json::json;

use self::server::{End, Offer, Server};
use crate::files::{
    self, PERFETTO, READABLE, is_other_form_of_rocprofv3, overview_of, short_name, traces,
};
use crate::merge::{self, Packing};

/// The port that the page at [`PAGE`] may connect to.
pub const PAGE_PORT: u16 = 9001;
/// The page.
const PAGE: &str = "https://ui.perfetto.dev";

/// Which Perfetto UI is opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ui {
    /// The copy that is kept on this machine, else the page of the internet.
    Kept,
    /// The page of the internet.
    Online,
    /// The copy that is kept on this machine, which is fetched first if it is not there.
    Fetched,
    /// A copy in this folder.
    Folder(PathBuf),
}

impl Ui {
    /// Reads the word of `--ui`.
    #[must_use]
    pub fn of(word: PathBuf) -> Self {
        match word.to_str() {
            Some("fetch") => Self::Fetched,
            Some("online") => Self::Online,
            _ => Self::Folder(word),
        }
    }

    /// The folder of the copy that is to be served, if one is.
    fn folder(&self, say: &mut impl FnMut(&str) -> Result<()>) -> Result<Option<PathBuf>> {
        Ok(match self {
            Self::Kept => copy::find(),
            Self::Online => None,
            Self::Fetched => {
                let folder = copy::fetch(say)?;
                say(&format!("the Perfetto UI is in {}", folder.display()))?;
                Some(folder)
            }
            Self::Folder(folder) => Some(folder.clone()),
        })
    }
}

/// What to show, and how.
#[derive(Debug, Clone)]
pub struct Request {
    /// Traces, and folders with traces.
    pub inputs: Vec<PathBuf>,
    /// Which Perfetto UI is opened.
    pub ui: Ui,
    /// The port of the loopback interface; 0: any that is free.
    pub port: u16,
    /// Whether a browser is started.
    pub browser: bool,
    /// Whether to go on after the page has the trace.
    pub keep: bool,
    /// How long to wait for the page.
    pub wait: Duration,
}

/// Serves the trace until the page has it. `say` is told what the user has to know.
///
/// # Errors
/// When there is no trace, several cannot be merged, the port is taken, or the page has not asked in time.
pub fn view(request: &Request, mut say: impl FnMut(&str) -> Result<()>) -> Result<()> {
    let folder = request.ui.folder(&mut say)?;
    if request.inputs.is_empty() {
        return match request.ui {
            Ui::Fetched => Ok(()),
            _ => bail!("name a trace, or a folder with traces; only --ui fetch needs none"),
        };
    }
    if folder.is_none() && request.port != PAGE_PORT {
        bail!(
            "{PAGE} may only connect to port {PAGE_PORT}; another one needs --ui (fetch, or the folder of a copy)"
        );
    }
    let pages = folder.as_deref().map(pages::Pages::open).transpose()?;
    let hint = folder.is_none().then(copy::hint).flatten();
    let (name, trace, processes) = trace_of(&request.inputs, &mut say)?;
    let offer = Offer::new(name, trace, pages)?;
    let server = Server::start(offer, request.port)?;
    let address = format!("{}{}", server.page_address(PAGE), expanded(processes));
    say(&format!("open {address}"))?;
    for line in browser::show(&address, server.port(), request.browser) {
        say(&line)?;
    }
    hint.iter().try_for_each(|line| say(line))?;
    match server.serve(request.wait, request.keep)? {
        End::Delivered(bytes) => say(&format!(
            "the page has the trace ({:.1} MB)",
            bytes as f64 / 1e6
        )),
        End::NotAsked => bail!(
            "no page asked for the trace within {} s (--wait)",
            request.wait.as_secs()
        ),
    }
}

/// Whether a trace shows one process or several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Processes {
    One,
    Several,
}

/// What the page opens first, for its address: GPUs, and a process that is alone, whose groups of tracks end with a number. The page has everything
/// folded otherwise (Perfetto, "Commands and Macros": startup commands).
fn expanded(processes: Processes) -> String {
    let names = match processes {
        Processes::One => r"^GPU|^Iterations| \d+$",
        Processes::Several => "^GPU",
    };
    let commands = json!([{"id": "dev.perfetto.ExpandTracksByRegex", "args": [names]}]).to_string();
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    let encoded: String = commands.bytes().map(encode).collect();
    format!("&startupCommands={encoded}")
}

/// The one trace that the inputs stand for, its name, and what is in it: several are merged.
fn trace_of(
    inputs: &[PathBuf],
    say: &mut impl FnMut(&str) -> Result<()>,
) -> Result<(String, File, Processes)> {
    let mut files = traces(inputs, READABLE, None)?;
    if files.iter().any(|file| ends_like(file, PERFETTO)) {
        files.retain(|file| !is_other_form_of_rocprofv3(file));
    }
    let named: HashSet<&PathBuf> = inputs.iter().collect();
    let mut of_runs: Vec<PathBuf> = Vec::new();
    files.retain(
        |file| match overview_of(file).filter(|_| !named.contains(file)) {
            Some(overview) => {
                of_runs.push(overview);
                false
            }
            None => true,
        },
    );
    of_runs.sort();
    of_runs.dedup();
    if !of_runs.is_empty() {
        say(
            "shown is the overview of a long run; name one of its files to see that part of it in full",
        )?;
        files.append(&mut of_runs);
    }
    let mut merged = files.iter().filter(|file| read::is_merged(file));
    let only = match (files.as_slice(), merged.next(), merged.next()) {
        ([only], ..) | (_, Some(only), None) => Some(only),
        _ => None,
    };
    if let Some(only) = only {
        if files::is_database(only) {
            bail!(
                "{}: the Perfetto UI reads no databases; rsys-report answers questions about it",
                only.display()
            );
        }
        let file = File::open(only).with_context(|| format!("cannot read {}", only.display()))?;
        let processes = match read::is_merged(only) {
            true => Processes::Several,
            false => Processes::One,
        };
        return Ok((short_name(only), file, processes));
    }
    let foreign = files.iter().find(|file| !ends_like(file, PERFETTO));
    if let Some(foreign) = foreign {
        bail!(
            "{} cannot be shown together with other traces: view it alone",
            foreign.display()
        );
    }
    let name = format!(
        "{}.pftrace",
        inputs
            .first()
            .map_or_else(String::new, |path| short_name(path))
    );
    let output = std::env::temp_dir().join(format!("rsys-view-{}.pftrace", std::process::id()));
    let request = merge::Request {
        inputs: files,
        output: output.clone(),
        force: true,
        packing: Packing::Plain,
    };
    let done = merge::merge(&request)?;
    for remark in &done.remarks {
        say(remark)?;
    }
    let file = File::open(&output).with_context(|| format!("cannot read {}", output.display()));
    // It is there as long as it is open.
    std::fs::remove_file(&output).ok();
    say(&format!("{} traces merged", done.traces))?;
    Ok((name, file?, Processes::Several))
}

fn ends_like(path: &Path, endings: &[&str]) -> bool {
    let name = short_name(path);
    endings.iter().any(|ending| name.ends_with(ending))
}
