//! Which major of OpenWOP a request is answered in.
//!
//! Addresses below `/v1/` are those of the first major. Addresses without a version are those of
//! the second. The address of discovery is one of both: without the header `OpenWOP-Version` it
//! answers in the preferred major, which is 1 as long as both are served (`versioning.md`,
//! section 1; `headers.md`).

use axum::extract::Request;
use faces::openwop::v2;
use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

use crate::problem::Problem;

/// The header that names a version, in requests and answers.
pub(crate) const HEADER: HeaderName = HeaderName::from_static(NAME);
/// Its name.
pub(crate) const NAME: &str = "openwop-version";
/// The version of major 1 that is spoken.
pub(crate) const VERSION_1: &str = "1.0";
/// Every version that is spoken.
pub(crate) const VERSIONS: [&str; 2] = [VERSION_1, v2::VERSION];
/// The version of the discovery document for a request without the header.
pub(crate) const PREFERRED: &str = VERSION_1;
/// The address whose answer depends on the header.
pub(crate) const WELL_KNOWN: &str = "/.well-known/openwop";

/// The address of the console; its files and sessions are below.
pub(crate) const CONSOLE_ROOT: &str = "/console";
/// The addresses of the LLM Workbench API.
pub(crate) const WORKBENCH_ROOT: &str = "/api/";

/// The wire format of a request and its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Contract {
    /// OpenWOP 1, and addresses that belong to no protocol.
    #[default]
    One,
    /// OpenWOP 2.
    Two,
    /// The LLM Workbench API.
    Workbench,
}

impl Contract {
    /// The contract of a request, and why it is refused where its header and its address do not go
    /// together.
    pub(crate) fn negotiate(request: &Request) -> (Self, Result<(), Problem>) {
        let path = request.uri().path();
        if path.starts_with(WORKBENCH_ROOT) {
            return (Self::Workbench, Ok(()));
        }
        let asked = RequestedVersion::from_request(request.headers());
        if path.starts_with("/v1/") {
            let is_other = !matches!(
                asked,
                RequestedVersion::Nothing | RequestedVersion::Major(1)
            );
            let refused = || {
                Err(Problem::new(
                    hyper::StatusCode::BAD_REQUEST,
                    "protocol_version_mismatch",
                    "addresses under /v1 use OpenWOP 1; remove the header OpenWOP-Version, or \
                     remove the version from the address",
                ))
            };
            return (Self::One, if is_other { refused() } else { Ok(()) });
        }
        if is_of_no_protocol(path) {
            return (Self::One, Ok(()));
        }
        match asked {
            // Links in answers are opened by browsers, which cannot send the header.
            RequestedVersion::Nothing if path != WELL_KNOWN => (Self::Two, Ok(())),
            RequestedVersion::Nothing | RequestedVersion::Major(1) => (Self::One, Ok(())),
            RequestedVersion::Major(2) => (Self::Two, Ok(())),
            RequestedVersion::Major(_) => (Self::Two, Err(Problem::unsupported_version(&VERSIONS))),
            RequestedVersion::Malformed => (
                Self::Two,
                Err(Problem::invalid(
                    "OpenWOP-Version is a major, or a major and a minor, such as 2.0",
                )),
            ),
        }
    }

    /// The version that an answer at an address names, if it is one of the protocol.
    pub(crate) fn version(self, path: &str) -> Option<HeaderValue> {
        match self {
            Self::Two => Some(HeaderValue::from_static(v2::VERSION)),
            Self::One if path.starts_with("/v1/") || path == WELL_KNOWN => {
                Some(HeaderValue::from_static(VERSION_1))
            }
            Self::One | Self::Workbench => None,
        }
    }
}

/// The version header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RequestedVersion {
    Nothing,
    Major(u32),
    Malformed,
}

impl RequestedVersion {
    fn from_request(headers: &HeaderMap) -> Self {
        let mut given = headers.get_all(HEADER).iter();
        let Some(value) = given.next() else {
            return Self::Nothing;
        };
        let text = value.to_str().map(str::trim).unwrap_or("?");
        if text.is_empty() {
            return Self::Nothing;
        }
        let number = |text: &str| {
            let is_plain = text == "0" || !text.starts_with(['0', '+']);
            text.parse::<u32>().ok().filter(|_| is_plain)
        };
        let (major, minor) = match text.split_once('.') {
            Some((major, minor)) => (number(major), number(minor)),
            None => (number(text), Some(0)),
        };
        match (major, minor, given.next()) {
            (Some(major), Some(_), None) => Self::Major(major),
            _ => Self::Malformed,
        }
    }
}

/// Addresses for operators and browsers.
fn is_of_no_protocol(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/metrics") || path.starts_with(CONSOLE_ROOT)
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn the_header_selects_the_contract() {
        let two = Contract::Two;
        for (path, header, contract, refused) in [
            ("/runs", Some("2"), two, None),
            ("/runs", Some("2.0"), two, None),
            ("/runs", Some(" 2.7 "), two, None),
            ("/runs", None, two, None),
            (WELL_KNOWN, None, Contract::One, None),
            ("/runs", Some("1.0"), Contract::One, None),
            (
                "/runs",
                Some("3"),
                two,
                Some("protocol_version_unsupported"),
            ),
            ("/runs", Some("two"), two, Some("validation_error")),
            ("/runs", Some("02"), two, Some("validation_error")),
            ("/v1/runs", None, Contract::One, None),
            ("/v1/runs", Some("1"), Contract::One, None),
            (
                "/v1/runs",
                Some("2"),
                Contract::One,
                Some("protocol_version_mismatch"),
            ),
            ("/healthz", Some("9"), Contract::One, None),
            ("/api/runs", Some("2"), Contract::Workbench, None),
            (WELL_KNOWN, Some("2"), two, None),
        ] {
            let mut request = Request::builder().uri(path);
            if let Some(header) = header {
                request = request.header(HEADER, header);
            }
            let (found, result) = Contract::negotiate(&request.body(Body::empty()).unwrap());
            assert_eq!(found, contract, "{path} {header:?}");
            let code = result.err().map(|problem| problem.code);
            assert_eq!(code, refused, "{path} {header:?}");
        }
    }
}
