//! Interrupts and signals.

use serde_json::{Map, Value};

use super::Decision;
use crate::control::Ask;
use crate::definition::NodeIx;
use crate::ids::{InterruptId, derive};
use crate::limits::{MAX_INBOX, MAX_VALUE_BYTES};
use crate::run::event::{NodeError, RunEvent};
use crate::run::rejection::Rejection;
use crate::run::size::size;
use crate::run::state::Phase;

impl Decision {
    /// A node asks somebody outside. An answer that came early is taken at once.
    pub(super) fn ask(&mut self, ix: NodeIx, ask: Ask) {
        let root = self.run.header.root().clone();
        let node_id = self.node_id(ix);
        let visit = self.facts().nodes[ix.index()].visit;
        let attempt = self.current_attempt(ix);
        let interrupt_id = InterruptId::new(derive("interrupt", &root, &node_id, visit, attempt));
        self.emit(RunEvent::InterruptRequested {
            interrupt_id: interrupt_id.clone(),
            node_id: node_id.clone(),
            visit,
            kind: ask.kind.clone(),
            key: ask.key.clone(),
            data: ask.data,
            resume_schema: ask.resume_schema,
            timeout_at: ask.timeout_ms.map(|ms| self.now.plus_ms(ms)),
        });
        self.emit(RunEvent::NodeSuspended {
            node_id,
            visit,
            interrupt_id: interrupt_id.clone(),
            kind: ask.kind,
        });
        let early = self
            .facts()
            .inbox
            .waiting
            .get(&ask.key)
            .and_then(|s| s.first())
            .cloned();
        if let Some(signal) = early {
            self.answer(&interrupt_id, signal.payload, None);
        }
    }

    pub(super) fn resolve(
        &mut self,
        interrupt: &InterruptId,
        value: &Value,
        by: Option<String>,
    ) -> Result<(), Rejection> {
        self.refuse_while_stopping()?;
        if !self
            .facts()
            .interrupts
            .iter()
            .any(|open| open.id == *interrupt)
        {
            return Err(Rejection::NoInterrupt);
        }
        if size(value) > MAX_VALUE_BYTES {
            return Err(Rejection::TooLarge { what: "the answer" });
        }
        self.answer(interrupt, value.clone(), by);
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
        self.emit(RunEvent::SignalReceived {
            name: name.to_owned(),
            id: id.to_owned(),
            payload: payload.clone(),
        });
        let asked = self.facts().interrupts.iter().find(|open| open.key == name);
        if let Some(interrupt) = asked.map(|open| open.id.clone()) {
            self.answer(&interrupt, payload.clone(), None);
            self.conclude();
        }
        Ok(())
    }

    /// Takes an answer: the suspended node goes on and completes with it.
    pub(super) fn answer(&mut self, interrupt: &InterruptId, value: Value, by: Option<String>) {
        let Some(open) = self
            .facts()
            .interrupts
            .iter()
            .find(|open| open.id == *interrupt)
            .cloned()
        else {
            return;
        };
        let ix = NodeIx(open.node);
        let node_id = self.node_id(ix);
        let visit = self.facts().nodes[ix.index()].visit;
        self.emit(RunEvent::InterruptResolved {
            interrupt_id: interrupt.clone(),
            node_id: node_id.clone(),
            kind: open.kind,
            resume_value: value.clone(),
            resolved_by: by,
        });
        self.emit(RunEvent::NodeResumed {
            node_id,
            visit,
            interrupt_id: interrupt.clone(),
        });
        let outputs = Map::from_iter([("value".to_owned(), value)]);
        self.complete(ix, outputs, None);
    }

    /// Nobody answered in time.
    pub(super) fn expire(&mut self, interrupt: &str) -> Result<(), Rejection> {
        let open = self
            .facts()
            .interrupts
            .iter()
            .find(|open| open.id.as_str() == interrupt);
        let ix = NodeIx(open.ok_or(Rejection::NotDue)?.node);
        let error = NodeError::new("interrupt_expired", "nobody answered in time").fatal();
        self.fail_attempt(ix, error);
        self.conclude();
        Ok(())
    }

    fn refuse_while_stopping(&self) -> Result<(), Rejection> {
        match self.run.phase() {
            Some(Phase::Stopping { .. }) => Err(Rejection::Stopping),
            _ => Ok(()),
        }
    }
}
