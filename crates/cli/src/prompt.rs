//! Asks the person at the terminal a run's questions, while this process drives it.

use faces::Mask;
use kernel::definition::NodeIx;
use kernel::ids::{InterruptId, StreamId};
use kernel::problem::quoted;
use kernel::run::state::OpenInterrupt;
use kernel::run::{Capacity, Command, Envelope, InterruptKind, Run};
use runtime::door::DoorError;
use runtime::engine::Engine;
use runtime::redact::Redactor;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use tokio::sync::oneshot;

use crate::exit::Failure;
use crate::follow::Follower;
use crate::lookup::short;
use crate::questions;
use crate::{ask, style, talk, text};

/// Asks, or never does without a terminal.
pub(crate) struct Prompt {
    may_ask: bool,
    asking: Option<Asking>,
    /// Questions that are not answered here.
    left_alone: BTreeSet<InterruptId>,
}

/// A displayed question.
struct Asking {
    run: StreamId,
    interrupt: InterruptId,
    wanted: Wanted,
    /// The next line; earlier input is dropped.
    answer: oneshot::Receiver<Option<String>>,
    /// The command that answers it from another terminal.
    how: String,
}

enum Wanted {
    /// One of these actions.
    Action(Vec<String>),
    /// An answer to each of these questions, in order.
    Answers {
        questions: Vec<(String, String)>,
        answers: Map<String, Value>,
    },
}

impl Prompt {
    /// Asks if both ends are a terminal.
    pub(crate) fn at_terminal() -> Self {
        Self::new(ask::somebody())
    }

    /// Never asks.
    pub(crate) fn never() -> Self {
        Self::new(false)
    }

    fn new(may_ask: bool) -> Self {
        Self {
            may_ask,
            asking: None,
            left_alone: BTreeSet::new(),
        }
    }

    /// Shows the oldest unasked question, and withdraws one that was answered elsewhere.
    pub(crate) fn look(&mut self, follower: &Follower) {
        if !self.may_ask {
            return;
        }
        let runs = || follower.runs().iter().map(|followed| &followed.run);
        let questions = runs().flat_map(|run| {
            let open = run.facts().map(|facts| facts.interrupts.as_slice());
            open.unwrap_or_default().iter().map(move |open| (run, open))
        });
        if let Some(asking) = &self.asking {
            let mut still = questions.clone();
            if still.any(|(_, open)| open.id == asking.interrupt) {
                return;
            }
            talk::say("the run no longer waits for this answer");
            self.asking = None;
        }
        for (run, open) in questions {
            if self.left_alone.contains(&open.id) {
                continue;
            }
            let shown = Mask::from_plan(&run.plan).question(open);
            match wanted(&shown) {
                Some(wanted) => return self.ask(run, &shown, wanted),
                None => drop(self.left_alone.insert(open.id.clone())),
            }
        }
    }

    fn ask(&mut self, run: &Run, open: &OpenInterrupt, wanted: Wanted) {
        let answer = ask::line("");
        let node = run.plan.node(NodeIx(open.node)).id.as_str();
        let title = open.data.get("title").and_then(Value::as_str);
        let title = title.map_or_else(String::new, |title| text::one_line(title, 200));
        let node = style::strong(text::one_line(node, 60));
        talk::say(format!("{} {node} {title}", style::warn("question:")));
        if let Some(about) = open.data.get("description").and_then(Value::as_str) {
            talk::say(text::plain(about));
        }
        if let Some(artifact) = open.data.get("artifactData") {
            let shown = serde_json::to_string_pretty(artifact).unwrap_or_default();
            talk::say(text::plain(&shown));
        }
        wanted.say();
        let id = run.plan.node(NodeIx(open.node)).id.as_str();
        self.asking = Some(Asking {
            run: run.header.stream.clone(),
            interrupt: open.id.clone(),
            how: questions::how(
                short(&run.header.stream),
                id,
                open.kind.as_str(),
                &open.data,
            ),
            wanted,
            answer,
        });
    }

    /// The next typed line. Waits forever without a question.
    pub(crate) async fn line(&mut self) -> Option<String> {
        match &mut self.asking {
            Some(asking) => (&mut asking.answer).await.ok().flatten(),
            None => std::future::pending().await,
        }
    }

