//! What a request is recognised by in logs: its id and its trace.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");

/// The identity of a request.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// The client's id of it if that is a plain one, else a new one.
    pub(crate) id: HeaderValue,
    /// The W3C trace context, where the client sent a well-formed one.
    pub(crate) parent: Option<HeaderValue>,
}

impl Trace {
    /// Of a request.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let given = headers.get(REQUEST_ID).filter(|value| is_plain(value));
        let id = given.cloned().unwrap_or_else(|| {
            let id = uuid::Uuid::now_v7().simple().to_string();
            HeaderValue::from_str(&id).unwrap_or(HeaderValue::from_static("-"))
        });
        let parent = headers
            .get(TRACEPARENT)
            .filter(|value| is_traceparent(value));
        Self {
            id,
            parent: parent.cloned(),
        }
    }

    /// The id as text.
    pub(crate) fn id(&self) -> &str {
        self.id.to_str().unwrap_or("-")
    }

    /// The trace context as text.
    pub(crate) fn parent(&self) -> Option<&str> {
        self.parent.as_ref().and_then(|value| value.to_str().ok())
    }
}

fn is_plain(value: &HeaderValue) -> bool {
    let bytes = value.as_bytes();
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    (8..=64).contains(&bytes.len()) && bytes.iter().all(is_plain)
}

/// `version-trace id-parent id-flags`, in lower-case hex, neither id all zeros.
fn is_traceparent(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else {
        return false;
    };
    let parts: Vec<&str> = text.split('-').collect();
    let is_hex = |part: &str| {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        part.bytes().all(is_digit)
    };
    let is_id = |part: &str| part.bytes().any(|byte| byte != b'0');
    match parts.as_slice() {
        [version, trace, parent, flags] => {
            [version.len(), trace.len(), parent.len(), flags.len()] == [2, 32, 16, 2]
                && parts.iter().all(|part| is_hex(part))
                && *version != "ff"
                && is_id(trace)
                && is_id(parent)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_traces_are_carried_on() {
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let is_good = |text: &str| is_traceparent(&HeaderValue::from_str(text).unwrap());
        assert!(is_good(good));
        for bad in [
            "",
            "00-0-0-0",
            &good.to_uppercase(),
            &good.replace("00-", "ff-"),
            &good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &format!("{good}-more"),
        ] {
            assert!(!is_good(bad), "{bad}");
        }
    }
}
