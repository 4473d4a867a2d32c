//! Artifacts: lists, and bytes whole or in ranges.

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use faces::openwop::v1;
use hyper::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH, IF_RANGE, RANGE,
};
use hyper::{HeaderMap, Method, StatusCode};
use runtime::access::Action;
use runtime::api::{ApiError, ArtifactBytes, ResourceKind};
use serde_json::{Value, json};
use store::StoreError;

use super::runs::{is_known, named};
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    let reads = Access::May(Action::ReadArtifact);
    vec![
        Route::new(
            Method::GET,
            "/v1/runs/{runId}/artifacts",
            reads,
            list,
            Doc {
                operation: "listArtifacts",
                summary: "Artifacts of the nodes of a run (extension)",
                parameters: &[],
                request: None,
                responses: &[(200, "ArtifactList")],
            },
        )
        .closed(),
        Route::new(
            Method::GET,
            "/v1/runs/{runId}/artifacts/{artifactId}",
            reads,
            get,
            Doc {
                operation: "getArtifact",
                summary: "The bytes of an artifact, with its media type; the ETag is their SHA-256",
                parameters: &[
                    ("header", "Range", "bytes=FROM-TO, one range"),
                    ("header", "If-Range", "the ETag the range is of"),
                    ("header", "If-None-Match", "the ETag of the client's copy"),
                ],
                request: None,
                responses: &[(200, "bytes"), (206, "bytes"), (304, "")],
            },
        ),
    ]
}

async fn list(cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    let artifacts = cx.app.api().artifacts(&who, &run).await?;
    let listed: Vec<Value> = artifacts
        .iter()
        .map(|(node, artifact)| v1::artifact(&run, node, artifact))
        .collect();
    Ok(Reply::ok(&json!({ "artifacts": listed })))
}

pub(super) async fn get(cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    let id = cx.param("artifactId");
    if id.len() > 256 {
        return Err(ApiError::NotFound(ResourceKind::Artifact).into());
    }
    let artifact = cx.app.api().artifact(&who, &run, id).await?;
    let about = &artifact.artifact;
    let (size, tag) = (about.size, format!("\"{}\"", about.digest));
    let media = HeaderValue::from_str(&about.media_type)
        .unwrap_or(HeaderValue::from_static("application/octet-stream"));
    if cx.headers.contains_key(IF_NONE_MATCH) && is_known(&cx.headers, &tag) {
        return Ok(Reply::Whole {
            status: StatusCode::NOT_MODIFIED,
            headers: HeaderMap::new(),
            body: Bytes::new(),
        }
        .with(ETAG, tag));
    }
    let (status, from, to) = match range(&cx.headers, &tag, size) {
        Wanted::Whole => (StatusCode::OK, 0, size),
        Wanted::Part { from, to } => (StatusCode::PARTIAL_CONTENT, from, to),
        Wanted::Nothing => {
            return Err(Problem::new(
                StatusCode::RANGE_NOT_SATISFIABLE,
                "range_not_satisfiable",
                "the range starts after the artifact's end; details.size has its size",
            )
            .with("size", size));
        }
    };
    // An unreadable part is an error response as long as nothing was sent.
    let mut reading = Reading::new(artifact, from, to);
    let first = reading.next().await?;
    let rest = futures_util::stream::try_unfold(reading, |mut reading| async move {
        let bytes = reading.next().await?;
        Ok::<_, StoreError>(bytes.map(|bytes| (bytes, reading)))
    });
    let first = futures_util::stream::iter(first.map(Ok));
    let body = futures_util::StreamExt::chain(first, rest);
    let mut response = Response::new(Body::from_stream(body));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media);
    headers.insert(CONTENT_LENGTH, HeaderValue::from(to - from));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    // A browser must not execute the content, which any process may have written.
    let inert = HeaderValue::from_static("default-src 'none'; sandbox");
    headers.insert(CONTENT_SECURITY_POLICY, inert);
    if status == StatusCode::PARTIAL_CONTENT {
        let last = to - 1;
        if let Ok(value) = HeaderValue::from_str(&format!("bytes {from}-{last}/{size}")) {
            headers.insert(CONTENT_RANGE, value);
        }
    }
    Ok(Reply::Ready(response).with(ETAG, tag))
}

