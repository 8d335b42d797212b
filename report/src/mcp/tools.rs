//! What programs can ask, and the command of `rsys-report` that answers it.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde_json::{Map, Value, json};

use super::runs::Roots;

/// The most bytes of a page of an answer.
const PAGE_BYTES: usize = 32 << 10;

/// The most rows of an answer to a query, if nothing else is wanted.
const ROWS: &str = "100";

/// Arguments of a call.
pub(super) type Arguments = Map<String, Value>;

/// What can be asked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tool {
    pub(super) name: &'static str,
    pub(super) about: &'static str,
    /// What its option `by` takes, if it has one.
    by: &'static [&'static str],
}

const fn question(name: &'static str, about: &'static str) -> Tool {
    Tool {
        name,
        about,
        by: &[],
    }
}

/// All tools: the list of runs, and the questions of `rsys-report`.
pub(super) const TOOLS: [Tool; 21] = [
    question(
        LIST,
        "The runs that can be asked about: folders with traces of rsys-sample or of other profilers.",
    ),
    question(
        "summary",
        "Where the time of a run went: the first findings, and the first lines of all questions. Start here.",
    ),
    question(
        "advice",
        "What to look at first: at most ten findings by the time that each could give back, with place and numbers.",
    ),
    question(
        "timeline",
        "Computation, communication, copies and idleness of each GPU.",
    ),
    question(
        "gaps",
        "Why each GPU was idle, by cause and by the line of code that kept it waiting.",
    ),
    Tool {
        name: "kernels",
        about: "The kernels that took the time of the GPUs, by name.",
        by: &["grid", "stream", "device"],
    },
    Tool {
        name: "efficiency",
        about: "How well the busy time of the GPUs was used: operations and bytes of operators by their shapes, the rates that they came to, and what the GPU could do.",
        by: &[],
    },
    question(
        "copies",
        "Copies by direction and size, their bandwidth, and the calls that waited for them.",
    ),
    question(
        "calls",
        "Calls of HIP, HSA, RCCL, MPI, OpenSHMEM and UCX, and how long those held their threads.",
    ),
    Tool {
        name: "functions",
        about: "The functions that took the CPU time, and what threads waited for.",
        by: &["line", "thread", "process", "shapes"],
    },
    question(
        "locks",
        "Locks of the C library and Python: how often each was taken, how long threads waited for it and where, and who held it.",
    ),
    question(
        "memory",
        "Memory that programs made and gave back, its peak, and what held it then.",
    ),
    question(
        "sensors",
        "Power, clock, temperature, memory and load of GPUs, and when clocks were slow.",
    ),
    Tool {
        name: "launch",
        about: "Who launched the kernels: operators, functions, ranges, calls; and how long launches waited.",
        by: &["shapes"],
    },
    question(
        "streams",
        "Each stream of a GPU: idle time by what it waited for, kernels that follow each other again and again, ranges of the program as the GPU saw them.",
    ),
    question(
        "pop",
        "How well the ranks of a job and their GPUs were kept at work: the efficiencies of POP and TALP, each the product of those below it.",
    ),
    question(
        "stuck",
        "Of a run that hung: the kernel that never ended, the rank that the others waited for, and where each process was when its trace ended.",
    ),
    question(
        "collectives",
        "Which rank made the others wait in collectives of RCCL or MPI, by how much, and what it did meanwhile.",
    ),
    question(
        OVERLAP,
        "Each iteration of each rank: computation, communication that nothing hid, copies, idleness by cause; the slowest, and what was different in them.",
    ),
    question(
        TABLES,
        "The tables that query asks, with their columns and what those mean. To be read before the first query.",
    ),
    question(
        QUERY,
        "SQL (a select, as SQLite has it) over tables of all records: what the other tools do not answer.",
    ),
];

const LIST: &str = "list_runs";
const OVERLAP: &str = "overlap";
const TABLES: &str = "tables";
const QUERY: &str = "query";

