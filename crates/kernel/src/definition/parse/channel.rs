//! Channel declarations.

use serde_json::Value;

use crate::definition::channel::{Access, Channel, Reducer};
use crate::definition::reader::{Fields, Findings, Keys};
use crate::definition::variable::type_name;
use crate::limits::MAX_CHANNEL_ENTRIES;
use crate::problem::{Path, ProblemCode, quoted};

pub(super) const FIELDS: [&str; 11] = [
    "reducer",
    "schema",
    "default",
    "maxSize",
    "ttlMs",
    "options",
    "access",
    "schemaVersion",
    "compatibleWith",
    "sensitive",
    "description",
];
/// A year.
const MAX_TTL_MS: u64 = 31_536_000_000;
const MAX_ACCESS_ENTRIES: usize = 256;

pub(super) fn read(findings: &Findings, path: &Path<'_>, value: &Value) -> Option<Channel> {
    let fields = Fields::open(findings, path, value, Keys::Closed, &FIELDS)?;
    fields.object("options");
    fields.text("description");
    let reducer = reducer(&fields)?;
    let default = fields.get("default").cloned();
    if let Some(default) = &default {
        let (fits, what) = match reducer {
            Reducer::Append | Reducer::Votes | Reducer::Feedback | Reducer::Message => {
                (default.is_array(), "an array")
            }
            Reducer::Merge => (default.is_object(), "an object"),
            Reducer::Counter => (default.is_number(), "a number"),
            Reducer::Replace | Reducer::Vendor(_) => (true, ""),
        };
        if !fits {
            fields.problem(
                "default",
                ProblemCode::WrongType,
                format!(
                    "must be {what} for the reducer `{}`, not {}",
                    reducer.as_str(),
                    type_name(default)
                ),
            );
        }
    }
    Some(Channel {
        reducer,
        default,
        max_size: fields
            .integer("maxSize", 1..=MAX_CHANNEL_ENTRIES as u64)
            .and_then(|n| usize::try_from(n).ok()),
        ttl_ms: fields.millis("ttlMs", 0..=MAX_TTL_MS).filter(|&ms| ms > 0),
        schema_version: fields
            .integer("schemaVersion", 1..=u64::from(u32::MAX))
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(1),
        compatible_with: versions(&fields),
        schema: fields
            .object("schema")
            .and_then(|_| fields.get("schema").cloned()),
        access: access(&fields),
        sensitive: fields.flag("sensitive").unwrap_or(false),
        in_variable: false,
    })
}

fn reducer(fields: &Fields<'_>) -> Option<Reducer> {
    let name = fields.required_text("reducer")?;
    if let Some(vendor @ Reducer::Vendor(_)) = Reducer::parse(name) {
        return Some(vendor);
    }
    fields
        .required_word("reducer", &Reducer::NAMES)
        .and_then(Reducer::parse)
}

fn versions(fields: &Fields<'_>) -> Vec<u32> {
    let path = Path::Key(fields.path, "compatibleWith");
    let mut versions = Vec::new();
    for (index, value) in fields
        .array("compatibleWith")
        .into_iter()
        .flatten()
        .enumerate()
    {
        match value
            .as_u64()
            .and_then(|n| u32::try_from(n).ok())
            .filter(|&n| n > 0)
        {
            Some(version) => versions.push(version),
            None => fields.findings().problem(
                &Path::Index(&path, index),
                ProblemCode::InvalidValue,
                "must be a schema version, which is an integer from 1",
            ),
        }
    }
    versions
}

fn access(fields: &Fields<'_>) -> Access {
    match fields.get("access") {
        None => Access::default(),
        Some(Value::String(word)) => match word.as_str() {
            "public" => Access::default(),
            "private" => Access::private(),
            other => {
                fields.problem(
                    "access",
                    ProblemCode::InvalidValue,
                    format!(
                        "{} is not allowed here; write `public`, `private`, or an object with \
                         `readers` and `writers`",
                        quoted(other)
                    ),
                );
                Access::private()
            }
        },
        Some(value) => {
            let path = Path::Key(fields.path, "access");
            let known = ["readers", "writers"];
            let lists = Fields::open(fields.findings(), &path, value, Keys::Closed, &known);
            lists.map_or_else(Access::private, |lists| Access {
                readers: entries(&lists, "readers"),
                writers: entries(&lists, "writers"),
            })
        }
    }
}

fn entries(fields: &Fields<'_>, key: &'static str) -> Option<Vec<String>> {
    let entries = fields.texts(key)?;
    if entries.len() > MAX_ACCESS_ENTRIES {
        fields.rule(
            key,
            ProblemCode::TooLarge,
            format!(
                "has {} entries; at most {MAX_ACCESS_ENTRIES} are allowed",
                entries.len()
            ),
        );
    }
    let path = Path::Key(fields.path, key);
    for (index, entry) in entries.iter().enumerate() {
        let name = entry.strip_suffix('*').unwrap_or(entry);
        if entry.is_empty() || name.contains('*') {
            fields.findings().problem(
                &Path::Index(&path, index),
                ProblemCode::InvalidValue,
                "must be a node id, a node type id, or the start of one followed by `*`",
            );
        }
    }
    Some(entries)
}
