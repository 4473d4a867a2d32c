//! Follows runs and their child runs, by reading their logs, which any process may write.

use std::sync::Arc;

use faces::Mask;
use kernel::ids::{NodeId, Seq, StreamId};
use kernel::run::{Event, Run, RunEvent};
use runtime::door::Door;
use runtime::hints::Watch;
use store::{ReadFrom, StoreError};

/// Events read of a run at a time.
const PAGE: usize = 1_000;

/// The followed runs, each up to its read events.
pub(crate) struct Follower {
    door: Door,
    runs: Vec<Followed>,
    /// Children that are not created yet.
    expected: Vec<Expected>,
}

/// A followed run.
pub(crate) struct Followed {
    /// Its state at the read event.
    pub run: Run,
    /// Its parent, if another followed run started it.
    pub parent: Option<Parent>,
    /// The first event of the batch read last.
    pub cause: Option<Seq>,
    hint: Watch,
}

/// The node that started a run.
#[derive(Clone, Debug)]
pub(crate) struct Parent {
    /// The place of its run among the followed ones.
    pub of: usize,
    /// The node.
    pub node: NodeId,
}

struct Expected {
    run: StreamId,
    parent: Parent,
}

/// An event that was read.
pub(crate) struct RunUpdate {
    /// The place of its run among the followed ones.
    pub of: usize,
    /// The event that caused it: the first of its batch.
    pub cause: Option<Seq>,
    /// The event.
    pub event: Event,
}

/// Which logs to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Look {
    /// Runs with a hint of new events.
    Hinted,
    /// All: another process may have written.
    Everywhere,
}

impl Follower {
    /// Without followed runs.
    pub(crate) fn new(door: Door) -> Self {
        Self {
            door,
            runs: Vec::new(),
            expected: Vec::new(),
        }
    }

    /// The followed runs, in order.
    pub(crate) fn runs(&self) -> &[Followed] {
        &self.runs
    }

    /// The requested runs, without their children.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Run> {
        self.runs
            .iter()
            .filter(|followed| followed.parent.is_none())
            .map(|followed| &followed.run)
    }

    /// Whether all logs are complete.
    pub(crate) fn is_settled(&self) -> bool {
        self.expected.is_empty() && self.runs.iter().all(|followed| followed.run.is_settled())
    }

    /// Follows a run from its first event.
    pub(crate) async fn read_from_start(&mut self, run: &StreamId) -> Result<(), StoreError> {
        let run = self.unread(run).await?;
        self.push(run, None);
        Ok(())
    }

    /// Follows a run from its current state, with its awaited children.
    pub(crate) async fn read_from_here(&mut self, run: &StreamId) -> Result<(), StoreError> {
        let run = self.door.load(run).await?;
        let of = self.push(run, None);
        let mut todo = vec![of];
        while let Some(of) = todo.pop() {
            for (child, parent) in self.open_children(of) {
                match self.door.load(&child).await {
                    Ok(run) => todo.push(self.push(run, Some(parent))),
                    Err(StoreError::Missing) => self.expected.push(Expected { run: child, parent }),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(())
    }

    fn open_children(&self, of: usize) -> Vec<(StreamId, Parent)> {
        let run = &self.runs[of].run;
        let children = run.facts().into_iter().flat_map(|facts| &facts.children);
        let open = children.filter(|(_, child)| child.status.is_none());
        open.map(|(id, child)| {
            let node = run.plan.nodes[child.node as usize].id.clone();
            (id.clone(), Parent { of, node })
        })
        .collect()
    }

    async fn unread(&self, run: &StreamId) -> Result<Run, StoreError> {
        let loaded = self.door.store().load(run, ReadFrom::Seq(0), 0).await?;
        let definition = loaded
            .header
            .definition
            .clone()
            .ok_or(StoreError::Missing)?;
        let store = self.door.store();
        let plan = self
            .door
            .plans()
            .load(&**store, loaded.header.tenant(), &definition)
            .await?;
        Ok(Run::unborn(Arc::new(loaded.header), plan))
    }

    fn push(&mut self, run: Run, parent: Option<Parent>) -> usize {
        let hint = self.door.hints().watch(&run.header.stream);
        self.runs.push(Followed {
            run,
            parent,
            cause: None,
            hint,
        });
        self.runs.len() - 1
    }

    /// Reads new events, in the order of each log, including runs that were started meanwhile: a
    /// whole family may have ended between two polls.
    pub(crate) async fn catch_up(&mut self, look: Look) -> Result<Vec<RunUpdate>, StoreError> {
        let mut news = Vec::new();
        let mut of = 0;
        loop {
            self.find_expected().await?;
            if of == self.runs.len() {
                return Ok(news);
            }
            while of < self.runs.len() {
                self.read(of, look, &mut news).await?;
                of += 1;
            }
        }
    }

    /// Follows children that have been created by now.
    async fn find_expected(&mut self) -> Result<(), StoreError> {
        for expected in std::mem::take(&mut self.expected) {
            match self.unread(&expected.run).await {
                Ok(run) => {
                    self.push(run, Some(expected.parent));
                }
                Err(StoreError::Missing) => self.expected.push(expected),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    async fn read(
        &mut self,
        of: usize,
        look: Look,
        news: &mut Vec<RunUpdate>,
    ) -> Result<(), StoreError> {
        let followed = &mut self.runs[of];
        let is_new = followed.run.head.next_seq == 0;
        let is_hinted = followed.hint.has_changed();
        if followed.run.is_settled() || !(is_new || is_hinted || look == Look::Everywhere) {
            return Ok(());
        }
        followed.hint.look();
        loop {
            let from = ReadFrom::Seq(followed.run.head.next_seq);
            let stream = &followed.run.header.stream;
            let loaded = self.door.store().load(stream, from, PAGE).await?;
            let is_all = loaded.records.len() < PAGE;
            for record in loaded.records {
                let event = followed.run.fold_content(&record.content).map_err(|bad| {
                    StoreError::Corrupt(format!("run {}: {bad}", followed.run.header.stream))
                })?;
                if let RunEvent::NodeDispatched {
                    node_id,
                    child_run_id,
                    ..
                } = &event.body
                {
                    let parent = Parent {
                        of,
                        node: node_id.clone(),
                    };
                    self.expected.push(Expected {
                        run: child_run_id.clone(),
                        parent,
                    });
                }
                if event.cause.is_some() {
                    followed.cause = Some(event.seq);
                }
                // For display, so it is masked.
                let event = Mask::from_plan(&followed.run.plan)
                    .event(&event)
                    .into_owned();
                news.push(RunUpdate {
                    of,
                    cause: followed.cause,
                    event,
                });
            }
            if is_all {
                return Ok(());
            }
        }
    }
}
