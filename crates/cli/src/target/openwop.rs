//! Runs of a host that is not ours, by version 2 of OpenWOP.
//!
//! The protocol has no list of questions: they are read from the events of a run.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use faces::openwop::v2;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use kernel::ids::{Seq, StreamId};
use kernel::run::RunStatus;
use kernel::run::event::DrainPolicy;
use reqwest::header::{HeaderMap, HeaderValue};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use super::server::{because, items, lines, only, pages, status_of};
use super::{Cursor, EventLine, Filter, Listing, Purpose, Row, RunView, Target};
use crate::budget::Used;
use crate::exit::Failure;
use crate::lookup::{RunName, SHORTEST, is_part};
use crate::remote::{Remote, refused, urlencoded};
use crate::session::Form;
use crate::{talk, text};

/// Maximum runs of a page.
const PAGE: usize = 100;
/// Maximum pages searched for a run by a part of its id.
const PAGES: usize = 20;
/// Maximum runs whose events are read at a time.
const AT_A_TIME: usize = 16;
/// How long a host holds an answer without events: for a command that follows a run, and for one
/// that reads what there is.
const HOLD: Duration = Duration::from_secs(30);
const NO_HOLD: Duration = Duration::from_secs(1);

/// The kind of a server.
pub(super) enum Kind {
    /// Ours.
    Runwright,
    /// Another one, with its name.
    Other(String),
}

/// Reads the kind of a server from its capabilities.
pub(super) async fn discover(remote: &Remote) -> Result<Kind, Failure> {
    let path = "/.well-known/openwop";
    let capabilities = match remote.exchange(Method::GET, path, None).await {
        Ok((status, Some(capabilities))) if status.is_success() => capabilities,
        // The request of the command says what is wrong, or is repeated as a worker's is.
        Ok(_) | Err(_) => return Ok(Kind::Runwright),
    };
    let name = capabilities["implementation"]["name"].as_str();
    let name = text::one_line(name.unwrap_or("this host"), 60);
    if name == "runwright" {
        return Ok(Kind::Runwright);
    }
    let versions = capabilities["protocolVersions"].as_array();
    let versions = versions.into_iter().flatten().filter_map(Value::as_str);
    let mut versions = versions.chain(capabilities["protocolVersion"].as_str());
    if versions.any(|version| version.split('.').next() == Some("2")) {
        Ok(Kind::Other(name))
    } else {
        let what = format!("{name} does not speak OpenWOP 2");
        Err(Failure::new(what).hint("name a Runwright server, or a host that speaks version 2"))
    }
}

/// The refusal of a command that only our servers have.
pub(super) fn refuse(name: &str, command: &str) -> Failure {
    Failure::new(format!(
        "{name} is not a Runwright server: `{command}` works on a Runwright server or a store"
    ))
    .hint(
        "runs list, show, events, tail, interrupts, resolve, cancel, pause and unpause work on \
         every host that speaks OpenWOP 2",
    )
}

/// A host that is not ours.
pub(super) struct Host<'a> {
    pub remote: &'a Remote,
    pub name: String,
}

/// The address of a run: its id is one segment.
fn at(run: &StreamId) -> String {
    format!("/runs/{}", v2::project(run.as_str()))
}

