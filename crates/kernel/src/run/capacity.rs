//! As what somebody answers a question.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// As what somebody answers: what whoever took the answer in knew of them beside their name, and
/// the question depends on. Kept in the log, as groups change and a decision does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capacity {
    /// Whom they speak for, where they may speak for others.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub speaks_for: Option<String>,
    /// Groups they belong to.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub groups: BTreeSet<String>,
    /// Roles they have.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub roles: BTreeSet<String>,
    /// Scopes of their credential.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub scopes: BTreeSet<String>,
}

impl Capacity {
    /// Whether there is nothing to say.
    pub(crate) fn is_plain(&self) -> bool {
        *self == Self::default()
    }

    /// The part of it that a question refers to: the log learns nothing else about anybody.
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
        }
    }
}

/// Who answers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answerer<'a> {
    /// By which name they are known; nobody knows who sent a signal.
    pub(crate) by: Option<&'a str>,
    /// As what.
    pub(crate) capacity: &'a Capacity,
}

impl Answerer<'_> {
    /// Whose answer it is, as far as that is known.
    pub(crate) fn name(&self) -> Option<&str> {
        self.capacity.speaks_for.as_deref().or(self.by)
    }
}
