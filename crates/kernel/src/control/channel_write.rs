//! `core.channelWrite`: writes a value to a channel through its reducer.
//!
//! Config `{ "channel": "events", "value": … }` or `{ "channel": …, "expression": "<CEL>" }`; an
//! input port `value` overrides it. The channel's declaration defines the reducer. An undeclared
//! channel is described by `reducer`, `ttlMs` and `maxSize` of the config, and is also kept in the
//! variable of its name.

use serde_json::{Map, Value};

use super::{
    Began, Context, ControlNode, Done, PortSensitivity, Spec, misconfigured, owned, setting,
    without_value,
};
use crate::definition::config_keys::{TEXT, Takes};
use crate::definition::{Plan, PlanNode};
use crate::expr::Expression;
use crate::limits::MAX_CHANNEL_ENTRIES;
use crate::run::command::ChannelWrite;

/// The config keys that name the channel.
const CHANNEL_KEYS: [&str; 2] = ["channel", "channelName"];

/// The node kind.
pub(crate) struct ChannelWriteNode;

const SPEC: Spec = Spec {
    type_id: "core.channelWrite",
    summary: "Writes a value to a channel.",
    config_keys: &[
        key!("channel" | "channelName": TEXT, "The channel to write to."),
        key!("value": Takes::Anything, "The value to write."),
        key!("expression": TEXT, "CEL for the value instead."),
        key!("reducer": TEXT, "The reducer of an undeclared channel."),
        key!("ttlMs": Takes::Millis,
            "The lifetime of an entry of an undeclared channel."),
        key!("maxSize": Takes::Whole(0, MAX_CHANNEL_ENTRIES as u64),
            "The most entries of an undeclared channel."),
    ],
    expressions: &["expression"],
    channel_keys: &CHANNEL_KEYS,
    needs: Some((
        &CHANNEL_KEYS,
        "needs `channel`, the name of the channel to write to",
    )),
    ..Spec::DEFAULT
};

impl ControlNode for ChannelWriteNode {
    fn spec(&self) -> &'static Spec {
        &SPEC
    }

    fn outputs(&self, _: &Value) -> Option<Vec<String>> {
        Some(owned(&["value"]))
    }

    fn sensitivity(&self, plan: &Plan, node: &PlanNode, _: &str) -> PortSensitivity {
        let channel = node.config_text(CHANNEL_KEYS);
        PortSensitivity::hidden_if(channel.is_some_and(|channel| plan.hides_channel(channel)))
    }

    fn begin(&self, cx: &Context<'_>) -> Began {
        let config = &cx.node.config;
        let name = CHANNEL_KEYS
            .iter()
            .find_map(|key| config.get(key)?.as_str());
        let Some(channel) = name else {
            return misconfigured(cx, "needs config.channel, the name of the channel to write");
        };
        let value = match config.get("expression").and_then(Value::as_str) {
            Some(text) => match Expression::parse(text).and_then(|e| e.eval(cx.scope)) {
                Ok(value) => value,
                Err(error) => return without_value(cx, "config.expression", &error),
            },
            None => setting(cx, "value").cloned().unwrap_or(Value::Null),
        };
        Began::Completed(Done {
            outputs: Map::from_iter([("value".to_owned(), value.clone())]),
            channel_writes: vec![ChannelWrite {
                channel: channel.to_owned(),
                value,
            }],
            ..Done::default()
        })
    }
}
