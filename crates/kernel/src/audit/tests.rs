use super::*;
use crate::batch::Record;
use crate::ids::MessageId;

fn entry(message: &str) -> Entry {
    Entry {
        message: MessageId::new(message),
        decided_at: Timestamp(1),
        action: AuditAction::KeyCreated,
        by: Actor::operator(),
        on: Subject::new("key", "k"),
        outcome: Outcome::Done,
    }
}

#[test]
fn the_end_of_a_trail_is_all_the_next_entry_needs() {
    let first = AuditTrail::unborn(&"t".into(), Timestamp(5)).record(entry("a"), Timestamp(6));
    let header = first.header().expect("a first batch").clone();
    let end =
        AuditTrail::at_end(header.clone(), &first.records()[0], first.index()).expect("an event");
    // The clock went back; time in a log does not.
    let second = end.record(entry("b"), Timestamp(2));
    assert!(second.header().is_none());

    let mut whole = AuditTrail::at_start(header);
    for batch in [&first, &second] {
        for record in batch.records() {
            let event = whole.fold_content(&record.content).expect("an event");
            assert_eq!(event.at, Timestamp(6));
            assert_eq!(whole.chain, record.chain);
        }
        assert_eq!(whole.index(), *batch.index());
    }
    assert_eq!(whole.index().summary, json!({ "entries": 2 }));
    assert!(whole.fold_content(&second.records()[0].content).is_none());
}

#[test]
fn entries_that_wait_together_are_one_append_and_the_same_trail() {
    let trail = AuditTrail::unborn(&"t".into(), Timestamp(5));
    let entries = ["a", "b", "c"];
    let together = trail
        .clone()
        .record_all(entries.map(entry).into(), Timestamp(6));
    let claims: Vec<&str> = together.keys().iter().map(|claim| &*claim.key).collect();
    assert_eq!(claims, entries, "each is kept once");
    assert_eq!(together.first_seq(), 0);
    let (mut apart, mut trail) = (Vec::new(), trail);
    for message in entries {
        let batch = trail.clone().record(entry(message), Timestamp(6));
        for record in batch.records() {
            trail.fold_content(&record.content).expect("an event");
            apart.push(record.clone());
        }
    }
    assert_eq!(together.records(), apart);
    assert_eq!(*together.index(), trail.index());
}

#[test]
fn an_entry_claims_the_message_it_came_by() {
    let batch = AuditTrail::unborn(&"t".into(), Timestamp(5)).record(entry("a"), Timestamp(6));
    let [claim] = batch.keys() else {
        panic!("one key");
    };
    assert_eq!(
        (claim.namespace.as_str(), claim.key.as_str()),
        ("audit", "a")
    );
    assert_eq!(claim.expires_at, None);
}

#[test]
fn an_entry_has_one_form() {
    let mut denied = entry("a");
    denied.outcome = Outcome::Denied {
        needs: "keys:manage".into(),
    };
    denied.by.issuer = Some("https://issuer".into());
    let text = serde_json::to_string(&AuditEvent::Recorded(denied)).expect("JSON");
    assert_eq!(
        text,
        r#"{"type":"runwright.audit.recorded","data":{"message":"a","decidedAt":1,"action":"key.created","by":{"principal":"cli","issuer":"https://issuer"},"on":{"kind":"key","id":"k"},"outcome":{"as":"denied","needs":"keys:manage"}}}"#
    );
}

/// A trail of entries with a checkpoint after each `every`, and its records.
fn trail(entries: u64, every: u64) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    let mut end = AuditTrail::unborn(&"t".into(), Timestamp(5));
    let header = end.header.clone();
    let put = |batch: Batch, records: &mut Vec<Record>| {
        records.extend(batch.records().iter().cloned());
        let last = records.last().expect("a record");
        AuditTrail::at_end(header.clone(), last, batch.index()).expect("an event")
    };
    for n in 0..entries {
        end = put(
            end.record(entry(&n.to_string()), Timestamp(6)),
            &mut records,
        );
        if end.uncovered() == every {
            let from = usize::try_from(end.covered_to()).expect("small");
            let leaves: Vec<Digest> = records[from..]
                .iter()
                .map(|record| Digest::compute(&record.content))
                .collect();
            let root = merkle_root(&leaves).expect("leaves");
            let batch = end.checkpoint(root, "good".into(), "key", Timestamp(7));
            end = put(batch, &mut records);
        }
    }
    records
}

fn walk(records: &[Record], from: Seq, to: Seq) -> Report {
    let genesis = AuditTrail::unborn(&"t".into(), Timestamp(5)).header.genesis;
    let is_signed = |checkpoint: &Checkpoint| checkpoint.signature == "good";
    let mut walk = Walk::new(0, from, to, Some(genesis), is_signed);
    for record in records {
        walk.entry(&record.content, Some(record.chain));
    }
    walk.finish(records.len() as u64)
}

