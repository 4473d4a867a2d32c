//! Seeded worlds keep every law and can be replayed, and the judge finds planted bugs.

mod calls;
mod judge;
mod queues;
mod worlds;
