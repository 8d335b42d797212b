//! The command line and what is printed.

use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum};
use rsys_analysis::show::printable;
use rsys_analysis::table::Answer;

use crate::ask;
use crate::check;
use crate::collectives::{self, CollectiveOptions};
use crate::cut;
use crate::diff::{DiffOptions, diff};
use crate::export::{ExportOptions, export};
use crate::files;
use crate::inputs::{Asked, CacheOptions, Inputs, Jobs, Writing, is_of};
use crate::manual;
use crate::mcp::{self, McpOptions};
use crate::merge::{self, Merged, Packing};
use crate::overlap::{self, OverlapOptions};
use crate::page;
use crate::query::{self, QueryOptions};
use crate::question::Question;
use crate::recover::{self, Recovery};
use crate::view;
use crate::words::counted;

/// Says where the time of GPUs and processors went, merges traces, checks them, and finishes those that a killed profiler left.
#[derive(Debug, Parser)]
#[command(
    name = "rsys-report",
    version,
    max_term_width = 100,
    arg_required_else_help = true,
    args_conflicts_with_subcommands = true
)]
struct Cli {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    summary: Inputs,
    /// Print completions for a shell
    #[arg(long, value_name = "SHELL", exclusive = true)]
    completions: Option<clap_complete::Shell>,
    /// Print the manual page, for man -l
    #[arg(long, exclusive = true)]
    man: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    #[command(flatten)]
    Ask(Question),
    /// Which rank made the others wait in collectives and in messages of MPI, by how much, and what it did meanwhile
    Collectives(CollectiveOptions),
    /// Each iteration of each rank: computation, communication that nothing hid, copies, idleness; the slowest, and what was different in them
    Overlap(OverlapOptions),
    /// Two runs compared: what became slower, by how much, and how sure that is
    Diff(DiffOptions),
    /// All answers on one page with pictures, a file for any browser
    Html(HtmlOptions),
    /// Make one trace of many, on one time axis
    Merge(MergeOptions),
    /// Make a small trace of a large one: a stretch of time, some processes, threads or tracks
    Cut(CutOptions),
    /// Tell whether the traces of a job are all there, finished and without losses
    Check(CheckOptions),
    /// Finish what a killed profiler left
    Recover(RecoverOptions),
    /// Open traces in the Perfetto UI
    View(ViewOptions),
    /// Write traces in the format of another tool
    Export(ExportOptions),
    /// SQL over tables of all records; without a query, the tables and their columns
    Query(QueryOptions),
    /// Answer programs that ask: a server for the Model Context Protocol on standard input and output
    Mcp(McpOptions),
}

#[derive(Debug, Args)]
struct HtmlOptions {
    /// Folders with traces, or traces
    #[arg(required = true, value_name = "DIR|TRACE")]
    inputs: Vec<PathBuf>,
    /// The page
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Also write each picture of the page as a PNG file into this folder
    #[arg(long, value_name = "FOLDER")]
    png: Option<PathBuf>,
    /// Begin flame graphs with what this function calls, by its name there; may be given several times
    #[arg(long, value_name = "FUNCTION")]
    below: Vec<String>,
    /// Replace outputs that are already there
    #[arg(short, long)]
    force: bool,
    /// The name of the run on the page; by default that of the first input
    #[arg(long, value_name = "TEXT")]
    label: Option<String>,
    #[command(flatten)]
    jobs: Jobs,
    #[command(flatten)]
    cache: CacheOptions,
}

#[derive(Debug, Args)]
struct MergeOptions {
    /// Traces, or folders with traces (*.proto, *.pftrace, *.perfetto-trace)
    #[arg(required = true, value_name = "TRACE|DIR")]
    inputs: Vec<PathBuf>,
    /// The merged trace
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the output if it is already there
    #[arg(short, long)]
    force: bool,
    /// Whether to compress the packets
    #[arg(long, value_enum, default_value_t = Compress::Auto, value_name = "WHEN")]
    compress: Compress,
}

