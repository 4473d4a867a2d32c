//! Tests of the runtime against real processes and sockets. One crate, a module per part.
#![cfg(target_os = "linux")]

mod access;
mod changes;
mod confined;
mod coordinator;
mod core_nodes;
mod draining;
mod effects;
mod engine;
mod faults;
mod forks;
mod http;
mod idempotency;
mod jwt;
mod maintenance;
mod mcp;
mod models;
mod peer;
mod pool;
mod process;
mod recorder;
mod refused;
mod sensitive;
mod supervisor;
mod support;
mod told;
mod workers;
