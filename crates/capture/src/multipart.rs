//! Multipart uploads in the form for matching: clients choose a new boundary for each request.

use std::borrow::Cow;

use hyper::header::{self, HeaderMap};

/// The placeholder for the boundary in kept data.
const BOUNDARY: &[u8] = b"runwright-boundary";
/// Maximum length of a boundary, by its standard.
const MAX_BOUNDARY: usize = 70;

/// The body of a multipart request with a constant boundary, for matching.
pub(crate) fn matched<'a>(headers: &HeaderMap, body: &'a [u8]) -> Cow<'a, [u8]> {
    let kind = headers.get(header::CONTENT_TYPE);
    match kind.and_then(|kind| kind.to_str().ok()).and_then(boundary) {
        Some(boundary) => Cow::Owned(replaced(body, boundary.as_bytes())),
        None => Cow::Borrowed(body),
    }
}

/// The boundary in a content type.
fn boundary(kind: &str) -> Option<&str> {
    let (kind, parameters) = kind.split_once(';')?;
    if !kind.trim().eq_ignore_ascii_case("multipart/form-data") {
        return None;
    }
    let boundary = parameters.split(';').find_map(|parameter| {
        let (name, value) = parameter.split_once('=')?;
        let is_it = name.trim().eq_ignore_ascii_case("boundary");
        is_it.then(|| value.trim().trim_matches('"'))
    })?;
    (1..=MAX_BOUNDARY)
        .contains(&boundary.len())
        .then_some(boundary)
}

/// A body with its boundary replaced where it acts as one: after two dashes at the beginning of a
/// line. The content of parts stays unchanged.
fn replaced(body: &[u8], boundary: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(body.len());
    for (nth, line) in body.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let is_new_line = nth == 0 || out.ends_with(b"\r\n");
        match line
            .strip_prefix(b"--")
            .and_then(|rest| rest.strip_prefix(boundary))
        {
            Some(rest) if is_new_line => {
                out.extend_from_slice(b"--");
                out.extend_from_slice(BOUNDARY);
                out.extend_from_slice(rest);
            }
            _ => out.extend_from_slice(line),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn the_boundary_of_a_form_is_the_same_each_time() {
        let form = |boundary: &str, kind: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_str(kind).unwrap());
            let body = format!("--{boundary}\r\nx: y\r\n\r\na{boundary}\r\n--{boundary}--\r\n");
            matched(&headers, body.as_bytes()).into_owned()
        };
        let one = form("x1", "multipart/form-data; boundary=x1");
        let expected = "--runwright-boundary\r\nx: y\r\n\r\nax1\r\n--runwright-boundary--\r\n";
        assert_eq!(String::from_utf8(one).unwrap(), expected);
        let quoted = form("x1", "Multipart/Form-Data; charset=utf-8; Boundary=\"x1\"");
        assert_eq!(quoted, expected.as_bytes());
        for kind in [
            "text/plain; boundary=x1",
            "multipart/form-data",
            "multipart/form-data; boundary=",
        ] {
            assert!(form("x1", kind).starts_with(b"--x1\r\n"), "{kind}");
        }
    }
}
