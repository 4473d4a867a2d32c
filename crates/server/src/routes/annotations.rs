//! Annotations of runs.

use faces::openwop::v1;
use hyper::{Method, StatusCode};
use kernel::ids::{NodeId, StreamId};
use kernel::notes::{Signal, Target};
use kernel::problem::{ProblemCode, Problems};
use runtime::access::Action;
use runtime::api::NewAnnotation;
use serde_json::{Map, Value, json};

use super::runs::named;
use crate::problem::Problem;
use crate::reply::Reply;
use crate::route::{Access, Cx, Doc, Route};

const PATH: &str = "/v1/runs/{runId}/annotations";

/// The routes of this group.
pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::new(
            Method::POST,
            PATH,
            Access::May(Action::AnnotateRun),
            annotate,
            Doc {
                operation: "recordAnnotation",
                summary: "Annotates a run, its events or its nodes; also when it has ended",
                parameters: &[],
                request: Some("AnnotationCreate"),
                responses: &[(201, "Annotation")],
            },
        )
        .keyed(),
        Route::new(
            Method::GET,
            PATH,
            Access::May(Action::ReadRun),
            list,
            Doc {
                operation: "listAnnotations",
                summary: "Annotations of a run, oldest first",
                parameters: &[],
                request: None,
                responses: &[(200, "AnnotationList")],
            },
        ),
    ]
}

pub(super) async fn list(cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    let said = cx.app.api().annotations(&who, &run).await?;
    let annotations: Vec<Value> = said.iter().map(v1::annotation).collect();
    Ok(Reply::ok(&json!({ "annotations": annotations })))
}

pub(super) async fn annotate(mut cx: Cx) -> Result<Reply, Problem> {
    let (who, run) = (cx.who()?, named(&cx)?);
    // Ownership is checked before the request.
    cx.app.api().may_annotate(&who, &run).await?;
    let said = read(&run, cx.object().await?)?;
    let id = cx.trace.id().to_owned();
    let effect = cx.effect.as_ref();
    let api = cx.app.api();
    let noted = api.annotate(&who, &run, said, Some(&id), effect).await?;
    Ok(Reply::json(StatusCode::CREATED, &v1::annotation(&noted)))
}

/// Parses the closed body, and reports all problems.
fn read(run: &StreamId, mut body: Map<String, Value>) -> Result<NewAnnotation, Problem> {
    let mut problems = Problems::new();
    let target = match object(&mut body, "/target", &mut problems) {
        Some(target) => read_target(run, target, &mut problems),
        None => Target::default(),
    };
    let signal = match object(&mut body, "/signal", &mut problems) {
        Some(signal) => read_signal(signal, &mut problems),
        None => {
            if problems
                .listed
                .iter()
                .all(|problem| problem.path != "/signal")
            {
                let what = "is required: the content";
                problems.add("/signal", ProblemCode::MissingField, what);
            }
            None
        }
    };
    let note = text(&mut body, "note", "/note", &mut problems);
    closed(&body, "", &mut problems);
    problems.or(())?;
    let signal = signal.ok_or_else(Problem::internal)?;
    Ok(NewAnnotation {
        target,
        signal,
        note,
    })
}

fn read_target(run: &StreamId, mut target: Map<String, Value>, problems: &mut Problems) -> Target {
    let event = text(&mut target, "eventId", "/target/eventId", problems);
    // The id of an event consists of its run and its sequence.
    let place = |id: &String| {
        let seq = id.strip_prefix(run.as_str())?.strip_prefix('.')?;
        let seq: u64 = seq.parse().ok()?;
        (run.event(seq).as_str() == id).then_some(seq)
    };
    let event_seq = event.as_ref().and_then(place);
    if event.is_some() && event_seq.is_none() {
        let what = "is not an event of this run";
        problems.add("/target/eventId", ProblemCode::InvalidValue, what);
    }
    let node = text(&mut target, "nodeId", "/target/nodeId", problems);
    closed(&target, "/target", problems);
    Target {
        event_seq,
        node_id: node.map(NodeId::new),
    }
}

fn read_signal(mut signal: Map<String, Value>, problems: &mut Problems) -> Option<Signal> {
    let kind = text(&mut signal, "kind", "/signal/kind", problems);
    let required = |name: &str, signal: &mut Map<String, Value>, problems: &mut Problems| {
        let path = format!("/signal/{name}");
        let said = text(signal, name, &path, problems);
        if said.is_none() && problems.is_empty() {
            let what = "is required for a signal of this kind";
            problems.add(path, ProblemCode::MissingField, what);
        }
        said
    };
    let read = match kind.as_deref() {
        Some("rating") => rating(&mut signal, problems).map(|rating| Signal::Rating { rating }),
        Some("correction") => required("correction", &mut signal, problems)
            .map(|correction| Signal::Correction { correction }),
        Some("label") => {
            required("label", &mut signal, problems).map(|label| Signal::Label { label })
        }
        Some("flag") => Some(Signal::Flag),
        Some(_) | None => {
            let what = "must be rating, correction, label or flag";
            problems.add("/signal/kind", ProblemCode::InvalidValue, what);
            None
        }
    };
    // A signal may carry fields of another kind. They have no meaning there, and are dropped.
    for (name, path) in [
        ("correction", "/signal/correction"),
        ("label", "/signal/label"),
    ] {
        text(&mut signal, name, path, problems);
    }
    if signal.contains_key("rating") {
        rating(&mut signal, problems);
    }
    closed(&signal, "/signal", problems);
    read
}

fn rating(signal: &mut Map<String, Value>, problems: &mut Problems) -> Option<u8> {
    let rating = signal.remove("rating").and_then(|rating| rating.as_u64());
    let rating = rating.and_then(|rating| u8::try_from(rating).ok());
    let rating = rating.filter(|rating| (1..=5).contains(rating));
    if rating.is_none() {
        let what = "must be a whole number from 1 to 5";
        problems.add("/signal/rating", ProblemCode::InvalidValue, what);
    }
    rating
}

fn object(
    body: &mut Map<String, Value>,
    path: &'static str,
    problems: &mut Problems,
) -> Option<Map<String, Value>> {
    match body.remove(path.trim_start_matches('/')) {
        None | Some(Value::Null) => None,
        Some(Value::Object(object)) => Some(object),
        Some(_) => {
            problems.add(path, ProblemCode::WrongType, "must be an object");
            None
        }
    }
}

fn text(
    object: &mut Map<String, Value>,
    name: &str,
    path: &str,
    problems: &mut Problems,
) -> Option<String> {
    match object.remove(name) {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(_) => {
            problems.add(path, ProblemCode::WrongType, "must be a text");
            None
        }
    }
}

/// Remaining fields are unknown.
fn closed(object: &Map<String, Value>, path: &'static str, problems: &mut Problems) {
    if !object.is_empty() {
        let what = "has unknown fields";
        problems.add(path, ProblemCode::UnknownField, what);
    }
}
