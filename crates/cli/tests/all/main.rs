//! The real program in a fresh folder. A module per topic: `usage` for invalid command lines,
//! `documents` for invalid workflows, `running` for runs that end, `reading` for displays of runs,
//! `full_disk` for runs without space, `steering` for commands to runs, `forks` and `replays` for runs made of others, `crash` for one
//! run after a kill, `load` for many runs under many kills, `race` for two engines at once,
//! `output` for a process with much output, `models` for calls of models, `tools` for their tool
//! calls, `mcp` for tool servers, `tenants` for a store of several, `secrets` for the
//! confidentiality of secrets, `play` for sessions of templates, `snapshots` and `captures` for
//! evidence of runs and of commands, `serving` and `remote` for a server and its clients, `hosts` for
//! hosts that are not ours, `origins` for access without a key, `permissions` for the files of a
//! store, `programs` for the programs that tenants' workflows may start, `postgres` for servers that
//! share a database.

mod answering;
mod audit;
mod budgets;
mod captures;
mod console;
mod coordinator;
mod crash;
mod deep;
mod demo;
mod documents;
mod examples;
mod forks;
mod full_disk;
mod guides;
mod hosts;
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
mod postgres;
mod programs;
mod race;
mod reading;
mod reference;
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
mod thread_limit;
mod tools;
mod traces;
mod usage;
mod wants;
mod webhooks;
mod workers;
