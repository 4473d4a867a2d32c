//! Following a run's log: the existing events, then new ones.

use std::sync::Arc;
use std::time::Duration;

use kernel::definition::Plan;
use kernel::ids::{Seq, StreamId};
use kernel::run::{Event, Run};
use kernel::stream::StreamHeader;
use store::{Loaded, ReadFrom, StoreError};

use crate::door::Door;
use crate::hints::Watch;

/// How often a log is polled: hints do not cross processes.
const LOOK: Duration = Duration::from_secs(1);
/// Events read per step when searching backwards for the beginning of a batch.
const BACK: u64 = 64;

/// A page of a log, and the run's state when it was read.
#[derive(Clone, Debug)]
pub struct LogPage {
    /// Events, each with the first sequence of its batch.
    pub events: Vec<(Event, Option<Seq>)>,
    /// The sequence after the last of them.
    pub next: Seq,
    /// The length of the whole log.
    pub end: Seq,
    /// The run's status.
    pub status: String,
    /// The log is complete: the run has ended.
    pub settled: bool,
}

impl LogPage {
    /// Whether this is the last page of a complete log.
    pub fn is_last(&self) -> bool {
        self.settled && self.next >= self.end
    }
}

/// Reads a log from a position in bounded pages, at the reader's pace. A slow reader lags but
/// misses nothing, and only the requested page is in memory.
pub struct Tail {
    door: Door,
    header: Arc<StreamHeader>,
    plan: Arc<Plan>,
    next: Seq,
    cause: Option<Seq>,
    /// The length of the log when following began.
    end: Seq,
    hint: Watch,
}

impl Tail {
    /// Begins at event `next` of a run.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn new(door: &Door, loaded: Loaded, next: Seq) -> Result<Self, StoreError> {
        let mut tail = Self {
            door: door.clone(),
            plan: door.plan_of(&loaded.header).await?,
            hint: door.hints().watch(&loaded.header.stream),
            header: Arc::new(loaded.header),
            next,
            cause: None,
            end: loaded.next_seq,
        };
        tail.find_cause().await?;
        Ok(tail)
    }

    /// One event of a run and the first sequence of its batch, with the next sequence.
    ///
    /// # Errors
    /// `Missing` for an unknown event.
    pub(crate) async fn event(
        door: &Door,
        run: &StreamId,
        seq: Seq,
    ) -> Result<(Self, Event, Option<Seq>), StoreError> {
        let loaded = door.store().load(run, ReadFrom::Seq(seq), 1).await?;
        let record = loaded.records.first().ok_or(StoreError::Missing)?;
        let event = read_event(run, seq, &record.content)?;
        let mut tail = Self::new(door, loaded, seq).await?;
        let (event, cause) = tail.step(event);
        Ok((tail, event, cause))
    }

    /// The header of the log.
    pub fn header(&self) -> &Arc<StreamHeader> {
        &self.header
    }

    /// The plan of the run, which determines what readers may not see.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The same, to be kept while the log is read.
    pub(crate) fn shared_plan(&self) -> Arc<Plan> {
        self.plan.clone()
    }

    /// Continues at the end of the log if the requested position is past it.
    pub fn not_beyond_end(&mut self) {
        self.next = self.next.min(self.end);
    }

    /// The run's state before the next event.
    ///
    /// # Errors
    /// The store's.
    pub async fn state(&self) -> Result<Run, StoreError> {
        self.door.load_prefix(&self.header.stream, self.next).await
    }

    /// At most `limit` existing events, possibly none.
    ///
    /// # Errors
    /// The store's.
    pub async fn page(&mut self, limit: usize) -> Result<LogPage, StoreError> {
        let (recent, progress) = self.hint.recent(self.next, limit);
        if !recent.is_empty() {
            let events = recent.iter().map(|event| self.step(Event::clone(event)));
            return Ok(LogPage {
                events: events.collect(),
                next: self.next,
                end: progress.next_seq,
                status: progress
                    .status
                    .map_or_else(String::new, |status| status.to_string()),
                settled: progress.settled,
            });
        }
        // The hint was read before the store: a later append counts as a change.
        let from = ReadFrom::Seq(self.next);
        let stream = self.header.stream.clone();
        let loaded = self.door.store().load(&stream, from, limit).await?;
        let mut events = Vec::with_capacity(loaded.records.len());
        for record in &loaded.records {
            let event = read_event(&stream, self.next, &record.content)?;
            events.push(self.step(event));
        }
        Ok(LogPage {
            events,
            next: self.next,
            end: loaded.next_seq,
            status: loaded.index.status,
            settled: loaded.index.settled,
        })
    }

    /// Advances past an event.
    fn step(&mut self, event: Event) -> (Event, Option<Seq>) {
        if event.cause.is_some() {
            self.cause = Some(event.seq);
        }
        self.next = event.seq + 1;
        (event, self.cause)
    }

    /// Waits until there may be more. May return early.
    pub async fn changed(&mut self) {
        let changed = tokio::time::timeout(LOOK, self.hint.changed());
        if let Ok(false) = changed.await {
            // The sender of hints is gone: only polling remains.
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Finds the beginning of the next event's batch, so that the cause of an event does not depend
    /// on where its reader began.
    async fn find_cause(&mut self) -> Result<(), StoreError> {
        let mut to = self.next;
        while to > 0 && self.cause.is_none() {
            let from = to.saturating_sub(BACK);
            let limit = usize::try_from(to - from).unwrap_or(usize::MAX);
            let stream: &StreamId = &self.header.stream;
            let page = self.door.store();
            let page = page.load(stream, ReadFrom::Seq(from), limit).await?;
            for (record, seq) in page.records.iter().zip(from..) {
                if read_event(stream, seq, &record.content)?.cause.is_some() {
                    self.cause = Some(seq);
                }
            }
            // A position past the end of the log must not be searched twice.
            to = from.min(page.next_seq);
        }
        Ok(())
    }
}

fn read_event(stream: &StreamId, seq: Seq, content: &[u8]) -> Result<Event, StoreError> {
    serde_json::from_slice(content).map_err(|error| {
        StoreError::Corrupt(format!(
            "event {seq} of run {stream} cannot be read: {error}"
        ))
    })
}
