//! Browsers with different knowledge of a document, and decisions made here: any order of saves
//! loses no decision.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;

const BROWSERS: usize = 3;

/// A possible next action.
#[derive(Clone, Copy, Debug)]
enum Act {
    /// A browser loads the current document.
    Load(usize),
    /// A browser adds a remark to its document, and saves.
    Remark(usize, Expected),
    /// A browser asks for a review again, and saves.
    Ask(usize),
    /// A browser decides the review itself, and saves.
    Resolve(usize, GateDecision),
    /// The review is decided here.
    Decide(GateDecision),
    /// The run is cancelled here.
    Cancel,
}

fn decision() -> impl Strategy<Value = GateDecision> {
    use GateDecision::*;
    prop::sample::select(vec![Approved, Rejected, Edited])
}

fn act() -> impl Strategy<Value = Act> {
    let browser = || 0..BROWSERS;
    let expected = prop::sample::select(vec![Expected::Anything, Expected::Continuation]);
    prop_oneof![
        3 => browser().prop_map(Act::Load),
        4 => (browser(), expected).prop_map(|(browser, expected)| Act::Remark(browser, expected)),
        2 => browser().prop_map(Act::Ask),
        1 => (browser(), decision()).prop_map(|(browser, how)| Act::Resolve(browser, how)),
        4 => decision().prop_map(Act::Decide),
        1 => Just(Act::Cancel),
    ]
}

fn review(body: &Body) -> &Value {
    &body.derived.gates.get("review").expect("its gates")["after"]
}

fn is_about_gates(event: &Value) -> bool {
    let kind = event["type"].as_str().expect("a type");
    kind.starts_with("human_gate_")
}

/// A document with browsers that know it.
struct Play {
    log: Log,
    known: Vec<Body>,
    /// Every event that was made here, in its original form.
    made: Vec<Arc<Value>>,
    saves: usize,
}

impl Play {
    fn new() -> Self {
        let mut log = Log::new();
        log.save(&reviewed()).unwrap();
        Self {
            known: vec![reviewed(); BROWSERS],
            log,
            made: Vec::new(),
            saves: 0,
        }
    }

    fn act(&mut self, act: Act) {
        match act {
            Act::Load(browser) => self.known[browser] = self.log.head().clone(),
            Act::Remark(browser, expected) => {
                let text = json!({ "text": "…" });
                self.save(browser, "annotation", text, expected);
            }
            Act::Ask(browser) => {
                let state = self.known[browser].derived.gates.get_mut("review");
                state.expect("its gates")["after"] = json!("pending");
                let more = json!({ "stepId": "review", "gate": "PAUSE_AFTER" });
                self.save(browser, "human_gate_requested", more, Expected::Anything);
            }
            Act::Resolve(browser, how) => {
                let decision = how.as_str();
                let more =
                    json!({ "stepId": "review", "gate": "PAUSE_AFTER", "decision": decision });
                self.save(browser, "human_gate_resolved", more, Expected::Anything);
            }
            Act::Decide(decision) => self.tell(DocumentCommand::Decide {
                step: "review".into(),
                gate: "PAUSE_AFTER".into(),
                decision,
                note: None,
            }),
            Act::Cancel => self.tell(DocumentCommand::Cancel { reason: None }),
        }
    }

    /// Sends a decision to the document; rejected ones do not count.
    fn tell(&mut self, command: DocumentCommand) {
        if self.log.tell(command).is_ok() {
            let made = self.log.head().trace.last().expect("what was made");
            self.made.push(made.clone());
        }
    }

    fn save(&mut self, browser: usize, kind: &str, more: Value, expected: Expected) {
        let mut body = then(self.known[browser].clone(), kind, more);
        // Each browser uses its own ids.
        self.saves += 1;
        let last = Arc::make_mut(body.trace.last_mut().expect("what was added"));
        last["id"] = json!(format!("evt_of_{browser}_{}", self.saves));
        let before = self.log.head().clone();
        let newer = &body.trace[before.common_prefix(&body)..];
        let goes_on_by_itself = newer.iter().any(|event| is_about_gates(event));
        match self.log.save_if(&body, expected) {
            Ok(()) => {}
            Err(DocumentRejection::Stale) => {
                assert_eq!(expected, Expected::Continuation);
                assert_eq!(self.log.head(), &before, "a refusal changes nothing");
                return;
            }
            Err(other) => panic!("{other}"),
        }
        let lacking = self.made.iter().filter(|made| !body.trace.contains(made));
        let lacking: Vec<_> = lacking.collect();
        let saved = self.log.document.saves().last().expect("a save");
        assert_eq!(saved.put_back, lacking.len() as u64);
        let decided = lacking.iter().rev().find(|made| is_about_gates(made));
        if let (Some(last), false) = (decided, goes_on_by_itself)
            && last["decision"] != "rejected"
        {
            assert_eq!(review(self.log.head()), "approved");
        }
        self.known[browser] = body;
    }

    /// Every event made here is in the document once, unchanged and in order.
    fn check(&self) {
        let ids: Vec<&Value> = self.made.iter().map(|made| &made["id"]).collect();
        let trace = self.log.head().trace.iter();
        let there: Vec<_> = trace.filter(|event| ids.contains(&&event["id"])).collect();
        assert_eq!(there, self.made.iter().collect::<Vec<_>>());
        let is_cancelled = self.made.iter().any(|made| made["status"] == "cancelled");
        if is_cancelled {
            assert_eq!(self.log.head().derived.run["status"], "cancelled");
        }
    }
}

proptest! {
    #[test]
    fn no_save_loses_a_decision_that_was_made_here(acts in vec(act(), 1..16)) {
        let mut play = Play::new();
        for act in acts {
            play.act(act);
            play.check();
        }
    }
}
