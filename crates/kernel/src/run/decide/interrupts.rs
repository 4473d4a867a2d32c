//! Interrupts and signals.

use serde_json::Value;

use super::Decision;
use crate::control::approval::Answer;
use crate::control::{Ask, Expiry};
use crate::definition::NodeIx;
use crate::ids::{InterruptId, derive};
use crate::limits::{MAX_INBOX, MAX_VALUE_BYTES};
use crate::run::capacity::{Answerer, Capacity};
use crate::run::cause::CausedBy;
use crate::run::event::{NodeError, RunEvent};
use crate::run::normalise_floats;
use crate::run::rejection::Rejection;
use crate::run::size::size;
use crate::run::state::{Closed, OpenInterrupt, Phase};

impl Decision {
    /// A node asks a question outside. An early answer is taken at once.
    pub(super) fn ask(&mut self, ix: NodeIx, ask: Ask) {
        let root = self.run.header.root().clone();
        let node_id = self.node_id(ix);
        let visit = self.facts().nodes[ix.index()].visit;
        let attempt = self.current_attempt(ix);
        let id = derive("interrupt", &root, &node_id, visit, attempt);
        let interrupt_id = InterruptId::new(match self.facts().nodes[ix.index()].asked {
            0 => id,
            // The same attempt asks again.
            n => format!("{id}.{n}"),
        });
        self.emit(RunEvent::InterruptRequested {
            interrupt_id: interrupt_id.clone(),
            node_id,
            visit,
            kind: ask.kind,
            asked_before: self.asked_with(&ask.key),
            key: ask.key,
            data: ask.data,
            resume_schema: ask.resume_schema,
            timeout_at: ask.timeout_ms.map(|ms| self.now.plus_ms(ms)),
        });
        self.suspend(&interrupt_id);
        self.take_early_answer(&interrupt_id);
    }

    /// How often the run has asked with a key. Earlier versions did not count.
    pub(super) fn asked_with(&self, key: &str) -> u32 {
        self.facts().asked_keys.get(key).copied().unwrap_or(0)
    }

    /// Announces a question in the form of its kind, unless already done, and suspends the node.
    pub(super) fn suspend(&mut self, interrupt: &InterruptId) {
        let Some(open) = self.open(interrupt) else {
            return;
        };
        if !open.announced {
            self.announce(&open);
        }
        let ix = NodeIx(open.node);
        self.emit(RunEvent::NodeSuspended {
            node_id: self.node_id(ix),
            visit: self.facts().nodes[ix.index()].visit,
            interrupt_id: interrupt.clone(),
            doubt: self.doubt_of(&open),
            kind: open.kind,
        });
    }

    /// Takes the oldest signal that arrived before the question and fits it.
    pub(super) fn take_early_answer(&mut self, interrupt: &InterruptId) {
        let Some(open) = self.open(interrupt) else {
            return;
        };
        let waiting = self.facts().inbox.waiting.get(&open.key).cloned();
        let capacity = Capacity::default();
        let unknown = Answerer {
            by: None,
            capacity: &capacity,
        };
        for signal in waiting.into_iter().flatten() {
            if let Ok(reply) = self.judge(&open, &signal.payload, unknown)
                && reply.ends_the_question()
            {
                return self.reply(&open, reply, signal.payload, None);
            }
        }
    }

    pub(super) fn open(&self, interrupt: &InterruptId) -> Option<OpenInterrupt> {
        let mut open = self.facts().interrupts.iter();
        open.find(|open| open.id == *interrupt).cloned()
    }

