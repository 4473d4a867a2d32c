//! The report of replays for CI systems.

use std::fmt::Write as _;
use std::time::Duration;

/// One replay.
pub(super) struct Case {
    /// The workflow.
    pub workflow: String,
    /// The id of the snapshot.
    pub id: String,
    /// Its duration.
    pub took: Duration,
    /// Its outcome.
    pub end: End,
}

/// The outcome of a replay.
pub(super) enum End {
    /// Well.
    Passed,
    /// It differs from the recording, with a description.
    Failed(String),
    /// It could not be carried out, with the reason.
    Error(String),
}

/// The report as a document.
pub(super) fn report(cases: &[Case]) -> String {
    let failures = cases
        .iter()
        .filter(|case| matches!(case.end, End::Failed(_)));
    let errors = cases
        .iter()
        .filter(|case| matches!(case.end, End::Error(_)));
    let took: Duration = cases.iter().map(|case| case.took).sum();
    let mut out = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"runwright snapshot replay\" \
         tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"0\" time=\"{:.3}\">\n",
        cases.len(),
        failures.count(),
        errors.count(),
        took.as_secs_f64(),
    );
    for case in cases {
        let (workflow, id) = (escaped(&case.workflow), escaped(&case.id));
        let time = case.took.as_secs_f64();
        let _ = write!(
            out,
            "  <testcase classname=\"{workflow}\" name=\"{workflow} {id}\" time=\"{time:.3}\""
        );
        let (tag, message) = match &case.end {
            End::Passed => {
                out.push_str("/>\n");
                continue;
            }
            End::Failed(message) => ("failure", message),
            End::Error(message) => ("error", message),
        };
        let message = escaped(message);
        let _ = writeln!(
            out,
            ">\n    <{tag} message=\"{message}\">{message}</{tag}>\n  </testcase>"
        );
    }
    out.push_str("</testsuite>\n");
    out
}

/// A text escaped for XML, which cannot represent most control characters.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(c),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
