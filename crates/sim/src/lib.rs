//! A seeded world around the real runtime, for tests.
//!
//! A world is several processes on one store. Each process is the real [`runtime::Engine`] on its
//! own tokio runtime with a paused clock, which the world advances in turns of a few milliseconds.
//! A process can be killed (its runtime is dropped with every task), frozen (it gets no turns) and
//! thawed as a zombie that does not know how much time passed. Its line to the store (`line`) is
//! slow and unreliable by the seed.
//!
//! One node does everything that a run does outside, and writes to the `record` when it started,
//! with which key, and how it ended. At the end the `judge` compares logs, index, record and
//! acknowledgements. It uses the log checker of the kernel and no code of the runtime.
//!
//! **Architecture invariant:** a world reads no clock and draws only from its seed, so that a
//! failing seed always fails. Nondeterminism in the runtime (the order of a hash map, a `select!`
//! that picks at random) is a fault there.

mod clock;
mod judge;
mod line;
mod play;
mod process;
mod queues;
mod record;
mod work;
mod workflows;
mod world;

pub use line::Bug;
pub use play::{Broken, Failure, Reached, Report, fail_call, play, play_with};
pub use queues::{QueueReport, play_queues};
