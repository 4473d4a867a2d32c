//! Tests of the faces: samples and logs in, JSON and text out, compared with snapshots and
//! with the published schemas of each protocol.

mod event;
mod samples;
mod schemas;
mod transcript;
