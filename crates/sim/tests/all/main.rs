//! Seeded worlds: that they keep every law, that they replay, and that the judge is not blind.

mod calls;
mod judge;
mod queues;
mod worlds;