impl Tool {
    /// The tool of a name.
    pub(super) fn of(name: &str) -> Option<&'static Self> {
        TOOLS.iter().find(|tool| tool.name == name)
    }

    /// What its arguments look like (JSON Schema).
    pub(super) fn arguments(&self) -> Map<String, Value> {
        let mut properties = Map::new();
        let mut put = |name: &str, schema: Value| properties.insert(name.to_owned(), schema);
        let page = json!({
            "type": "integer", "minimum": 1,
            "description": "the page of an answer that is longer than one",
        });
        put("page", page);
        if self.name == QUERY {
            put(
                "sql",
                json!({ "type": "string", "description": "the query" }),
            );
            let limit = json!({
                "type": "integer", "minimum": 1,
                "description": "at most this many rows; 100 by default",
            });
            put("limit", limit);
        }
        if self.name == TABLES {
            put(
                "form",
                json!({ "type": "string", "enum": ["text", "json"] }),
            );
        } else if self.name != LIST {
            let run = json!({
                "type": "string",
                "description": "a run of list_runs, or a folder or trace below one; may be left out if the server has one folder only",
            });
            put("run", run);
            let form = json!({
                "type": "string", "enum": ["text", "json", "csv"],
                "description": "text (the default): long tables are cut; json: all rows, keys with units; csv: the first table",
            });
            put("form", form);
        }
        if self.name == OVERLAP {
            let marker = json!({
                "type": "string",
                "description": "what recurs once in each iteration: the name of a range, function, call or kernel; by default it is found",
            });
            put("marker", marker);
        }
        if !self.by.is_empty() {
            let by = json!({
                "type": "array", "items": { "type": "string", "enum": self.by },
                "description": "what else tells rows apart",
            });
            put("by", by);
        }
        let schema = json!({
            "type": "object",
            "properties": properties,
            "required": if self.name == QUERY { vec!["sql"] } else { Vec::new() },
            "additionalProperties": false,
        });
        match schema {
            Value::Object(schema) => schema,
            _ => Map::new(),
        }
    }

    /// Answers, in a page of bounded size.
    ///
    /// # Errors
    /// In words for who asked: what is wrong with the arguments, or what `rsys-report` says.
    pub(super) fn call(
        &self,
        arguments: &Arguments,
        roots: &Roots,
        program: &Path,
    ) -> Result<String> {
        let known = self.arguments();
        for name in arguments.keys() {
            if known["properties"].get(name).is_none() {
                bail!("{} has no argument `{name}`", self.name);
            }
        }
        let page_number = match arguments.get("page") {
            None => 1,
            Some(value) => value
                .as_u64()
                .filter(|&number| number > 0)
                .context("`page` has to be a whole number from 1 on")?,
        };
        let text = match self.name {
            LIST => format!("{:#}\n", roots.list()),
            _ => run(&mut self.command(arguments, roots, program)?)?,
        };
        page(&text, usize::try_from(page_number)?)
    }

    fn command(&self, arguments: &Arguments, roots: &Roots, program: &Path) -> Result<Command> {
        let text = |name: &str| match arguments.get(name) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text.as_str())),
            Some(_) => bail!("`{name}` has to be a text"),
        };
        let mut command = Command::new(program);
        command.arg(if self.name == TABLES {
            QUERY
        } else {
            self.name
        });
        match text("form")?.unwrap_or("text") {
            "text" => {}
            "json" => drop(command.arg("--json")),
            "csv" => drop(command.arg("--csv")),
            form => bail!("`form` is text, json or csv, not {form}"),
        }
        for by in self.words(arguments)? {
            command.args(["--by", by]);
        }
        if let Some(marker) = text("marker")? {
            command.arg(format!("--marker={marker}"));
        }
        if self.name == TABLES {
            command.arg("--tables");
            return Ok(command);
        }
        if let Some(limit) = arguments.get("limit") {
            let limit = limit.as_u64().context("`limit` has to be a whole number")?;
            command.args(["--limit", &limit.to_string()]);
        } else if self.name == QUERY {
            command.args(["--limit", ROWS]);
        }
        command.arg("--").arg(roots.find(text("run")?)?);
        if self.name == QUERY {
            command.arg(text("sql")?.context("`sql` is missing")?);
        }
        Ok(command)
    }

    /// The words of `by`.
    fn words<'a>(&self, arguments: &'a Arguments) -> Result<Vec<&'a str>> {
        let Some(by) = arguments.get("by") else {
            return Ok(Vec::new());
        };
        let words = by.as_array().context("`by` has to be a list")?.iter();
        let words = words.map(|word| {
            let word = word.as_str().filter(|word| self.by.contains(word));
            word.with_context(|| format!("`by` takes {}", self.by.join(", ")))
        });
        words.collect()
    }
}

/// What a command says. Exit code 1 with an answer means that the traces hold nothing of what was asked, which is an answer too.
fn run(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .context("rsys-report cannot be started")?;
    let answer = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    if answer.is_empty() && !output.status.success() {
        bail!("{}", said.trim());
    }
    Ok(answer)
}

/// A page of a text, whole lines as far as they are no longer than a page.
fn page(text: &str, number: usize) -> Result<String> {
    let mut pages = Vec::new();
    let mut rest = text;
    while rest.len() > PAGE_BYTES {
        let most = rest.floor_char_boundary(PAGE_BYTES);
        let end = rest[..most].rfind('\n').map_or(most, |end| end + 1);
        let (page, next) = rest.split_at(end);
        pages.push(page);
        rest = next;
    }
    if !rest.is_empty() || pages.is_empty() {
        pages.push(rest);
    }
    let count = pages.len();
    let Some(page) = pages.get(number - 1) else {
        bail!("there is no page {number}: the answer has {count}");
    };
    Ok(match count {
        1 => (*page).to_owned(),
        _ => format!("{page}\n[page {number} of {count}: `page` has the others]\n"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_hold_all_of_a_text() {
        for line in [10, 1000, PAGE_BYTES * 3 + 1] {
            let text = format!("{}\u{b5}\n", "x".repeat(line)).repeat(100);
            let mut all = String::new();
            let mut number = 1;
            while let Ok(page) = page(&text, number) {
                assert!(page.len() < PAGE_BYTES + 100);
                let end = page.rfind("\n[page ").unwrap_or(page.len());
                all.push_str(&page[..end]);
                number += 1;
            }
            assert!(all == text, "lines of {line}");
        }
        assert!(page("", 2).is_err());
        assert_eq!(page("", 1).ok().as_deref(), Some(""));
    }
}
