//! The config keys of each control node, for authors of workflows.

use super::control::ControlKind;
use crate::limits::{MAX_CHANNEL_ENTRIES, MAX_COUNT, MAX_LOOP_ITERATIONS};

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

const TEXT: Takes = Takes::Types(&["string"]);
/// A required number of at least one.
const COUNT: Takes = Takes::Whole(1, 1_000);
const YES_OR_NO: Takes = Takes::Types(&["boolean"]);
const LIST: Takes = Takes::Types(&["array"]);
const OBJECT: Takes = Takes::Types(&["object"]);

const fn key(name: &'static str, takes: Takes, what: &'static str) -> ConfigKey {
    ConfigKey {
        name,
        aliases: &[],
        takes,
        what,
    }
}

impl ConfigKey {
    const fn also(mut self, aliases: &'static [&'static str]) -> Self {
        self.aliases = aliases;
        self
    }

    /// All of its names.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        std::iter::once(self.name).chain(self.aliases.iter().copied())
    }
}

const TIMEOUT_MS: ConfigKey = key(
    "timeoutMs",
    Takes::Millis,
    "Milliseconds until the question expires; it waits for ever without it.",
);
const RESUME_SCHEMA: ConfigKey = key(
    "resumeSchema",
    OBJECT,
    "JSON Schema that an answer must fit.",
);
const PROFILE: ConfigKey = key(
    "profile",
    TEXT,
    "openwop-interrupt-auth-required: only somebody known by name may answer.",
);
const INPUT_MAPPING: ConfigKey = key(
    "inputMapping",
    OBJECT,
    "Inputs of the child: its variable to a variable of this run.",
);
const OUTPUT_MAPPING: ConfigKey = key(
    "outputMapping",
    OBJECT,
    "What is kept of the child: a variable of this run to one of the child.",
);
const BUDGET: ConfigKey = key(
    "budget",
    OBJECT,
    "The part of this run's budget that a child is given: maxCostUsd, maxTokens, maxToolCalls, maxRetries.",
);
const PROPAGATE: ConfigKey = key(
    "propagateCancellation",
    YES_OR_NO,
    "Whether a cancellation reaches the child; true without it.",
);

