//! The server: one trace, and perhaps a copy of the page.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result};

use super::PAGE_PORT;
use super::http::{self, Request, Response};
use super::pages::Pages;

/// A copy of the page may load more of itself after the trace; it has done so when it asks for nothing for so long.
const QUIET: Duration = Duration::from_secs(5);

/// What is served.
#[derive(Debug)]
pub struct Offer {
    name: String,
    trace: File,
    bytes: u64,
    token: String,
    pages: Option<Pages>,
}

impl Offer {
    /// A trace under its name, and perhaps a copy of the page.
    ///
    /// # Errors
    /// When the trace cannot be read.
    pub fn new(name: String, trace: File, pages: Option<Pages>) -> Result<Self> {
        let bytes = trace.metadata().context("cannot read the trace")?.len();
        let mut random = [0; 16];
        let mut source = File::open("/dev/urandom").context("cannot read /dev/urandom")?;
        source
            .read_exact(&mut random)
            .context("cannot read /dev/urandom")?;
        Ok(Self {
            name: name.replace(
                |letter: char| !letter.is_ascii_alphanumeric() && letter != '.' && letter != '-',
                "_",
            ),
            trace,
            bytes,
            token: random.iter().map(|byte| format!("{byte:02x}")).collect(),
            pages,
        })
    }

    fn path(&self) -> String {
        format!("/{}/{}", self.token, self.name)
    }
}

/// How serving ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    /// So many bytes were given to the page.
    Delivered(u64),
    /// No page has asked in time.
    NotAsked,
}

enum Event {
    Asked,
    Delivered,
}

/// The server, which listens already.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    port: u16,
    offer: Offer,
}

impl Server {
    /// Listens on the loopback interface alone.
    ///
    /// # Errors
    /// When the port is taken.
    pub fn start(offer: Offer, port: u16) -> Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).with_context(|| {
            let more = if port == PAGE_PORT {
                ": another `rsys-report view` or `trace_processor --httpd` may run; the Perfetto page accepts no other port, but a copy of it does (--ui)"
            } else {
                ""
            };
            format!("cannot listen on port {port} of 127.0.0.1{more}")
        })?;
        let port = listener.local_addr().context("no address")?.port();
        Ok(Self {
            listener,
            port,
            offer,
        })
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn own_origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// What a browser has to open: the copy of the page, else the page `public`.
    pub fn page_address(&self, public: &str) -> String {
        let own = self.own_origin();
        let page = if self.offer.pages.is_some() {
            &own
        } else {
            public
        };
        format!("{page}/#!/?url={own}{}", self.offer.path())
    }

    /// Serves until the page has the trace; for ever if it shall `keep` on.
    ///
    /// # Errors
    /// When no thread can be had.
    pub fn serve(self, wait: Duration, keep: bool) -> Result<End> {
        let (told, events) = channel();
        let linger = self.offer.pages.is_some();
        let bytes = self.offer.bytes;
        std::thread::Builder::new()
            .spawn(move || self.accept(&told))
            .context("cannot start a thread")?;
        let mut is_delivered = false;
        loop {
            let event = match (is_delivered, keep) {
                (true, true) => events.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (true, false) => events.recv_timeout(QUIET),
                (false, _) => events.recv_timeout(wait),
            };
            match event {
                Ok(Event::Asked) => {}
                Ok(Event::Delivered) if linger || keep => is_delivered = true,
                Ok(Event::Delivered) => return Ok(End::Delivered(bytes)),
                Err(_) if is_delivered => return Ok(End::Delivered(bytes)),
                Err(_) => return Ok(End::NotAsked),
            }
        }
    }

    fn accept(self, events: &Sender<Event>) {
        let shared = Arc::new(self);
        while let Ok((mut stream, _)) = shared.listener.accept() {
            let (server, events) = (Arc::clone(&shared), events.clone());
            std::thread::spawn(move || {
                // A connection that fails is the browser's affair: it asks again, or shows it.
                if server.answer(&mut stream, &events).unwrap_or(false) {
                    events.send(Event::Delivered).ok();
                }
            });
        }
    }

    /// Answers one request; returns whether that was the whole trace.
    fn answer(&self, stream: &mut TcpStream, events: &Sender<Event>) -> io::Result<bool> {
        let Some(request) = Request::read(stream)? else {
            Response::empty("400 Bad Request").write(stream)?;
            return http::finish(stream).map(|()| false);
        };
        let origin = request.header("origin");
        let is_trace = request.path == self.offer.path();
        if let Err(status) = self.judge(&request, is_trace) {
            Response::empty(status).write(stream)?;
            return http::finish(stream).map(|()| false);
        }
        events.send(Event::Asked).ok();
        let mut headers: Vec<_> = origin
            .map(|origin| ("Access-Control-Allow-Origin", origin.to_owned()))
            .into_iter()
            .collect();
        headers.push(("Vary", "Origin".to_owned()));
        if request.method == "OPTIONS" {
            // Browsers ask so before a page of the internet may connect to this machine.
            headers.extend([
                ("Access-Control-Allow-Methods", "GET, HEAD".to_owned()),
                ("Access-Control-Allow-Headers", "*".to_owned()),
                ("Access-Control-Allow-Private-Network", "true".to_owned()),
            ]);
        }
        let found = match (request.method.as_str(), is_trace) {
            ("OPTIONS", _) => None,
            (_, true) => Some((self.offer.trace.try_clone()?, "application/octet-stream")),
            (_, false) => self
                .offer
                .pages
                .as_ref()
                .and_then(|pages| pages.file(&request.path)),
        };
        let Some((mut file, kind)) = found else {
            let status = if request.method == "OPTIONS" {
                "204 No Content"
            } else {
                "404 Not Found"
            };
            Response {
                headers,
                ..Response::empty(status)
            }
            .write(stream)?;
            return http::finish(stream).map(|()| false);
        };
        headers.push(("Content-Type", kind.to_owned()));
        let length = file.metadata()?.len();
        Response {
            status: "200 OK",
            headers,
            length,
        }
        .write(stream)?;
        if request.method == "HEAD" {
            return http::finish(stream).map(|()| false);
        }
        if is_trace {
            // Several may read it at once, so no one may move its place.
            file = File::open(format!(
                "/proc/self/fd/{}",
                std::os::fd::AsRawFd::as_raw_fd(&file)
            ))?;
        }
        file.seek(SeekFrom::Start(0))?;
        let sent = io::copy(&mut file.take(length), stream)?;
        http::finish(stream)?;
        Ok(is_trace && sent == length)
    }

    /// Whether a request may be answered: only by this name of this machine, so that no name of the internet that leads here will do, only
    /// to the page, and only what is offered.
    fn judge(&self, request: &Request, is_trace: bool) -> Result<(), &'static str> {
        let names = ["127.0.0.1", "localhost"].map(|name| format!("{name}:{}", self.port));
        let host = request.header("host").unwrap_or_default();
        if !names.iter().any(|name| name == host) {
            return Err("403 Forbidden");
        }
        let page = match &self.offer.pages {
            Some(_) => self.own_origin(),
            None => super::PAGE.to_owned(),
        };
        match request.header("origin") {
            Some(origin) if origin != page => return Err("403 Forbidden"),
            // A page says where it comes from, except to its own server.
            None if self.offer.pages.is_none() => return Err("403 Forbidden"),
            _ => {}
        }
        if !["GET", "HEAD", "OPTIONS"].contains(&request.method.as_str()) {
            return Err("405 Method Not Allowed");
        }
        if !is_trace && self.offer.pages.is_none() {
            return Err("404 Not Found");
        }
        Ok(())
    }
}
