//! The announced end of OpenWOP 1, in the headers of its answers.

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};
use kernel::time::Timestamp;

/// When the resource ends (RFC 8594).
const SUNSET: HeaderName = HeaderName::from_static("sunset");
/// From when it should no longer be used (RFC 9745).
const DEPRECATION: HeaderName = HeaderName::from_static("deprecation");

/// The headers that announce an end.
#[derive(Clone)]
pub(crate) struct Sunset {
    date: HeaderValue,
    deprecated: HeaderValue,
}

impl Sunset {
    /// `None` for a time that HTTP cannot write.
    pub(crate) fn new(at: Timestamp) -> Option<Self> {
        let seconds = at.0.div_euclid(1_000);
        Some(Self {
            date: HeaderValue::from_str(&at.http_date()?).ok()?,
            deprecated: HeaderValue::from_str(&format!("@{seconds}")).ok()?,
        })
    }

    pub(crate) fn announce(&self, headers: &mut HeaderMap) {
        headers.insert(SUNSET, self.date.clone());
        headers.insert(DEPRECATION, self.deprecated.clone());
    }
}
