//! Server-sent events: frames of a log, for as long as a client reads them.
//!
//! A subscription reads the log only when its subscriber has read the previous frames: a slow
//! subscriber lags and costs one page of memory. Hints of this process wake it; as hints may be
//! lost and other processes write too, it also polls.

pub(crate) mod paced;
mod remarks;

use std::convert::Infallible;
use std::fmt::Display;
use std::time::Duration;

use bytes::Bytes;
use faces::Mask;
use faces::openwop::v1::{self, Frame, StreamModes};
use faces::openwop::v2;
use futures_util::stream::{self, Stream};
use kernel::run::Run;
use runtime::api::{LogPage, Tail};
use serde::Serialize;
use serde_json::Value;
use store::StoreError;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::Instant;

use crate::app::App;
use crate::contract::Contract;
use crate::metrics::{Counted, Metrics};
use crate::problem::Problem;
use crate::recheck::CredentialRecheck;
use remarks::Remarks;

/// Events read at a time.
const PAGE: usize = 64;
/// The time after which a client connects again, in milliseconds.
const RECONNECT: &[u8] = b"retry: 1000\n\n";
/// The most documents of a batch.
const BATCH: usize = 500;

/// A subscriber's place in a log.
pub(crate) struct Subscription {
    app: App,
    pass: CredentialRecheck,
    tail: Tail,
    remarks: Remarks,
    modes: StreamModes,
    contract: Contract,
    /// The run up to the tail's position, for frames that are snapshots.
    run: Option<Run>,
    batch: Option<Batch>,
    /// A state to send before any event.
    first: Option<Frame>,
    /// Bytes that are sent first.
    greeting: Option<&'static [u8]>,
    is_over: bool,
    spoke: Instant,
    _slot: OwnedSemaphorePermit,
    _counted: Counted<fn(&Metrics) -> &std::sync::atomic::AtomicI64>,
}

/// Frames that wait for more.
struct Batch {
    time: Duration,
    due: Option<Instant>,
    last: u64,
    docs: Vec<Value>,
}

/// The form of a subscription.
pub(crate) struct Form {
    pub(crate) modes: StreamModes,
    /// How long frames gather.
    pub(crate) buffer: Option<Duration>,
    pub(crate) contract: Contract,
    /// Whether the client is told when to reconnect.
    pub(crate) resumable: bool,
}

impl Subscription {
    /// A subscription after the tail's position.
    pub(crate) async fn new(
        app: App,
        mut tail: Tail,
        form: Form,
        (slot, pass): (OwnedSemaphorePermit, CredentialRecheck),
    ) -> Result<Self, Problem> {
        let Form {
            modes,
            buffer,
            contract,
            resumable,
        } = form;
        let run = if modes.are_values() {
            tail.not_beyond_end();
            Some(tail.state().await?)
        } else {
            None
        };
        // A resuming client has an older state: later frames build on this one.
        let first = run
            .as_ref()
            .and_then(|run| state_frame(contract, run, run.is_settled()));
        let remarks = match contract {
            // In version 2 an annotation is not an event.
            Contract::Two => Remarks::none(),
            _ => Remarks::on(app.api(), &tail.header().stream, &modes).await?,
        };
        let counted: fn(&Metrics) -> &std::sync::atomic::AtomicI64 = |metrics| &metrics.streams;
        Ok(Self {
            _counted: Counted::new(app.clone(), counted),
            _slot: slot,
            pass,
            app,
            tail,
            remarks,
            modes,
            contract,
            run,
            batch: buffer.map(|time| Batch {
                time,
                due: None,
                last: 0,
                docs: Vec::new(),
            }),
            first,
            greeting: resumable.then_some(RECONNECT),
            is_over: false,
            spoke: Instant::now(),
        })
    }

