//! A recorded call.

use std::io;

use faces::provenance::calls as file;
use faces::provenance::hash;
use kernel::digest::Digest;
use kernel::time::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

kernel::words! {
    /// The kind of a call.
    pub enum Kind {
        /// A model, over HTTP.
        Model = "model",
        /// A tool.
        Tool = "tool",
        /// Another request to a tool server, such as its identity and its lists.
        Protocol = "protocol",
    }
}

kernel::words! {
    /// The effect of a tool on the outside world.
    #[derive(Default)]
    pub enum EffectClass {
        /// None.
        Read = "read",
        /// Writes below the working folder.
        WriteLocal = "write_local",
        /// It reaches further.
        External = "external",
        /// Not declared. Treated as external.
        #[default]
        Unknown = "unknown",
    }
}

kernel::words! {
    /// How a path changed.
    pub enum Operation {
        /// It is only there afterwards.
        Created = "created",
        /// It existed before and exists now, with other content.
        Modified = "modified",
        /// It is only there before.
        Deleted = "deleted",
    }
}

/// A change of one path of the working folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Relative, with `/`.
    pub path: String,
    /// How it changed.
    pub operation: Operation,
    /// The digest of its content now, or of the last content of a deleted file.
    #[serde(with = "written")]
    pub hash: Digest,
    /// The digest of the previous content of a modified file.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        with = "written::optional"
    )]
    pub before: Option<Digest>,
    /// The size of its content now, or of the last content of a deleted file.
    pub size: u64,
    /// Its permission bits now, or the last ones of a deleted file.
    pub mode: u32,
    /// Whether it is a symbolic link; its content is then its target.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub link: bool,
    /// Whether the content was too large to be kept.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub not_kept: bool,
    /// The number of values redacted from its content now, or from the last content of a deleted
    /// file.
    #[serde(default, skip_serializing_if = "is_none")]
    pub redacted: u64,
    /// The number of values redacted from the previous content of a modified file.
    #[serde(default, skip_serializing_if = "is_none")]
    pub redacted_before: u64,
    /// Whether the values redacted from its content now are literal values of variables, so that
    /// inserting them restores the original.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verbatim: bool,
    /// The same for the previous content of a modified file.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub verbatim_before: bool,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde hands over references"
)]
fn is_none(count: &u64) -> bool {
    *count == 0
}

/// A folder that was created or deleted. It is not an artifact, but redoing the changes needs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FolderChange {
    /// Relative, with `/`.
    pub path: String,
    /// Created or deleted.
    pub operation: Operation,
    /// Its permission bits, or the last ones of a deleted folder.
    pub mode: u32,
}

/// A file of which only the permission bits changed. It is not an artifact either.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModeChange {
    /// Relative, with `/`.
    pub path: String,
    /// Its permission bits before.
    pub before: u32,
    /// Its permission bits now.
    pub mode: u32,
}

/// Unrequested messages of a tool server around its answer to a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Notified {
    /// The side of the answer.
    pub side: Side,
    /// The digest of the list of messages.
    #[serde(with = "written")]
    pub hash: Digest,
    /// Whether further messages exceeded the limit.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
}

/// A side of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// While the call was open.
    Before,
    /// When no call was open, and this one was answered last.
    After,
}

/// Changes of the working folder other than contents of files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderMetadata {
    /// Folders that were created or deleted, each after its parent.
    pub folders: Vec<FolderChange>,
    /// Files of which only the permission bits changed.
    pub modes: Vec<ModeChange>,
}

impl FolderMetadata {
    /// Whether nothing changed.
    pub fn is_empty(&self) -> bool {
        self.folders.is_empty() && self.modes.is_empty()
    }
}

/// The place of a call in the common sequence of beginnings and ends of all calls. Timestamps are
/// too coarse to show which calls ran concurrently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The number of its beginning.
    pub began: u64,
    /// The number of its end.
    pub ended: Option<u64>,
}

