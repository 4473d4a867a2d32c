//! A client with one request per connection.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a server may be silent.
const PATIENCE: Duration = Duration::from_secs(6);

/// An answer with its whole body.
#[derive(Debug)]
pub struct Answer {
    /// The status code.
    pub status: u16,
    /// The body.
    pub body: String,
}

/// Sends requests to a server.
#[derive(Clone, Debug, Default)]
pub struct Client {
    /// The bearer token; may be empty.
    pub key: String,
}

impl Client {
    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// When the server cannot be reached, is silent, or ends the connection early.
    pub fn send(
        &self,
        address: &str,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<Answer> {
        let (status, length, mut stream) = self.open(address, (method, path), headers, body)?;
        let mut body = Vec::new();
        stream.read_to_end(&mut body)?;
        if length.is_some_and(|length| length != body.len()) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let body = String::from_utf8(body).map_err(io::Error::other)?;
        Ok(Answer { status, body })
    }

    /// Sends a request and reads the head of the answer: status, length if known, and the rest.
    ///
    /// # Errors
    /// As [`Client::send`].
    pub fn open(
        &self,
        address: &str,
        (method, path): (&str, &str),
        headers: &[(&str, &str)],
        body: &str,
    ) -> io::Result<(u16, Option<usize>, BufReader<TcpStream>)> {
        let address: SocketAddr = address.parse().map_err(io::Error::other)?;
        let stream = TcpStream::connect_timeout(&address, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        let mut stream = BufReader::new(stream);
        // Version 1.0, so that the body comes in one piece and ends with the connection.
        let mut head = format!("{method} {path} HTTP/1.0\r\nhost: {address}\r\n");
        if !self.key.is_empty() {
            head += &format!("authorization: Bearer {}\r\n", self.key);
        }
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        head += &format!(
            "content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        stream.get_mut().write_all(head.as_bytes())?;
        let mut line = String::new();
        stream.read_line(&mut line)?;
        let status = line.split(' ').nth(1).and_then(|code| code.parse().ok());
        let status = status.ok_or(io::ErrorKind::UnexpectedEof)?;
        let mut length = None;
        loop {
            line.clear();
            if stream.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let Some((name, value)) = line.trim_end().split_once(':') else {
                return Ok((status, length, stream));
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok();
            }
        }
    }
}
