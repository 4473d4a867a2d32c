//! The config keys of control nodes, and those that several of them share.

/// A key of a config.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// Its name.
    pub name: &'static str,
    /// Its other names.
    pub aliases: &'static [&'static str],
    /// Its allowed values.
    pub takes: Takes,
    /// Its purpose, and the default.
    pub what: &'static str,
}

/// The allowed values of a key.
#[derive(Clone, Copy, Debug)]
pub enum Takes {
    /// Any JSON.
    Anything,
    /// JSON of one of these types, by their names in JSON Schema.
    Types(&'static [&'static str]),
    /// One of these texts.
    Words(&'static [&'static str]),
    /// A whole number within bounds, both included.
    Whole(u64, u64),
    /// A number of milliseconds up to [`MAX_WAIT_MS`](crate::limits::MAX_WAIT_MS).
    Millis,
    /// A number of seconds from 1 on, up to [`MAX_WAIT_MS`](crate::limits::MAX_WAIT_MS).
    Seconds,
}

pub(crate) const TEXT: Takes = Takes::Types(&["string"]);
/// A required number of at least one.
pub(crate) const COUNT: Takes = Takes::Whole(1, 1_000);
pub(crate) const YES_OR_NO: Takes = Takes::Types(&["boolean"]);
pub(crate) const LIST: Takes = Takes::Types(&["array"]);
pub(crate) const OBJECT: Takes = Takes::Types(&["object"]);

const fn key(name: &'static str, takes: Takes, what: &'static str) -> ConfigKey {
    ConfigKey {
        name,
        aliases: &[],
        takes,
        what,
    }
}

impl ConfigKey {
    /// All of its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

pub(crate) const TIMEOUT_MS: ConfigKey = key(
    "timeoutMs",
    Takes::Millis,
    "Milliseconds until the question expires; default: never.",
);
pub(crate) const RESUME_SCHEMA: ConfigKey =
    key("resumeSchema", OBJECT, "JSON Schema of an answer.");
pub(crate) const PROFILE: ConfigKey = key(
    "profile",
    TEXT,
    "openwop-interrupt-auth-required: only a signed-in person may answer.",
);
pub(crate) const INPUT_MAPPING: ConfigKey = key(
    "inputMapping",
    OBJECT,
    "Inputs of the child: a variable of the child to a variable of this run.",
);
pub(crate) const OUTPUT_MAPPING: ConfigKey = key(
    "outputMapping",
    OBJECT,
    "Outputs of the child: a variable of this run to a variable of the child.",
);
pub(crate) const BUDGET: ConfigKey = key(
    "budget",
    OBJECT,
    "The part of this run's budget for a child: maxCostUsd, maxTokens, maxToolCalls, maxRetries.",
);
pub(crate) const PROPAGATE: ConfigKey = key(
    "propagateCancellation",
    YES_OR_NO,
    "Whether a cancellation reaches the child; default: true.",
);
