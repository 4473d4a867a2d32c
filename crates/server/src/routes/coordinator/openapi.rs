//! Schemas of queues for the OpenAPI document.

use serde_json::{Value, json};

/// The schemas of these bodies.
pub(crate) fn schemas() -> Value {
    let text = json!({ "type": "string" });
    let flag = json!({ "type": "boolean" });
    let object = json!({ "type": "object" });
    let count = json!({ "type": "integer", "minimum": 0 });
    let maybe = json!({ "type": ["string", "null"] });
    let fence = json!({ "type": "integer", "minimum": 1, "maximum": u32::MAX });
    let worker_name = json!({
        "type": "string", "minLength": 1, "maxLength": 256,
        "pattern": "^[^\\u0000-\\u001f\\u007f-\\u009f]+$",
    });
    let texts = json!({ "type": "array", "items": text });
    let readiness = json!({
        "type": "object", "required": ["ready", "reasons"],
        "properties": { "ready": flag, "reasons": texts },
    });
    let of = |required: Value, properties: Value| json!({ "type": "object", "required": required, "properties": properties });
    let assignment = of(
        json!([
            "assignment_id",
            "request_id",
            "queue",
            "worker",
            "fence",
            "assigned_at",
            "heartbeat_ms",
            "heartbeat_timeout_ms",
            "begin_ms",
            "repeat",
            "task",
            "run"
        ]),
        json!({
            "assignment_id": text, "request_id": text, "queue": text, "worker": text,
            "fence": fence, "assigned_at": text, "heartbeat_ms": count,
            "heartbeat_timeout_ms": count,
            "begin_ms": { "type": ["integer", "null"], "minimum": 0 }, "repeat": { "enum": ["repeatable", "once"] },
            "task": {}, "run": { "type": ["object", "null"] },
        }),
    );
    let handed = of(
        json!([
            "assignment_id",
            "request_id",
            "worker",
            "fence",
            "assigned_at",
            "last_heartbeat"
        ]),
        json!({
            "assignment_id": text, "request_id": text, "worker": text, "fence": fence,
            "assigned_at": text, "last_heartbeat": maybe,
        }),
    );
    let queue = of(
        json!(["queue", "pending", "notified", "changed_at"]),
        json!({ "queue": text, "pending": count, "notified": count, "changed_at": text }),
    );
    let worker = of(
        json!(["worker", "last_seen", "stalled", "assignments"]),
        json!({ "worker": text, "last_seen": maybe, "stalled": flag, "assignments": count }),
    );
    let event = json!({
        "type": "object", "required": ["event"], "properties": { "event": text },
    });
    let placed = of(
        json!(["id", "at", "event"]),
        json!({ "id": text, "at": text, "event": event }),
    );
    let list = |items: &Value| json!({ "type": "array", "items": items });
    let several = |one: &Value| {
        let list = json!({ "type": "array", "items": one, "minItems": 1, "maxItems": 64 });
        of(json!(["assignments"]), json!({ "assignments": list }))
    };
    let failed = of(
        json!(["code", "message"]),
        json!({
            "code": { "type": "string", "pattern": "^[a-z0-9_]{1,64}$" },
            "message": { "type": "string", "maxLength": 4_096 },
            "retryable": { "type": ["boolean", "null"] },
        }),
    );
    let mut heartbeat = of(
        json!(["fence"]),
        json!({
            "fence": fence, "blocked_on": { "enum": ["user", "system", null] },
            "reason": { "type": ["string", "null"], "maxLength": 1_024 },
        }),
    );
    // A worker that waits says why.
    heartbeat["anyOf"] = json!([
        { "properties": { "blocked_on": { "const": null } } },
        { "required": ["reason"], "properties": { "reason": text } },
    ]);
    json!({
        "QueueReadiness": readiness,
        "QueueSnapshot": of(
            json!(["schema_version", "authority", "backlog", "replay", "readiness"]),
            json!({
                "schema_version": { "const": 1 }, "authority": object, "backlog": object,
                "replay": object, "readiness": readiness,
            }),
        ),
        "QueueWorkers": of(
            json!(["workers", "assignments"]),
            json!({ "workers": list(&worker), "assignments": list(&handed) }),
        ),
        "QueueList": of(json!(["queues"]), json!({ "queues": list(&queue) })),
        "QueueCommand": of(json!(["command"]), json!({ "command": text })),
        "QueueEvent": event,
        "QueueEventPage": of(
            json!(["events", "next", "complete"]),
            json!({ "events": list(&placed), "next": text, "complete": flag }),
        ),
        "TaskTake": of(
            json!(["worker"]),
            json!({
                "worker": worker_name,
                "max": { "type": ["integer", "null"], "minimum": 1, "maximum": 64 },
                "wait_ms": { "type": ["integer", "null"], "minimum": 0, "maximum": 25_000 },
                "key": { "type": ["string", "null"], "minLength": 1, "maxLength": 128 },
            }),
        ),
        "TakeRelease": of(
            json!(["worker", "key"]),
            json!({
                "worker": worker_name,
                "key": { "type": "string", "minLength": 1, "maxLength": 128 },
            }),
        ),
        "TakeReleased": of(json!(["released"]), json!({ "released": count })),
        "TaskBeginnings": several(&of(
            json!(["assignment_id", "fence"]),
            json!({ "assignment_id": text, "fence": fence }),
        )),
        "TaskBegun": of(json!(["begun"]), json!({ "begun": flag })),
        "TaskSettlements": several(&of(
            json!(["assignment_id", "fence"]),
            json!({
                "assignment_id": text, "fence": fence,
                "outputs": { "description": "the result, an object" },
                "error": { "description": "the failure, a TaskError" },
                "release": { "description": "true returns the task to the queue" },
            }),
        )),
        "TaskError": failed,
        "TaskAnswers": several(&of(
            json!(["assignment_id"]),
            json!({
                "assignment_id": text, "begun": flag, "request_id": text, "status": text,
                "repeated": flag, "error": text, "message": text,
            }),
        )),
        "TaskAssignments": of(
            json!(["assignments", "ready", "reasons"]),
            json!({ "assignments": list(&assignment), "ready": flag, "reasons": texts }),
        ),
        "TaskHeartbeat": heartbeat,
        "TaskExpiry": of(json!(["expires_in_ms"]), json!({ "expires_in_ms": count })),
        "TaskOutput": of(
            json!(["fence", "stream", "chunk"]),
            json!({
                "fence": fence, "stream": { "enum": ["stdout", "stderr"] },
                "seq": { "type": ["integer", "null"], "minimum": 0 },
                "chunk": { "type": "string", "maxLength": 65_536 },
            }),
        ),
        "TaskOutputKept": of(json!(["kept"]), json!({ "kept": flag })),
        "TaskResult": of(json!(["fence", "outputs"]), json!({ "fence": fence, "outputs": object })),
        "TaskFailure": of(
            json!(["fence", "error"]),
            json!({ "fence": fence, "error": failed }),
        ),
        "TaskRelease": of(json!(["fence"]), json!({ "fence": fence })),
        "TaskReported": of(
            json!(["request_id", "status", "repeated"]),
            json!({
                "request_id": text, "repeated": flag,
                "status": { "enum": ["delivered", "failed", "notified"] },
            }),
        ),
    })
}
