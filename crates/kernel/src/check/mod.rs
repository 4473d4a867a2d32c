//! An independent checker of run logs.
//!
//! It derives the rules of a log from the documentation of events and workflows, and reads only
//! header, plan and events. **Architecture invariant:** nothing here uses `fold`, `decide` or
//! `schedule`: a mistake made there must not be able to hide here.

mod gates;
mod nodes;
mod orchestrator;
mod rules;
mod run;

use std::collections::BTreeSet;
use std::fmt;

use crate::batch::Record;
use crate::definition::Plan;
use crate::digest::Digest;
use crate::ids::Seq;
use crate::run::Event;
use crate::stream::StreamHeader;

/// A broken rule of a log, and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The event at which it shows.
    pub seq: Seq,
    /// The expected and the actual state.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "event {}: {}", self.seq, self.what)
    }
}

/// Checks a log, or its beginning, against every rule. Empty means legal.
///
/// The first violation of a node may cause further ones; look at the first.
pub fn check(header: &StreamHeader, plan: &Plan, events: &[Event]) -> Vec<Violation> {
    let mut log = Log::new(header, plan);
    for (index, event) in events.iter().enumerate() {
        log.event(index, event);
    }
    log.violations
}

/// A record whose chain value does not follow from the one before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the hash chain breaks at event {seq}: the log was changed after it was written")]
pub struct BrokenChain {
    /// The first event that does not verify.
    pub seq: Seq,
}

/// Verifies the hash chain of a log from its genesis; returns the last link.
///
/// # Errors
/// The first record that does not follow.
pub fn verify_chain<'a>(
    header: &StreamHeader,
    records: impl IntoIterator<Item = &'a Record>,
) -> Result<Digest, BrokenChain> {
    let mut chain = header.genesis;
    for (seq, record) in (0..).zip(records) {
        chain = chain.chain(&record.content);
        if chain != record.chain {
            return Err(BrokenChain { seq });
        }
    }
    Ok(chain)
}

/// The checker's memory of the events so far.
struct Log<'a> {
    header: &'a StreamHeader,
    plan: &'a Plan,
    nodes: Vec<nodes::Node>,
    run: run::RunSoFar,
    seq: Seq,
    /// (name, id) of signals.
    signals: BTreeSet<(String, String)>,
    messages: BTreeSet<String>,
    violations: Vec<Violation>,
}

impl<'a> Log<'a> {
    fn new(header: &'a StreamHeader, plan: &'a Plan) -> Self {
        Self {
            header,
            plan,
            nodes: vec![nodes::Node::default(); plan.nodes.len()],
            run: run::RunSoFar::default(),
            seq: 0,
            signals: BTreeSet::new(),
            messages: BTreeSet::new(),
            violations: Vec::new(),
        }
    }

    fn violation(&mut self, what: impl Into<String>) {
        let (seq, what) = (self.seq, what.into());
        self.violations.push(Violation { seq, what });
    }

    /// Reports a violation unless `holds`.
    fn require(&mut self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            self.violation(what());
        }
    }
}