    pub(super) fn resolve(
        &mut self,
        interrupt: &InterruptId,
        value: &Value,
        by: Option<String>,
        capacity: &Capacity,
    ) -> Result<(), Rejection> {
        self.refuse_while_stopping()?;
        let Some(open) = self.open(interrupt) else {
            let closed = self.facts().closed_interrupts.get(interrupt);
            return Err(match closed {
                Some(Closed::Answered) => Rejection::InterruptAnswered,
                Some(Closed::Expired) => Rejection::InterruptExpired,
                Some(Closed::Withdrawn) => Rejection::InterruptGone,
                None => Rejection::NoInterrupt,
            });
        };
        if self.run.is_past_deadline(&open, self.now) {
            return Err(Rejection::InterruptExpired);
        }
        if size(value) > MAX_VALUE_BYTES {
            return Err(Rejection::TooLarge { what: "the answer" });
        }
        let mut value = value.clone();
        normalise_floats::value_as_read_back(&mut value);
        let capacity = capacity.for_question(&open.data);
        let who = Answerer {
            by: by.as_deref(),
            capacity: &capacity,
        };
        let reply = self.judge(&open, &value, who)?;
        if let Some(cause) = &mut self.cause {
            cause.command = CausedBy::Resolve { capacity };
        }
        self.reply(&open, reply, value, by);
        self.conclude();
        Ok(())
    }

    pub(super) fn signal(
        &mut self,
        name: &str,
        id: &str,
        payload: &Value,
    ) -> Result<(), Rejection> {
        self.refuse_while_stopping()?;
        let inbox = &self.facts().inbox;
        if inbox.seen.contains(&(name.to_owned(), id.to_owned())) {
            return Err(Rejection::Duplicate);
        }
        if inbox.waiting.values().map(Vec::len).sum::<usize>() >= MAX_INBOX {
            return Err(Rejection::InboxFull);
        }
        if size(payload) > MAX_VALUE_BYTES {
            return Err(Rejection::TooLarge {
                what: "the payload",
            });
        }
        let mut payload = payload.clone();
        normalise_floats::value_as_read_back(&mut payload);
        // The oldest question of that name which it answers in time. Votes and questions back come
        // from a person, not from a signal.
        let asked: Vec<OpenInterrupt> = self
            .facts()
            .interrupts
            .iter()
            .filter(|open| open.key == name && !self.run.is_past_deadline(open, self.now))
            .cloned()
            .collect();
        let capacity = Capacity::default();
        let unknown = Answerer {
            by: None,
            capacity: &capacity,
        };
        let answered = asked.iter().find_map(|open| {
            let reply = self.judge(open, &payload, unknown).ok()?;
            reply.ends_the_question().then_some((open, reply))
        });
        self.emit(RunEvent::SignalReceived {
            name: name.to_owned(),
            id: id.to_owned(),
            payload: payload.clone(),
        });
        if let Some((open, reply)) = answered {
            self.reply(open, reply, payload, None);
            self.conclude();
        }
        Ok(())
    }

    /// The time to answer has passed.
    pub(super) fn expire(&mut self, interrupt: &str) -> Result<(), Rejection> {
        let open = self.open(&interrupt.into()).ok_or(Rejection::NotDue)?;
        let ix = NodeIx(open.node);
        let control = self.control_of(&open);
        let config = &self.run.plan.node(ix).config;
        match control.map_or(Expiry::Fails, |control| control.expiry(config)) {
            Expiry::Fails => self.fail_unanswered(ix),
            Expiry::Undecided => {
                self.received(&open, &Answer::timed_out());
                self.fail_unanswered(ix);
            }
            Expiry::Decides { action, value } => {
                let mut answer = Answer::timed_out();
                self.resolved(&open, value.clone(), None);
                self.received(&open, &answer);
                answer.action = action;
                self.leave_gate(&open, &answer, value);
            }
        }
        self.conclude();
        Ok(())
    }

    pub(super) fn fail_unanswered(&mut self, ix: NodeIx) {
        let error = NodeError::new("interrupt_expired", "nobody answered in time").fatal();
        self.fail_attempt(ix, error);
    }

    fn refuse_while_stopping(&self) -> Result<(), Rejection> {
        match self.run.phase() {
            Some(Phase::Stopping { .. }) => Err(Rejection::Stopping),
            _ => Ok(()),
        }
    }
}
