//! The result of a replay, and its report.

use capture::replayer::Divergence;
use faces::provenance::compare::Comparison;
use faces::provenance::document::{MatchStatus, Snapshot};
use faces::provenance::ladder::Strategy;
use provenance::Redaction;
use serde_json::{Value, json};

use crate::commands::snapshot::how::rounded;
use crate::exit::Exit;

/// The reason for a different result after the same steps.
const OTHER_OUTCOME: &str = "other_outcome";

/// The result of a replay.
pub(in super::super) struct Replayed {
    /// Its captured snapshot.
    pub snapshot: Snapshot,
    /// The status of the comparison.
    pub status: Option<MatchStatus>,
    /// The condition to pass.
    pub strategy: Strategy,
    /// Whether it does.
    pub pass: bool,
    /// The divergence from the recording.
    pub divergence: Option<Divergence>,
    pub(in super::super) judgement: Comparison,
    pub(in super::super) facts: Facts,
    /// Whether it left the recording, which is worse than a different result.
    pub(in super::super) has_left: bool,
}

/// Further facts about a replay.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct Facts {
    /// Whether some calls were live although they should have been served.
    pub is_mixed: bool,
    /// Live requests to a model.
    pub live_models: u64,
    /// Tools that were really run.
    pub live_tools: u64,
    /// Refused requests to other servers.
    pub denied: u64,
    /// Refused connections, without servers that the recorded command called.
    pub refused: Vec<String>,
    /// The status of the run.
    pub run_status: String,
    /// The exit code of a command.
    pub exit_code: Option<i32>,
}

/// A replay that left its recording is not a match, for any result.
pub(in super::super) fn at_most(status: MatchStatus, has_left: bool) -> MatchStatus {
    match (status, has_left) {
        (MatchStatus::ExactMatch | MatchStatus::SemanticMatch, true) => MatchStatus::PartialMatch,
        (status, _) => status,
    }
}

impl Replayed {
    /// The result with secrets removed everywhere. A recording may contain one that was unknown
    /// when it was made.
    pub(super) fn cleaned(mut self, redaction: &Redaction) -> Self {
        self.divergence = self.divergence.map(|found| found.cleaned(redaction));
        for pair in &mut self.judgement.meaning.worst {
            for text in [&mut pair.a, &mut pair.b].into_iter().flatten() {
                *text = redaction.text(text);
            }
        }
        if let Some(first) = &mut self.judgement.first_divergence {
            for text in [&mut first.tool, &mut first.path].into_iter().flatten() {
                *text = redaction.text(text);
            }
            for side in [&mut first.a, &mut first.b].into_iter().flatten() {
                redaction.value(side);
            }
        }
        self
    }

    /// For programs.
    pub(in super::super) fn report(&self) -> Value {
        let facts = &self.facts;
        let levels = self
            .levels()
            .into_iter()
            .map(|(name, level)| (name.to_owned(), json!(level)));
        json!({
            "match_status": self.status,
            "pass": self.pass,
            "verdict": self.judgement.verdict,
            "strategy": self.strategy,
            "similarity": rounded(self.judgement.similarity),
            "meaning": self.judgement.meaning,
            "first_divergence": self.first_divergence(),
            "fields": serde_json::Map::from_iter(levels),
            "is_mixed": facts.is_mixed,
            "live": { "models": facts.live_models, "tools": facts.live_tools },
            "denied": facts.denied,
            "refused": facts.refused,
            "run_status": facts.run_status,
            "exit_code": facts.exit_code,
            "response_hash": self.snapshot.outputs.response_hash,
        })
    }

    /// The first divergence: at a step, or, if every step was the same, in the result.
    pub(in super::super) fn first_divergence(&self) -> Option<Value> {
        match &self.divergence {
            Some(found) => Some(json!(found)),
            None => self.difference(),
        }
    }

    /// The first difference of the result, in the form of a divergence. The replay has not left its
    /// recording by it.
    pub(in super::super) fn difference(&self) -> Option<Value> {
        let first = self.judgement.first_divergence.as_ref();
        let first = first.filter(|_| self.status != Some(MatchStatus::ExactMatch))?;
        let side = |input: &Option<Value>| {
            let input = input.as_ref()?;
            Some(json!({ "kind": "field", "name": first.field, "input": input }))
        };
        let place = first
            .path
            .as_deref()
            .map_or(String::new(), |path| format!(" at {path}"));
        let line = first
            .line
            .map_or(String::new(), |line| format!(" line {line}"));
        Some(json!({
            "step": first.step,
            "reason": OTHER_OUTCOME,
            "at": first.path,
            "line": first.line,
            "expected": side(&first.a),
            "actual": side(&first.b),
            "message": format!("{}{line}{place}: {}", first.field, first.what),
        }))
    }

    /// The agreement of each field.
    pub(in super::super) fn levels(&self) -> Vec<(&'static str, String)> {
        let word = |level| match serde_json::to_value(level) {
            Ok(Value::String(word)) => word,
            _ => String::new(),
        };
        let fields = self.judgement.fields.iter();
        let fields = fields.map(|field| (field.field, word(field.level)));
        let response = ("outputs.response_hash", word(self.judgement.response));
        std::iter::once(response).chain(fields).collect()
    }

    /// The exit code of the program.
    pub(in super::super) fn exit(&self) -> Exit {
        match (self.pass, self.has_left) {
            (true, _) => Exit::Done,
            (false, true) => Exit::Incomparable,
            (false, false) if self.judgement.needs_review() => Exit::Incomparable,
            (false, false) => Exit::Found,
        }
    }
}
