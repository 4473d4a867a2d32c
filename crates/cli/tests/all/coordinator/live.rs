//! Every field of a snapshot under the native contract: none is a constant.

use serde_json::{Value, json};

use super::{acquire, deliver, notify, queue};
use crate::support::Lab;

fn tell(lab: &Lab, command: &Value) {
    lab.runtime(&[
        "exec",
        &command.to_string(),
        "--state-dir=state",
        "--contract=native",
    ])
    .with(0);
}

#[test]
fn every_field_of_a_native_snapshot_is_live() {
    let lab = Lab::new();
    tell(&lab, &acquire("one", "2120-01-01T00:00:00Z"));
    for id in ["pending", "told", "done", "failed", "removed"] {
        tell(&lab, &queue(id));
    }
    for id in ["told", "done", "failed"] {
        tell(&lab, &notify(id));
    }
    tell(&lab, &deliver("done"));
    let fail = json!({ "command": "MarkFailed", "request_id": "failed", "reason": "why" });
    tell(&lab, &fail);
    let remove = json!({ "command": "RemoveDispatchRecords", "request_ids": ["removed"] });
    tell(&lab, &remove);
    tell(&lab, &json!({ "command": "RequestReplay", "cursor": "e2" }));
    tell(
        &lab,
        &json!({ "command": "MarkReplayed", "event_id": "e4" }),
    );
    // A mark acknowledges once: the second changes nothing.
    tell(
        &lab,
        &json!({ "command": "MarkReplayed", "event_id": "e4" }),
    );
    tell(&lab, &json!({ "command": "DeferLeaderNotification" }));
    let expected = json!({
        "schema_version": 1,
        "authority": {
            "owner": "one", "lease_id": "l", "leased_until": "2120-01-01T00:00:00Z",
            "stale": false, "stale_reason": null,
        },
        "backlog": { "pending": 1, "notified": 1, "delivered": 1, "failed": 1 },
        "replay": {
            "cursor": "e2", "pending_events": 9, "last_replayed_event_id": "e4",
            "deferred_leader_notification": true,
        },
        "readiness": { "ready": false, "reasons": ["replay has 9 pending events"] },
    });
    assert_eq!(lab.snapshot(), expected);

    tell(
        &lab,
        &json!({ "command": "ClearDeferredLeaderNotification" }),
    );
    tell(&lab, &json!({ "command": "RequestReplay" }));
    let caught_up = lab.snapshot();
    assert_eq!(
        caught_up["replay"],
        json!({
            "cursor": null, "pending_events": 0, "last_replayed_event_id": "e4",
            "deferred_leader_notification": false,
        })
    );
    assert_eq!(
        caught_up["readiness"],
        json!({ "ready": true, "reasons": [] })
    );

    let lapse = acquire("one", "2020-01-01T00:00:00Z");
    tell(&lab, &lapse);
    let lapsed = lab.snapshot();
    assert_eq!(lapsed["authority"]["stale"], true);
    assert_eq!(lapsed["authority"]["stale_reason"], "lease expired");
    assert_eq!(
        lapsed["readiness"]["reasons"],
        json!(["authority lease is stale: lease expired"])
    );
}