/// A call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Counted from 1 in the order in which calls began.
    pub seq: u64,
    /// The kind of the call.
    pub kind: Kind,
    /// The tool's name, or the route of the model's server.
    pub name: String,
    /// The server of a model, where the program has its address in its text: host and port.
    pub server: Option<String>,
    /// The digest of the cleaned input; a replay matches by it and the name.
    pub input: Digest,
    /// The digest of the cleaned output; `None` for a call that was cut short.
    pub output: Option<Digest>,
    /// When it began.
    pub started: Timestamp,
    /// When it ended.
    pub ended: Option<Timestamp>,
    /// Its place among the other calls; `None` where this was not counted.
    pub order: Option<Order>,
    /// Whether it failed.
    pub is_error: bool,
    /// The declared effect, for tools.
    pub effect_class: Option<EffectClass>,
    /// The model's id of a call that it requested.
    pub call_id: Option<String>,
    /// The enclosing call: that of the model that requested it, else that of the tool whose process
    /// made it.
    pub parent: Option<u64>,
    /// Whether it was only observed in the model traffic, so that it cannot be served.
    pub observed: bool,
    /// Its changes to files of the working folder.
    pub effects: Vec<Change>,
    /// Its other changes there.
    pub metadata: FolderMetadata,
    /// Messages of its server around the answer.
    pub notified: Vec<Notified>,
}

/// Storage for calls and contents. Everything passed to it is clean.
pub trait Keep: Send + Sync + 'static {
    /// Keeps bytes under their digest.
    ///
    /// # Errors
    /// When they cannot be written.
    fn put(&self, bytes: &[u8]) -> io::Result<Digest>;

    /// Returns bytes; `None` where they are not kept.
    ///
    /// # Errors
    /// When they cannot be read, or have changed.
    fn get(&self, digest: Digest) -> io::Result<Option<Vec<u8>>>;

    /// Keeps a call that has ended, or was cut short.
    ///
    /// # Errors
    /// When it cannot be written.
    fn call(&self, call: &Call) -> io::Result<()>;
}

/// Digests as snapshots write them.
mod written {
    use faces::provenance::hash;
    use kernel::digest::Digest;
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(super) fn serialize<S: Serializer>(digest: &Digest, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&hash::written(digest))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Digest, D::Error> {
        let text = String::deserialize(from)?;
        hash::digest(&text).ok_or_else(|| D::Error::custom("this is not a hash"))
    }

    pub(super) mod optional {
        use super::{Deserialize, Deserializer, Digest, Serializer, hash};

        pub(in super::super) fn serialize<S: Serializer>(
            digest: &Option<Digest>,
            to: S,
        ) -> Result<S::Ok, S::Error> {
            match digest {
                Some(digest) => super::serialize(digest, to),
                None => to.serialize_none(),
            }
        }

        pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
            from: D,
        ) -> Result<Option<Digest>, D::Error> {
            let text = Option::<String>::deserialize(from)?;
            Ok(text.as_deref().and_then(hash::digest))
        }
    }
}

/// The classes of calls and of files, for both directions.
const CLASSES: [(EffectClass, file::EffectClass); 4] = [
    (EffectClass::Read, file::EffectClass::Read),
    (EffectClass::WriteLocal, file::EffectClass::WriteLocal),
    (EffectClass::External, file::EffectClass::External),
    (EffectClass::Unknown, file::EffectClass::Unknown),
];

/// The prefix of names of a tool server's requests to its client.
pub const OF_CLIENT: &str = "mcp/client/";

impl Call {
    /// Whether this is a tool server's request to its client, which the program answers.
    pub(crate) fn is_of_client(&self) -> bool {
        self.kind == Kind::Protocol && self.name.starts_with(OF_CLIENT)
    }

    /// The entry in the file of calls.
    pub fn to_file(&self) -> file::Call {
        let mut other = Map::new();
        let mut say = |name: &str, value: Value| {
            other.insert(name.to_owned(), value);
        };
        if self.kind == Kind::Protocol {
            say(file::PROTOCOL, json!(true));
        }
        if let Some(server) = &self.server {
            say("server", json!(server));
        }
        if let Some(id) = &self.call_id {
            say("call_id", json!(id));
        }
        if self.observed {
            say("observed", json!(true));
        }
        if let Some(order) = self.order {
            say("order", json!([order.began, order.ended]));
        }
        if !self.effects.is_empty() {
            say(file::EFFECTS, json!(self.effects));
        }
        if !self.metadata.folders.is_empty() {
            say("folders", json!(self.metadata.folders));
        }
        if !self.metadata.modes.is_empty() {
            say("modes", json!(self.metadata.modes));
        }
        if !self.notified.is_empty() {
            say(file::NOTIFICATIONS, json!(self.notified));
        }
        let class = self.effect_class;
        file::Call {
            seq: self.seq,
            kind: match self.kind {
                Kind::Model => file::CallKind::Model,
                Kind::Tool | Kind::Protocol => file::CallKind::Tool,
            },
            name: Some(self.name.clone()),
            key_hash: hash::written(&self.input),
            result_hash: self.output.as_ref().map(hash::written),
            parent: self.parent,
            started: Some(self.started.to_string()),
            ended: self.ended.map(|ended| ended.to_string()),
            effect_class: class.and_then(|class| {
                let found = CLASSES.iter().find(|(ours, _)| *ours == class);
                found.map(|(_, theirs)| *theirs)
            }),
            is_error: self.is_error,
            other,
        }
    }

