//! `core.channelWrite`: writes a value to a channel through its reducer.
//!
//! Config `{ "channel": "events", "value": … }` or `{ "channel": …, "expression": "<CEL>" }`; an
//! input port `value` overrides it. The channel's declaration defines the reducer. An undeclared
//! channel is described by `reducer`, `ttlMs` and `maxSize` of the config, and is also kept in the
//! variable of its name.

use serde_json::{Map, Value};

use super::{Began, Context, Done, misconfigured, setting, without_value};
use crate::expr::Expression;
use crate::run::command::ChannelWrite;

pub(crate) fn begin(cx: &Context<'_>) -> Began {
    let config = &cx.node.config;
    let name = ["channel", "channelName"]
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
