//! Parsing the URLs of this face.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use faces::workbench::document::is_run_id;
use hyper::StatusCode;
use kernel::time::Timestamp;
use runtime::api::DocumentFilter;
use store::ListCursor;

use super::answer::invalid;
use crate::params::Query;
use crate::problem::Problem;
use crate::route::Cx;

/// The default number of rows of a list.
const LIMIT: usize = 100;
/// The most rows of a list.
const MAX_LIMIT: f64 = 500.0;
/// The clients' words for a run's status.
const STATUSES: &[&str] = &["running", "completed", "failed", "cancelled"];
/// Bytes of a text to filter by.
const MAX_TEXT: usize = 256;

/// The run in the path. An invalid id is rejected before any look-up.
pub(super) fn named(cx: &Cx) -> Result<String, Problem> {
    checked(cx.param("runId"))
}

/// A valid run id.
pub(super) fn checked(id: &str) -> Result<String, Problem> {
    if is_run_id(id) {
        Ok(id.to_owned())
    } else {
        Err(Problem::new(
            StatusCode::BAD_REQUEST,
            "INVALID_RUN_ID",
            "Invalid run id",
        ))
    }
}

/// The number of rows: any text is converted to a number as JavaScript does.
pub(super) fn limit(query: &Query) -> usize {
    let number = match query.get("limit") {
        None | Some("") => return LIMIT,
        Some(text) => number(text.trim()),
    };
    match number {
        Some(number) if number.is_finite() => number.floor().clamp(1.0, MAX_LIMIT) as usize,
        _ => LIMIT,
    }
}

/// `Number(text)` of JavaScript.
fn number(text: &str) -> Option<f64> {
    if text.is_empty() {
        return Some(0.0);
    }
    let radix = |prefix: &str, radix| {
        let digits = text.strip_prefix(prefix)?;
        u64::from_str_radix(digits, radix).ok()
    };
    let prefixed = [
        ("0x", 16),
        ("0X", 16),
        ("0o", 8),
        ("0O", 8),
        ("0b", 2),
        ("0B", 2),
    ];
    if let Some(whole) = prefixed
        .into_iter()
        .find_map(|(prefix, base)| radix(prefix, base))
    {
        return Some(whole as f64);
    }
    let is_decimal = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    is_decimal.then(|| text.parse().ok()).flatten()
}

/// The filter of a list.
pub(super) fn filter(query: &Query) -> Result<DocumentFilter, Problem> {
    let text = |name: &str| match query.get(name) {
        None | Some("") => Ok(None),
        Some(text) if text.len() > MAX_TEXT || text.chars().any(char::is_control) => Err(invalid(
            "a filter has at most 256 bytes and no control characters",
        )),
        Some(text) => Ok(Some(text.to_owned())),
    };
    let time = |name: &str| match text(name)? {
        None => Ok(None),
        Some(text) => match Timestamp::parse(&text) {
            Some(at) => Ok(Some(at)),
            None => Err(invalid("write a time as 2027-01-15T08:00:00Z")),
        },
    };
    let statuses: Vec<String> = query.all("status").map(str::to_owned).collect();
    let is_status = |status: &String| STATUSES.contains(&status.as_str());
    if statuses.len() > 16 || !statuses.iter().all(is_status) {
        return Err(invalid(
            "status can occur at most 16 times and must be one of running, completed, failed, \
             cancelled",
        ));
    }
    let with_gates = match query.get("gates") {
        None | Some("") => false,
        Some("pending") => true,
        Some(_) => return Err(invalid("gates must be pending or absent")),
    };
    let after = match query.get("cursor") {
        None | Some("") => None,
        Some(text) => {
            Some(read_cursor(text).ok_or_else(|| invalid("cursor must be that of another page"))?)
        }
    };
    Ok(DocumentFilter {
        statuses,
        workflow: text("workflowId")?,
        tag: text("tag")?,
        parent: text("parentRunId")?,
        with_gates,
        from: time("startedAfter")?,
        until: time("startedBefore")?,
        text: text("q")?,
        in_events: text("text")?,
        after,
        limit: limit(query),
    })
}

/// A cursor as a text.
pub(super) fn write_cursor(cursor: &ListCursor) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(cursor).unwrap_or_default())
}

fn read_cursor(text: &str) -> Option<ListCursor> {
    let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
    let cursor: ListCursor = serde_json::from_slice(&bytes).ok()?;
    (!cursor.stream.as_str().contains('\0')).then_some(cursor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_limit_becomes_a_number_of_rows() {
        for (text, rows) in [
            ("", 100),
            ("0", 1),
            ("-3", 1),
            ("501", 500),
            ("abc", 100),
            ("2.7", 2),
            ("1e1", 10),
            ("0x5", 5),
            ("Infinity", 100),
            ("NaN", 100),
            ("inf", 100),
            (" 7 ", 7),
            ("0b11", 3),
            ("1e999", 100),
            ("-0x5", 100),
            ("1_0", 100),
            ("%20", 1),
        ] {
            let uri = format!("/api/runs?limit={}", text.replace(' ', "%20"));
            let query = Query::from_uri(&uri.parse().unwrap());
            assert_eq!(limit(&query), rows, "{text}");
        }
    }
}
