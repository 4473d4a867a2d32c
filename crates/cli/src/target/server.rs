//! Runs of a server.

use std::time::Duration;

use async_trait::async_trait;
use faces::workbench::document::is_run_id;
use kernel::ids::StreamId;
use kernel::problem::quoted;
use kernel::run::event::DrainPolicy;
use kernel::time::Timestamp;
use reqwest::header::HeaderMap;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::lines::of_doc;
use super::{
    ArtifactRow, Cursor, EventLine, Filter, Listing, NewNote, Purpose, Row, RunView, Sink, Target,
};
use crate::budget::Used;
use crate::exit::{Exit, Failure};
use crate::lookup::{RunName, SHORTEST, is_part};
use crate::remote::{Remote, broken_off, read, refused, urlencoded};
use crate::session::Form;
use crate::{questions, talk, text};

/// Maximum pages searched for a run by a part of its id, and maximum pages of questions.
const PAGES: usize = 20;
/// Maximum runs of a page.
const MAX_PAGE: usize = 500;
/// Maximum pages of a list: a faulty host may never end it.
const MAX_PAGES: usize = 10_000;
/// Maximum time the server holds an answer without events.
pub(super) const HOLD: Duration = Duration::from_secs(30);
/// The timeout for all bytes of an artifact.
const ARTIFACT_TIMEOUT: Duration = Duration::from_secs(3_600);

/// The runs of a server.
pub(crate) struct Server<'a>(pub &'a Remote);

/// The address of a run.
fn at(run: &StreamId) -> String {
    format!("/v1/runs/{run}")
}

/// The items of a list in an answer.
pub(super) fn items(mut answer: Value, name: &str) -> Vec<Value> {
    match answer[name].take() {
        Value::Array(items) => items,
        _ => Vec::new(),
    }
}

/// A body with the reason of a change, if there is one.
pub(super) fn because(reason: Option<String>) -> Value {
    reason.map_or_else(|| json!({}), |reason| json!({ "reason": reason }))
}

pub(super) fn status_of(answer: &Value) -> String {
    answer["status"].as_str().unwrap_or_default().to_owned()
}

/// The exit code for a run, from its snapshot.
pub(crate) fn exit(snapshot: &Value) -> Exit {
    match snapshot["status"].as_str() {
        Some("failed" | "cancelled") => Exit::Found,
        _ => Exit::Done,
    }
}

/// A list page by page, until it ends or is long enough. Returns whether there is more.
pub(super) async fn pages(
    get: impl AsyncFn(String) -> Result<Value, Failure>,
    path: &str,
    name: &str,
    is_enough: impl Fn(usize, &[Value]) -> bool,
) -> Result<(Vec<Value>, bool), Failure> {
    let (mut all, mut cursor) = (Vec::new(), String::new());
    for page in 1..=MAX_PAGES {
        let mut answer = get(format!("{path}{cursor}")).await?;
        let next = answer["nextCursor"].take();
        all.extend(items(answer, name));
        match next.as_str() {
            None => return Ok((all, false)),
            Some(_) if is_enough(page, &all) => break,
            Some(next) => cursor = format!("&cursor={}", urlencoded(next)),
        }
    }
    Ok((all, true))
}

/// The refusal of `--as` for an answer in which the server has no place for a name.
fn not_for_others(node: &str) -> Failure {
    let node = text::one_line(node, 60);
    Failure::new(format!(
        "--as counts at approvals only; a server records the bearer of the key as the one who \
         answers {node}"
    ))
    .hint("remove --as")
}

/// The only run that the typed text matches, of those at a `place`.
pub(super) fn only(
    typed: &str,
    place: &str,
    mut found: impl Iterator<Item = StreamId>,
) -> Result<StreamId, Failure> {
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (None, _) => Err(Failure::new(format!("no run {} {place}", quoted(typed)))
            .hint("`runwright runs list` shows the runs")),
        (Some(_), Some(_)) => Err(Failure::new(format!("{} fits several runs", quoted(typed)))
            .hint("give more characters of the id")),
    }
}

/// The lines of a server's events. Moves the cursor to the last one.
pub(super) fn lines(docs: &[Value], cursor: &mut Cursor, form: Form) -> Vec<EventLine> {
    let last = docs.last().and_then(|doc| doc["sequence"].as_u64());
    cursor.after = last.or(cursor.after);
    let line = |doc: &Value| EventLine {
        kind: doc["type"].as_str().unwrap_or_default().to_owned(),
        at: doc["timestamp"].as_str().and_then(Timestamp::parse),
        native: None,
        text: match form {
            Form::Json => doc.to_string(),
            Form::Text => of_doc(doc),
        },
    };
    docs.iter().map(line).collect()
}

impl Server<'_> {
    async fn pages(
        &self,
        path: &str,
        name: &str,
        is_enough: impl Fn(usize, &[Value]) -> bool,
    ) -> Result<(Vec<Value>, bool), Failure> {
        let get = async |path: String| self.0.get(&path).await;
        pages(get, path, name, is_enough).await
    }

    /// The end of a run's log: its last event, and whether the run has ended.
    pub(crate) async fn end(&self, run: &StreamId) -> Result<Value, Failure> {
        poll(self.0, run, Some(u64::MAX), Duration::from_secs(1)).await
    }
}

