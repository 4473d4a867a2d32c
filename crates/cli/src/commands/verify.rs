//! `runwright verify`: recomputes the store's state from the logs alone.

mod documents;

use std::collections::BTreeSet;
use std::sync::Arc;

use indicatif::{ProgressBar, ProgressStyle};
use kernel::audit::{AuditEvent, AuditTrail};
use kernel::check::check;
use kernel::coordinator::Coordinator;
use kernel::delivery::Deliveries;
use kernel::digest::{Digest, Hasher};
use kernel::document::History;
use kernel::ids::{MessageId, StreamId, TenantId};
use kernel::log::AnyLog;
use kernel::notes::Notes;
use kernel::registry::Registry;
use kernel::run::{Artifact, Event, Run, RunIndex};
use kernel::stream::{StreamHeader, StreamKind};
use runtime::door::Door;
use serde_json::json;
use store::{Finding, ListQuery, Listed, Loaded, ReadFrom, StoreError};

use crate::data::Data;
use crate::exit::{Exit, Failure};
use crate::lookup::{self, RunName, Shown};
use crate::session::{Form, Session};
use crate::{style, talk, text};

/// Events read at a time.
const PAGE: usize = 10_000;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Checks every log: its hash chain; that it can be read; that its index row matches it; that every
event is allowed at its place, by a second implementation of the rules; that its checkpoint leads to
the same state; that its definition and artifacts are there and unchanged. Checks the structure of
the store. Engines may work meanwhile.

Exits with 0 if no fault is found, else with 1."
)]
pub(crate) struct Args {
    /// Only this run
    #[arg(long, value_name = "RUN")]
    run: Option<RunName>,
}

/// Checks a store.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let door = session.read()?;
    let mut check = Check {
        door: &door,
        findings: Vec::new(),
        streams: 0,
        events: 0,
    };
    match &args.run {
        Some(name) => {
            for run in named(&door, name).await? {
                check.stream(&run).await?;
            }
        }
        None => {
            // An operator's command: it covers every tenant and every kind.
            let rows = lookup::pages(&door, ListQuery::default(), usize::MAX).await;
            let rows = match rows {
                Ok(rows) => rows,
                // The check of the structure names the row.
                Err(StoreError::Corrupt(_)) => {
                    talk::say("the logs cannot be listed; only the structure is checked");
                    Vec::new()
                }
                Err(error) => return Err(error.into()),
            };
            let bar = bar(rows.len() as u64);
            for row in &rows {
                check.stream(&row.stream).await?;
                bar.inc(1);
            }
            bar.set_message("the store's structure");
            check.findings.extend(door.store().inspect().await?);
            bar.finish_and_clear();
        }
    }
    check.report(session.form)
}

/// The logs of this name: a run's, or those of the documents with this id, of any tenant.
async fn named(door: &Door, name: &RunName) -> Result<Vec<StreamId>, Failure> {
    let documents = ListQuery {
        kind: Some(StreamKind::Document),
        ..ListQuery::default()
    };
    let typed = name.as_str();
    let is_it = |row: &Listed| row.stream.as_str() == typed || row.index.summary["id"] == typed;
    let documents = lookup::pages(door, documents, usize::MAX).await?;
    let found: Vec<_> = documents.into_iter().filter(is_it).collect();
    if found.is_empty() {
        match lookup::find_to_show(door, name).await? {
            Shown::Run(run) => Ok(vec![run]),
            Shown::Document(document) => Ok(vec![document]),
        }
    } else {
        Ok(found.into_iter().map(|row| row.stream).collect())
    }
}

fn bar(length: u64) -> ProgressBar {
    if !talk::is_drawable() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:24} {pos}/{len} logs  {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(length).with_style(style)
}

struct Check<'a> {
    door: &'a Door,
    findings: Vec<Finding>,
    streams: u64,
    events: u64,
}

