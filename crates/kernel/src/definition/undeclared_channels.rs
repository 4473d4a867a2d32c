//! Undeclared channels that a `core.channelWrite` describes.
//!
//! Its config may set `reducer`, `ttlMs` and `maxSize` of a channel that is missing in `channels`.
//! Such a channel is also kept in the variable of its name.

use std::collections::BTreeMap;

use super::channel::{Access, Channel, Reducer};
use super::document::{Definition, Node};
use super::validation_mode::ValidationMode;
use crate::control::ControlKind;
use crate::limits::{MAX_CHANNEL_ENTRIES, MAX_WAIT_MS};
use crate::problem::{Path, ProblemCode, Problems, quoted};

/// The keys of a config that describe its channel.
const DESCRIBES: [&str; 3] = ["reducer", "ttlMs", "maxSize"];

/// The declared channels and those that nodes describe.
pub(super) fn channels(
    definition: &Definition,
    validation_mode: ValidationMode,
    problems: &mut Problems,
) -> BTreeMap<String, Channel> {
    // Wrong descriptions in stored definitions were not read when those were registered.
    let mut passed = Problems::new();
    let problems = match validation_mode {
        ValidationMode::New => problems,
        ValidationMode::Stored => &mut passed,
    };
    let mut channels = definition.channels.clone();
    let list = Path::Key(&Path::Root, "nodes");
    for (index, node) in definition.nodes.iter().enumerate() {
        let Some(kind) = ControlKind::parse(&node.type_id) else {
            continue;
        };
        let mut keys = kind.node().spec().channel_keys.iter();
        let name = keys.find_map(|key| node.config.get(key)?.as_str());
        let Some(name) = name.filter(|name| !definition.channels.contains_key(*name)) else {
            continue;
        };
        let at = Path::Index(&list, index);
        let Some(described) = described(node, &Path::Key(&at, "config"), validation_mode, problems)
        else {
            continue;
        };
        let first = channels.entry(name.to_owned()).or_insert(described.clone());
        if *first != described {
            let message = format!(
                "another node describes the channel {} differently; declare it in `channels`",
                quoted(name)
            );
            let path = Path::Key(&at, "config").pointer();
            problems.add(path, ProblemCode::InvalidValue, message);
        }
    }
    channels
}

/// The description of a channel in a config; `None` without one.
fn described(
    node: &Node,
    config: &Path<'_>,
    validation_mode: ValidationMode,
    problems: &mut Problems,
) -> Option<Channel> {
    let given = |key: &str| node.config.get(key).filter(|value| !value.is_null());
    if !DESCRIBES.iter().any(|key| given(key).is_some()) {
        return None;
    }
    let mut wrong = |key: &'static str, message: String| {
        let path = Path::Key(config, key).pointer();
        problems.add(path, ProblemCode::InvalidValue, message);
    };
    let reducer = match given("reducer") {
        None => Some(Reducer::Replace),
        Some(name) => name.as_str().and_then(Reducer::parse),
    };
    if reducer.is_none() {
        let names = Reducer::NAMES.join(", ");
        wrong("reducer", format!("must be one of {names}"));
    }
    let mut number = |key: &'static str, max: u64| {
        let n = given(key)?.as_u64().map(|n| match validation_mode {
            ValidationMode::New => n,
            ValidationMode::Stored => n.min(max),
        });
        let n = n.filter(|n| *n <= max);
        if n.is_none() {
            wrong(key, format!("must be a whole number up to {max}"));
        }
        n.filter(|n| *n > 0)
    };
    Some(Channel {
        reducer: reducer?,
        default: None,
        ttl_ms: number("ttlMs", MAX_WAIT_MS),
        max_size: number("maxSize", MAX_CHANNEL_ENTRIES as u64)
            .and_then(|n| usize::try_from(n).ok()),
        schema_version: 1,
        compatible_with: Vec::new(),
        schema: None,
        access: Access::default(),
        sensitive: false,
        in_variable: true,
    })
}
