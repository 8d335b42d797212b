//! Questions of programs, by the Model Context Protocol (<https://modelcontextprotocol.io>) on standard input and output.
//!
//! Messages are JSON-RPC 2.0, one on each line. Each question is a run of this program with the folder that was named, so that programs get what
//! people get on a command line, from the cache if that has it. The server itself reads no trace and changes nothing. Of the protocol only tools
//! are offered; a library for the rest would bring a runtime for asynchronous work along.

mod runs;
mod tools;

use std::io::{BufRead, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Map, Value, json};

use runs::Roots;
use tools::{TOOLS, Tool};

/// Versions of the protocol that are spoken, the newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

const INSTRUCTIONS: &str = "Answers about runs of GPU programs that were recorded with rsys-sample or another profiler. \
     list_runs says which there are; summary and advice say where to look; the other questions say more. \
     Times are nanoseconds unless a unit is shown.";

/// Error codes of JSON-RPC 2.0.
const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;

/// Options of `mcp`.
#[derive(Debug, Args)]
pub(crate) struct McpOptions {
    /// Folders with runs, or traces; nothing else can be asked about
    #[arg(required = true, value_name = "DIR|TRACE")]
    inputs: Vec<PathBuf>,
}

/// Answers requests until standard input ends.
///
/// # Errors
/// When an input is not there, or the other side cannot be read or written.
pub(crate) fn serve(options: &McpOptions) -> Result<i32> {
    let server = Server {
        roots: Roots::new(&options.inputs)?,
        program: std::env::current_exe().context("where this program is")?,
    };
    let mut input = std::io::stdin().lock();
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = input
            .read_until(b'\n', &mut line)
            .context("standard input")?;
        if length == 0 {
            return Ok(0);
        }
        if let Some(answer) = server.answer(&line) {
            let mut output = std::io::stdout().lock();
            let written = writeln!(output, "{answer}").and_then(|()| output.flush());
            if written.is_err() {
                // The other side has gone.
                return Ok(0);
            }
        }
    }
}

/// What may be asked about, and the program that answers.
#[derive(Debug)]
struct Server {
    roots: Roots,
    program: PathBuf,
}

/// An error of the protocol: its code, and what is wrong.
type Refusal = (i32, String);

impl Server {
    /// The answer to a message, if it wants one.
    fn answer(&self, message: &[u8]) -> Option<Value> {
        if message.trim_ascii().is_empty() {
            return None;
        }
        let (id, outcome) = match serde_json::from_slice(message) {
            Err(error) => (Value::Null, Err((PARSE_ERROR, error.to_string()))),
            Ok(Value::Object(message)) => {
                // Notifications need nothing done, and no answer is awaited.
                let (Some(method), Some(id)) = (message.get("method"), message.get("id")) else {
                    return None;
                };
                let none = Map::new();
                let parameters = message.get("params").and_then(Value::as_object);
                let outcome = match method.as_str() {
                    Some(method) => self.request(method, parameters.unwrap_or(&none)),
                    None => Err((INVALID_REQUEST, "`method` has to be a text".to_owned())),
                };
                (id.clone(), outcome)
            }
            Ok(_) => (
                Value::Null,
                Err((INVALID_REQUEST, "a message has to be an object".to_owned())),
            ),
        };
        Some(match outcome {
            Ok(result) => json!({ "jsonrpc": "2.0", "id": id, "result": result }),
            Err((code, text)) => json!({
                "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": text },
            }),
        })
    }

    fn request(&self, method: &str, parameters: &Map<String, Value>) -> Result<Value, Refusal> {
        match method {
            "initialize" => {
                let wanted = parameters.get("protocolVersion").and_then(Value::as_str);
                let version = VERSIONS.into_iter().find(|one| Some(*one) == wanted);
                Ok(json!({
                    "protocolVersion": version.unwrap_or(VERSIONS[0]),
                    "capabilities": { "tools": {} },
                    "serverInfo": { "name": "rsys-report", "version": env!("CARGO_PKG_VERSION") },
                    "instructions": INSTRUCTIONS,
                }))
            }
            "ping" => Ok(json!({})),
            "tools/list" => {
                let tools = TOOLS.iter().map(|tool| {
                    json!({
                        "name": tool.name,
                        "description": tool.about,
                        "inputSchema": tool.arguments(),
                        "annotations": { "readOnlyHint": true },
                    })
                });
                Ok(json!({ "tools": tools.collect::<Vec<_>>() }))
            }
            "tools/call" => self.call(parameters),
            _ => Err((METHOD_NOT_FOUND, format!("there is no method {method}"))),
        }
    }

    fn call(&self, parameters: &Map<String, Value>) -> Result<Value, Refusal> {
        let name = parameters.get("name").and_then(Value::as_str);
        let name = name.ok_or((INVALID_PARAMS, "`name` is missing".to_owned()))?;
        let tool = Tool::of(name).ok_or((INVALID_PARAMS, format!("there is no tool {name}")))?;
        let arguments = parameters.get("arguments").and_then(Value::as_object);
        let none = Map::new();
        let answer = tool.call(arguments.unwrap_or(&none), &self.roots, &self.program);
        let (text, is_error) = match answer {
            Ok(text) => (text, false),
            Err(error) => (format!("{error:#}"), true),
        };
        Ok(json!({ "content": [{ "type": "text", "text": text }], "isError": is_error }))
    }
}
