use super::*;
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
    let end = AuditTrail::at_end(header.clone(), &first.records()[0]).expect("an event");
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
