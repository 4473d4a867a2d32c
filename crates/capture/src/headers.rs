//! Headers of answers: which ones a program receives, live and in a replay, and how compressed
//! bodies are unpacked.
//!
//! A recorded program must behave as it does without the recorder, so it receives every end-to-end
//! header. Headers of a single connection, and those that identify a client to its server, are not
//! passed back.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use serde_json::{Map, Value, json};

/// Headers of an answer that are neither passed back nor recorded: those of the connection or of
/// the server's address, and cookies.
const NOT_PASSED_BACK: [&str; 14] = [
    "connection",
    "keep-alive",
    "proxy-connection",
    "proxy-authenticate",
    "proxy-authentication-info",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "content-length",
    "alt-svc",
    "strict-transport-security",
    "set-cookie",
    "set-cookie2",
];

/// The member of a recorded answer with its headers.
const HEADERS: &str = "headers";

/// The headers that a program receives.
pub(crate) fn passed_back(headers: &HeaderMap) -> HeaderMap {
    let listed = headers.get_all(header::CONNECTION).iter();
    let listed = listed.filter_map(|names| names.to_str().ok());
    let of_connection: Vec<&str> = listed
        .flat_map(|names| names.split(','))
        .map(str::trim)
        .collect();
    let is_passed = |name: &HeaderName| {
        let name = name.as_str();
        !NOT_PASSED_BACK.contains(&name)
            && !of_connection
                .iter()
                .any(|other| name.eq_ignore_ascii_case(other))
    };
    let passed = headers.iter().filter(|(name, _)| is_passed(name));
    passed
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

/// Headers as recorded with an answer: a text each, a list for a repeated header. Values that are
/// not text are not recorded.
pub(crate) fn recorded(headers: &HeaderMap) -> Value {
    let mut all = Map::new();
    for name in headers.keys() {
        let values = headers.get_all(name).iter();
        let mut texts: Vec<&str> = values.filter_map(|value| value.to_str().ok()).collect();
        let value = match texts.len() {
            0 => continue,
            1 => json!(texts.remove(0)),
            _ => json!(texts),
        };
        all.insert(name.as_str().to_owned(), value);
    }
    Value::Object(all)
}

/// Records the headers of an answer.
pub(crate) fn record(output: &mut Value, headers: Value) {
    if headers.as_object().is_some_and(|all| !all.is_empty()) {
        output[HEADERS] = headers;
    }
}

/// The answer without its headers: answers that differ only in a date or an id are equal.
pub(crate) fn without(mut output: Value) -> Value {
    if let Some(members) = output.as_object_mut() {
        members.remove(HEADERS);
    }
    output
}

/// The headers recorded with an answer. Older recordings have only the content type.
pub(crate) fn of_recorded(output: &Value) -> HeaderMap {
    let mut headers = HeaderMap::new();
    let texts = |value: &Value| -> Vec<String> {
        match value {
            Value::String(text) => vec![text.clone()],
            Value::Array(all) => all
                .iter()
                .filter_map(Value::as_str)
                .map(str::to_owned)
                .collect(),
            _ => Vec::new(),
        }
    };
    for (name, value) in output[HEADERS].as_object().into_iter().flatten() {
        let Ok(name) = name.parse::<HeaderName>() else {
            continue;
        };
        for text in texts(value) {
            if let Ok(value) = HeaderValue::from_str(&text) {
                headers.append(name.clone(), value);
            }
        }
    }
    let kind = output["content_type"]
        .as_str()
        .filter(|kind| !kind.is_empty());
    if let Some(Ok(kind)) = kind.map(HeaderValue::from_str) {
        headers.entry(header::CONTENT_TYPE).or_insert(kind);
    }
    // The rule also holds for recordings that another program wrote.
    passed_back(&headers)
}

/// Unpacks the body of an answer piece by piece.
pub(crate) enum Unpacking {
    /// Not compressed, or in an encoding that is passed on.
    Plain,
    /// Gzip, and whether any bytes have arrived.
    Gzip(Box<MultiGzDecoder<Vec<u8>>>, bool),
}

impl Unpacking {
    /// The compression of a body that the client did not request. Gzip is unpacked, since it could
    /// be neither read nor cleaned, and its headers are removed. Other encodings are passed on
    /// unchanged.
    pub(crate) fn from_headers(headers: &mut HeaderMap) -> Self {
        let mut packings = headers.get_all(header::CONTENT_ENCODING).iter();
        let is_gzip = |packing: &HeaderValue| {
            let packing = packing.as_bytes().trim_ascii();
            packing.eq_ignore_ascii_case(b"gzip") || packing.eq_ignore_ascii_case(b"x-gzip")
        };
        let is_one = packings.next().is_some_and(is_gzip) && packings.next().is_none();
        if !is_one {
            return Self::Plain;
        }
        headers.remove(header::CONTENT_ENCODING);
        Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())), false)
    }

    /// Unpacks a piece; the result may be empty.
    ///
    /// # Errors
    /// When the encoding does not match its headers.
    pub(crate) fn piece(&mut self, piece: Bytes) -> io::Result<Bytes> {
        match self {
            Self::Plain => Ok(piece),
            Self::Gzip(decoder, has_come) => {
                *has_come |= !piece.is_empty();
                decoder.write_all(&piece)?;
                decoder.flush()?;
                Ok(Bytes::from(std::mem::take(decoder.get_mut())))
            }
        }
    }

    /// The rest at the end.
    ///
    /// # Errors
    /// When the body was truncated.
    pub(crate) fn end(&mut self) -> io::Result<Bytes> {
        match self {
            Self::Gzip(decoder, true) => {
                decoder.try_finish()?;
                Ok(Bytes::from(std::mem::take(decoder.get_mut())))
            }
            Self::Plain | Self::Gzip(_, false) => Ok(Bytes::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        let lines = lines.iter();
        lines
            .map(|(name, value)| {
                let name = HeaderName::from_static(name);
                (name, HeaderValue::from_static(value))
            })
            .collect()
    }

    #[test]
    fn headers_for_the_program_are_forwarded_and_replayed() {
        let came = headers(&[
            ("x-should-retry", "false"),
            ("retry-after-ms", "20"),
            ("link", "<a>"),
            ("link", "<b>"),
            ("connection", "close, X-Hop"),
            ("x-hop", "1"),
            ("set-cookie", "id=1"),
            ("transfer-encoding", "chunked"),
        ]);
        let passed = passed_back(&came);
        let expected =
            json!({ "x-should-retry": "false", "retry-after-ms": "20", "link": ["<a>", "<b>"] });
        assert_eq!(recorded(&passed), expected);
        let mut output = json!({ "content_type": "text/plain", "body": "x" });
        record(&mut output, recorded(&passed));
        let mut again = of_recorded(&output);
        assert_eq!(again.remove(header::CONTENT_TYPE).unwrap(), "text/plain");
        assert_eq!(again, passed);
        output["headers"]["set-cookie"] = json!("id=2");
        assert!(!of_recorded(&output).contains_key("set-cookie"));
        let plain = json!({ "content_type": "text/plain", "body": "x" });
        assert_eq!(without(output), plain);
    }

    #[test]
    fn gzip_is_unpacked_in_pieces_and_rejected_when_truncated() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(b"one and two").unwrap();
        let packed = encoder.finish().unwrap();
        let mut came = headers(&[("content-encoding", "GZIP"), ("x-a", "b")]);
        let mut unpacking = Unpacking::from_headers(&mut came);
        assert_eq!(came, headers(&[("x-a", "b")]));
        let mut text = Vec::new();
        for piece in packed.chunks(7) {
            text.extend(unpacking.piece(Bytes::copy_from_slice(piece)).unwrap());
        }
        text.extend(unpacking.end().unwrap());
        assert_eq!(text, b"one and two");
        let mut cut = Unpacking::from_headers(&mut headers(&[("content-encoding", "gzip")]));
        cut.piece(Bytes::copy_from_slice(&packed[..packed.len() - 3]))
            .unwrap();
        assert!(cut.end().is_err());
        let mut empty = Unpacking::from_headers(&mut headers(&[("content-encoding", "gzip")]));
        assert!(empty.end().unwrap().is_empty());
        let mut other = headers(&[("content-encoding", "br")]);
        let mut unpacking = Unpacking::from_headers(&mut other);
        assert_eq!(other["content-encoding"], "br");
        assert_eq!(unpacking.piece(Bytes::from_static(b"x")).unwrap(), "x");
    }
}
