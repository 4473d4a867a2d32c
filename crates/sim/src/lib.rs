//! A seeded world around the real runtime, for tests.
//!
//! A world is several processes on one store. Each process is the real [`runtime::Engine`] on a
//! tokio runtime of its own with a paused clock, which the world gives turns of a few
//! milliseconds. So it can be killed (its runtime is dropped with every task where it stands),
//! frozen (it gets no turns) and thawed as a zombie that knows nothing of the time it missed. Its
//! line to the store (`line`) is slow and unreliable by the seed.
//!
//! Everything a run does outside is done by one node, which accounts for itself in the
//! `record`: started with this key at this time, ended like that. In the end the `judge`
//! holds logs, index, record and acknowledgements against each other. It uses the log checker of
//! the kernel and none of the runtime.
//!
//! **Architecture invariant:** a world reads no clock and draws nothing but from its seed, so
//! that a seed which fails once fails always. What would break this in the runtime (the order of
//! a hash map, a `select!` that draws lots) is a fault there.

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
