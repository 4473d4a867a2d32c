//! Given a workflow, when a command is sent, then these events or this rejection follow.

use std::collections::BTreeMap;
use std::sync::Arc;

use kernel::audit::AuditMessage;
use kernel::batch::{Batch, Message, Record, TimerChange};
use kernel::definition::Plan;
use kernel::digest::Digest;
use kernel::ids::{AttemptId, InterruptId, Seq, StreamId};
use kernel::run::event::DrainPolicy;
use kernel::run::{
    Capacity, Command, Completion, Create, Decided, Envelope, Event, NodeError, NodeStatus,
    Outcome, Rejection, Run, RunMessage, Start, decide,
};
use kernel::stream::{DefinitionRef, Owner, Policy, StreamHeader, StreamKind};
use kernel::time::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::{flow, laws, notation};

/// The time at which every test begins.
pub(crate) const START: Timestamp = Timestamp(1_750_000_000_000);

/// A run in a world that keeps the data of a store.
#[derive(Clone)]
pub(crate) struct World {
    /// The current run.
    pub(crate) run: Run,
    /// The clock.
    pub(crate) now: Timestamp,
    /// Every record.
    pub(crate) records: Vec<Record>,
    /// Every event, read back from its record.
    pub(crate) events: Vec<Event>,
    /// Where each batch begins.
    pub(crate) batches: Vec<Seq>,
    /// The timer rows.
    pub(crate) timers: BTreeMap<String, Timestamp>,
    /// Messages sent and not taken out by the test.
    pub(crate) outbox: Vec<Message>,
    /// References to blobs.
    pub(crate) blobs: Vec<Digest>,
}

/// A created run of a workflow, driven at once.
pub(crate) fn started(text: &str) -> World {
    let mut world = World::new(flow::plan(text), Policy::default());
    world.create(Map::new()).decided();
    world
}

/// As [`started`], under a policy.
pub(crate) fn started_under(policy: Policy, text: &str) -> World {
    let mut world = World::new(flow::plan(text), policy);
    world.create(Map::new()).decided();
    world
}

/// A run of a workflow before its first event.
pub(crate) fn unborn(text: &str) -> World {
    World::new(flow::plan(text), Policy::default())
}

/// The header of a run of a plan.
pub(crate) fn header(plan: &Plan, policy: Policy) -> StreamHeader {
    StreamHeader {
        definition: Some(DefinitionRef {
            workflow: plan.workflow.clone(),
            version: plan.version.clone(),
            digest: plan.digest,
            put_by: Default::default(),
        }),
        policy,
        ..StreamHeader::new(
            "run-1".into(),
            StreamKind::Run,
            Owner::tenant("local"),
            START,
        )
    }
    .seal_genesis()
}

/// A JSON object.
pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        other => panic!("not an object: {other}"),
    }
}

impl World {
    pub(crate) fn new(plan: Arc<Plan>, policy: Policy) -> Self {
        let header = Arc::new(header(&plan, policy));
        Self::with_header(header, plan)
    }

    pub(crate) fn with_header(header: Arc<StreamHeader>, plan: Arc<Plan>) -> Self {
        Self {
            now: header.created_at,
            run: Run::unborn(header, plan),
            records: Vec::new(),
            events: Vec::new(),
            batches: Vec::new(),
            timers: BTreeMap::new(),
            outbox: Vec::new(),
            blobs: Vec::new(),
        }
    }

    /// Sets the clock to `ms` milliseconds after [`START`].
    pub(crate) fn at(&mut self, ms: u64) -> &mut Self {
        self.now = START.plus_ms(ms);
        self
    }

    /// Sends a command and checks the result against every law.
    pub(crate) fn when(&mut self, envelope: impl Into<Envelope>) -> Then {
        let envelope = envelope.into();
        let before = self.run.clone();
        match decide(self.run.clone(), &envelope, self.now) {
            Ok(decided) => {
                laws::of_a_batch(self, &before, &envelope, &decided);
                let events = decided.events.clone();
                self.accept(decided);
                laws::of_a_log(self);
                Then(Ok(events))
            }
            Err(refused) => {
                laws::of_a_refusal(&before, &refused);
                Then(Err(refused.rejection))
            }
        }
    }

