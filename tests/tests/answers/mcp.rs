//! `rsys-report mcp`, as a program that asks sees it.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rsys_tests::{Run, Scratch, TestResult, report, workload};
use serde_json::{Value, json};

/// A program that asks.
struct Client {
    server: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
    next: u64,
}

impl Client {
    fn start(folders: &[&Path]) -> Result<Self> {
        let mut server = Command::new(report()?)
            .arg("mcp")
            .args(folders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let to = server.stdin.take();
        let from = BufReader::new(server.stdout.take().context("its output")?);
        let mut client = Self {
            server,
            to,
            from,
            next: 1,
        };
        let hello = client.request(
            "initialize",
            json!({
                "protocolVersion": "2025-06-18",
                "capabilities": {},
                "clientInfo": { "name": "test", "version": "1" },
            }),
        )?;
        ensure!(
            hello["result"]["serverInfo"]["name"] == "rsys-report",
            "{hello}"
        );
        ensure!(
            hello["result"]["capabilities"]["tools"].is_object(),
            "{hello}"
        );
        client.send(
            &json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }).to_string(),
        )?;
        Ok(client)
    }

    fn send(&mut self, line: &str) -> Result<()> {
        let to = self.to.as_mut().context("its input")?;
        Ok(writeln!(to, "{line}")?)
    }

    fn receive(&mut self) -> Result<Value> {
        let mut line = String::new();
        self.from.read_line(&mut line)?;
        serde_json::from_str(&line).with_context(|| format!("{line:?}"))
    }

    fn request(&mut self, method: &str, parameters: Value) -> Result<Value> {
        let id = self.next;
        self.next += 1;
        let request = json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": parameters });
        self.send(&request.to_string())?;
        let answer = self.receive()?;
        ensure!(answer["id"] == id, "{answer}");
        Ok(answer)
    }

    /// The text of a tool's answer, and whether it is an error.
    fn call(&mut self, tool: &str, arguments: Value) -> Result<(String, bool)> {
        let parameters = json!({ "name": tool, "arguments": arguments });
        let answer = self.request("tools/call", parameters)?;
        let result = &answer["result"];
        let text = result["content"][0]["text"].as_str();
        let text = text.with_context(|| format!("{answer}"))?;
        Ok((text.to_owned(), result["isError"] == true))
    }

    /// Ends its input, and with it the server.
    fn end(mut self) -> TestResult {
        drop(self.to.take());
        let status = self.server.wait()?;
        ensure!(status.success(), "{status}");
        Ok(())
    }
}