impl Host<'_> {
    async fn send(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let mut headers = HeaderMap::new();
        headers.insert("openwop-version", HeaderValue::from_static(v2::VERSION));
        if body.is_some() {
            // The answer may be lost, and the request is not repeated.
            let key = uuid::Uuid::now_v7().to_string();
            let key = HeaderValue::try_from(key).map_err(|_| Failure::new("no key can be made"))?;
            headers.insert("idempotency-key", key);
        }
        let sent = self.remote.exchange_with(method, path, body, headers);
        match sent.await? {
            (status, Some(answer)) if status.is_success() => Ok(answer),
            (StatusCode::NOT_FOUND, _) if path.starts_with("/runs?") => {
                let what = format!("{} does not list its runs", self.name);
                Err(Failure::new(what).hint("name a run by its whole id, as TENANT/ID"))
            }
            (status, answer) => Err(refused(status, answer.as_ref())),
        }
    }

    async fn get(&self, path: &str) -> Result<Value, Failure> {
        self.send(Method::GET, path, None).await
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(Method::POST, path, Some(body)).await
    }

    /// Runs, newest first, page by page until there are enough.
    async fn runs(
        &self,
        query: &str,
        is_enough: impl Fn(usize, &[Value]) -> bool,
    ) -> Result<(Vec<Value>, bool), Failure> {
        let get = async |path: String| self.get(&path).await;
        pages(get, &format!("/runs?{query}"), "runs", is_enough).await
    }

    /// The events after a sequence, and whether the run has ended and has no others.
    async fn poll(
        &self,
        run: &StreamId,
        after: Option<Seq>,
        hold: Duration,
    ) -> Result<(Vec<Value>, bool), Failure> {
        let last = after;
        let after = after.map_or_else(String::new, |seq| format!("&afterSequence={seq}"));
        let path = format!("{}/events/poll?timeout={}{after}", at(run), hold.as_secs());
        let page = self.get(&path).await?;
        let has_ended = page["isTerminal"] == json!(true);
        let mut events = items(page, "events");
        // A faulty host may repeat events.
        events.retain(|event| event["sequence"].as_u64() > last);
        let is_complete = has_ended && events.is_empty();
        Ok((events, is_complete))
    }

    /// The open questions of a run, from its events.
    async fn asked(&self, run: &StreamId) -> Result<Vec<Value>, Failure> {
        let (mut open, mut after) = (BTreeMap::new(), None);
        loop {
            let (events, is_complete) = self.poll(run, after, NO_HOLD).await?;
            if is_complete {
                // A run that has ended asks nothing.
                return Ok(Vec::new());
            }
            let Some(last) = events.last() else { break };
            after = last["sequence"].as_u64();
            for event in &events {
                let payload = &event["payload"];
                let node = [&event["nodeId"], &payload["nodeId"]];
                let Some(node) = node.into_iter().find_map(Value::as_str) else {
                    continue;
                };
                let kind = event["type"].as_str().unwrap_or_default();
                match v2::native_kind(kind).unwrap_or(kind) {
                    "interrupt.requested" => {
                        let question = json!({
                            "runId": run,
                            "nodeId": node,
                            "kind": payload["kind"],
                            "payload": payload,
                            "requestedAt": event["timestamp"],
                        });
                        open.insert(node.to_owned(), question);
                    }
                    "interrupt.resolved" | "node.resumed" | "node.completed" | "node.failed"
                    | "node.cancelled" | "node.skipped" => drop(open.remove(node)),
                    _ => {}
                }
            }
        }
        Ok(open.into_values().collect())
    }
}

/// The lines of a host's events. JSON is as the host sent it; text is as that of our servers.
fn event_lines(docs: Vec<Value>, cursor: &mut Cursor, form: Form) -> Vec<EventLine> {
    let kind = |doc: &Value| doc["type"].as_str().unwrap_or_default().to_owned();
    let kinds: Vec<String> = docs.iter().map(kind).collect();
    let natives: Vec<_> = kinds.iter().map(|kind| v2::native_kind(kind)).collect();
    let in_our_words = |(mut doc, native): (Value, &Option<&str>)| {
        if let (Form::Text, Some(native)) = (form, native) {
            doc["type"] = json!(native);
        }
        doc
    };
    let docs: Vec<Value> = docs.into_iter().zip(&natives).map(in_our_words).collect();
    let lines = lines(&docs, cursor, form).into_iter().zip(kinds);
    let with_both_names = |((line, kind), native): ((EventLine, String), _)| EventLine {
        kind,
        native,
        ..line
    };
    lines.zip(natives).map(with_both_names).collect()
}

/// Whether a run in a list matches a filter. A host may ignore a filter in silence.
fn is_listed(row: &Value, filter: &Filter<'_>, parent: Option<&StreamId>) -> bool {
    let is = |name: &str, wanted: Option<&str>| {
        wanted.is_none_or(|wanted| row[name].as_str() == Some(wanted))
    };
    let status = row["status"].as_str().unwrap_or_default();
    let mut tags = row["tags"].as_array().into_iter().flatten();
    (filter.statuses.is_empty() || filter.statuses.iter().any(|wanted| wanted == status))
        && is("workflowId", filter.workflow)
        && is("parentRunId", parent.map(StreamId::as_str))
        && filter.tag.is_none_or(|tag| tags.any(|own| own == tag))
}

/// The form that snapshots of our servers have.
fn in_our_form(mut snapshot: Value) -> Value {
    snapshot["endedAt"] = snapshot["completedAt"].clone();
    snapshot
}

