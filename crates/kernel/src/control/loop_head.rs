//! `core.loop`: the head of a loop. Port `body` begins a round, port `done` leaves.
//!
//! Config, one of: `{ "times": n }`, `{ "items": [..] }` or `{ "items": "<CEL>" }`, `{ "while":
//! "<CEL>" }` (evaluated before each round), `{ "until": "<CEL>" }` (evaluated after each round).
//! `maxIterations` limits all of them. Outputs: `index` of the round from 0, `item` if there are
//! items, and on leaving `rounds` and `reason`.
//!
//! A round is over when every node of the body has settled. If no edge led back to the head the
//! loop is left: this is how a body breaks.

use serde_json::{Map, Value};

use super::{
    Began, Context, ControlNode, Done, Spec, misconfigured, owned, setting, without_value,
};
use crate::definition::config_keys::{TEXT, Takes};
use crate::expr::{ExprError, Expression};
use crate::limits::MAX_LOOP_ITERATIONS;

/// The node kind.
pub(crate) struct LoopHead;

const SPEC: Spec = Spec {
    type_id: "core.loop",
    summary: "Repeats its body, within limits.",
    config_keys: &[
        key!("times": Takes::Whole(0, MAX_LOOP_ITERATIONS as u64), "The number of rounds."),
        key!("items": Takes::Types(&["array", "string"]),
            "One round per item: a list, or CEL that gives one."),
        key!("while" | "condition": TEXT, "CEL condition; another round starts while it is true."),
        key!("until": TEXT, "CEL condition, checked after each round; if true, the loop ends."),
        key!("maxIterations": Takes::Whole(1, MAX_LOOP_ITERATIONS as u64),
            "The most rounds."),
    ],
    ports: &["body", "done"],
    expressions: &["items", "while", "condition", "until"],
    expects: Some((
        &["times", "items", "while", "condition", "until"],
        "fails when it starts: it needs one of `times`, `items`, `while`, `until`",
    )),
    ..Spec::DEFAULT
};

impl ControlNode for LoopHead {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn outputs(&self, _: &Value) -> Option<Vec<String>> {
        Some(owned(&["index", "item", "rounds", "reason"]))
    }

    fn begin(&self, cx: &Context<'_>) -> Began {
        let (index, left) = match cx.round {
            None => (0, Left::No),
            Some((previous, left)) => (previous.map_or(0, |index| index + 1), left),
        };
        if left == Left::ByBreak {
            return done(index, "break");
        }
        let round = match wants_round(cx, index) {
            Ok(round) => round,
            Err(Wrong::Config(what)) => return misconfigured(cx, what),
            Err(Wrong::Expression(error)) => return without_value(cx, "its expression", &error),
        };
        let Round::Go(item) = round else {
            return done(index, "finished");
        };
        let own = cx
            .node
            .body
            .as_ref()
            .map_or(u32::MAX, |body| body.max_iterations);
        let limit = own.min(cx.policy.max_loop_iterations.unwrap_or(u32::MAX));
        if index >= u64::from(limit) {
            return Began::LoopLimit {
                limit: u64::from(limit),
            };
        }
        let mut outputs = Map::from_iter([("index".to_owned(), Value::from(index))]);
        if let Some(item) = item {
            outputs.insert("item".to_owned(), item);
        }
        Began::Completed(Done {
            outputs,
            port: Some("body".into()),
            ..Done::default()
        })
    }
}

/// How the last round ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// An edge of the body led back to the head.
    No,
    /// None did.
    ByBreak,
}

fn done(rounds: u64, reason: &str) -> Began {
    let outputs = Map::from_iter([
        ("rounds".to_owned(), Value::from(rounds)),
        ("reason".to_owned(), Value::from(reason)),
    ]);
    Began::Completed(Done {
        outputs,
        port: Some("done".into()),
        ..Done::default()
    })
}

enum Round {
    Go(Option<Value>),
    Over,
}

enum Wrong {
    Config(&'static str),
    Expression(ExprError),
}

impl From<ExprError> for Wrong {
    fn from(error: ExprError) -> Self {
        Self::Expression(error)
    }
}

fn wants_round(cx: &Context<'_>, index: u64) -> Result<Round, Wrong> {
    let go_if = |more: bool| if more { Round::Go(None) } else { Round::Over };
    if let Some(times) = setting(cx, "times") {
        let times = times
            .as_u64()
            .ok_or(Wrong::Config("times must be a whole number"))?;
        return Ok(go_if(index < times));
    }
    if let Some(items) = setting(cx, "items") {
        let items = match items {
            Value::String(text) => Expression::parse(text)?.eval(cx.scope)?,
            list => list.clone(),
        };
        let Value::Array(items) = items else {
            return Err(Wrong::Config(
                "items must be a list, or an expression that gives one",
            ));
        };
        let item = usize::try_from(index)
            .ok()
            .and_then(|index| items.get(index).cloned());
        return Ok(item.map_or(Round::Over, |item| Round::Go(Some(item))));
    }
    let condition = |key: &str| cx.node.config.get(key).and_then(Value::as_str);
    if let Some(text) = condition("while").or_else(|| condition("condition")) {
        return Ok(go_if(Expression::parse(text)?.eval_bool(cx.scope)?));
    }
    if let Some(text) = condition("until") {
        let more = index == 0 || !Expression::parse(text)?.eval_bool(cx.scope)?;
        return Ok(go_if(more));
    }
    Err(Wrong::Config("needs one of times, items, while, until"))
}