#[test]
fn programs_get_the_answers_of_the_command_line() -> TestResult {
    let scratch = Scratch::new("mcp")?;
    let outcome = Run::new()
        .freq(500)
        .command(workload("rate").args(["--threads", "2"]))
        .run()?;
    let trace = outcome.expect_success().trace()?;
    let folder = scratch.path().join("runs/one");
    fs::create_dir_all(&folder)?;
    let copy = folder.join("one.proto");
    fs::copy(trace.path(), &copy)?;
    let outside = scratch.path().join("outside.proto");
    fs::copy(trace.path(), &outside)?;
    let mut client = Client::start(&[&scratch.path().join("runs")])?;

    let tools = client.request("tools/list", json!({}))?;
    let tools = tools["result"]["tools"]
        .as_array()
        .context("tools")?
        .clone();
    for name in [
        "list_runs",
        "summary",
        "advice",
        "timeline",
        "gaps",
        "functions",
    ] {
        let tool = tools.iter().find(|tool| tool["name"] == name);
        let tool = tool.with_context(|| format!("{name} is not there"))?;
        ensure!(tool["inputSchema"]["type"] == "object", "{tool}");
        ensure!(tool["annotations"]["readOnlyHint"] == true, "{tool}");
    }
    let (runs, _) = client.call("list_runs", json!({}))?;
    let runs: Value = serde_json::from_str(&runs)?;
    let run = runs["runs"][0]["run"].as_str().context("a run")?.to_owned();
    ensure!(
        runs["runs"].as_array().map(Vec::len) == Some(1) && run.ends_with("runs/one"),
        "{runs}"
    );

    for (tool, arguments, words) in [
        ("summary", json!({}), vec!["summary"]),
        (
            "functions",
            json!({ "by": ["thread"], "form": "json" }),
            vec!["functions", "--by", "thread", "--json"],
        ),
        (
            "functions",
            json!({ "form": "csv" }),
            vec!["functions", "--csv"],
        ),
        (
            "query",
            json!({ "sql": "select count(*), 'a\"b' from samples", "form": "csv" }),
            vec!["query", "--csv", "--"],
        ),
    ] {
        let mut asked = arguments.clone();
        asked["run"] = run.clone().into();
        let (found, is_error) = client.call(tool, asked)?;
        let sql = arguments["sql"].as_str();
        let mut command = Command::new(report()?);
        let expected = command.args(&words).arg(&run).args(sql).output()?;
        let expected = String::from_utf8(expected.stdout)?;
        ensure!(
            !is_error && expected.starts_with(found.split("\n[page ").next().unwrap_or("?")),
            "{tool}: {found}"
        );
    }
    let (tables, is_error) = client.call("tables", json!({ "form": "json" }))?;
    let tables: Value = serde_json::from_str(&tables)?;
    ensure!(
        !is_error && tables["tables"][0]["name"] == "operations",
        "{tables}"
    );
    // Nothing is longer than a page, and all pages are there.
    let by_line = json!({ "by": ["line", "thread"], "form": "json" });
    let mut pages = String::new();
    for number in 1..1000 {
        let mut asked = by_line.clone();
        asked["page"] = number.into();
        let (page, is_error) = client.call("functions", asked)?;
        ensure!(!is_error && page.len() < 40_000, "{page}");
        let (text, rest) = page.rsplit_once("\n[page ").unwrap_or((&page, ""));
        pages += text;
        let is_last = rest.is_empty() || rest.starts_with(&format!("{number} of {number}:"));
        if is_last {
            break;
        }
    }
    ensure!(serde_json::from_str::<Value>(&pages).is_ok(), "{pages}");

    for (tool, arguments, expected) in [
        ("query", json!({}), "sql"),
        ("query", json!({ "sql": "selekt" }), "selekt"),
        ("query", json!({ "sql": "select 1", "limit": "x" }), "limit"),
        ("summary", json!({ "sql": "select 1" }), "sql"),
        ("summary", json!({ "page": 99 }), "page"),
        ("summary", json!({ "page": -1 }), "page"),
        ("summary", json!({ "label": "x" }), "label"),
        ("summary", json!({ "run": 5 }), "run"),
        ("summary", json!({ "form": "xml" }), "form"),
        ("functions", json!({ "by": ["--output"] }), "by"),
        ("summary", json!({ "run": outside }), "there is no run"),
        (
            "summary",
            json!({ "run": "../outside.proto" }),
            "there is no run",
        ),
        ("summary", json!({ "run": "/etc" }), "there is no run"),
    ] {
        let (said, is_error) = client.call(tool, arguments.clone())?;
        ensure!(
            is_error && said.contains(expected),
            "{tool} {arguments}: {said}"
        );
    }
    let answer = client.request("tools/call", json!({ "name": "merge", "arguments": {} }))?;
    ensure!(answer["error"]["code"].is_i64(), "{answer}");
    let answer = client.request("no/such/method", json!({}))?;
    ensure!(answer["error"]["code"] == -32601, "{answer}");
    // It goes on after what is no message at all.
    client.send("{ this is no JSON")?;
    let mut pong = client.request("ping", json!({}));
    if pong.is_err() {
        // The answer to what was no message came first.
        pong = client.receive();
    }
    ensure!(pong?["result"].is_object());
    client.end()
}

#[test]
fn a_server_that_nobody_speaks_to_ends_with_its_input() -> TestResult {
    let scratch = Scratch::new("mcp-nobody")?;
    let ended = Command::new(report()?)
        .arg("mcp")
        .arg(scratch.path())
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(
        ended.stdout.is_empty() && !said.contains("panicked"),
        "{ended:?}"
    );
    let ended = Command::new(report()?).args(["mcp", "/nowhere"]).output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    ensure!(
        ended.status.code() == Some(1) && said.contains("/nowhere"),
        "{said}"
    );
    Ok(())
}
