//! Imported files of another program, and logs that begin without a command.

use super::*;

fn entries(commands: impl IntoIterator<Item = CoordinatorCommand>) -> Vec<ImportedEntry> {
    let entry = |command| ImportedEntry {
        command: Some(command),
        text: String::new(),
    };
    commands.into_iter().map(entry).collect()
}

impl World {
    fn take_over(&mut self, import: Import) {
        let born = self.coordinator.clone();
        let batch = born.import(import, Timestamp(5)).expect("allowed");
        self.append(batch);
    }
}

#[test]
fn an_import_continues_at_the_end_of_another_programs_files() {
    let import = Import {
        entries: entries([
            acquire("a", 9),
            queue("open"),
            queue("done"),
            notify("done"),
            deliver("done"),
        ]),
        mail: vec![
            ImportedMail {
                message_id: "m".into(),
                from_worker: "a".into(),
                to_worker: "b".into(),
                body: "hello".into(),
                created: Some("on Monday".into()),
                notified: Reached::Sometime,
                delivered: Reached::at(Some("on Tuesday".into())),
            },
            ImportedMail {
                message_id: "n".into(),
                from_worker: "a".into(),
                to_worker: "b".into(),
                body: "hello".into(),
                created: None,
                notified: Reached::No,
                delivered: Reached::at(None),
            },
        ],
        used: ["open", "done", "gone"].map(RequestId::new).into(),
    };
    let mut world = World::published();
    world.take_over(import);
    let log = world.batches.iter().flat_map(|batch| batch.records());
    let said: Vec<String> = log
        .filter_map(|record| {
            let event: serde_json::Value = serde_json::from_slice(&record.content).unwrap();
            let at = event["data"]["saidAt"].as_str()?;
            Some(format!("{} {at}", event["type"].as_str().unwrap()))
        })
        .collect();
    assert_eq!(
        said,
        ["mailbox.created on Monday", "mailbox.delivered on Tuesday"]
    );
    let backlog = world.standing(5).backlog;
    assert_eq!((backlog.pending, backlog.delivered), (1, 1));
    for id in ["open", "done", "gone"] {
        assert_eq!(world.code(queue(id)), "duplicate_request");
    }
    assert_eq!(world.code(deliver("gone")), "request_not_found");
    assert_eq!(world.code(deliver("done")), "invalid_transition");
    assert_eq!(world.code(read("m")), "message_delivered");
    world.ok(read("n"));
    world.ok(notify("open"));
}

#[test]
fn an_import_is_one_batch_however_long() {
    let ids: Vec<String> = (0..6_000).map(|n| format!("r{n}")).collect();
    let import = Import {
        entries: entries((ids.iter()).flat_map(|id| [queue(id), fail(id)])),
        ..Import::default()
    };
    let mut world = World::published();
    world.take_over(import);
    assert_eq!(world.batches.len(), 1);
    assert_eq!(world.standing(5).backlog.failed, 6_000);
    assert_eq!(world.code(fail("r0")), "invalid_transition");
}

#[test]
fn an_import_of_an_impossible_history_is_rejected() {
    for world in [World::published(), World::native()] {
        let import = Import {
            entries: entries([queue("r"), deliver("r")]),
            ..Import::default()
        };
        let refused = world.coordinator.import(import, Timestamp(0)).unwrap_err();
        assert_eq!(refused.code(), "invalid_transition");
    }
}

/// Commands that the published rules allow and the native ones reject.
fn history() -> Vec<CoordinatorCommand> {
    let assign = CoordinatorCommand::AssignWorker {
        worker: "w".into(),
        task_id: "r".into(),
    };
    vec![
        assign,
        queue("failed"),
        fail("failed"),
        queue("told"),
        notify("told"),
        acquire("old", 1),
        queue("open"),
        replay(Some("theirs")),
    ]
}

#[test]
fn native_rules_hold_from_an_import_on_and_not_before() {
    let mut world = World::native();
    world.take_over(Import {
        entries: entries(history()),
        used: ["failed", "told", "open"].map(RequestId::new).into(),
        ..Import::default()
    });
    let now = 2 * MINUTE;
    let backlog = world.standing(now).backlog;
    assert_eq!(
        (backlog.failed, backlog.notified, backlog.pending),
        (1, 1, 1)
    );
    assert_eq!(
        world.blockers(now),
        [
            "authority lease is stale: lease expired",
            "replay cursor names no known event"
        ]
    );
    let refused = |world: &mut World, command| world.tell(now, command).unwrap_err().code();
    assert_eq!(refused(&mut world, fail("open")), "invalid_transition");
    assert_eq!(refused(&mut world, notify("open")), "lease_expired");
    world.tell(now, acquire("new", 9)).expect("taken over");
    world.tell(now, notify("open")).expect("told");
    world.tell(now, deliver("told")).expect("ended");
}

#[test]
fn an_imported_lease_without_an_end_can_be_taken_over() {
    let endless = CoordinatorCommand::AcquireAuthority(Lease {
        leased_until: "some day".into(),
        ..lease("old", "l", 0)
    });
    for (mut world, is_free) in [(World::native(), true), (World::published(), false)] {
        world.take_over(Import {
            entries: entries([endless.clone()]),
            ..Import::default()
        });
        assert_eq!(world.standing(9).is_stale, is_free);
        assert_eq!(world.tell(9, acquire("new", 9)).is_ok(), is_free);
    }
}

#[test]
fn entries_without_effect_are_kept_as_written() {
    let mut world = World::native();
    let heartbeat = |owner: &str| heartbeat(owner, "plan");
    let mut entries = entries([
        acquire("a", 9),
        acquire("b", 9),
        renew("b", 9),
        heartbeat("b"),
    ]);
    entries.push(ImportedEntry {
        command: None,
        text: "{\n  \"event\": \"New\", \"n\": 1e2}".into(),
    });
    for (n, entry) in entries.iter_mut().enumerate().skip(1).take(3) {
        entry.text = format!("entry {n}");
    }
    world.take_over(Import {
        entries,
        ..Import::default()
    });
    let records = world.batches[0].records().iter();
    let bodies: Vec<CoordinatorEvent> = records
        .map(|record| {
            serde_json::from_slice::<Event>(&record.content)
                .unwrap()
                .body
        })
        .collect();
    let foreign = |text: &str| CoordinatorEvent::Foreign { text: text.into() };
    assert_eq!(
        bodies,
        [
            CoordinatorEvent::Imported { events: 5 },
            CoordinatorEvent::AuthorityAcquired(lease("a", "l", 9)),
            foreign("entry 1"),
            foreign("entry 2"),
            foreign("entry 3"),
            foreign("{\n  \"event\": \"New\", \"n\": 1e2}"),
        ]
    );
}

#[test]
fn a_log_may_begin_only_to_say_which_rules_it_keeps() {
    let mut world = World::native();
    let batch = world.coordinator.clone().open(Timestamp(0));
    world.append(batch);
    assert_eq!(world.coordinator.contract(), Contract::Native);
    // Readers of the log have nothing to apply: the first command is still the first event.
    world.ok(queue("r"));
    world.ok(replay(Some("e0")));
    assert_eq!(world.standing(0).pending_events, 1);
}
