//! Scopes: the actions a principal may perform, as words.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use kernel::problem::quoted;

/// The word for every scope.
const EVERYTHING: &str = "*";

kernel::words! {
    /// A scope. None implies another.
    pub enum Scope {
        /// Read workflow definitions (OpenWOP).
        ManifestRead = "manifest:read",
        /// Create runs (OpenWOP).
        RunsCreate = "runs:create",
        /// Read runs, their events and lists of them (OpenWOP).
        RunsRead = "runs:read",
        /// Cancel, pause, resume and signal runs (OpenWOP).
        RunsCancel = "runs:cancel",
        /// Read artifacts (OpenWOP).
        ArtifactsRead = "artifacts:read",
        /// Answer interrupts of runs (OpenWOP).
        ApprovalsRespond = "approvals:respond",
        /// Answer on behalf of others, whom the answer names. Ours: for a service that authenticates
        /// people itself, such as a chat, and forwards their votes.
        ApprovalsDelegate = "approvals:delegate",
        /// Register webhooks (OpenWOP).
        WebhooksManage = "webhooks:manage",
        /// Read and verify the audit trail (OpenWOP).
        AuditRead = "audit:read",
        /// Register workflows. Ours: OpenWOP leaves registration to the host, and the author of a
        /// definition may run any process node in it.
        WorkflowsWrite = "workflows:write",
        /// Make, list and revoke keys. Ours: OpenWOP does not define where keys come from, and the
        /// maker of a key may give it every scope.
        KeysManage = "keys:manage",
        /// Take tasks from queues and report their results. Ours: the only scope a worker needs.
        WorkersTake = "workers:take",
        /// Read the state and the events of queues. Ours.
        CoordinatorRead = "coordinator:read",
        /// Send commands to the coordinators of queues. Ours.
        CoordinatorWrite = "coordinator:write",
    }
}

/// An unknown scope word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not a scope; the scopes are * and {}", quoted(.0), every_word())]
pub struct UnknownScope(pub String);

fn every_word() -> String {
    Scope::ALL.map(Scope::as_str).join(", ")
}

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(word: &str) -> Result<Self, UnknownScope> {
        let known = Self::ALL.into_iter().find(|scope| scope.as_str() == word);
        known.ok_or_else(|| UnknownScope(word.to_owned()))
    }
}

/// A set of scopes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scopes {
    /// Every present and future scope: `*`.
    Everything,
    /// A fixed set.
    Only(BTreeSet<Scope>),
}

impl Scopes {
    /// Whether the set contains a scope.
    pub fn has(&self, scope: Scope) -> bool {
        match self {
            Self::Everything => true,
            Self::Only(scopes) => scopes.contains(&scope),
        }
    }

    /// Whether the set contains a scope, by its word.
    pub fn has_word(&self, word: &str) -> bool {
        match self {
            Self::Everything => true,
            Self::Only(scopes) => word.parse().is_ok_and(|scope| scopes.contains(&scope)),
        }
    }

    /// Whether the set contains every scope of `other`: required of a caller who passes `other` on.
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Everything, _) => true,
            (Self::Only(_), Self::Everything) => false,
            (Self::Only(ours), Self::Only(theirs)) => theirs.is_subset(ours),
        }
    }

    /// Reads words that a person wrote; an unknown word is an error.
    ///
    /// # Errors
    /// The first unknown word.
    pub fn parse<'a>(words: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownScope> {
        let mut scopes = BTreeSet::new();
        for word in words {
            match word {
                EVERYTHING => return Ok(Self::Everything),
                word => scopes.insert(word.parse()?),
            };
        }
        Ok(Self::Only(scopes))
    }

    /// Reads words of another system, which may mean something to others. Unknown words grant
    /// nothing.
    pub fn known<'a>(words: impl IntoIterator<Item = &'a str>) -> Self {
        let mut scopes = BTreeSet::new();
        for word in words {
            match word {
                EVERYTHING => return Self::Everything,
                word => scopes.extend(word.parse::<Scope>()),
            };
        }
        Self::Only(scopes)
    }

    /// The words as stored in logs.
    pub fn words(&self) -> BTreeSet<String> {
        match self {
            Self::Everything => BTreeSet::from([EVERYTHING.to_owned()]),
            Self::Only(scopes) => scopes.iter().map(Scope::to_string).collect(),
        }
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words: Vec<_> = self.words().into_iter().collect();
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_read_back_as_they_are_written() {
        for scope in Scope::ALL {
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
        let scopes = Scopes::parse(["runs:read", "runs:create"]).unwrap();
        assert_eq!(scopes.to_string(), "runs:create,runs:read");
        assert_eq!(Scopes::known(scopes.words().iter().map(|w| &**w)), scopes);
        assert_eq!(Scopes::parse(["runs:read", "*"]), Ok(Scopes::Everything));
    }

    #[test]
    fn mistakes_are_shown_to_people_and_grant_nothing() {
        let wrong = Scopes::parse(["runs:rad"]).unwrap_err();
        assert!(wrong.to_string().contains("runs:read"), "{wrong}");
        assert_eq!(
            Scopes::known(["openid", "runs:read", "RUNS:CANCEL"]),
            Scopes::Only(BTreeSet::from([Scope::RunsRead]))
        );
    }

    #[test]
    fn no_scope_implies_another() {
        for one in Scope::ALL {
            let only = Scopes::Only(BTreeSet::from([one]));
            for other in Scope::ALL {
                assert_eq!(only.has(other), one == other);
            }
            assert!(!only.covers(&Scopes::Everything));
            assert!(Scopes::Everything.covers(&only) && only.covers(&only));
        }
    }
}
