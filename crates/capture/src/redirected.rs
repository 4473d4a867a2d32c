//! Connections to other addresses that the [preloaded scripts](crate::preload) redirected to the
//! proxy.

use std::io;
use std::time::Duration;

use hyper::Uri;
use hyper::body::Incoming;
use hyper::http::Request;
use subtle::ConstantTimeEq;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::upstream::first_segment;

/// The first byte of such a connection. No HTTP request begins with it.
const MARK: u8 = 1;
/// Maximum bytes of the line with the intended address.
const MAX_LINE: usize = 512;
/// Maximum wait for a client's first bytes. A client that waits for the server to speak first does
/// not use HTTP.
const PATIENCE: Duration = Duration::from_secs(5);

/// The intended server of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meant {
    /// Host and port.
    pub server: String,
    /// Whether the client speaks HTTP.
    pub is_http: bool,
}

/// The intended server of a connection; `None` for the proxy itself.
pub(crate) async fn meant(stream: &mut TcpStream, token: &str) -> io::Result<Option<Meant>> {
    let mut first = [0];
    if stream.peek(&mut first).await? == 0 || first[0] != MARK {
        return Ok(None);
    }
    let mut line = Vec::new();
    loop {
        match stream.read_u8().await? {
            b'\n' => break,
            _ if line.len() == MAX_LINE => return Err(io::ErrorKind::InvalidData.into()),
            byte => line.push(byte),
        }
    }
    let line = std::str::from_utf8(&line[1..]).map_err(|_| io::ErrorKind::InvalidData)?;
    let (path, server) = line.split_once(' ').ok_or(io::ErrorKind::InvalidData)?;
    let path = format!("/{path}");
    let (given, _) = first_segment(&path);
    if !bool::from(given.as_bytes().ct_eq(token.as_bytes())) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let said = tokio::time::timeout(PATIENCE, stream.peek(&mut first)).await;
    Ok(Some(Meant {
        server: server.to_owned(),
        is_http: matches!(said, Ok(Ok(1))) && first[0].is_ascii_uppercase(),
    }))
}

/// Adds the server to a request without one.
pub(crate) fn name_server(request: &mut Request<Incoming>, server: &str) {
    let uri = request.uri();
    if uri.authority().is_none()
        && let Some(path) = uri.path_and_query()
        && let Ok(whole) = format!("http://{server}{path}").parse::<Uri>()
    {
        *request.uri_mut() = whole;
    }
}