    /// Reads an entry of the file of calls. `None` when it cannot be served.
    pub fn of_file(call: &file::Call) -> Option<Self> {
        let is_protocol = call.other.get(file::PROTOCOL) == Some(&json!(true));
        let kind = match call.kind {
            file::CallKind::Model => Kind::Model,
            file::CallKind::Tool if is_protocol => Kind::Protocol,
            file::CallKind::Tool => Kind::Tool,
            _ => return None,
        };
        let time = |text: &Option<String>| text.as_deref().and_then(Timestamp::parse);
        let text = |name: &str| call.other.get(name)?.as_str().map(str::to_owned);
        let order = call.other.get("order");
        let effects = call.other.get(file::EFFECTS).cloned();
        let effects = effects.map(serde_json::from_value).transpose().ok()?;
        Some(Self {
            seq: call.seq,
            kind,
            name: call.name.clone()?,
            server: text("server"),
            input: hash::digest(&call.key_hash)?,
            output: call.result_hash.as_deref().and_then(hash::digest),
            started: time(&call.started)?,
            ended: time(&call.ended),
            order: order.and_then(|order| {
                Some(Order {
                    began: order[0].as_u64()?,
                    ended: order[1].as_u64(),
                })
            }),
            is_error: call.is_error,
            effect_class: call.effect_class.and_then(|class| {
                let found = CLASSES.iter().find(|(_, theirs)| *theirs == class);
                found.map(|(ours, _)| *ours)
            }),
            call_id: text("call_id"),
            parent: call.parent,
            observed: call.other.get("observed") == Some(&json!(true)),
            effects: effects.unwrap_or_default(),
            metadata: FolderMetadata {
                folders: list(call.other.get("folders")),
                modes: list(call.other.get("modes")),
            },
            notified: list(call.other.get(file::NOTIFICATIONS)),
        })
    }
}

/// Reads a list from a file; empty for any other value.
pub fn list<T: serde::de::DeserializeOwned>(value: Option<&Value>) -> Vec<T> {
    let read = value.and_then(|value| serde_json::from_value(value.clone()).ok());
    read.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_comes_back_from_its_file() {
        let call = Call {
            seq: 3,
            kind: Kind::Protocol,
            name: "mcp/tools/list".into(),
            server: Some("127.0.0.1:8000".into()),
            input: Digest::compute(b"in"),
            output: Some(Digest::compute(b"out")),
            started: Timestamp(1_770_000_000_000),
            ended: Some(Timestamp(1_770_000_000_007)),
            order: Some(Order {
                began: 3,
                ended: Some(8),
            }),
            is_error: true,
            effect_class: Some(EffectClass::WriteLocal),
            call_id: Some("c1".into()),
            parent: Some(1),
            observed: true,
            effects: vec![Change {
                path: "a".into(),
                operation: Operation::Modified,
                hash: Digest::compute(b"new"),
                before: Some(Digest::compute(b"old")),
                size: 3,
                mode: 0o644,
                link: false,
                not_kept: false,
                redacted: 1,
                redacted_before: 0,
                verbatim: true,
                verbatim_before: false,
            }],
            metadata: FolderMetadata {
                folders: vec![FolderChange {
                    path: "b".into(),
                    operation: Operation::Created,
                    mode: 0o755,
                }],
                modes: vec![ModeChange {
                    path: "c".into(),
                    before: 0o644,
                    mode: 0o755,
                }],
            },
            notified: vec![Notified {
                side: Side::After,
                hash: Digest::compute(b"told"),
                cut: true,
            }],
        };
        let line = serde_json::to_string(&call.to_file()).unwrap();
        assert!(line.contains("\"hash\":\"sha256:"), "{line}");
        let read: file::Call = serde_json::from_str(&line).unwrap();
        let told = hash::written(&Digest::compute(b"told"));
        assert!(read.contents().any(|hash| hash == told), "{line}");
        assert_eq!(Call::of_file(&read), Some(call));
    }
}
