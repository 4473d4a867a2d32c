//! The rules of the kernel, each as given / when / then.
//!
//! Where a new test goes: a rule of a run belongs to the module named after its topic, written with
//! [`world`]; every batch decided there is also checked against [`laws`]. A workflow is written in
//! the notation of [`flow`], events are compared in the notation of [`notation`].

mod flow;
mod forking;
mod holder;
mod laws;
mod notation;
mod scenarios;
mod world;

mod asking;
mod bounds;
mod budget;
mod cancel;
mod channels;
mod children;
mod coordinators;
mod cuts;
mod dags;
mod data;
mod documents;
mod failure;
mod fan;
mod forks;
mod gates;
mod golden;
mod governance;
mod interrupts;
mod lifecycle;
mod loops;
mod orchestrate;
mod outside;
mod pause;
mod replays;
mod rules;
mod shares;
mod takeover;
