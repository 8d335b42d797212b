//! `rsys-report view`: traces in the Perfetto UI, and in no other hands.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};
use rsys_tests::{
    Outcome, Run, TestResult, judge_dir, missing_tool, report, script, skip_if_missing, web_dir,
    workload, workspace_dir,
};

/// A header of a request: its name and value.
type Header = (&'static str, &'static str);

/// Two processes with samples.
fn recorded() -> Result<Outcome> {
    let rate = workload("rate").build()?;
    let line = format!(
        "{0} --seconds 0.2 & {0} --seconds 0.2; wait",
        rate.display()
    );
    Run::new().freq(500).command(script(&line)).run()
}

/// A running `rsys-report view`.
struct Viewing {
    child: Child,
    out: BufReader<ChildStdout>,
    /// The page that it says to open.
    page: String,
    /// The trace, as the page asks for it.
    host: String,
    path: String,
}

impl Viewing {
    fn start(inputs: &[PathBuf], options: &[&str]) -> Result<Self> {
        let mut child = Command::new(report()?)
            .args(["view", "--no-browser"])
            .args(options)
            .args(inputs)
            .env_remove("DISPLAY")
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let mut out = BufReader::new(child.stdout.take().context("no output")?);
        let mut page = String::new();
        while !page.starts_with("open ") {
            page.clear();
            if out.read_line(&mut page)? == 0 {
                let mut said = String::new();
                child
                    .stderr
                    .take()
                    .context("no errors")?
                    .read_to_string(&mut said)?;
                anyhow::bail!("it ended: {said}");
            }
        }
        let page = page.trim_start_matches("open ").trim().to_owned();
        let (_, url) = page.split_once("?url=http://").context("no url")?;
        let (host, path) = url.split_once('/').context("no path")?;
        let (host, path) = (host.to_owned(), format!("/{path}"));
        Ok(Self {
            child,
            out,
            page,
            host,
            path,
        })
    }

    /// Asks like a browser; the head and the body of the response.
    fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Result<(String, Vec<u8>)> {
        let mut stream = TcpStream::connect(&self.host)?;
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        for (name, value) in headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{text}\r\n").as_bytes())?;
        let mut response = Vec::new();
        stream.read_to_end(&mut response)?;
        let end = response.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.context("no head")?;
        let head = String::from_utf8(response.get(..end).context("no head")?.to_vec())?;
        Ok((head, response.get(end + 4..).context("no body")?.to_vec()))
    }

    /// Its exit code and the rest of what it says.
    fn end(mut self) -> Result<(Option<i32>, String)> {
        let mut said = String::new();
        self.out.read_to_string(&mut said)?;
        let errors = self.child.stderr.take().context("no errors")?;
        BufReader::new(errors).read_to_string(&mut said)?;
        Ok((self.child.wait()?.code(), said))
    }
}

impl Drop for Viewing {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A server for a copy of the page, on any port.
fn with_copy(inputs: &[PathBuf], options: &[&str]) -> Result<Viewing> {
    let web = web_dir()?.display().to_string();
    let all = [&["--ui", &web, "--port", "0"], options].concat();
    Viewing::start(inputs, &all)
}

#[test]
fn the_page_loads_several_traces_as_one() -> TestResult {
    skip_if_missing!(missing_tool("chromium").or_else(|| missing_tool("node")));
    let outcome = recorded()?;
    ensure!(outcome.files().len() >= 2, "{}", outcome.story());
    let viewing = with_copy(&outcome.files(), &[])?;
    let seen = Command::new("node")
        .arg(workspace_dir().join("tests/judge/open.mjs"))
        .arg(&viewing.page)
        .arg("select count(distinct upid) from perf_sample join thread using (utid) join process p using (upid) where p.name like '%rate%'")
        .env("RSYS_JUDGE_DIR", judge_dir())
        .output()?;
    let said = String::from_utf8_lossy(&seen.stderr);
    ensure!(seen.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&seen.stdout).trim(), "2");
    let (code, said) = viewing.end()?;
    assert!(
        code == Some(0) && said.contains("the page has the trace"),
        "{said}"
    );
    Ok(())
}

