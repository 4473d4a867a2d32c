//! Declared channels: shared state of a run that is written through a reducer.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A declared channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Channel {
    /// How a write changes the value.
    pub reducer: Reducer,
    /// The value before the first write, where it replaces the reducer's own initial value.
    pub default: Option<Value>,
    /// Entries kept, for reducers that keep entries.
    pub max_size: Option<usize>,
    /// Lifetime of an entry.
    pub ttl_ms: Option<u64>,
    /// The version of the value's schema, recorded with each write.
    pub schema_version: u32,
    /// Earlier schema versions whose writes still count.
    pub compatible_with: Vec<u32>,
    /// JSON Schema of the value.
    pub schema: Option<Value>,
    /// Which nodes may read and write.
    pub access: Access,
    /// Values are masked outside the run.
    pub sensitive: bool,
    /// The value is also kept in the variable of the channel's name: a node describes the
    /// channel, the definition does not declare it.
    pub in_variable: bool,
}

/// How a write changes a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Reducer {
    /// The written value replaces the old one.
    Replace,
    /// The written value is added to the end.
    Append,
    /// The written keys replace existing ones, others stay.
    Merge,
    /// The written number is added.
    Counter,
    /// One vote per user; a later one replaces the earlier.
    Votes,
    /// Added to the end.
    Feedback,
    /// Added to the end unless its `messageId` is already there.
    Message,
    /// `vendor.<org>.<name>`, whole.
    Vendor(String),
}

impl Reducer {
    /// The names of the built-in reducers.
    pub const NAMES: [&'static str; 7] = [
        "replace", "append", "merge", "counter", "votes", "feedback", "message",
    ];

    /// Looks up a reducer by its name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "replace" => Self::Replace,
            "append" => Self::Append,
            "merge" => Self::Merge,
            "counter" => Self::Counter,
            "votes" => Self::Votes,
            "feedback" => Self::Feedback,
            "message" => Self::Message,
            vendor if is_vendor_name(vendor) => Self::Vendor(vendor.to_owned()),
            _ => return None,
        })
    }

    /// The name, as documents write it.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Merge => "merge",
            Self::Counter => "counter",
            Self::Votes => "votes",
            Self::Feedback => "feedback",
            Self::Message => "message",
            Self::Vendor(name) => name,
        }
    }
}

impl From<Reducer> for String {
    fn from(reducer: Reducer) -> Self {
        reducer.as_str().to_owned()
    }
}

impl TryFrom<String> for Reducer {
    type Error = &'static str;

    fn try_from(name: String) -> Result<Self, Self::Error> {
        Self::parse(&name).ok_or("unknown reducer")
    }
}

fn is_vendor_name(name: &str) -> bool {
    let mut parts = name.split('.');
    let word = |part: Option<&str>| {
        part.is_some_and(|part| {
            part.starts_with(|c: char| c.is_ascii_lowercase())
                && part
                    .bytes()
                    .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-'))
        })
    };
    parts.next() == Some("vendor")
        && word(parts.next())
        && word(parts.next())
        && parts.next().is_none()
}

/// Which nodes may read and write a channel. `None` allows every node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The readers.
    pub readers: Option<Vec<String>>,
    /// The writers.
    pub writers: Option<Vec<String>>,
}

impl Access {
    /// No node may read or write.
    pub fn private() -> Self {
        Self {
            readers: Some(Vec::new()),
            writers: Some(Vec::new()),
        }
    }

    /// Whether a node may read.
    pub fn may_read(&self, node_id: &str, type_id: &str) -> bool {
        allows(self.readers.as_deref(), node_id, type_id)
    }

    /// Whether a node may write.
    pub fn may_write(&self, node_id: &str, type_id: &str) -> bool {
        allows(self.writers.as_deref(), node_id, type_id)
    }
}

/// An entry is a node id, or a node type id that may end in `*`.
fn allows(list: Option<&[String]>, node_id: &str, type_id: &str) -> bool {
    let Some(list) = list else { return true };
    list.iter().any(|entry| match entry.strip_suffix('*') {
        Some(prefix) => type_id.starts_with(prefix),
        None => entry == node_id || entry == type_id,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_reducer_of_an_event_is_an_error() {
        for name in ["replace", "vendor.acme.latest"] {
            let reducer: Reducer = serde_json::from_value(name.into()).unwrap();
            assert_eq!(serde_json::to_value(reducer).unwrap(), name);
        }
        assert!(serde_json::from_value::<Reducer>("latest".into()).is_err());
    }
}
