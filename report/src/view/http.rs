//! As much of HTTP/1.1 as one page needs: a request without a body, a response, and no more on the same connection.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

/// Longer heads are no request of a browser.
const HEAD_BYTES: usize = 16 << 10;
const HEADERS: usize = 64;
/// A browser that says nothing for so long is gone.
const SILENCE: Duration = Duration::from_secs(30);

/// The head of a request.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// `GET` and so on.
    pub method: String,
    /// The path, without the question behind it.
    pub path: String,
    headers: Vec<(String, String)>,
}

impl Request {
    /// Reads it; nothing when that is no request.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn read(stream: &mut TcpStream) -> io::Result<Option<Self>> {
        stream.set_read_timeout(Some(SILENCE))?;
        stream.set_write_timeout(Some(SILENCE))?;
        let mut head = Vec::new();
        let mut part = [0; 4096];
        while head.len() < HEAD_BYTES {
            let bytes = stream.read(&mut part)?;
            let Some(more) = part.get(..bytes).filter(|more| !more.is_empty()) else {
                return Ok(None);
            };
            head.extend_from_slice(more);
            match Self::parse(&head) {
                Ok(None) => {}
                Ok(request) => return Ok(request),
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// The request, if the head is complete.
    fn parse(head: &[u8]) -> Result<Option<Self>, httparse::Error> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        if parsed.parse(head)?.is_partial() {
            return Ok(None);
        }
        let target = parsed.path.unwrap_or_default();
        let path = target.split(['?', '#']).next().unwrap_or_default();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let headers = parsed.headers.iter();
        Ok(Some(Self {
            method: parsed.method.unwrap_or_default().to_owned(),
            path: path.to_owned(),
            headers: headers
                .map(|header| (header.name.to_ascii_lowercase(), text(header.value)))
                .collect(),
        }))
    }

    /// A header, by its name in small letters.
    pub fn header(&self, name: &str) -> Option<&str> {
        let mut headers = self.headers.iter();
        headers
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }
}

/// The head of a response.
#[derive(Debug)]
pub struct Response {
    /// Its number and words.
    pub status: &'static str,
    /// Headers besides those that each response has.
    pub headers: Vec<(&'static str, String)>,
    /// The bytes of its body.
    pub length: u64,
}

impl Response {
    /// A response without a body.
    pub fn empty(status: &'static str) -> Self {
        Self {
            status,
            headers: Vec::new(),
            length: 0,
        }
    }

    /// Writes the head.
    ///
    /// # Errors
    /// When the connection fails.
    pub fn write(&self, stream: &mut TcpStream) -> io::Result<()> {
        let mut head = format!(
            "HTTP/1.1 {}\r\nContent-Length: {}\r\nConnection: close\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n",
            self.status, self.length
        );
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str("\r\n");
        stream.write_all(head.as_bytes())
    }
}

/// Ends a connection when the other side has read all: closing at once could take back what is under way.
pub fn finish(stream: &mut TcpStream) -> io::Result<()> {
    stream.shutdown(std::net::Shutdown::Write)?;
    io::copy(stream, &mut io::sink()).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_read_when_they_are_whole() {
        let head = b"GET /a/b?c=d HTTP/1.1\r\nHost: 127.0.0.1:9001\r\nORIGIN: x\r\n\r\n";
        for cut in 1..head.len() {
            assert_eq!(Request::parse(&head[..cut]).unwrap(), None, "{cut}");
        }
        let request = Request::parse(head).unwrap().unwrap();
        assert_eq!(
            (request.method.as_str(), request.path.as_str()),
            ("GET", "/a/b")
        );
        assert_eq!(request.header("origin"), Some("x"));
        assert_eq!(request.header("cookie"), None);
        assert!(Request::parse(b"\x16\x03\x01\x02\x00\x01").is_err());
    }
}
