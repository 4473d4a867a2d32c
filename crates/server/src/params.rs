//! Parsing and checking the URL of a request.

use hyper::Uri;
use kernel::ids::{Seq, StreamId, WebhookId};
use url::form_urlencoded;

use crate::problem::Problem;
#[cfg(doc)]
use crate::route::Route;

/// The query of a request.
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    /// Parses it. Unknown names are reported by [`Route::passed_over`].
    pub(crate) fn from_uri(uri: &Uri) -> Self {
        let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        Self(pairs.into_owned().collect())
    }

    /// Every name, including repetitions.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|(name, _)| name.as_str())
    }

    /// Every name with its value, as often as it is there.
    pub(crate) fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        let pairs = self.0.iter();
        pairs.map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The first value of a name.
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.all(name).next()
    }

    /// Every value of a name.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = &str> {
        let found = self.0.iter().filter(move |(key, _)| key == name);
        found.map(|(_, value)| value.as_str())
    }

    /// A whole number within a range.
    pub(crate) fn number(
        &self,
        name: &'static str,
        range: std::ops::RangeInclusive<u64>,
    ) -> Result<Option<u64>, Problem> {
        let Some(text) = self.get(name) else {
            return Ok(None);
        };
        let is_plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_plain.then(|| text.parse::<u64>().ok()).flatten();
        match number.filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (from, to) = range.into_inner();
                let range = match to {
                    u64::MAX => format!("from {from} on"),
                    to => format!("from {from} to {to}"),
                };
                Err(Problem::invalid(format!(
                    "{name} must be a whole number {range}"
                )))
            }
        }
    }

    /// `true` or `false`; false if absent.
    pub(crate) fn flag(&self, name: &'static str) -> Result<bool, Problem> {
        match self.get(name) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(Problem::invalid(format!("{name} must be true or false"))),
        }
    }

    /// A sequence already seen.
    pub(crate) fn seq(&self, name: &'static str) -> Result<Option<Seq>, Problem> {
        // A sequence past the end of every log is not an error: there are just no events after it.
        self.number(name, 0..=u64::MAX)
    }
}

/// A run id, if it is a valid one.
pub(crate) fn run_id(text: &str) -> Option<StreamId> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let fits = !text.is_empty() && text.len() <= 128 && text.chars().all(is_plain);
    fits.then(|| StreamId::new(text))
}

/// A workflow id, if it is a valid one.
pub(crate) fn workflow_id(text: &str) -> Option<&str> {
    let fits = !text.is_empty() && text.len() <= 256 && !text.chars().any(char::is_control);
    fits.then_some(text)
}

/// A webhook id, if it is a valid one.
pub(crate) fn webhook_id(text: &str) -> Option<WebhookId> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let fits = !text.is_empty() && text.len() <= 128 && text.chars().all(is_plain);
    fits.then(|| WebhookId::new(text))
}
