//! Tests of the server over TCP on loopback, on a real store.

mod access;
mod admission;
mod annotations;
mod artifacts;
mod audit;
mod bundle;
mod client;
mod creating;
mod events;
mod forks;
mod gates;
mod host;
mod hostile;
mod idempotency;
mod interrupts;
mod load;
mod peer;
mod races;
mod reading;
mod receiver;
mod schemas;
mod steering;
mod streams;
mod tokens;
mod webhooks;
mod workflows;
