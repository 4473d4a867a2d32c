use super::*;
use crate::batch::Batch;

const HOUR: i64 = 3_600_000;

fn item(run: &str, sequence: u64) -> Item {
    Item {
        run_id: run.into(),
        sequence,
        event_type: "node.completed".into(),
    }
}

/// Deliveries and their log.
struct Given {
    deliveries: Deliveries,
    log: Vec<Batch>,
    now: i64,
}

impl Given {
    fn opened() -> Self {
        let unborn = Deliveries::unborn(&"t".into(), None, &"wh_1".into(), Timestamp(1));
        let (batch, deliveries) = unborn.open(&"wh_1".into(), 7, Timestamp(1));
        Self {
            deliveries,
            log: vec![batch],
            now: 1,
        }
    }

    fn when(&mut self, outcomes: &[(Item, Sent)], through: Option<u64>) {
        let outcomes = outcomes
            .iter()
            .map(|(item, sent)| Outcome {
                item: item.clone(),
                sent: sent.clone(),
            })
            .collect();
        let now = Timestamp(self.now);
        let (batch, deliveries) = self.deliveries.clone().settle(outcomes, through, now);
        self.deliveries = deliveries;
        self.log.push(batch);
        self.check();
    }

    fn fails(&mut self, item: &Item) {
        let why = "no".to_owned();
        self.when(&[(item.clone(), Sent::Failed { why })], None);
    }

    /// The state equals the fold of the log, from its start and from a checkpoint.
    fn check(&self) {
        let header = self.log[0].header().expect("a first batch").clone();
        let mut folded = Deliveries::at_start(header.clone());
        for batch in &self.log {
            for record in batch.records() {
                folded.fold_content(&record.content).expect("it folds");
                assert_eq!(folded.chain(), record.chain);
            }
            assert_eq!(folded.index(), *batch.index());
        }
        assert_eq!(folded.facts(), self.deliveries.facts());
        let (next, chain) = (folded.next_seq(), folded.chain());
        let again = Deliveries::from_checkpoint(header, next, chain, &folded.checkpoint());
        assert_eq!(again.expect("a checkpoint").facts(), folded.facts());
    }

    fn facts(&self) -> &Facts {
        self.deliveries.facts()
    }

    fn gate(&self) -> Gate {
        self.facts().gate(Timestamp(self.now))
    }
}

#[test]
fn immediate_delivery_moves_only_the_cursor() {
    let mut given = Given::opened();
    given.when(
        &[
            (item("run-a", 0), Sent::Delivered),
            (item("run-b", 0), Sent::Delivered),
        ],
        Some(20),
    );
    assert_eq!((given.facts().cursor, given.facts().delivered), (20, 2));
    assert_eq!(given.log.last().expect("a batch").records().len(), 1);
    given.when(&[], Some(15));
    assert_eq!(given.facts().cursor, 20, "it never goes back");
}

#[test]
fn a_failing_event_delays_only_later_events_of_its_run() {
    let mut given = Given::opened();
    given.fails(&item("run-a", 1));
    given.when(
        &[
            (item("run-a", 2), Sent::Deferred),
            (item("run-b", 5), Sent::Delivered),
        ],
        Some(9),
    );
    assert_eq!(given.facts().waiting_events(), 2);
    assert_eq!(given.facts().due(Timestamp(1_000)), []);
    assert_eq!(given.facts().next_retry(|_| true), Some(Timestamp(1_001)));
    assert_eq!(given.facts().due(Timestamp(1_001)), [item("run-a", 1)]);
    given.now = 1_001;
    given.when(&[(item("run-a", 1), Sent::Delivered)], None);
    assert_eq!(given.facts().due(Timestamp(1_001)), [item("run-a", 2)]);
    given.when(&[(item("run-a", 2), Sent::Delivered)], None);
    assert!(given.facts().waiting.is_empty());
    assert_eq!(given.facts().delivered, 3);
}

#[test]
fn waits_grow_and_the_last_attempt_leaves_a_dead_letter() {
    let mut given = Given::opened();
    let mut waits = Vec::new();
    for _ in 1..limits::MAX_DELIVERY_ATTEMPTS {
        given.fails(&item("run-a", 1));
        let retry = given.facts().next_retry(|_| true).expect("another attempt");
        waits.push(retry.0 - given.now);
        given.now = retry.0;
    }
    assert_eq!(
        waits[..6],
        [1_000, 5_000, 25_000, 125_000, 625_000, 3_125_000]
    );
    assert!(waits[6..].iter().all(|wait| *wait == HOUR));
    given.fails(&item("run-a", 1));
    assert!(given.facts().waiting.is_empty());
    let [dead] = &given.facts().dead.clone().into_iter().collect::<Vec<_>>()[..] else {
        panic!("one dead letter");
    };
    assert_eq!(dead.attempts, limits::MAX_DELIVERY_ATTEMPTS);
    assert_eq!(dead.item, item("run-a", 1));
}

#[test]
fn four_failures_open_the_breaker_and_a_probe_closes_it() {
    let mut given = Given::opened();
    for seq in 0..3 {
        given.fails(&item(&format!("run-{seq}"), 0));
        assert_eq!(given.gate(), Gate::Closed);
    }
    given.fails(&item("run-3", 0));
    assert_eq!(given.gate(), Gate::Open(Timestamp(given.now + HOUR)));
    assert_eq!(given.facts().status(Timestamp(given.now)), "paused");
    given.now += HOUR;
    assert_eq!(given.gate(), Gate::Probe);
    given.fails(&item("run-0", 0));
    assert_eq!(given.gate(), Gate::Open(Timestamp(given.now + HOUR)));
    given.now += HOUR;
    given.when(&[(item("run-0", 0), Sent::Delivered)], None);
    assert_eq!(given.gate(), Gate::Closed);
    assert_eq!(given.facts().failures_left(), BREAKER_FAILURES);
}

#[test]
fn a_hundred_failures_in_a_week_end_the_webhook() {
    let day = 24 * HOUR;
    let mut given = Given::opened();
    for n in 0..99 {
        given.fails(&item(&format!("run-{n}"), 0));
    }
    given.now += 7 * day;
    given.fails(&item("run-x", 0));
    assert!(matches!(given.gate(), Gate::Open(_)), "the 99 are too old");
    for n in 0..99 {
        given.fails(&item(&format!("run-y{n}"), 0));
    }
    assert_eq!(given.gate(), Gate::Failed);
}

#[test]
fn undeliverable_events_are_dead_letters_without_a_failure() {
    let mut given = Given::opened();
    let why = "too large".to_owned();
    given.when(&[(item("run-a", 0), Sent::Impossible { why })], Some(8));
    assert_eq!((given.facts().dropped, given.facts().failed), (1, 0));
    assert_eq!(given.facts().dead.len(), 1);
}

#[test]
fn nothing_follows_the_end() {
    let mut given = Given::opened();
    given.fails(&item("run-a", 0));
    let (batch, closed) = given.deliveries.clone().close(Timestamp(9));
    assert_eq!(closed.facts().gate(Timestamp(9)), Gate::Removed);
    assert!(closed.index().settled && closed.facts().waiting.is_empty());
    let mut again = closed;
    assert!(again.fold_content(&batch.records()[0].content).is_none());
}
