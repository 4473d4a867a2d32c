//! The client's side: HTTP/1.1 over one kept connection, with only the features that the benchmarks
//! need, so that they measure the server.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

/// A kept connection.
pub(crate) struct Client {
    stream: BufReader<TcpStream>,
    key: String,
}

/// How the end of a body is found.
enum Body {
    Sized(usize),
    Chunked,
}

impl Client {
    pub(crate) async fn connect(address: SocketAddr, key: &str) -> io::Result<Self> {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::new(stream),
            key: key.to_owned(),
        })
    }

    /// Sends a request and reads the whole answer, which must be a success.
    pub(crate) async fn ask(
        &mut self,
        method: &str,
        path: &str,
        body: &str,
    ) -> io::Result<Vec<u8>> {
        match self.begin(method, path, body).await? {
            Body::Sized(length) => {
                let mut bytes = vec![0; length];
                self.stream.read_exact(&mut bytes).await?;
                Ok(bytes)
            }
            Body::Chunked => {
                let mut bytes = Vec::new();
                while let Some(chunk) = self.chunk().await? {
                    bytes.extend(chunk);
                }
                Ok(bytes)
            }
        }
    }

    /// Requests a stream; its chunks are read with [`Client::chunk`].
    pub(crate) async fn open(&mut self, path: &str) -> io::Result<()> {
        match self.begin("GET", path, "").await? {
            Body::Chunked => Ok(()),
            Body::Sized(_) => Err(io::Error::other("the answer is not a stream")),
        }
    }

    async fn begin(&mut self, method: &str, path: &str, body: &str) -> io::Result<Body> {
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: bench\r\nauthorization: Bearer {}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.key,
            body.len()
        );
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        let status = self.line().await?;
        if !status.starts_with("HTTP/1.1 2") {
            return Err(io::Error::other(format!("{method} {path}: {status}")));
        }
        let mut ends = Body::Sized(0);
        loop {
            let line = self.line().await?.to_ascii_lowercase();
            if line.is_empty() {
                return Ok(ends);
            }
            if let Some(length) = line.strip_prefix("content-length:") {
                ends = Body::Sized(length.trim().parse().map_err(io::Error::other)?);
            } else if line.starts_with("transfer-encoding:") {
                ends = Body::Chunked;
            }
        }
    }

    /// The next chunk of a stream; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> io::Result<Option<Vec<u8>>> {
        let size = usize::from_str_radix(&self.line().await?, 16).map_err(io::Error::other)?;
        let mut bytes = vec![0; size + 2];
        self.stream.read_exact(&mut bytes).await?;
        bytes.truncate(size);
        Ok((size > 0).then_some(bytes))
    }

    async fn line(&mut self) -> io::Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        line.truncate(line.trim_end().len());
        Ok(line)
    }
}