/// A server's events of a run after a sequence, once there is one or the wait time has passed.
pub(super) async fn poll(
    remote: &Remote,
    run: &StreamId,
    after: Option<u64>,
    hold: Duration,
) -> Result<Value, Failure> {
    let seconds = hold.as_secs();
    let cursor = after.map_or_else(String::new, |seq| format!("&lastSequence={seq}"));
    let path = format!("{}/events/poll?timeout={seconds}{cursor}", at(run));
    remote.get(&path).await
}

#[async_trait(?Send)]
impl Target for Server<'_> {
    async fn find(&self, name: &RunName, _purpose: Purpose) -> Result<StreamId, Failure> {
        let typed = name.as_str();
        let is_last = matches!(typed, "last" | "latest");
        let is_stream = ["run-", "doc-"].iter().any(|kind| typed.starts_with(kind));
        // A server also finds a run of a browser app by the app's own id.
        if is_stream && typed.len() > 24 || is_run_id(typed) {
            return Ok(typed.into());
        }
        let is_root = |row: &&Value| row.get("parentRunId").is_none();
        let is_enough = |page: usize, rows: &[Value]| {
            page == PAGES || is_last && rows.iter().any(|row| is_root(&row))
        };
        let path = format!("/v1/runs?limit={MAX_PAGE}");
        let (rows, _) = self.pages(&path, "runs", is_enough).await?;
        let id = |row: &Value| StreamId::new(row["runId"].as_str().unwrap_or_default());
        if is_last {
            let last = rows.iter().find(is_root).map(id);
            return last.ok_or_else(|| Failure::new("no run yet"));
        }
        let is_meant = |row: &&Value| {
            let app = row["workbench"]["runId"].as_str().map(StreamId::new);
            let ids = [Some(id(row)), app];
            typed.len() >= SHORTEST && ids.iter().flatten().any(|id| is_part(typed, id))
        };
        only(
            typed,
            "on this server",
            rows.iter().filter(is_meant).map(id),
        )
    }

    async fn list(&self, filter: Filter<'_>) -> Result<Listing, Failure> {
        if filter.tenant.is_some() {
            let what = "a server lists only the runs of the key's tenant";
            return Err(Failure::new(what).hint("remove --tenant, or use a key of that tenant"));
        }
        let parent = match filter.parent {
            Some(name) => Some(self.find(name, Purpose::Show).await?),
            None => None,
        };
        let path = format!("/v1/runs?{}", filter.query(parent.as_ref(), MAX_PAGE));
        let is_enough = |_: usize, rows: &[Value]| rows.len() >= filter.limit;
        let (rows, has_more) = self.pages(&path, "runs", is_enough).await?;
        Ok(Listing {
            has_more: has_more || rows.len() > filter.limit,
            rows: rows.iter().take(filter.limit).map(Row::from_doc).collect(),
        })
    }

    async fn snapshot(&self, run: &StreamId) -> Result<Value, Failure> {
        self.0.get(&at(run)).await
    }

    async fn ancestor(&self, run: &StreamId) -> Result<Option<Value>, Failure> {
        match self.0.exchange(Method::GET, &at(run), None).await? {
            (status, Some(answer)) if status.is_success() => Ok(Some(answer)),
            (StatusCode::NOT_FOUND | StatusCode::GONE, _) => Ok(None),
            (status, answer) => Err(refused(status, answer.as_ref())),
        }
    }

    async fn view(&self, run: &StreamId) -> Result<RunView, Failure> {
        let snapshot = self.snapshot(run).await?;
        // An erased child run is skipped.
        let child = async |child: &str| self.snapshot(&child.into()).await.ok();
        let used = Used::of_snapshots(&snapshot, child).await;
        Ok(RunView {
            // A key may read a run and not its artifacts.
            artifacts: self.artifacts(run).await.unwrap_or_default(),
            name: format!("{run}{}", self.0.place()),
            ..RunView::from_snapshot(run, &snapshot, &used)
        })
    }

    async fn events(&self, cursor: &mut Cursor, form: Form) -> Result<Vec<EventLine>, Failure> {
        let page = self.0.log(cursor.run.as_str(), cursor.after).await?;
        Ok(lines(&items(page, "events"), cursor, form))
    }

    async fn new_events(&self, cursor: &mut Cursor, form: Form) -> Result<Vec<EventLine>, Failure> {
        let page = poll(self.0, &cursor.run, cursor.after, HOLD).await?;
        cursor.is_complete = page["isComplete"] == json!(true);
        Ok(lines(&items(page, "events"), cursor, form))
    }

    async fn questions(&self, run: Option<&StreamId>) -> Result<Vec<Value>, Failure> {
        let mut open = match run {
            Some(run) => {
                let page = self.0.get(&format!("{}/interrupts", at(run))).await?;
                let mut open = items(page, "interrupts");
                for question in &mut open {
                    question["runId"] = json!(run);
                }
                open
            }
            None => {
                let path = "/v1/interrupts?limit=100";
                let is_enough = |page: usize, _: &[Value]| page == PAGES;
                let (open, has_more) = self.pages(path, "interrupts", is_enough).await?;
                if has_more {
                    talk::say("there are more questions than listed here");
                }
                open
            }
        };
        // A reader of the list does not need the tokens for answering.
        for fields in open.iter_mut().filter_map(Value::as_object_mut) {
            fields.remove("interruptToken");
            fields.remove("callbackUrl");
        }
        Ok(open)
    }

    async fn resolve(
        &self,
        run: &StreamId,
        node: &str,
        mut value: Value,
        who: Option<&str>,
    ) -> Result<String, Failure> {
        if let Some(who) = who {
            let open = self.questions(Some(run)).await?;
            // Without an open question, the server explains why.
            if let Some(question) = questions::choose(run, &open, Some(node))? {
                match (question["kind"].as_str(), value.as_object_mut()) {
                    // Counts if the key may answer for others.
                    (Some("approval"), Some(fields)) => {
                        fields.insert("decidedBy".into(), json!(who));
                    }
                    _ => return Err(not_for_others(node)),
                }
            }
        }
        let path = format!("{}/interrupts/{}", at(run), urlencoded(node));
        let answer = self.0.post(&path, &json!({ "resumeValue": value })).await?;
        Ok(status_of(&answer))
    }

    async fn cancel(&self, run: &StreamId, reason: Option<String>) -> Result<String, Failure> {
        let path = format!("{}/cancel", at(run));
        Ok(status_of(&self.0.post(&path, &because(reason)).await?))
    }

    async fn pause(
        &self,
        run: &StreamId,
        policy: DrainPolicy,
        reason: Option<String>,
    ) -> Result<bool, Failure> {
        let mut body = because(reason);
        body["drainPolicy"] = json!(policy);
        let answer = self.0.post(&format!("{}:pause", at(run)), &body).await?;
        Ok(answer["pausedAt"].is_string())
    }

    async fn unpause(&self, run: &StreamId, reason: Option<String>) -> Result<(), Failure> {
        let path = format!("{}:resume", at(run));
        self.0.post(&path, &because(reason)).await.map(drop)
    }

    async fn notes(&self, run: &StreamId) -> Result<Vec<Value>, Failure> {
        let answer = self.0.get(&format!("{}/annotations", at(run))).await?;
        Ok(items(answer, "annotations"))
    }

    async fn annotate(&self, run: &StreamId, note: NewNote) -> Result<Value, Failure> {
        let mut body = json!({ "signal": note.signal, "target": {} });
        if let Some(node) = &note.target.node_id {
            body["target"]["nodeId"] = json!(node);
        }
        if let Some(seq) = note.target.event_seq {
            body["target"]["eventId"] = json!(run.event(seq));
        }
        if let Some(note) = &note.note {
            body["note"] = json!(note);
        }
        self.0
            .post(&format!("{}/annotations", at(run)), &body)
            .await
    }

    async fn diff(&self, run: &StreamId, other: &StreamId) -> Result<Value, Failure> {
        self.0
            .get(&format!("{}:diff?against={other}", at(run)))
            .await
    }

    async fn bundle(&self, run: &StreamId, max_events: Option<usize>) -> Result<Value, Failure> {
        let most = max_events.map(|most| format!("?maxEvents={most}"));
        let path = format!("{}/debug-bundle{}", at(run), most.unwrap_or_default());
        self.0.get(&path).await
    }

    async fn graph(&self, run: &StreamId) -> Result<Option<Value>, Failure> {
        // Runs that a browser app recorded, and those of older servers, have none.
        Ok(self.0.get(&format!("{}/graph", at(run))).await.ok())
    }

    async fn artifacts(&self, run: &StreamId) -> Result<Vec<ArtifactRow>, Failure> {
        let answer = self.0.get(&format!("{}/artifacts", at(run))).await?;
        let row = |one: &Value| {
            let word = |name: &str| one[name].as_str().unwrap_or_default().to_owned();
            ArtifactRow {
                id: word("artifactId"),
                node: word("nodeId"),
                kind: word("artifactType"),
                size: one["size"].as_u64().unwrap_or_default(),
                digest: word("sha256"),
            }
        };
        Ok(items(answer, "artifacts").iter().map(row).collect())
    }

    async fn artifact(&self, run: &StreamId, id: &str, to: Sink<'_>) -> Result<(), Failure> {
        let path = format!("{}/artifacts/{}", at(run), urlencoded(id));
        let sent = self
            .0
            .sent(Method::GET, &path, None, HeaderMap::new(), ARTIFACT_TIMEOUT);
        let mut bytes = sent.await?;
        if !bytes.status().is_success() {
            let (status, envelope) = read(bytes).await?;
            return Err(refused(status, envelope.as_ref()));
        }
        to(&[])?;
        while let Some(part) = bytes.chunk().await.map_err(broken_off)? {
            to(&part)?;
        }
        Ok(())
    }
}