    /// Keeps a batch as a store would.
    fn accept(&mut self, decided: Decided) {
        self.append(&decided.batch);
        self.run = decided.run;
    }

    /// Keeps what a batch holds.
    pub(crate) fn append(&mut self, batch: &Batch) {
        for record in batch.records() {
            let event: Event =
                serde_json::from_slice(&record.content).expect("a record is an event");
            if event.cause.is_some() {
                self.batches.push(event.seq);
            }
            self.events.push(event);
            self.records.push(record.clone());
        }
        for change in batch.timers() {
            match change {
                TimerChange::Set { name, due } => {
                    self.timers.insert(name.clone(), *due);
                }
                TimerChange::Cancel { name } => {
                    self.timers.remove(name);
                }
            }
        }
        self.outbox.extend_from_slice(batch.outbox());
        self.blobs.extend_from_slice(batch.blobs());
    }

    /// Creates the run, driven at once.
    pub(crate) fn create(&mut self, inputs: Map<String, Value>) -> Then {
        self.when(Command::Create(Create::new(inputs, "test", Start::Now)))
    }

    /// The attempt of a node that is in flight.
    pub(crate) fn attempt(&self, node: &str) -> AttemptId {
        let ix = self.run.plan.node_ix(node).expect("the node exists");
        let state = &self.run.facts().expect("the run began").nodes[ix.index()];
        let attempt = match state.status {
            NodeStatus::InFlight { attempt, .. } => attempt,
            ref other => panic!("{node} is not in flight but {other:?}"),
        };
        AttemptId {
            node: node.into(),
            visit: state.visit,
            attempt,
        }
    }

