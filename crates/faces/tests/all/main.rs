//! Tests of the faces: samples and logs in, JSON and text out, compared with snapshots and
//! with the published schemas of each protocol.

#![allow(
    clippy::disallowed_methods,
    reason = "samples lie in files; the faces themselves read none"
)]

mod capture;
mod contract;
mod event;
mod mask;
mod pictures;
mod player;
mod samples;
mod scenarios;
mod schemas;
mod snapshot;
mod streams;
mod transcript;
mod world;
