//! Runs like those of the real client: model calls, tool calls and versions of artifacts.

use serde_json::{Value, json};

/// Text that models and people write.
const WORDS: &str = "The letter thanks the customer, names the order, and says plainly what \
     happens next and by when. It asks for nothing that was sent before. ";

/// A run and its trace, of which any prefix can be saved.
pub(super) struct Recording {
    id: String,
    trace: Vec<Value>,
}

impl Recording {
    /// A run with `events` events.
    pub(super) fn of_events(id: &str, events: usize) -> Self {
        let trace = (0..events).map(|n| event(id, n)).collect();
        let id = id.to_owned();
        Self { id, trace }
    }

    /// A run whose document has about `bytes` bytes.
    pub(super) fn of_bytes(id: &str, bytes: usize) -> Self {
        let mut recording = Self::of_events(id, 0);
        let mut size = recording.whole().len();
        // The document contains the latest versions of four artifacts a second time, next to the
        // trace.
        while size + 4_000 < bytes {
            let next = event(id, recording.trace.len());
            size += next.to_string().len() + 1;
            recording.trace.push(next);
        }
        recording
    }

    /// The document of the whole run.
    pub(super) fn whole(&self) -> String {
        self.at(self.trace.len())
    }

    /// The document after `events` events.
    pub(super) fn at(&self, events: usize) -> String {
        let trace = &self.trace[..events];
        let steps: Vec<Value> = (0..4)
            .map(|n| json!({ "id": step(n), "gatePolicy": "AUTO", "inputs": [], "outputs": [] }))
            .collect();
        let gate = json!({ "before": "approved", "after": "approved", "checkpoints": {} });
        let mut artifacts: Vec<(String, &Value)> = Vec::new();
        for event in trace {
            let Some(artifact) = event.get("artifact") else {
                continue;
            };
            let key = artifact["artifactKey"].as_str().unwrap_or_default();
            match artifacts.iter_mut().find(|(known, _)| known == key) {
                Some((_, latest)) => *latest = artifact,
                None => artifacts.push((key.to_owned(), artifact)),
            }
        }
        let statuses: Vec<_> = (0..4).map(|n| json!([step(n), "pending"])).collect();
        let gates: Vec<_> = (0..4).map(|n| json!([step(n), gate])).collect();
        // A day in minutes, so that lists have different times to sort.
        let place = self.id.bytes().fold(7_u32, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(byte.into())
        }) % 1_440;
        let started = format!("2027-01-15T{:02}:{:02}:00.000Z", place / 60, place % 60);
        json!({
            "revision": trace.len(),
            "run": {
                "id": self.id, "workflowId": "letters", "workflowVersion": 1,
                "workflowSnapshot":
                    { "id": "letters", "version": 1, "title": "Letters", "steps": steps, "edges": [] },
                "startedAt": started, "status": "running", "tags": ["bench", "letters"],
            },
            "trace": trace, "artifactsByKey": artifacts, "ruleSetsById": [],
            "stepStatus": statuses, "gateState": gates, "idempotency": [],
        })
        .to_string()
    }
}

/// Adds an event to a document as text, as a browser does before it saves again.
pub(super) fn annotate(document: &mut String, run: &str, n: u64) {
    let event = json!({
        "id": format!("evt_{run}_note_{n}"), "type": "annotation", "runId": run,
        "ts": "2027-01-15T09:00:00.000Z", "text": format!("saved for the time {n}"),
    });
    // The trace is the last member.
    let end = document.len() - "]}".len();
    document.truncate(end);
    document.push_str(&format!(",{event}]}}"));
}

fn step(n: usize) -> String {
    format!("step-{}", n % 4)
}

/// The n-th event: of four, a question to a model, its answer, a call of a tool, an artifact.
fn event(id: &str, n: usize) -> Value {
    let about = |times: usize| format!("{n}: {}", WORDS.repeat(times));
    let mut event = json!({
        "id": format!("evt_{id}_{n:08}"), "runId": id, "stepId": step(n / 4),
        "ts": format!("2027-01-15T08:{:02}:{:02}.000Z", n / 60 % 60, n % 60),
    });
    let more = match n % 4 {
        0 => json!({
            "type": "model_io", "direction": "request", "provider": "example",
            "model": "large", "summary": about(1),
        }),
        1 => json!({
            "type": "model_io", "direction": "response", "provider": "example", "model": "large",
            "usage": { "inputTokens": 1_200 + n, "outputTokens": 310, "totalTokens": 1_510 + n },
            "cost": { "amount": 0.0125, "currency": "USD" }, "durationMs": 812.5,
            "summary": about(2),
        }),
        2 => json!({
            "type": "tool_call", "name": "orders.find", "args": { "order": n, "full": true },
            "result": { "found": [{ "order": n, "state": "sent", "note": about(1) }] },
        }),
        _ => json!({
            "type": "artifact_written",
            "artifact": {
                "artifactKey": format!("letter-{}", n / 4 % 4), "typeId": "letter.v1",
                "version": n / 16 + 1, "createdAt": "2027-01-15T08:00:01.000Z",
                "data": { "to": "Ann", "order": n, "lines": [about(1), about(1)] },
            },
        }),
    };
    if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
        event.extend(more);
    }
    event
}