#[test]
fn only_the_page_is_answered() -> TestResult {
    const PAGE: (&str, &str) = ("Origin", "https://ui.perfetto.dev");
    let outcome = recorded()?;
    let files = outcome.files();
    let file = files.first().context("no trace")?.clone();
    // The page may connect to this port only, and other tests of other machines' users may have it.
    skip_if_missing!(
        TcpListener::bind("127.0.0.1:9001")
            .err()
            .map(|error| format!("port 9001: {error}"))
    );
    let viewing = Viewing::start(std::slice::from_ref(&file), &[])?;
    assert!(
        viewing
            .page
            .starts_with("https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/"),
        "{}",
        viewing.page
    );
    let here = ("Host", "127.0.0.1:9001");
    let foreign: Header = ("Origin", "https://example.org");
    let path = viewing.path.as_str();
    let refused: [(&str, &str, &[Header]); 9] = [
        ("GET", path, &[here]),
        ("GET", path, &[here, foreign]),
        ("GET", path, &[("Host", "example.org:9001"), PAGE]),
        ("GET", path, &[PAGE]),
        ("POST", path, &[here, PAGE]),
        ("GET", "/", &[here, PAGE]),
        ("GET", "/etc/passwd", &[here, PAGE]),
        ("GET", "/../../etc/passwd", &[here, PAGE]),
        ("OPTIONS", path, &[here, foreign]),
    ];
    for (method, path, headers) in refused {
        let (head, body) = viewing.ask(method, path, headers)?;
        assert!(
            head.starts_with("HTTP/1.1 4") && body.is_empty(),
            "{method} {path} {headers:?}: {head}"
        );
        assert!(!head.contains("Access-Control"), "{head}");
    }
    // It listens at this address of the machine alone.
    assert!(TcpStream::connect("127.0.0.2:9001").is_err());

    // A second one says what is wrong.
    let second = Viewing::start(std::slice::from_ref(&file), &[]);
    let said = second.err().context("two on one port")?.to_string();
    assert!(
        said.contains("cannot listen on port 9001") && said.contains("--ui"),
        "{said}"
    );

    let preflight = [
        here,
        PAGE,
        ("Access-Control-Request-Private-Network", "true"),
    ];
    let (head, _) = viewing.ask("OPTIONS", &viewing.path, &preflight)?;
    assert!(
        head.contains("Access-Control-Allow-Private-Network: true"),
        "{head}"
    );
    let (head, body) = viewing.ask("HEAD", &viewing.path, &[here, PAGE])?;
    assert!(
        head.starts_with("HTTP/1.1 200") && body.is_empty(),
        "{head}"
    );
    let (head, body) = viewing.ask("GET", &viewing.path, &[here, PAGE])?;
    assert!(
        head.contains("Access-Control-Allow-Origin: https://ui.perfetto.dev"),
        "{head}"
    );
    assert!(body == std::fs::read(&file)?, "another trace");
    let (code, said) = viewing.end()?;
    assert!(
        code == Some(0) && said.contains("ssh -N -L 9001:127.0.0.1:9001"),
        "{said}"
    );
    Ok(())
}

#[test]
fn a_copy_of_the_page_gives_out_itself_alone() -> TestResult {
    let outcome = recorded()?;
    let viewing = with_copy(&outcome.files(), &["--keep"])?;
    let own = format!("http://{}", viewing.host);
    let here = ("Host", viewing.host.as_str());
    let (head, body) = viewing.ask("GET", "/", &[here])?;
    assert!(head.contains("text/html"), "{head}");
    assert!(body == std::fs::read(web_dir()?.join("index.html"))?);
    for path in [
        "/../../package.json",
        "/..",
        "//etc/passwd",
        "/no-such-file",
        "*",
    ] {
        let (head, _) = viewing.ask("GET", path, &[here])?;
        assert!(head.starts_with("HTTP/1.1 404"), "{path}: {head}");
    }
    for _ in 0..2 {
        let (head, body) = viewing.ask("GET", &viewing.path, &[here, ("Origin", &own)])?;
        assert!(
            head.starts_with("HTTP/1.1 200") && !body.is_empty(),
            "{head}"
        );
    }
    Ok(())
}

#[test]
fn what_cannot_be_shown_is_said_in_a_line() -> TestResult {
    let outcome = recorded()?;
    let files = outcome.files();
    let (code, said) = with_copy(&files, &["--wait", "0"])?.end()?;
    assert!(
        code == Some(1) && said.contains("no page asked for the trace"),
        "{said}"
    );
    let said_of = |inputs: &[PathBuf], options: &[&str]| -> Result<String> {
        let refused = Viewing::start(inputs, options);
        Ok(refused.err().context("it serves")?.to_string())
    };
    assert!(said_of(&files, &["--port", "9002"])?.contains("needs --ui"));
    assert!(said_of(&files, &["--ui", "/"])?.contains("no index.html"));
    let folder = rsys_tests::Scratch::new("view")?;
    let empty = [folder.path().to_owned()];
    assert!(said_of(&empty, &[])?.contains("no traces"));
    Ok(())
}