    /// The name of a node's state.
    pub(crate) fn status_of(&self, node: &str) -> &'static str {
        let ix = self.run.plan.node_ix(node).expect("the node exists");
        self.run.facts().expect("the run began").nodes[ix.index()]
            .status
            .as_str()
    }

    pub(crate) fn finish(&mut self, node: &str, outcome: Outcome) -> Then {
        let attempt = self.attempt(node);
        self.when(Command::Finish { attempt, outcome })
    }

    pub(crate) fn completes(&mut self, node: &str) -> Then {
        self.finish(node, Outcome::completed(Map::new()))
    }

    pub(crate) fn gives(&mut self, node: &str, outputs: Value) -> Then {
        self.finish(node, Outcome::completed(object(outputs)))
    }

    pub(crate) fn completes_with(&mut self, node: &str, completion: Completion) -> Then {
        self.finish(node, Outcome::Completed(completion))
    }

    pub(crate) fn fails(&mut self, node: &str, code: &str) -> Then {
        let error = NodeError::new(code, "as the test says");
        self.finish(node, Outcome::failed(error))
    }

    pub(crate) fn fails_for_good(&mut self, node: &str, code: &str) -> Then {
        let error = NodeError::new(code, "as the test says").fatal();
        self.finish(node, Outcome::failed(error))
    }

    pub(crate) fn stopped(&mut self, node: &str) -> Then {
        self.finish(node, Outcome::Stopped)
    }

    pub(crate) fn fires(&mut self, timer: &str) -> Then {
        self.when(Command::Fire {
            timer: timer.to_owned(),
        })
    }

    /// Moves the clock to the earliest timer and fires it.
    pub(crate) fn next_timer(&mut self) -> Then {
        let (name, due) = self.run.next_timer().expect("a timer is set");
        let name = name.to_owned();
        self.now = self.now.max(due);
        self.fires(&name)
    }

    pub(crate) fn advance(&mut self) -> Then {
        self.when(Command::Advance)
    }

    pub(crate) fn cancel(&mut self) -> Then {
        self.when(Command::Cancel {
            reason: None,
            by: None,
            parent: None,
        })
    }

    pub(crate) fn pause(&mut self, policy: DrainPolicy) -> Then {
        self.when(Command::Pause {
            reason: None,
            policy,
        })
    }

    pub(crate) fn resume(&mut self) -> Then {
        self.when(Command::Resume { reason: None })
    }

    pub(crate) fn take_over(&mut self, unrepeatable: &[AttemptId]) -> Then {
        self.when(Command::TakeOver {
            unrepeatable: unrepeatable.to_vec(),
        })
    }

    pub(crate) fn signal(&mut self, name: &str, id: &str, payload: Value) -> Then {
        self.when(Command::Signal {
            name: name.to_owned(),
            id: id.to_owned(),
            payload,
        })
    }

    /// The interrupt that a node waits on.
    pub(crate) fn interrupt(&self, node: &str) -> InterruptId {
        let ix = self.run.plan.node_ix(node).expect("the node exists");
        let facts = self.run.facts().expect("the run began");
        let open = facts.interrupts.iter().find(|open| open.node == ix.0);
        open.expect("the node asks").id.clone()
    }

    pub(crate) fn resolve(&mut self, node: &str, value: Value) -> Then {
        let interrupt = self.interrupt(node);
        self.when(Command::Resolve {
            interrupt,
            value,
            by: None,
            capacity: Default::default(),
        })
    }

    /// As [`World::resolve`], by a named person.
    pub(crate) fn answer(&mut self, node: &str, by: &str, value: Value) -> Then {
        self.answer_as(node, by, Capacity::default(), value)
    }

    /// As [`World::answer`], in a capacity.
    pub(crate) fn answer_as(
        &mut self,
        node: &str,
        by: &str,
        capacity: Capacity,
        value: Value,
    ) -> Then {
        let interrupt = self.interrupt(node);
        self.when(Command::Resolve {
            interrupt,
            value,
            by: Some(by.to_owned()),
            capacity,
        })
    }

    /// Takes the messages that were sent to runs.
    pub(crate) fn sent(&mut self) -> Vec<(StreamId, RunMessage)> {
        self.take(|message| !is_audit(message))
    }

    /// Takes the messages to the audit trail.
    pub(crate) fn audited(&mut self) -> Vec<(StreamId, AuditMessage)> {
        self.take(is_audit)
    }

    fn take<T: DeserializeOwned>(&mut self, which: fn(&Message) -> bool) -> Vec<(StreamId, T)> {
        let read = |message: Message| {
            let command = serde_json::from_slice(&message.command).expect("a message is JSON");
            (message.target, command)
        };
        let taken = self.outbox.extract_if(.., |message| which(message));
        taken.map(read).collect()
    }
}

fn is_audit(message: &Message) -> bool {
    message.target.as_str().starts_with("audit-")
}

/// The result of a command.
#[must_use]
pub(crate) struct Then(Result<Vec<Event>, Rejection>);

impl Then {
    /// Exactly these events, in the notation of [`notation`].
    #[track_caller]
    pub(crate) fn then(self, expected: &str) -> Vec<Event> {
        let events = self.decided();
        let (found, expected) = (notation::lines(&events), notation::statements(expected));
        assert!(
            found == expected,
            "expected\n  {}\nbut found\n  {}",
            expected.join("\n  "),
            found.join("\n  ")
        );
        events
    }

    /// Some events, which the test does not check.
    #[track_caller]
    pub(crate) fn decided(self) -> Vec<Event> {
        match self.0 {
            Ok(events) => events,
            Err(rejection) => panic!("refused: {rejection:?}"),
        }
    }

    /// A rejection with this code.
    #[track_caller]
    pub(crate) fn refused(self, code: &str) -> Rejection {
        match self.0 {
            Ok(events) => panic!("not refused, but {:?}", notation::lines(&events)),
            Err(rejection) => {
                assert_eq!(rejection.code(), code);
                rejection
            }
        }
    }
}