#[derive(Debug, Args)]
struct CutOptions {
    /// The trace
    #[arg(value_name = "TRACE")]
    input: PathBuf,
    /// The part
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Replace the output if it is already there
    #[arg(short, long)]
    force: bool,
    /// Where the part begins, since the start of the trace, such as 90s, 1.5min or 20ms
    #[arg(long, value_name = "TIME", value_parser = cut::parse_time, default_value = "0s")]
    from: u64,
    /// Where it ends; by default with the trace
    #[arg(long, value_name = "TIME", value_parser = cut::parse_time)]
    to: Option<u64>,
    /// Keep this process only, by id or a part of its name; may be given again
    #[arg(long, value_name = "PID|NAME")]
    process: Vec<String>,
    /// Keep this thread only, by id or a part of its name; may be given again
    #[arg(long, value_name = "TID|NAME")]
    thread: Vec<String>,
    /// Keep tracks only with this in their name or in that of what they belong to; may be given again
    #[arg(long, value_name = "NAME")]
    track: Vec<String>,
    /// Leave these out
    #[arg(long, value_name = "KIND", value_enum, value_delimiter = ',')]
    drop: Vec<cut::Kind>,
}

#[derive(Debug, Args)]
struct CheckOptions {
    /// Folders with traces, or traces
    #[arg(required = true, value_name = "DIR|TRACE")]
    inputs: Vec<PathBuf>,
    /// Lost records up to this share are no problem
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    allow_loss: f64,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct RecoverOptions {
    /// Traces, or folders with traces; finished ones are left alone
    #[arg(required = true, value_name = "TRACE|DIR")]
    inputs: Vec<PathBuf>,
    /// Write the finished trace here and leave the original alone (one trace only)
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ViewOptions {
    /// Traces, or folders with traces; several are merged
    #[arg(required_unless_present = "ui", value_name = "DIR|TRACE")]
    inputs: Vec<PathBuf>,
    /// Print the address of the page, start no browser
    #[arg(long)]
    no_browser: bool,
    /// A folder with a copy of the Perfetto UI; fetch: get and keep one, for machines without a network; online: the page of the internet,
    /// also where a copy is kept
    #[arg(long, value_name = "DIR|fetch|online")]
    ui: Option<PathBuf>,
    /// The port to serve on; 0: any (other ports than the default need --ui)
    #[arg(long, value_name = "PORT", default_value_t = view::PAGE_PORT)]
    port: u16,
    /// How long to wait for the page
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    wait: u64,
    /// Go on serving after the page has the trace, until interrupted
    #[arg(long)]
    keep: bool,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Compress {
    /// If one of the inputs is compressed
    Auto,
    /// Always
    Yes,
    /// Never
    No,
}

/// The command line, for help and manuals.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Does what the arguments say; returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> i32 {
    rsys_traces::read::understand(&[rsys_databases::OPENER]);
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // There is nowhere to say it when the terminal is gone.
            error.print().ok();
            return error.exit_code();
        }
    };
    let outcome = match (cli.verb, cli.completions) {
        (Some(Verb::Ask(question)), _) => ask::ask(&question).and_then(answer),
        (Some(Verb::Collectives(options)), _) => collectives::ask(&options).and_then(asked),
        (Some(Verb::Overlap(options)), _) => overlap::ask(&options).and_then(asked),
        (Some(Verb::Diff(options)), _) => write_diff(&options),
        (Some(Verb::Html(options)), _) => {
            let inputs = Inputs::new(options.inputs, options.label, options.jobs);
            let (pictures, below) = (options.png.as_deref(), &options.below);
            let inputs = inputs.with_cache(options.cache);
            write_page(inputs, &options.output, pictures, options.force, below)
        }
        (Some(Verb::Merge(options)), _) => merge_traces(options),
        (Some(Verb::Cut(options)), _) => cut_trace(options),
        (Some(Verb::Check(options)), _) => check_traces(&options),
        (Some(Verb::Recover(options)), _) => recover_traces(&options),
        (Some(Verb::View(options)), _) => view_traces(options),
        (Some(Verb::Export(options)), _) => export(options),
        (Some(Verb::Query(options)), _) => query::query(options),
        (Some(Verb::Mcp(options)), _) => mcp::serve(&options),
        (None, Some(shell)) => say(&manual::completions(command(), shell)).map(|()| 0),
        (None, None)
            if !cli.man
                && let Some(word) = cli.summary.unknown_word() =>
        {
            let meant = nearest_verb(&word.to_string());
            let hint = match meant {
                None => String::new(),
                Some(verb) if verb == word.to_string() => {
                    format!("; options stand behind the command: rsys-report {verb} …")
                }
                Some(verb) => format!("; did you mean '{verb}'?"),
            };
            let word = word.to_string();
            eprintln!(
                "rsys-report: error: {} is neither a command nor a trace or a folder{hint}",
                printable(&word)
            );
            Ok(2)
        }
        (None, None)
            if !cli.man
                && let Some((output, force)) = cli.summary.page() =>
        {
            write_page(cli.summary.without_output(), &output, None, force, &[])
        }
        (None, None) if !cli.man => ask::ask(&Question::Summary(cli.summary)).and_then(answer),
        (None, None) => say(&manual::page(command())).map(|()| 0),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("rsys-report: error: {}", printable(&format!("{error:#}")));
        1
    })
}

