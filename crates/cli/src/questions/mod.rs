//! Open questions of runs: who can answer them, and how.

pub(crate) mod awaited;

use faces::openwop::v1::queue_of_question;
use kernel::ids::StreamId;
use runtime::api::BY_HAND;
use serde_json::Value;

use crate::exit::Failure;
use crate::lookup::short;
use crate::text;

/// The command that answers a question, to be copied unchanged where a single word is the answer.
/// Another action, such as `reject`, may replace it.
pub(crate) fn how(run: &str, node: &str, kind: &str, data: &Value) -> String {
    let node = text::one_line(node, 60);
    let first = |list: &str| data.get(list)?.as_array()?.first();
    let answer = match kind {
        "approval" => {
            let action = first("actions").and_then(Value::as_str).unwrap_or("accept");
            format!("--action {}", text::one_line(action, 30))
        }
        // The question of a failed node.
        "custom" if data.get("error").is_some() => "--action retry".to_owned(),
        "clarification" => {
            let id = first("questions").and_then(|question| question.get("id")?.as_str());
            format!("--answer {}=VALUE", text::one_line(id.unwrap_or("ID"), 40))
        }
        _ => "--value JSON".to_owned(),
    };
    format!("`runwright runs resolve {run} {node} {answer}`")
}

/// The description of the awaited worker, and the command that starts one.
pub(crate) fn worker_of(queue: &str) -> String {
    format!("a worker of the queue {queue}: `runwright worker --queue {queue} -- CMD` is one")
}

/// The node of a question.
pub(crate) fn node_of(question: &Value) -> &str {
    question["nodeId"].as_str().unwrap_or_default()
}

/// The open question of a run that an answer is for, in wire format: that of `node`, or the only
/// one. `None` if the run asks nothing.
pub(crate) fn choose<'a>(
    run: &StreamId,
    open: &'a [Value],
    node: Option<&str>,
) -> Result<Option<&'a Value>, Failure> {
    fn queue(question: &Value) -> Option<&str> {
        queue_of_question(&question["payload"]["data"])
    }
    let fits = |question: &&Value| node.is_none_or(|wanted| wanted == node_of(question));
    let (with_workers, open): (Vec<_>, Vec<_>) =
        open.iter().partition(|question| queue(question).is_some());
    let meant: Vec<&Value> = open.iter().copied().filter(fits).collect();
    let task = with_workers.into_iter().find(fits);
    match (meant.as_slice(), task, open.as_slice()) {
        ([one], _, _) => Ok(Some(one)),
        ([], Some(task), _) => {
            let node = text::one_line(node_of(task), 60);
            let queue = queue(task).unwrap_or_default();
            let what = format!("{node} waits for a worker of the queue {queue}, not for an answer");
            Err(Failure::new(what).hint(BY_HAND))
        }
        ([], None, []) => Ok(None),
        (_, _, open) => {
            let names = open.iter().map(|open| text::one_line(node_of(open), 60));
            let names: Vec<String> = names.collect();
            let hint = format!("run {} has questions at {}", short(run), names.join(", "));
            Err(Failure::new("name the node to answer").hint(hint))
        }
    }
}

/// The error for an answer to a run that asks nothing.
pub(crate) fn nothing_asked(run: &StreamId, status: &str) -> Failure {
    let status = text::one_line(status, 30);
    Failure::new(format!(
        "run {} has no open question; it is {status}",
        short(run)
    ))
}