impl ControlKind {
    /// The config keys of this node kind. An input port of the same name overrides a key, except
    /// keys that hold expressions.
    pub fn config_keys(self) -> &'static [ConfigKey] {
        match self {
            Self::Delay => {
                const {
                    &[key("ms", Takes::Millis, "Milliseconds to wait.")
                        .also(&["durationMs", "delayMs"])]
                }
            }
            Self::Conditional => {
                const {
                    &[key(
                        "expression",
                        TEXT,
                        "CEL that comes to true or false; says by which port the run goes on.",
                    )
                    .also(&["condition"])]
                }
            }
            Self::SetVariable => {
                const {
                    &[
                        key("name", TEXT, "The variable to set.").also(&["variableName"]),
                        key("value", Takes::Anything, "What it is set to."),
                        key("expression", TEXT, "CEL that gives the value instead."),
                        key(
                            "variables",
                            OBJECT,
                            "Several at once: values by the names of variables.",
                        ),
                    ]
                }
            }
            Self::Loop => {
                const {
                    &[
                        key(
                            "times",
                            Takes::Whole(0, MAX_LOOP_ITERATIONS as u64),
                            "How many rounds.",
                        ),
                        key(
                            "items",
                            Takes::Types(&["array", "string"]),
                            "A round for each item: a list, or CEL that gives one.",
                        ),
                        key("while", TEXT, "CEL; another round as long as it holds.")
                            .also(&["condition"]),
                        key(
                            "until",
                            TEXT,
                            "CEL; the last round is the one after which it holds.",
                        ),
                        key(
                            "maxIterations",
                            Takes::Whole(1, MAX_LOOP_ITERATIONS as u64),
                            "The most rounds there may be.",
                        ),
                    ]
                }
            }
            Self::GetVariable => {
                const {
                    &[
                        key("name", TEXT, "The variable to read.").also(&["variableName"]),
                        key(
                            "default",
                            Takes::Anything,
                            "What a variable that was never set gives; null without it.",
                        ),
                    ]
                }
            }
            Self::ChannelWrite => {
                const {
                    &[
                        key("channel", TEXT, "The channel to write to.").also(&["channelName"]),
                        key("value", Takes::Anything, "What is written."),
                        key("expression", TEXT, "CEL that gives the value instead."),
                        key(
                            "reducer",
                            TEXT,
                            "Of a channel that is not declared: how writes add up.",
                        ),
                        key(
                            "ttlMs",
                            Takes::Millis,
                            "Of a channel that is not declared: how long an entry is kept.",
                        ),
                        key(
                            "maxSize",
                            Takes::Whole(0, MAX_CHANNEL_ENTRIES as u64),
                            "Of a channel that is not declared: how many entries are kept.",
                        ),
                    ]
                }
            }
            Self::Interrupt => {
                const {
                    &[
                        key(
                            "key",
                            TEXT,
                            "The key an answer names; the node's id without it.",
                        ),
                        key(
                            "kind",
                            TEXT,
                            "What kind of question it is; custom without it.",
                        ),
                        key("data", Takes::Anything, "What is asked."),
                        RESUME_SCHEMA,
                        TIMEOUT_MS,
                        PROFILE,
                    ]
                }
            }
            Self::ApprovalGate => {
                const {
                    &[
                        key(
                            "title",
                            TEXT,
                            "The question in one line; the node's name without it.",
                        ),
                        key("description", TEXT, "The question at length."),
                        key(
                            "artifactId",
                            TEXT,
                            "What is to be approved; the node's id without it.",
                        ),
                        key("artifactType", TEXT, "What kind of thing that is."),
                        key("artifactData", Takes::Anything, "The thing itself."),
                        key(
                            "actions",
                            LIST,
                            "How it may be answered: accept, reject, refine, edit-accept, ask.",
                        ),
                        key(
                            "requiredApprovals",
                            COUNT,
                            "How many must accept; 1 without it.",
                        ),
                        key(
                            "rejectionPolicy",
                            Takes::Words(&["single-veto", "majority"]),
                            "Whether one rejection decides, or the most votes.",
                        ),
                        key(
                            "approversList",
                            LIST,
                            "Who may answer; whoever may answer without it.",
                        ),
                        key(
                            "approverGroupRefs",
                            LIST,
                            "Groups whose members may answer.",
                        ),
                        key("approverRoleRefs", LIST, "Roles whose holders may answer."),
                        key(
                            "audience",
                            Takes::Anything,
                            "Who is asked, for whoever shows the question.",
                        ),
                        TIMEOUT_MS,
                        key(
                            "timeoutAction",
                            Takes::Words(&["fail", "accept", "reject"]),
                            "What an expired question comes to; fail without it.",
                        ),
                        RESUME_SCHEMA,
                        key(
                            "key",
                            TEXT,
                            "The key an answer names; the node's id without it.",
                        ),
                        PROFILE,
                    ]
                }
            }
            Self::GovernanceGate => {
                const {
                    &[
                        key("requiredRole", TEXT, "The role whose holders may decide."),
                        key(
                            "requiredScope",
                            TEXT,
                            "The scope that a credential needs to decide; with requiredRole, both.",
                        ),
                        key("quorum", COUNT, "How many must grant; 1 without it."),
                        key(
                            "override",
                            OBJECT,
                            "requiredRole: whose holders may decide past the others, and why.",
                        ),
                        key(
                            "overrideBypassesQuorum",
                            YES_OR_NO,
                            "Whether one override is enough; it is one vote without it.",
                        ),
                        key(
                            "timeoutSec",
                            Takes::Seconds,
                            "Seconds until the gate counts as rejected; it waits for ever without it.",
                        ),
                        key(
                            "title",
                            TEXT,
                            "The question in one line; the node's name without it.",
                        ),
                        key("description", TEXT, "The question at length."),
                        key(
                            "artifactId",
                            TEXT,
                            "What is to be approved; the node's id without it.",
                        ),
                        key("artifactType", TEXT, "What kind of thing that is."),
                        key("artifactData", Takes::Anything, "The thing itself."),
                        key(
                            "resumeSchema",
                            Takes::Anything,
                            "For people: what an answer says is the gate's own.",
                        ),
                        key(
                            "key",
                            TEXT,
                            "The key an answer names; the node's id without it.",
                        ),
                    ]
                }
            }
            Self::ClarificationGate => {
                const {
                    &[
                        key(
                            "questions",
                            LIST,
                            "Objects of id, question and, where the answer has a shape, schema.",
                        ),
                        key("contextType", TEXT, "What the questions are about."),
                        TIMEOUT_MS,
                        RESUME_SCHEMA,
                        key(
                            "key",
                            TEXT,
                            "The key an answer names; the node's id without it.",
                        ),
                        PROFILE,
                    ]
                }
            }
            Self::SubWorkflow => {
                const {
                    &[
                        key("workflowId", TEXT, "The workflow to run."),
                        INPUT_MAPPING,
                        OUTPUT_MAPPING,
                        key(
                            "waitForCompletion",
                            YES_OR_NO,
                            "Whether the node waits for the end of the child; true without it.",
                        ),
                        key(
                            "onChildFailure",
                            Takes::Words(&["fail-parent", "continue"]),
                            "What a failed child does to the node; fail-parent without it.",
                        ),
                        BUDGET,
                        PROPAGATE,
                    ]
                }
            }
            Self::Supervisor => {
                const {
                    &[
                        key("decisions", LIST, "A decision for each visit.")
                            .also(&["mockDispatchPlan", "mockDecisions"]),
                        key(
                            "mockPendingDecision",
                            Takes::Anything,
                            "The decision, or a list with one for each visit, instead of the plan.",
                        ),
                        key(
                            "mockConfidence",
                            Takes::Types(&["number"]),
                            "How sure the node is, from 0 to 1.",
                        ),
                    ]
                }
            }
            Self::Dispatch => {
                const {
                    &[
                        key(
                            "fanOutPolicy",
                            Takes::Words(&["sequential", "parallel", "reject"]),
                            "What is done with several workers; sequential without it.",
                        ),
                        key(
                            "joinPolicy",
                            OBJECT,
                            "Of parallel: mode (wait-all, quorum, first, race), quorum, onChildFailure (collect, fail-fast, absorb).",
                        ),
                        key(
                            "maxConcurrency",
                            Takes::Whole(1, MAX_COUNT),
                            "Of parallel: how many workers run at a time.",
                        ),
                        key(
                            "askUserRouting",
                            Takes::Words(&["auto", "clarification"]),
                            "How a person is asked; auto without it.",
                        ),
                        key(
                            "iterationCap",
                            Takes::Whole(1, MAX_COUNT),
                            "The most visits of dispatch nodes in a run.",
                        ),
                        INPUT_MAPPING,
                        OUTPUT_MAPPING,
                        key(
                            "perWorkerInputMappings",
                            OBJECT,
                            "Mappings by worker that replace inputMapping.",
                        ),
                        key(
                            "perWorkerOutputMappings",
                            OBJECT,
                            "Mappings by worker that replace outputMapping.",
                        ),
                        key(
                            "onChildFailure",
                            Takes::Words(&["continue", "fail-parent"]),
                            "What a failed worker does to the node; continue without it.",
                        ),
                        BUDGET,
                        PROPAGATE,
                        key(
                            "workerDispatchModel",
                            Takes::Words(&["child-run"]),
                            "How workers are run.",
                        ),
                    ]
                }
            }
        }
    }
}