#[async_trait(?Send)]
impl Target for Host<'_> {
    fn cannot(&self, command: &str) -> Failure {
        refuse(&self.name, command)
    }

    async fn find(&self, name: &RunName, _purpose: Purpose) -> Result<StreamId, Failure> {
        let typed = name.as_str();
        if let Ok(v2::Bound {
            tenant: Some(tenant),
            id,
        }) = v2::unproject(typed)
        {
            return Ok(StreamId::new(v2::bind(tenant, id)));
        }
        let is_last = matches!(typed, "last" | "latest");
        let is_root = |row: &&Value| row["parentRunId"].is_null();
        let is_enough = |page: usize, rows: &[Value]| {
            page == PAGES || is_last && rows.iter().any(|row| is_root(&row))
        };
        let (rows, _) = self.runs(&format!("limit={PAGE}"), is_enough).await?;
        if is_last {
            let last = rows.iter().find(is_root);
            let last = last.and_then(|row| row["runId"].as_str());
            return last
                .map(StreamId::new)
                .ok_or_else(|| Failure::new("no run yet"));
        }
        let ids = rows.iter().filter_map(|row| row["runId"].as_str());
        let is_meant = |id: &&str| {
            let own = id.rsplit('/').next().unwrap_or_default();
            typed.len() >= SHORTEST && is_part(typed, &own.into())
        };
        let place = format!("at {}", self.name);
        only(typed, &place, ids.filter(is_meant).map(StreamId::new))
    }

    async fn list(&self, filter: Filter<'_>) -> Result<Listing, Failure> {
        if filter.tenant.is_some() {
            let what = "a host lists only the runs of the key's tenant";
            return Err(Failure::new(what).hint("remove --tenant, or use a key of that tenant"));
        }
        let parent = match filter.parent {
            Some(name) => Some(self.find(name, Purpose::Show).await?),
            None => None,
        };
        let query = filter.query(parent.as_ref(), PAGE);
        let is_meant = |row: &&Value| is_listed(row, &filter, parent.as_ref());
        let is_enough =
            |_: usize, rows: &[Value]| rows.iter().filter(is_meant).count() >= filter.limit;
        let (rows, has_more) = self.runs(&query, is_enough).await?;
        let meant = || rows.iter().filter(is_meant);
        Ok(Listing {
            has_more: has_more || meant().count() > filter.limit,
            rows: meant().take(filter.limit).map(Row::from_snapshot).collect(),
        })
    }

    async fn snapshot(&self, run: &StreamId) -> Result<Value, Failure> {
        self.get(&at(run)).await
    }

    async fn view(&self, run: &StreamId) -> Result<RunView, Failure> {
        let snapshot = in_our_form(self.snapshot(run).await?);
        let used = Used::of_snapshots(&snapshot, async |_| None).await;
        Ok(RunView {
            name: format!("{}{}", v2::project(run.as_str()), self.remote.place()),
            ..RunView::from_snapshot(run, &snapshot, &used)
        })
    }

    async fn events(&self, cursor: &mut Cursor, form: Form) -> Result<Vec<EventLine>, Failure> {
        let (events, is_complete) = self.poll(&cursor.run, cursor.after, NO_HOLD).await?;
        cursor.is_complete = is_complete;
        Ok(event_lines(events, cursor, form))
    }

    async fn new_events(&self, cursor: &mut Cursor, form: Form) -> Result<Vec<EventLine>, Failure> {
        let (events, is_complete) = self.poll(&cursor.run, cursor.after, HOLD).await?;
        cursor.is_complete = is_complete;
        Ok(event_lines(events, cursor, form))
    }

    async fn questions(&self, run: Option<&StreamId>) -> Result<Vec<Value>, Failure> {
        if let Some(run) = run {
            return self.asked(run).await;
        }
        let is_active = |row: &&Value| {
            let status = row["status"].as_str().and_then(RunStatus::parse);
            status.is_some_and(|status| RunStatus::ACTIVE.contains(&status))
        };
        let is_enough = |page: usize, _: &[Value]| page == PAGES;
        let (rows, has_more) = self.runs(&format!("limit={PAGE}"), is_enough).await?;
        if has_more {
            let read = rows.len();
            talk::say(format!(
                "only the newest {read} runs were searched for questions"
            ));
        }
        // A host may hold each answer for a second.
        let asked = rows.iter().filter(is_active).map(async |row| {
            let run = StreamId::new(row["runId"].as_str().unwrap_or_default());
            self.asked(&run).await
        });
        let asked: Vec<Vec<Value>> = stream::iter(asked)
            .buffered(AT_A_TIME)
            .try_collect()
            .await?;
        Ok(asked.concat())
    }

    async fn resolve(
        &self,
        run: &StreamId,
        node: &str,
        value: Value,
        who: Option<&str>,
    ) -> Result<String, Failure> {
        if who.is_some() {
            let what = format!("{} takes the bearer of the key as the person", self.name);
            return Err(Failure::new(what).hint("remove --as"));
        }
        let path = format!("{}/interrupts/{}", at(run), urlencoded(node));
        let answer = self.post(&path, &json!({ "resumeValue": value })).await?;
        Ok(status_of(&answer))
    }

    async fn cancel(&self, run: &StreamId, reason: Option<String>) -> Result<String, Failure> {
        let path = format!("{}/cancel", at(run));
        Ok(status_of(&self.post(&path, &because(reason)).await?))
    }

    async fn pause(
        &self,
        run: &StreamId,
        policy: DrainPolicy,
        reason: Option<String>,
    ) -> Result<bool, Failure> {
        let mut body = because(reason);
        body["drainPolicy"] = json!(policy);
        let answer = self.post(&format!("{}:pause", at(run)), &body).await?;
        Ok(answer["pausedAt"].is_string() || status_of(&answer) == "paused")
    }

    async fn unpause(&self, run: &StreamId, reason: Option<String>) -> Result<(), Failure> {
        let path = format!("{}:resume", at(run));
        self.post(&path, &because(reason)).await.map(drop)
    }
}
