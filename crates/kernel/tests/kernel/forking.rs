//! Forks of a world; each batch is checked by the rules that a store and a worker rely on.

use kernel::fork::{Fork, ForkError, NewFork};
use kernel::run::{FORKING, Overlay, RunIndex};
use kernel::stream::ForkMode;

use crate::laws;
use crate::world::World;

/// A fork in memory, with the number of its appends.
pub(crate) struct Forked {
    pub(crate) world: World,
    pub(crate) fork: Fork,
    pub(crate) appends: usize,
}

impl World {
    /// Forks the run at the current end of its log.
    pub(crate) fn fork(&self, mode: ForkMode, at: u64) -> Result<Forked, ForkError> {
        self.fork_with(mode, at, Overlay::default())
    }

    /// Forks the run with an overlay.
    pub(crate) fn fork_with(
        &self,
        mode: ForkMode,
        at: u64,
        overlay: Overlay,
    ) -> Result<Forked, ForkError> {
        let new = NewFork {
            stream: "run-fork".into(),
            nonce: None,
            mode,
            at,
            overlay,
            definition: None,
            policy: None,
            trace: None,
            by: None,
        };
        // Some time after the source.
        let now = self.now.plus_ms(1_000);
        let source = (*self.run.header).clone();
        let plan = self.run.plan.clone();
        let mut fork = Fork::new(source, plan, self.records.clone(), new, now)?;
        let mut world = World::with_header(fork.header().clone(), self.run.plan.clone());
        world.now = now;
        let mut appends = 0;
        while let Some(batch) = fork.next_batch(&kernel::recompute::AsRecorded)? {
            assert_eq!(batch.first_seq(), world.run.head.next_seq);
            assert_eq!(batch.header().is_some(), batch.first_seq() == 0);
            world.append(&batch);
            let (folded, _) = laws::fold(world.run.clone(), batch.records());
            world.run = folded;
            assert_eq!(batch.index(), &RunIndex::from_run(&world.run));
            appends += 1;
            let is_marked = batch.index().summary.get(FORKING).is_some();
            assert_eq!(is_marked, !fork.is_whole(), "who looks at a list can tell");
        }
        assert!(fork.is_whole());
        assert_eq!(world.run.state, fork.run().state);
        assert_eq!(world.run.head, fork.run().head);
        laws::of_a_log(&world);
        let cut = fork.header().origin.as_ref().expect("an origin").seq as usize;
        assert_eq!(
            world.records[..cut],
            self.records[..cut],
            "the copied beginning verifies against the source"
        );
        Ok(Forked {
            world,
            fork,
            appends,
        })
    }

    /// A branch at a sequence.
    pub(crate) fn branch(&self, at: u64) -> World {
        let forked = self.fork(ForkMode::Branch, at);
        forked.expect("a branch is made").world
    }

    /// A replay from a sequence on.
    pub(crate) fn replay(&self, at: u64) -> Forked {
        let forked = self.fork(ForkMode::Replay, at);
        forked.expect("a replay is made")
    }
}