/// The command that is most like a word, if any is like it at all.
fn nearest_verb(word: &str) -> Option<String> {
    /// By Jaro and Winkler, 0 to 1.
    const ALIKE_ENOUGH: f64 = 0.84;
    /// What other tools call it.
    const ELSEWHERE: [(&str, &str); 12] = [
        ("open", "view"),
        ("show", "view"),
        ("top", "functions"),
        ("hotspots", "functions"),
        ("hot", "functions"),
        ("compare", "diff"),
        ("flamegraph", "html"),
        ("flame", "html"),
        ("page", "html"),
        ("convert", "export"),
        ("stats", "kernels"),
        ("sql", "query"),
    ];
    if let Some((_, verb)) = ELSEWHERE.iter().find(|(name, _)| *name == word) {
        return Some((*verb).to_owned());
    }
    let command = command();
    let names = command.get_subcommands().map(|verb| verb.get_name());
    let alike = names.map(|name| (strsim::jaro_winkler(word, name), name));
    let nearest = alike.max_by(|one, other| one.0.total_cmp(&other.0))?;
    (nearest.0 >= ALIKE_ENOUGH).then(|| nearest.1.to_owned())
}

fn answer((answer, writing): (Answer, Writing)) -> Result<i32> {
    say(&writing.write(&answer)?)?;
    Ok(i32::from(answer.is_empty))
}

fn asked(asked: Asked) -> Result<i32> {
    match asked {
        Asked::Answer(found, writing) => answer((found, writing)),
        Asked::Parts(count, folder) => {
            let parts = counted(count as u64, "part");
            say(&format!("{}: {parts}\n", folder.display()))?;
            Ok(0)
        }
    }
}

fn write_diff(options: &DiffOptions) -> Result<i32> {
    let (text, code) = diff(options)?;
    say(&text)?;
    Ok(code)
}

fn write_page(
    inputs: Inputs,
    output: &Path,
    pictures: Option<&Path>,
    force: bool,
    below: &[String],
) -> Result<i32> {
    if is_of(output, &["json", "csv", "xlsx", "txt"]) {
        let name = output.display();
        bail!("{name}: a page is HTML; rsys-report DIR -o {name} writes the summary in that form");
    }
    let written = page::write(&page::Request {
        inputs,
        output,
        pictures,
        force,
        below,
    })?;
    say(&format!(
        "{}: {:.1} MB, opens in any browser\n",
        output.display(),
        written.bytes as f64 / 1e6
    ))?;
    if let Some(folder) = pictures {
        let pictures = counted(written.pictures as u64, "picture");
        say(&format!("{}: {pictures}\n", folder.display()))?;
    }
    Ok(0)
}

fn merge_traces(options: MergeOptions) -> Result<i32> {
    let request = merge::Request {
        inputs: options.inputs,
        output: options.output,
        force: options.force,
        packing: match options.compress {
            Compress::Auto => Packing::AsInputs,
            Compress::Yes => Packing::Compressed,
            Compress::No => Packing::Plain,
        },
    };
    let merged = merge::merge(&request)?;
    for remark in &merged.remarks {
        eprintln!("rsys-report: {}", printable(remark));
    }
    say(&summary(&merged, &request))?;
    Ok(0)
}

