//! When enough concurrent workers have ended (OpenWOP, `joinPolicy` of `core.dispatch`).
//!
//! `mode`: `wait-all`, `quorum` (with `quorum`, completed ones), `first` (one completed), `race`
//! (one ended, with any result). `onChildFailure`: `collect`, `fail-fast`, `absorb`. The remaining
//! workers are cancelled.

use serde_json::{Value, json};

use crate::run::event::{ChildStatus, JoinOutcome};
use crate::run::fan::Fan;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    WaitAll,
    Quorum(u32),
    First,
    Race,
}

impl Mode {
    /// Its name.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::WaitAll => "wait-all",
            Self::Quorum(_) => "quorum",
            Self::First => "first",
            Self::Race => "race",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OnFailure {
    Collect,
    FailFast,
    Absorb,
}

/// When enough workers of a dispatch node have ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JoinPolicy {
    pub(crate) mode: Mode,
    on_failure: OnFailure,
}

impl JoinPolicy {
    /// From the checked config of a dispatch node.
    pub(crate) fn from_config(config: &Value) -> Self {
        let policy = config.get("joinPolicy");
        let word = |key: &str| policy.and_then(|policy| policy.get(key)?.as_str());
        let quorum = policy.and_then(|policy| policy.get("quorum")?.as_u64());
        let quorum = quorum
            .and_then(|n| u32::try_from(n).ok())
            .unwrap_or(u32::MAX);
        Self {
            mode: match word("mode") {
                Some("quorum") => Mode::Quorum(quorum),
                Some("first") => Mode::First,
                Some("race") => Mode::Race,
                _ => Mode::WaitAll,
            },
            on_failure: match word("onChildFailure") {
                Some("fail-fast") => OnFailure::FailFast,
                Some("absorb") => OnFailure::Absorb,
                _ => OnFailure::Collect,
            },
        }
    }

    /// Whether this number of workers can ever be enough.
    pub(crate) fn fits(&self, workers: u32) -> bool {
        !matches!(self.mode, Mode::Quorum(n) if n > workers)
    }

    /// The outcome of the join, once it is known.
    pub(crate) fn verdict(&self, fan: &Fan) -> Option<JoinOutcome> {
        let ended = fan.ended.iter();
        let completed = ended.filter(|worker| worker.status == ChildStatus::Completed);
        let completed = u32::try_from(completed.count()).unwrap_or(u32::MAX);
        let ended = u32::try_from(fan.ended.len()).unwrap_or(u32::MAX);
        let others = ended - completed;
        if others > 0 && self.on_failure == OnFailure::FailFast {
            return Some(JoinOutcome::Failed);
        }
        let all_ended = ended >= fan.total;
        let is_enough = match self.mode {
            Mode::WaitAll => all_ended,
            Mode::Quorum(n) => completed >= n,
            Mode::First => completed > 0,
            Mode::Race => ended > 0,
        };
        match (is_enough, others) {
            (true, 0) => Some(JoinOutcome::Satisfied),
            (true, _) => Some(JoinOutcome::Partial),
            (false, _) if !all_ended => None,
            (false, _) if self.on_failure == OnFailure::Absorb => Some(JoinOutcome::Partial),
            (false, _) => Some(JoinOutcome::Failed),
        }
    }
}

