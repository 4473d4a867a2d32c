//! The capacity in which a person answers a question.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The capacity of an answer: facts about the person, in addition to their name, that the question
/// depends on. Kept in the log, because groups change and a decision does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capacity {
    /// The person they represent, if they may represent others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaks_for: Option<String>,
    /// Their groups.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// Their roles.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<String>,
    /// The scopes of their credential.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub scopes: BTreeSet<String>,
    /// The issuer of their credential. `None` for an API key.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub issuer: Option<String>,
}

impl Capacity {
    /// Whether it is empty.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The part that a question refers to: the log contains no other facts about people.
    pub fn for_question(&self, data: &Value) -> Self {
        let named = |places: &[&str], of: &BTreeSet<String>| {
            let given = places.iter().filter_map(|place| data.pointer(place));
            let words = given.flat_map(|given| match given {
                Value::Array(refs) => refs.iter().collect(),
                word => vec![word],
            });
            words
                .filter_map(Value::as_str)
                .filter(|word| of.contains(*word))
                .map(str::to_owned)
                .collect()
        };
        const ROLES: [&str; 3] = [
            "/approverRoleRefs",
            "/requiredRole",
            "/override/requiredRole",
        ];
        Self {
            speaks_for: self.speaks_for.clone(),
            groups: named(&["/approverGroupRefs"], &self.groups),
            roles: named(&ROLES, &self.roles),
            scopes: named(&["/requiredScope"], &self.scopes),
            issuer: self.issuer.clone(),
        }
    }
}

/// The person who answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answerer<'a> {
    /// Their name; unknown for a signal.
    pub(crate) by: Option<&'a str>,
    /// Their capacity.
    pub(crate) capacity: &'a Capacity,
}

impl Answerer<'_> {
    /// The name that the answer counts for, if known.
    pub(crate) fn name(&self) -> Option<&str> {
        self.capacity.speaks_for.as_deref().or(self.by)
    }
}
