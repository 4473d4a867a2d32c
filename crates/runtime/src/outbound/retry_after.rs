//! The delay that a server asks for.

use std::time::SystemTime;

use kernel::limits::MAX_WAIT_MS;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// The delay in milliseconds that a server asks for, as seconds or as a date.
pub(crate) fn retry_after_ms(headers: &HeaderMap) -> Option<u64> {
    let text = header(headers, &RETRY_AFTER)?;
    if let Ok(seconds) = text.trim().parse::<u64>() {
        return Some(seconds.saturating_mul(1_000).min(MAX_WAIT_MS));
    }
    let date = |text: &str| {
        jiff::fmt::rfc2822::parse(text.trim())
            .ok()
            .map(|at| at.timestamp())
    };
    let until = date(&text)?;
    // Relative to the server's clock if the response has a date.
    let now = header(headers, &DATE).and_then(|text| date(&text));
    let now = now.or_else(|| jiff::Timestamp::try_from(SystemTime::now()).ok())?;
    let wait = until.as_millisecond().saturating_sub(now.as_millisecond());
    Some(u64::try_from(wait).unwrap_or(0).min(MAX_WAIT_MS))
}

fn header(headers: &HeaderMap, name: &HeaderName) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(retry_after: &str, expected: Option<u64>) {
        let mut headers = HeaderMap::new();
        headers.insert(DATE, "Wed, 21 Oct 2015 07:28:00 GMT".parse().unwrap());
        headers.insert(RETRY_AFTER, retry_after.parse().unwrap());
        assert_eq!(retry_after_ms(&headers), expected, "{retry_after}");
    }

    #[test]
    fn a_wait_is_read_as_seconds_or_as_a_date() {
        check("7", Some(7_000));
        check("Wed, 21 Oct 2015 07:28:30 GMT", Some(30_000));
        check("Wed, 21 Oct 2015 07:27:00 GMT", Some(0));
        check("99999999999999999999", None);
        check("18446744073709551615", Some(MAX_WAIT_MS));
        check("soon", None);
    }
}