fn cut_trace(options: CutOptions) -> Result<i32> {
    let picks = |words: Vec<String>| words.into_iter().map(cut::Pick::from).collect();
    let request = cut::Request {
        input: options.input,
        output: options.output,
        force: options.force,
        from_ns: options.from,
        to_ns: options.to,
        selection: cut::Selection {
            processes: picks(options.process),
            threads: picks(options.thread),
            tracks: options.track,
            dropped: options.drop,
        },
    };
    if let Some(text) = request.empty_range() {
        let mut command = command();
        let error = command.error(clap::error::ErrorKind::ValueValidation, text);
        error.print().ok();
        return Ok(error.exit_code());
    }
    let done = cut::cut(&request)?;
    for remark in &done.remarks {
        eprintln!("rsys-report: {}", printable(remark));
    }
    say(&done.text(&request))?;
    Ok(0)
}

fn check_traces(options: &CheckOptions) -> Result<i32> {
    let report = check::check(&options.inputs, options.allow_loss)?;
    let text = match options.json {
        true => format!("{:#}\n", report.json()),
        false => report.text(),
    };
    say(&text)?;
    Ok(i32::from(!report.is_ok()))
}

fn recover_traces(options: &RecoverOptions) -> Result<i32> {
    let paths = files::traces(&options.inputs, files::PERFETTO, None)?;
    if options.output.is_some() && paths.len() > 1 {
        bail!("--output is for one trace, and there are {}", paths.len());
    }
    let mut code = 0;
    for path in &paths {
        let line = match recover::recover(path, options.output.as_deref()) {
            Ok(Recovery::Whole) => format!("{}: finished, left alone", path.display()),
            Ok(Recovery::Done {
                closed,
                cut_bytes,
                samples,
                original,
            }) => format!(
                "{}: finished now: {}, {} closed, {} cut off; as it was: {}",
                options.output.as_ref().unwrap_or(path).display(),
                counted(samples, "sample"),
                counted(closed, "open slice"),
                counted(cut_bytes, "byte"),
                original.display()
            ),
            Err(error) => {
                eprintln!("rsys-report: error: {}", printable(&format!("{error:#}")));
                code = 1;
                continue;
            }
        };
        say(&format!("{line}\n"))?;
    }
    Ok(code)
}

fn view_traces(options: ViewOptions) -> Result<i32> {
    let request = view::Request {
        inputs: options.inputs,
        ui: options.ui.map_or(view::Ui::Kept, view::Ui::of),
        port: options.port,
        browser: !options.no_browser,
        keep: options.keep,
        wait: Duration::from_secs(options.wait),
    };
    view::view(&request, |line| say(&format!("{line}\n")))?;
    Ok(0)
}

/// Prints; the reader may have gone, as with `rsys-report check | head`.
fn say(text: &str) -> Result<()> {
    match std::io::stdout()
        .lock()
        .write_all(printable(text).as_bytes())
    {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write the answer"),
    }
}

fn summary(merged: &Merged, request: &merge::Request) -> String {
    let mega = |bytes: u64| bytes as f64 / 1e6;
    let mut text = String::new();
    if merged.hosts.len() > 1 {
        for host in &merged.hosts {
            text.push_str(&format!("clock of {}: {host}\n", host.name));
        }
    }
    text.push_str(&format!(
        "{}: {}, {}, {}, {}; {:.1} MB read ({:.1} MB of packets), {:.1} MB written in {:.2} s ({:.0} MB/s)\n",
        request.output.display(),
        counted(merged.traces as u64, "trace"),
        counted(merged.ranks as u64, "rank"),
        counted(merged.hosts.len() as u64, "host"),
        counted(merged.packets, "packet"),
        mega(merged.read_bytes),
        mega(merged.plain_bytes),
        mega(merged.written_bytes),
        merged.seconds,
        mega(merged.plain_bytes) / merged.seconds.max(1e-9),
    ));
    text
}
