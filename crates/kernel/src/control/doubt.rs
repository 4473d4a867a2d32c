//! Decisions that a person confirms, replaces or rejects, because their confidence is low.

use serde_json::Value;

use super::decision::Decided;
use super::{Given, Reply, answer, clarification};
use crate::run::InterruptKind;
use crate::run::rejection::Rejection;

/// The id of the only question about a held decision.
pub(crate) const QUESTION: &str = "decision";

/// Whether a person may replace a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Replacement {
    /// The node made the decision.
    Allowed,
    /// The decision was made elsewhere.
    Refused,
}

/// Judges an answer to a question about a decision.
pub(crate) fn judge(given: &Given<'_>, replacement: Replacement) -> Result<Reply, Rejection> {
    if given.open.kind != InterruptKind::Clarification {
        return judge_approval(given, replacement);
    }
    let answers = clarification::judge(given)?;
    let Some(held) = given.held else {
        return Ok(Reply::Answers(answers));
    };
    let decided = match answers.get(QUESTION) {
        Some(Value::String(word)) if word == "accept" => Some(confirmed(&held.decision)?),
        Some(other @ Value::Object(_)) => Some(replaced(replacement, Some(other))?),
        _ => None,
    };
    Ok(Reply::Judged {
        decided,
        answers: Some(answers),
    })
}

/// The judgement on a held decision, in the terms of approvals.
fn judge_approval(given: &Given<'_>, replacement: Replacement) -> Result<Reply, Rejection> {
    answer::check(given)?;
    let value = given.value;
    let decided = match value.get("action").and_then(Value::as_str) {
        Some("accept") => {
            let held = given.open.data.get("decision").unwrap_or(&Value::Null);
            Some(confirmed(held)?)
        }
        Some("edit-accept") => Some(replaced(replacement, value.get("editedArtifactData"))?),
        Some("reject") => None,
        None if value.get("decision").is_some() => {
            Some(replaced(replacement, value.get("decision"))?)
        }
        _ => {
            return Err(answer::invalid(
                "it must have an `action`: accept, edit-accept with `editedArtifactData`, or reject",
            ));
        }
    };
    let answers = None;
    Ok(Reply::Judged { decided, answers })
}

/// The held decision.
fn confirmed(held: &Value) -> Result<Decided, Rejection> {
    let read = Decided::parse(held);
    read.map_err(|_| answer::invalid("there is no decision to accept"))
}

/// The decision that replaces the held one.
fn replaced(replacement: Replacement, given: Option<&Value>) -> Result<Decided, Rejection> {
    if replacement == Replacement::Refused {
        let what = "a dispatch executes the decision of its supervisor; accept or reject it";
        return Err(answer::invalid(what));
    }
    let given = given.ok_or_else(|| answer::invalid("it needs the other decision"))?;
    Decided::parse(given).map_err(|why| answer::invalid(format!("the other decision {why}")))
}
