use super::*;

fn said(signal: Signal) -> Annotate {
    Annotate {
        target: Target::default(),
        signal,
        note: None,
        by: Actor::new("p"),
    }
}

fn unborn() -> Notes {
    Notes::unborn(&"run-1".into(), &Owner::tenant("t"), Timestamp(5))
}

#[test]
fn the_end_of_notes_is_all_the_next_one_needs() {
    let (first, event) = unborn()
        .annotate(said(Signal::Flag), None, Timestamp(6))
        .unwrap();
    let header = first.header().expect("a first batch").clone();
    assert_eq!(event.at, Timestamp(6));
    let end = Notes::at_end(header.clone(), &first.records()[0], first.index()).expect("an event");
    // The clock went back; time in a log does not.
    let rating = said(Signal::Rating { rating: 5 });
    let (second, event) = end.annotate(rating, None, Timestamp(2)).unwrap();
    assert_eq!((event.seq, event.at), (1, Timestamp(6)));
    assert!(second.header().is_none());

    let content = &first.records()[0].content;
    let mut whole = Notes::at_start(header);
    whole.fold_content(content).expect("an event");
    assert_eq!(whole.index(), *first.index());
    assert!(whole.fold_content(content).is_none(), "not its place");
    whole
        .fold_content(&second.records()[0].content)
        .expect("an event");
    assert_eq!(whole.index(), *second.index());
    assert_eq!(whole.chain, second.records()[0].chain);
    assert_eq!(whole.index().subject, "run-1");
}

#[test]
fn an_annotation_is_audited_once() {
    let (batch, _) = unborn()
        .annotate(said(Signal::Flag), None, Timestamp(6))
        .unwrap();
    let [message] = batch.outbox() else {
        panic!("one message");
    };
    assert_eq!(
        message.target,
        crate::audit::AuditTrail::stream(&"t".into())
    );
    let told: crate::audit::AuditMessage = serde_json::from_slice(&message.command).unwrap();
    assert_eq!(told.audit.action, AuditAction::RunAnnotated);
    assert_eq!(told.audit.on, Subject::new("run", "run-1"));
}

#[test]
fn empty_or_oversized_annotations_are_rejected() {
    let refused = |said| unborn().annotate(said, None, Timestamp(6)).err();
    for rating in [0, 6] {
        let bad = said(Signal::Rating { rating });
        assert_eq!(refused(bad), Some(Rejection::Rating));
    }
    let label = |text: &str| {
        said(Signal::Label {
            label: text.to_owned(),
        })
    };
    let correction = |text: String| said(Signal::Correction { correction: text });
    assert_eq!(refused(label("good")), None);
    assert!(matches!(refused(label(" ")), Some(Rejection::Words { .. })));
    assert!(refused(label(&"x".repeat(MAX_LABEL_BYTES + 1))).is_some());
    assert_eq!(refused(correction("x".repeat(MAX_NOTE_BYTES))), None);
    assert!(refused(correction("x".repeat(MAX_NOTE_BYTES + 1))).is_some());
    let noted = |note: &str| Annotate {
        note: Some(note.to_owned()),
        ..said(Signal::Flag)
    };
    assert_eq!(refused(noted("why")), None);
    assert!(refused(noted("")).is_some());
}

#[test]
fn annotations_are_limited() {
    let mut notes = unborn();
    notes.next_seq = MAX_ANNOTATIONS;
    let full = notes.annotate(said(Signal::Flag), None, Timestamp(6)).err();
    assert_eq!(full, Some(Rejection::Full));
}

#[test]
fn an_annotation_has_one_form() {
    let annotation = Annotate {
        target: Target {
            event_seq: Some(3),
            node_id: Some("a".into()),
        },
        note: Some("why".into()),
        ..said(Signal::Rating { rating: 4 })
    };
    let (batch, _) = unborn().annotate(annotation, None, Timestamp(6)).unwrap();
    let content = String::from_utf8(batch.records()[0].content.clone()).unwrap();
    assert_eq!(
        content,
        r#"{"at":6,"data":{"by":{"principal":"p"},"eventSeq":3,"nodeId":"a","note":"why","runId":"run-1","signal":{"kind":"rating","rating":4}},"seq":0,"type":"run.annotated"}"#
    );
}