/// The requested part of an artifact.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Whole,
    /// From a byte to before another.
    Part {
        from: u64,
        to: u64,
    },
    /// The range is empty.
    Nothing,
}

/// Parses `Range` and `If-Range` (RFC 9110, sections 13.1.5 and 14.2). Anything but one range of
/// bytes is ignored.
fn range(headers: &HeaderMap, tag: &str, size: u64) -> Wanted {
    let text = |name| {
        let value: Option<&HeaderValue> = headers.get(name);
        value.and_then(|value| value.to_str().ok())
    };
    if text(IF_RANGE).is_some_and(|of| of.trim() != tag) {
        return Wanted::Whole;
    }
    let spec = text(RANGE).and_then(|text| text.trim().strip_prefix("bytes="));
    let Some((from, to)) = spec.and_then(|spec| spec.split_once('-')) else {
        return Wanted::Whole;
    };
    let number = |text: &str| {
        if text.bytes().all(|byte| byte.is_ascii_digit()) {
            text.parse::<u64>().ok()
        } else {
            None
        }
    };
    let (from, to) = match (number(from), number(to)) {
        (Some(from), Some(to)) if from <= to => (from, to.saturating_add(1).min(size)),
        (Some(from), None) if to.is_empty() => (from, size),
        (None, Some(last)) if from.is_empty() => (size.saturating_sub(last), size),
        _ => return Wanted::Whole,
    };
    if from < to {
        Wanted::Part { from, to }
    } else {
        Wanted::Nothing
    }
}

/// An artifact read part by part, at the client's pace.
struct Reading {
    artifact: ArtifactBytes,
    /// The next part, and its offset in the artifact.
    part: usize,
    offset: u64,
    from: u64,
    to: u64,
}

impl Reading {
    fn new(artifact: ArtifactBytes, from: u64, to: u64) -> Self {
        Self {
            artifact,
            part: 0,
            offset: 0,
            from,
            to,
        }
    }

    async fn next(&mut self) -> Result<Option<Bytes>, StoreError> {
        while self.part < self.artifact.parts() && self.offset < self.to {
            let bytes = self.artifact.part(self.part).await?;
            let (begin, len) = (self.offset, bytes.len() as u64);
            self.part += 1;
            self.offset += len;
            let from = self.from.saturating_sub(begin).min(len);
            let to = (self.to - begin).min(len);
            if from < to {
                // Both are within the part.
                return Ok(Some(Bytes::from(bytes).slice(from as usize..to as usize)));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(range_of: &str, if_range: Option<&str>) -> Wanted {
        let mut headers = HeaderMap::new();
        headers.insert(RANGE, range_of.parse().unwrap());
        if let Some(tag) = if_range {
            headers.insert(IF_RANGE, tag.parse().unwrap());
        }
        range(&headers, "\"t\"", 10)
    }

    #[test]
    fn one_range_is_served_and_invalid_ones_are_ignored() {
        let part = |from, to| Wanted::Part { from, to };
        for (text, expected) in [
            ("bytes=0-0", part(0, 1)),
            ("bytes=2-5", part(2, 6)),
            ("bytes=7-", part(7, 10)),
            ("bytes=7-99", part(7, 10)),
            ("bytes=-3", part(7, 10)),
            ("bytes=-99", part(0, 10)),
            ("bytes=10-", Wanted::Nothing),
            ("bytes=-0", Wanted::Nothing),
            ("bytes=5-2", Wanted::Whole),
            ("bytes=0-1,3-4", Wanted::Whole),
            ("bytes=a-b", Wanted::Whole),
            ("bytes=-", Wanted::Whole),
            ("lines=1-2", Wanted::Whole),
        ] {
            assert_eq!(wanted(text, None), expected, "{text}");
        }
        assert_eq!(wanted("bytes=1-2", Some("\"t\"")), part(1, 3));
        assert_eq!(wanted("bytes=1-2", Some("\"other\"")), Wanted::Whole);
    }
}