    /// Handles a typed line; `None` is the end of the input.
    pub(crate) async fn take(
        &mut self,
        engine: &Engine,
        line: Option<String>,
    ) -> Result<(), Failure> {
        let Some(mut asking) = self.asking.take() else {
            return Ok(());
        };
        let Some(line) = line else {
            self.may_ask = false;
            talk::say(format!("answer it later with {}", asking.how));
            return Ok(());
        };
        let mut value = match asking.wanted.read(line.trim()) {
            Ok(Some(value)) => value,
            Ok(None) => {
                asking.again();
                self.asking = Some(asking);
                return Ok(());
            }
            Err(what) => {
                talk::say(what);
                asking.again();
                self.asking = Some(asking);
                return Ok(());
            }
        };
        Redactor::default().value(&mut value);
        let command = Command::Resolve {
            interrupt: asking.interrupt.clone(),
            value,
            by: Some("cli".into()),
            capacity: Capacity::default(),
        };
        match engine.command(&asking.run, Envelope::from(command)).await {
            Ok(()) => {}
            Err(DoorError::Rejected(rejection)) => {
                talk::say(rejection.to_string());
                // Asked again in the next poll, if it is still open.
            }
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}

impl Asking {
    /// Asks for another line.
    fn again(&mut self) {
        self.answer = ask::line("");
        self.wanted.say();
    }
}

impl Wanted {
    fn say(&self) {
        match self {
            Self::Action(actions) => talk::say(format!(
                "type {}; any text after it is your comment",
                actions.join(", ")
            )),
            Self::Answers { questions, answers } => {
                if let Some((_, question)) = questions.get(answers.len()) {
                    talk::say(text::plain(question));
                }
            }
        }
    }

    /// The answer of a line; `None` while more is needed.
    fn read(&mut self, line: &str) -> Result<Option<Value>, String> {
        match self {
            Self::Action(actions) => read_action(actions, line).map(Some),
            Self::Answers { questions, answers } => {
                let Some((id, _)) = questions.get(answers.len()) else {
                    return Ok(None);
                };
                let value = serde_json::from_str(line).unwrap_or_else(|_| json!(line));
                answers.insert(id.clone(), value);
                if answers.len() == questions.len() {
                    let answers = std::mem::take(answers);
                    return Ok(Some(json!({ "answers": answers })));
                }
                Ok(None)
            }
        }
    }
}

fn read_action(actions: &[String], line: &str) -> Result<Value, String> {
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let word = word.to_ascii_lowercase();
    let mut meant = actions
        .iter()
        .filter(|action| !word.is_empty() && action.starts_with(&word));
    let (Some(action), None) = (meant.next(), meant.next()) else {
        return Err(if word.is_empty() {
            "an answer is needed".to_owned()
        } else {
            format!("{} is not one of the answers", quoted(&word))
        });
    };
    let rest = rest.trim();
    Ok(match (action.as_str(), rest) {
        ("refine", "") => return Err("write what to refine after the word".to_owned()),
        ("refine", rest) => json!({
            "action": action, "refineFeedback": { "scope": "whole", "text": rest },
        }),
        ("edit-accept", rest) => match serde_json::from_str::<Value>(rest) {
            Ok(data) => json!({ "action": action, "editedArtifactData": data }),
            Err(_) => return Err("write the changed artifact after the word, as JSON".to_owned()),
        },
        (_, "") => json!({ "action": action }),
        ("reject", rest) => json!({ "action": action, "feedback": rest }),
        (_, rest) => json!({ "action": action, "comment": rest }),
    })
}

/// The answer that a question wants, if a person can type it.
fn wanted(open: &OpenInterrupt) -> Option<Wanted> {
    let list = |key: &str| open.data.get(key).and_then(Value::as_array);
    match open.kind {
        InterruptKind::Approval => {
            let actions = list("actions")?.iter().filter_map(Value::as_str);
            Some(Wanted::Action(actions.map(str::to_owned).collect()))
        }
        InterruptKind::Clarification => {
            let questions = list("questions")?.iter().filter_map(|question| {
                let text = |key: &str| question.get(key).and_then(Value::as_str);
                Some((text("id")?.to_owned(), text("question")?.to_owned()))
            });
            Some(Wanted::Answers {
                questions: questions.collect(),
                answers: Map::new(),
            })
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_action_is_enough() {
        let actions: Vec<String> = ["accept", "reject", "refine", "edit-accept"]
            .map(str::to_owned)
            .into();
        let read = |line: &str| read_action(&actions, line);
        assert_eq!(read("a"), Ok(json!({ "action": "accept" })));
        assert_eq!(
            read("accept looks good"),
            Ok(json!({ "action": "accept", "comment": "looks good" }))
        );
        assert_eq!(
            read("REJ too long"),
            Ok(json!({ "action": "reject", "feedback": "too long" }))
        );
        let feedback = json!({ "scope": "whole", "text": "shorter" });
        assert_eq!(
            read("ref shorter"),
            Ok(json!({ "action": "refine", "refineFeedback": feedback }))
        );
        assert_eq!(
            read("edit {\"a\": 1}"),
            Ok(json!({ "action": "edit-accept", "editedArtifactData": { "a": 1 } }))
        );
        for wrong in ["", "re", "yes", "refine", "edit", "edit-accept no JSON"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