    /// The next bytes to send; `None` at the end.
    async fn next(&mut self) -> Option<Bytes> {
        if self.is_over {
            return None;
        }
        let mut out = self.greeting.take().unwrap_or_default().to_vec();
        loop {
            if let Err(problem) = self.pass.check().await {
                tracing::info!(run = %self.tail.header().stream, code = problem.code,
                    "a stream ended: its credential is no longer valid");
                self.is_over = true;
                return None;
            }
            match self.read(&mut out).await {
                Ok(page) if page.is_last() => {
                    self.flush(&mut out);
                    self.remark(&mut out).await;
                    self.is_over = true;
                }
                Ok(page) if page.next < page.end && out.is_empty() => continue,
                Ok(_) => self.remark(&mut out).await,
                Err(error) => {
                    // The subscriber reconnects with the last id it saw.
                    tracing::warn!(run = %self.tail.header().stream, %error, "a stream ended early");
                    self.is_over = true;
                }
            }
            if !out.is_empty() {
                self.spoke = Instant::now();
                return Some(out.into());
            }
            if self.is_over {
                return None;
            }
            let heartbeat = self.spoke + self.app.limits().heartbeat;
            let due = self.batch.as_ref().and_then(|batch| batch.due);
            let draining = self.app.draining().clone();
            tokio::select! {
                () = self.tail.changed() => {}
                () = self.remarks.changed() => {}
                () = tokio::time::sleep_until(self.pass.due) => {}
                () = tokio::time::sleep_until(heartbeat) => {
                    self.spoke = Instant::now();
                    return Some(Bytes::from_static(b":keepalive\n\n"));
                }
                () = tokio::time::sleep_until(due.unwrap_or(heartbeat)), if due.is_some() => {
                    self.flush(&mut out);
                }
                () = draining.cancelled() => {
                    self.flush(&mut out);
                    self.is_over = true;
                }
            }
        }
    }

    /// Writes the existing events as frames.
    async fn read(&mut self, out: &mut Vec<u8>) -> Result<LogPage, StoreError> {
        if let Some(first) = self.first.take() {
            self.put(first, out);
        }
        let page = self.tail.page(PAGE).await?;
        for (event, cause) in &page.events {
            let frame = match &mut self.run {
                Some(run) => {
                    run.fold(event).map_err(|bad| {
                        StoreError::Corrupt(format!("run {}: {bad}", run.header.stream))
                    })?;
                    let is_admitted = self.modes.admitting(&event.body).is_some();
                    is_admitted
                        .then(|| state_frame(self.contract, run, v1::is_urgent(&event.body)))
                        .flatten()
                }
                None => {
                    let of = (&**self.tail.header(), Mask::from_plan(self.tail.plan()));
                    match self.contract {
                        Contract::Two => v2::frame(&self.modes, of, event, *cause),
                        _ => v1::frame(&self.modes, of, event, *cause),
                    }
                }
            };
            if let Some(frame) = frame {
                self.put(frame, out);
            }
        }
        Ok(page)
    }

    /// Writes new annotations of the run. They do not wait for a batch.
    async fn remark(&mut self, out: &mut Vec<u8>) {
        if let Err(error) = self.remarks.write(out).await {
            tracing::debug!(run = %self.tail.header().stream, %error, "notes were not read");
        }
    }

    fn put(&mut self, frame: Frame, out: &mut Vec<u8>) {
        let Some(batch) = &mut self.batch else {
            return write(out, frame.id, frame.event, &frame.data);
        };
        batch.due.get_or_insert_with(|| Instant::now() + batch.time);
        batch.last = frame.id;
        batch.docs.push(frame.data);
        if frame.urgent || batch.docs.len() >= BATCH {
            self.flush(out);
        }
    }

    fn flush(&mut self, out: &mut Vec<u8>) {
        if let Some(batch) = &mut self.batch
            && !batch.docs.is_empty()
        {
            let docs = Value::Array(std::mem::take(&mut batch.docs));
            batch.due = None;
            write(out, batch.last, "batch", &docs);
        }
    }
}

fn state_frame(contract: Contract, run: &Run, urgent: bool) -> Option<Frame> {
    match contract {
        Contract::Two => v2::state_frame(run, urgent),
        _ => v1::state_frame(run, urgent),
    }
}

/// Writes a frame.
pub(crate) fn write(out: &mut Vec<u8>, id: impl Display, event: &str, data: &impl Serialize) {
    out.extend_from_slice(format!("id: {id}\nevent: {event}\ndata: ").as_bytes());
    // JSON has line breaks only within texts, where they are escaped.
    let _ = serde_json::to_writer(&mut *out, data);
    out.extend_from_slice(b"\n\n");
}

/// The frames of a subscription as a body.
pub(crate) fn frames(
    subscription: Subscription,
) -> impl Stream<Item = Result<Bytes, Infallible>> + Send + 'static {
    stream::unfold(subscription, |mut subscription| async move {
        let bytes = subscription.next().await?;
        Some((Ok(bytes), subscription))
    })
}