/// Faults in the join settings of a dispatch node, by its key.
pub(crate) fn check_config(config: &Value) -> Vec<(&'static str, String)> {
    let mut problems = Vec::new();
    let is_parallel = config.get("fanOutPolicy") == Some(&json!("parallel"));
    if let Some(max) = config.get("maxConcurrency")
        && max.as_u64().is_none_or(|max| max == 0)
    {
        problems.push(("maxConcurrency", "must be a whole number from 1 on".into()));
    }
    for key in ["joinPolicy", "maxConcurrency"] {
        if config.get(key).is_some() && !is_parallel {
            problems.push((key, "is only for `fanOutPolicy` parallel".into()));
        }
    }
    let Some(policy) = config.get("joinPolicy") else {
        return problems;
    };
    let mut wrong = |what: &str| problems.push(("joinPolicy", what.to_owned()));
    let Some(fields) = policy.as_object() else {
        wrong("must be an object");
        return problems;
    };
    let known = |key: &String| ["mode", "quorum", "onChildFailure"].contains(&key.as_str());
    if !fields.keys().all(known) {
        wrong("may have only mode, quorum and onChildFailure");
    }
    let word = |key: &str, words: &[&str]| {
        fields
            .get(key)
            .is_none_or(|word| word.as_str().is_some_and(|word| words.contains(&word)))
    };
    if !word("mode", &["wait-all", "quorum", "first", "race"]) {
        wrong("has a mode that is not wait-all, quorum, first or race");
    }
    if !word("onChildFailure", &["collect", "fail-fast", "absorb"]) {
        wrong("has an onChildFailure that is not collect, fail-fast or absorb");
    }
    let quorum = fields.get("quorum").map(|n| n.as_u64().unwrap_or(0));
    let needs_one = fields.get("mode") == Some(&json!("quorum"));
    match quorum {
        Some(0) => wrong("has a quorum that is not a whole number from 1 on"),
        None if needs_one => wrong("of mode quorum needs `quorum`, how many must complete"),
        _ => {}
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::fan::EndedWorker;

    /// Workers that ended according to the letters: c(ompleted), f(ailed), x for cancelled, - for
    /// running.
    fn fan(ends: &str) -> Fan {
        let mut fan = Fan::new(u32::try_from(ends.len()).unwrap(), 9);
        for (worker, end) in (0..).zip(ends.chars()) {
            let status = match end {
                'c' => ChildStatus::Completed,
                'f' => ChildStatus::Failed,
                'x' => ChildStatus::Cancelled,
                _ => continue,
            };
            fan.ended.push(EndedWorker {
                worker,
                workflow: "w".into(),
                run: None,
                status,
                gave: Vec::new(),
                outputs: Default::default(),
                error: None,
            });
        }
        fan
    }

    #[test]
    fn each_mode_and_each_way_to_take_failures() {
        const S: Option<JoinOutcome> = Some(JoinOutcome::Satisfied);
        const P: Option<JoinOutcome> = Some(JoinOutcome::Partial);
        const F: Option<JoinOutcome> = Some(JoinOutcome::Failed);
        for (mode, quorum, ends, collect, fail_fast, absorb) in [
            ("wait-all", 0, "cc-", None, None, None),
            ("wait-all", 0, "ccc", S, S, S),
            ("wait-all", 0, "cf-", None, F, None),
            ("wait-all", 0, "cxc", P, F, P),
            ("wait-all", 0, "fff", P, F, P),
            ("quorum", 2, "c--", None, None, None),
            ("quorum", 2, "c-c", S, S, S),
            ("quorum", 2, "cfc", P, F, P),
            ("quorum", 2, "ff-", None, F, None),
            ("quorum", 2, "fcf", F, F, P),
            ("first", 0, "f--", None, F, None),
            ("first", 0, "-c-", S, S, S),
            ("first", 0, "fc-", P, F, P),
            ("first", 0, "fxf", F, F, P),
            ("race", 0, "---", None, None, None),
            ("race", 0, "-f-", P, F, P),
            ("race", 0, "--c", S, S, S),
        ] {
            for (word, expected) in [
                ("collect", collect),
                ("fail-fast", fail_fast),
                ("absorb", absorb),
            ] {
                let config = json!({ "joinPolicy": {
                    "mode": mode, "quorum": quorum, "onChildFailure": word,
                } });
                let found = JoinPolicy::from_config(&config).verdict(&fan(ends));
                assert_eq!(found, expected, "{mode} {ends} {word}");
            }
        }
    }

    #[test]
    fn contradictory_settings_are_a_problem() {
        let keys = |config: Value| -> Vec<&'static str> {
            check_config(&config)
                .into_iter()
                .map(|(key, _)| key)
                .collect()
        };
        let with = |policy: Value| json!({ "fanOutPolicy": "parallel", "joinPolicy": policy });
        assert_eq!(
            keys(with(json!({ "mode": "quorum", "quorum": 2 }))),
            [""; 0]
        );
        for wrong in [
            json!("wait-all"),
            json!({ "mode": "most" }),
            json!({ "mode": "quorum" }),
            json!({ "mode": "quorum", "quorum": 0 }),
            json!({ "onChildFailure": "continue" }),
            json!({ "modes": "first" }),
        ] {
            assert_eq!(keys(with(wrong.clone())), ["joinPolicy"], "{wrong}");
        }
        let sequential = json!({ "joinPolicy": {}, "maxConcurrency": 0 });
        assert_eq!(
            keys(sequential),
            ["maxConcurrency", "joinPolicy", "maxConcurrency"]
        );
    }
}