#[test]
fn an_unchanged_trail_verifies_in_whole_and_in_part() {
    let records = trail(20, 4);
    let report = walk(&records, 0, 1_000);
    assert_eq!(report.anomalies, []);
    // Four entries, then the checkpoint; each further one covers that entry, too.
    let at: Vec<Seq> = report.checkpoints.iter().map(|it| it.at_sequence).collect();
    assert_eq!(at, [3, 8, 13, 18, 23]);
    let report = walk(&records, 5, 13);
    assert!(report.is_valid() && report.are_checkpoints_valid());
    assert_eq!((report.checkpoints.len(), report.entries), (2, 9));
    // From the middle, without the entries before.
    let mut middle = Walk::new(7, 9, 24, Some(records[6].chain), |_| true);
    for record in &records[7..] {
        middle.entry(&record.content, Some(record.chain));
    }
    let report = middle.finish(25);
    assert_eq!((report.anomalies.len(), report.checkpoints.len()), (0, 3));
}

#[test]
fn each_changed_entry_is_found_and_named() {
    let whole = trail(20, 4);
    for (n, at) in (0..whole.len()).zip(0..) {
        let mut records = whole.clone();
        let text = String::from_utf8(records[n].content.clone()).expect("text");
        let changed = text
            .replace("\"at\":6", "\"at\":5")
            .replace("\"at\":7", "\"at\":8");
        assert_ne!(text, changed);
        records[n].content = changed.into_bytes();
        let report = walk(&records, 0, Seq::MAX);
        let found = |kind: &AnomalyKind, at: Seq| {
            report
                .anomalies
                .iter()
                .any(|it| it.at == at && it.kind == *kind)
        };
        assert!(found(&AnomalyKind::HashMismatch, at), "{at}: {report:?}");
        if n + 1 < records.len() {
            let expected = Some(Digest::compute(&records[n].content));
            let actual = Some(Digest::compute(&whole[n].content));
            let kind = AnomalyKind::ChainBreak { expected, actual };
            assert!(found(&kind, at + 1), "{at}: {report:?}");
        }
        assert!(!report.is_valid());
        assert_eq!(
            report.are_checkpoints_valid(),
            at == 24,
            "the last one covers no checkpoint"
        );
    }
}

#[test]
fn a_chain_that_was_made_anew_does_not_fit_its_checkpoints() {
    // An attacker changes an entry and recomputes every later hash, but cannot sign.
    let mut records = trail(6, 3);
    let mut end = AuditTrail::unborn(&"t".into(), Timestamp(5));
    let header = end.header.clone();
    for record in &mut records {
        let event: Event = serde_json::from_slice(&record.content).expect("an event");
        let batch = match event.body {
            AuditEvent::Recorded(mut entry) => {
                entry.by = Actor::new("somebody else");
                end.record(entry, event.at)
            }
            AuditEvent::Checkpointed(it) => {
                end.checkpoint(it.merkle_root, it.signature, &it.key, event.at)
            }
        };
        *record = batch.records()[0].clone();
        end = AuditTrail::at_end(header.clone(), record, batch.index()).expect("an event");
    }
    let report = walk(&records, 0, Seq::MAX);
    let kinds: Vec<_> = report
        .anomalies
        .iter()
        .map(|it| (it.at, it.kind.clone()))
        .collect();
    let mismatch = |at: Seq| {
        let checkpoint = format!("{}.{at}", header.stream);
        (at, AnomalyKind::MerkleMismatch { checkpoint })
    };
    assert_eq!(kinds, [mismatch(2), mismatch(6)]);
}

#[test]
fn missing_entries_and_wrong_signatures_are_named() {
    let mut records = trail(6, 3);
    records.remove(1);
    let report = walk(&records, 0, Seq::MAX);
    assert!(
        report
            .anomalies
            .iter()
            .any(|it| it.kind == AnomalyKind::Missing && it.at == 1)
    );

    let records = trail(6, 3);
    let mut walk = Walk::new(0, 0, 100, None, |_: &Checkpoint| false);
    for record in &records {
        walk.entry(&record.content, None);
    }
    let report = walk.finish(records.len() as u64 + 1);
    let kinds: Vec<_> = report.anomalies.iter().map(|it| &it.kind).collect();
    assert!(matches!(
        kinds[..],
        [
            AnomalyKind::SignatureInvalid { .. },
            AnomalyKind::SignatureInvalid { .. },
            AnomalyKind::Missing
        ]
    ));
}
