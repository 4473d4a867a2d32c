//! Requests of a tool server to its client (for a model's answer, a person's input, its folders),
//! and the answers: recorded as part of the surrounding call. When the call is served, the client
//! receives the same request again, before any messages after the answer, and has to answer the
//! same.

use std::collections::VecDeque;

use capture::call::OF_CLIENT;
use capture::tool::{BEGIN, Client, END};
use serde_json::{Value, json};

use super::{Between, Failure, Pending, kept, output_of, said, to_client};

/// A request to the client, and its surrounding call.
pub(super) struct ClientRequest {
    method: String,
    params: Value,
    within: Option<u64>,
}

impl ClientRequest {
    fn from_message(message: &Value, within: Option<u64>) -> Self {
        let mut params = message["params"].clone();
        if let Some(params) = params.as_object_mut() {
            params.remove("_meta");
        }
        Self {
            method: message["method"].as_str().unwrap_or_default().to_owned(),
            params,
            within,
        }
    }

    /// Records the client's answer. Returns an error message if the recording has another answer.
    async fn answered(&self, capture: &Client, answer: &Value) -> Result<Option<String>, Failure> {
        let answer: serde_json::Map<String, Value> = output_of(answer)
            .map(|(name, value)| (name.to_owned(), value.clone()))
            .collect();
        let order = json!({
            "kind": "protocol", "name": format!("{OF_CLIENT}{}", self.method),
            "input": { "params": self.params, "answer": answer }, "within": self.within,
        });
        let begun = capture.ask(BEGIN, &order).await.map_err(said)?;
        if let Some(seq) = begun["run"].as_u64() {
            let order = json!({ "seq": seq, "output": null, "is_error": false });
            capture.ask(END, &order).await.map_err(said)?;
        }
        Ok(begun["diverged"].as_str().map(str::to_owned))
    }
}

/// The remaining messages around a served call.
pub(super) struct Telling {
    /// The call, for its client.
    pub id: Value,
    pub seq: Option<u64>,
    pub progress: Value,
    pub rest: VecDeque<Part>,
}

/// A piece of it.
pub(super) enum Part {
    /// As it was recorded.
    Notification(Value),
    /// The answer to the call.
    Answer(String),
}

impl Between {
    /// Sends the recorded messages around a call, up to a request to its client.
    pub(super) async fn tell(&mut self, mut telling: Telling) -> Result<(), Failure> {
        while let Some(part) = telling.rest.pop_front() {
            let (asked, was_open) = match part {
                Part::Answer(answer) => {
                    to_client(&answer)?;
                    continue;
                }
                Part::Notification(kept) => (
                    self.told.tell(&kept, &telling.progress)?,
                    kept["open"] == true,
                ),
            };
            if let Some(message) = asked {
                let id = message["id"].to_string();
                if was_open {
                    self.asked_in_vain.insert(id);
                    continue;
                }
                let asked = ClientRequest::from_message(&message, telling.seq);
                self.asked_again.insert(id, (asked, telling));
                return Ok(());
            }
        }
        Ok(())
    }

    /// The client's answer to a request of the server, or of the recording. Returns whether the
    /// server must receive it.
    pub(super) async fn answered(&mut self, answer: &Value) -> Result<bool, Failure> {
        let Some(capture) = &self.capture else {
            return Ok(true);
        };
        let id = answer["id"].to_string();
        if let Some((asked, telling)) = self.asked_again.remove(&id) {
            match asked.answered(capture, answer).await? {
                None => self.tell(telling).await?,
                Some(message) => {
                    let error = json!({ "jsonrpc": "2.0", "id": telling.id,
                        "error": { "code": -32000, "message": message } });
                    to_client(&error.to_string())?;
                }
            }
            return Ok(false);
        }
        // A recorded answer that came too late, or never, is not waited for.
        if self.asked_in_vain.remove(&id) {
            return Ok(false);
        }
        if let Some(asked) = self.asked.remove(&id) {
            asked.answered(capture, answer).await?;
        }
        Ok(true)
    }

    /// A server's request to its client: it is kept like a notification, but only with its
    /// surrounding call.
    pub(super) async fn asks(&mut self, message: &Value) -> Result<(), Failure> {
        self.count += 1;
        let kept = kept(self.count, message, false);
        let last = self.last.as_ref().map(|(seq, _)| *seq);
        let open = self.open.values_mut().max_by_key(|pending| pending.seq);
        let within = open.as_ref().map(|pending| pending.seq).or(last);
        let id = message["id"].to_string();
        self.asked_in_vain.remove(&id);
        self.asked
            .insert(id, ClientRequest::from_message(message, within));
        match open {
            Some(pending) => {
                pending.notifications.push(kept);
                Ok(())
            }
            None => self.keep_with_calls(kept).await,
        }
    }

    /// The server answers a call before its client has answered a request within it: a replay does
    /// not wait for that answer either, and a later one is only passed on.
    pub(super) fn leave_open(&mut self, pending: &mut Pending) {
        self.asked.retain(|id, asked| {
            let is_open = asked.within == Some(pending.seq);
            if is_open {
                pending.notifications.leave_open(id);
            }
            !is_open
        });
    }

    /// Requests from before the first call are kept with that call.
    pub(super) fn asked_within(&mut self, seq: u64) {
        for asked in self.asked.values_mut() {
            asked.within.get_or_insert(seq);
        }
    }
}