impl Check<'_> {
    fn find(&mut self, stream: &StreamId, what: impl Into<String>) {
        self.findings.push(Finding {
            stream: Some(stream.clone()),
            what: what.into(),
        });
    }

    async fn stream(&mut self, stream: &StreamId) -> Result<(), Failure> {
        self.streams += 1;
        match self.log(stream).await {
            Ok(()) => Ok(()),
            // Purged while we looked.
            Err(StoreError::Missing) => Ok(()),
            Err(StoreError::Corrupt(what)) => {
                self.find(stream, what);
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads a log from its first event, checks its chain, and folds it.
    async fn log(&mut self, stream: &StreamId) -> Result<(), StoreError> {
        let mut loaded = self
            .door
            .store()
            .load(stream, ReadFrom::Seq(0), PAGE)
            .await?;
        let header = loaded.header.clone();
        self.genesis(&header);
        let mut fold = match header.kind {
            StreamKind::Run => Fold::Run(Box::new(self.unborn(&header).await?)),
            StreamKind::Audit => {
                let trail = AuditTrail::at_start(header.clone());
                Fold::Audit(Box::new(trail), BTreeSet::new())
            }
            StreamKind::Registry => Fold::Other(Box::new(Registry::at_start(header.clone()))),
            StreamKind::Notes => Fold::Other(Box::new(Notes::at_start(header.clone()))),
            StreamKind::Deliveries => Fold::Other(Box::new(Deliveries::at_start(header.clone()))),
            StreamKind::Coordinator => Fold::Other(Box::new(Coordinator::at_start(header.clone()))),
            StreamKind::Document => Fold::Document(Box::new(History::at_start(header.clone()))),
        };
        let mut chain = header.genesis;
        let mut seq = 0;
        let mut events = Vec::new();
        loop {
            for record in &loaded.records {
                chain = chain.chain(&record.content);
                if chain != record.chain {
                    self.find(stream, format!("the hash chain breaks at event {seq}"));
                    return Ok(());
                }
                match fold.add(&record.content) {
                    Ok(event) => events.extend(event),
                    Err(what) => {
                        self.find(stream, what);
                        return Ok(());
                    }
                }
                seq += 1;
                self.events += 1;
            }
            // The page with the end was read together with the index row.
            if loaded.records.is_empty() || seq >= loaded.next_seq {
                break;
            }
            loaded = self
                .door
                .store()
                .load(stream, ReadFrom::Seq(seq), PAGE)
                .await?;
        }
        if seq != loaded.next_seq {
            let claimed = loaded.next_seq;
            self.find(
                stream,
                format!("the log has {seq} events; the store counts {claimed}"),
            );
        }
        self.index(stream, &fold, &loaded);
        match fold {
            Fold::Document(history) => self.document(*history, &loaded).await,
            Fold::Run(run) => {
                for violation in check(&header, &run.plan, &events) {
                    self.find(stream, violation.to_string());
                }
                self.checkpoint(&run).await?;
                self.artifacts(&run).await
            }
            _ => Ok(()),
        }
    }

    fn genesis(&mut self, header: &StreamHeader) {
        // A fork keeps its source's genesis, so that the copied prefix verifies.
        let is_own = header.origin.is_none() && header.predecessor.is_none();
        if is_own && header.clone().seal_genesis().genesis != header.genesis {
            self.find(
                &header.stream,
                "the header differs from the one the hash chain started with",
            );
        }
    }

    async fn unborn(&self, header: &StreamHeader) -> Result<Run, StoreError> {
        let definition = header
            .definition
            .clone()
            .ok_or_else(|| StoreError::Corrupt("the header names no workflow definition".into()))?;
        let store = self.door.store();
        let plan = self
            .door
            .plans()
            .load(&**store, header.tenant(), &definition)
            .await;
        let plan = plan.map_err(|error| match error {
            StoreError::Missing => {
                StoreError::Corrupt("the workflow definition is not in the store".into())
            }
            error => error,
        })?;
        Ok(Run::unborn(Arc::new(header.clone()), plan))
    }

    fn index(&mut self, stream: &StreamId, fold: &Fold, loaded: &Loaded) {
        let expected = match fold {
            Fold::Run(run) => {
                let mut row = RunIndex::from_run(run);
                // Rows that an earlier build wrote lack these.
                if let (Some(made), Some(kept)) = (
                    row.summary.as_object_mut(),
                    loaded.index.summary.as_object(),
                ) {
                    let is_later =
                        |name: &str| ["principal", "attributes", "models"].contains(&name);
                    made.retain(|name, _| !is_later(name) || kept.contains_key(name));
                }
                row
            }
            Fold::Audit(trail, _) => trail.index(),
            Fold::Other(log) => log.index_row(),
            // Its row depends on contents in blobs, and is checked with them.
            Fold::Document(_) => return,
        };
        if expected != loaded.index {
            let what = format!(
                "the index row differs from the log (status {}; by the log {})",
                text::one_line(&loaded.index.status, 30),
                expected.status,
            );
            self.find(stream, what);
        }
    }

    /// Folding on from the checkpoint must lead to the same state.
    async fn checkpoint(&mut self, whole: &Run) -> Result<(), StoreError> {
        let stream = &whole.header.stream;
        let loaded = self
            .door
            .store()
            .load(stream, ReadFrom::Checkpoint, usize::MAX)
            .await?;
        let Some(at) = loaded.checkpoint else {
            return Ok(());
        };
        let (header, plan) = (whole.header.clone(), whole.plan.clone());
        // A checkpoint of another build is always folded anew.
        let Some(mut run) = Run::from_checkpoint(header, plan, at.next_seq, at.chain, &at.state)
        else {
            return Ok(());
        };
        for record in &loaded.records {
            if run.head.next_seq == whole.head.next_seq {
                break;
            }
            if run.fold_content(&record.content).is_err() {
                self.find(stream, "the checkpoint does not fit the log");
                return Ok(());
            }
        }
        // The checkpoint of an active run may be ahead of the read log.
        if run.head.next_seq == whole.head.next_seq && run.checkpoint() != whole.checkpoint() {
            self.find(
                stream,
                "the state from the checkpoint differs from the state of the log",
            );
        }
        Ok(())
    }

    async fn artifacts(&mut self, run: &Run) -> Result<(), StoreError> {
        let tenant = run.header.tenant().clone();
        for (_, artifact) in run
            .facts()
            .map(|facts| &facts.artifacts[..])
            .unwrap_or_default()
        {
            if digest_of(self.door, &tenant, artifact).await? != Some(artifact.digest) {
                let what = format!("artifact {} is damaged or missing", artifact.artifact_id);
                self.find(&run.header.stream, what);
            }
        }
        Ok(())
    }

    fn report(self, form: Form) -> Result<Exit, Failure> {
        let mut data = Data::for_verdict();
        let Self {
            findings,
            streams,
            events,
            ..
        } = self;
        match form {
            Form::Json => data.json(&json!({
                "streams": streams,
                "events": events,
                "findings": findings.iter().map(|finding| json!({
                    "stream": finding.stream,
                    "what": finding.what,
                })).collect::<Vec<_>>(),
            }))?,
            Form::Text => {
                for finding in &findings {
                    let of = finding
                        .stream
                        .as_ref()
                        .map_or("the store", |stream| stream.as_str());
                    data.line(format!(
                        "{} {of}: {}",
                        style::bad("wrong"),
                        text::plain(&finding.what)
                    ))?;
                }
                let logs = text::count(usize::try_from(streams).unwrap_or(usize::MAX), "log");
                let verdict = match findings.len() {
                    0 => style::good("no fault found"),
                    n => style::bad(text::count(n, "finding")),
                };
                data.line(format!("{logs}, {events} events: {verdict}"))?;
            }
        }
        data.done()?;
        Ok(if findings.is_empty() {
            Exit::Done
        } else {
            Exit::Found
        })
    }
}

/// The folded state of a log.
enum Fold {
    Run(Box<Run>),
    /// With the messages it has kept.
    Audit(Box<AuditTrail>, BTreeSet<MessageId>),
    /// Its saves, without contents in blobs.
    Document(Box<History>),
    Other(Box<dyn AnyLog>),
}

impl Fold {
    /// Folds an event in; returns it if it belongs to a run.
    fn add(&mut self, content: &[u8]) -> Result<Option<Event>, String> {
        match self {
            Self::Run(run) => run
                .fold_content(content)
                .map(Some)
                .map_err(|bad| bad.to_string()),
            Self::Audit(trail, kept) => {
                let event = trail
                    .fold_content(content)
                    .ok_or_else(|| "an entry of the audit trail does not fold".to_owned())?;
                let AuditEvent::Recorded(entry) = event.body else {
                    return Ok(None);
                };
                if kept.insert(entry.message) {
                    Ok(None)
                } else {
                    Err(format!("entry {} is stored twice", event.seq))
                }
            }
            Self::Document(history) => history
                .fold_content(content)
                .map(|()| None)
                .ok_or_else(|| "an event of the document does not fold".to_owned()),
            Self::Other(log) => {
                if log.accept(content) {
                    Ok(None)
                } else {
                    let kind = log.index_row().kind;
                    Err(format!("an event of the {} does not fold", kind.as_str()))
                }
            }
        }
    }
}

/// The digest of an artifact's bytes; `None` where some are missing or damaged.
async fn digest_of(
    door: &Door,
    tenant: &TenantId,
    artifact: &Artifact,
) -> Result<Option<Digest>, StoreError> {
    let mut digest = Hasher::default();
    for part in &artifact.parts {
        match door.store().blob(tenant, part).await {
            Ok(bytes) => digest.update(&bytes),
            Err(StoreError::Missing | StoreError::Corrupt(_)) => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(digest.finish()))
}
