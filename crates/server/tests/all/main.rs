//! Tests of the server over TCP on loopback, on a real store.

mod access;
mod admission;
mod client;
mod creating;
mod events;
mod forks;
mod host;
mod hostile;
mod idempotency;
mod load;
mod reading;
mod receiver;
mod schemas;
mod streams;
mod webhooks;
mod workflows;
