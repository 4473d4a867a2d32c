//! The real program in a fresh folder. A module per topic: `usage` for what can be typed wrong,
//! `documents` for bad workflows, `running` for runs that end, `reading` for what is told of
//! them, `steering` for what is done to them, `forks` and `replays` for runs made of others, `crash` for what a
//! kill leaves of one run, `load` for many runs under many kills, `race` for two engines at once,
//! `output` for a process that writes much, `models` for questions to models, `tools` for what they have done, `mcp` for servers of tools, `tenants` for a
//! store of several, `secrets` for what nobody is told, `play` for sessions of templates, `snapshots` and
//! `captures` for evidence of runs and of commands, `serving` and `remote` for a server and for
//! what is asked of one, `origins` for who may ask without a key, `permissions` for the files of
//! a store, `programs` for what workflows of tenants may start.

mod answering;
mod audit;
mod budgets;
mod captures;
mod coordinator;
mod crash;
mod demo;
mod documents;
mod examples;
mod forks;
mod keys;
mod lineage;
mod load;
mod mcp;
mod messages;
mod models;
mod origins;
mod output;
mod permissions;
mod play;
mod programs;
mod race;
mod reading;
mod remote;
mod replays;
mod running;
mod saves;
mod secrets;
mod sensitive;
mod serving;
mod snapshots;
mod steering;
mod subscribers;
mod support;
mod tenants;
mod tools;
mod traces;
mod usage;
mod webhooks;
mod workers;
