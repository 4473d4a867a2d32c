//! Assembles the engine of this process.

use std::sync::Arc;

use runtime::door::Door;
use runtime::engine::{Engine, EngineOptions, Scope};
use runtime::keyring::FileKeyring;
use runtime::nodes::{Ports, Registry};
use runtime::programs::Programs;
use runtime::supervisor::Supervisor;

use crate::args::PortArgs;
use crate::exit::{Failure, io_text};
use crate::session::Session;

/// An engine that drives only the runs passed to it.
pub(crate) fn engine(session: &Session, door: &Door, args: &PortArgs) -> Result<Engine, Failure> {
    let options = EngineOptions {
        scope: Scope::Adopted,
        ..EngineOptions::default()
    };
    engine_with(session, door, args, options)
}

/// An engine.
pub(crate) fn engine_with(
    session: &Session,
    door: &Door,
    args: &PortArgs,
    options: EngineOptions,
) -> Result<Engine, Failure> {
    engine_of(session, door, args, (session.nodes.clone(), options))
}

/// An engine with these nodes.
pub(crate) fn engine_of(
    session: &Session,
    door: &Door,
    args: &PortArgs,
    (nodes, options): (Arc<Registry>, EngineOptions),
) -> Result<Engine, Failure> {
    let programs = args.programs(session);
    engine_under(session, door, args, (nodes, options, programs))
}

/// An engine with these nodes and these rules for programs.
pub(crate) fn engine_under(
    session: &Session,
    door: &Door,
    args: &PortArgs,
    (nodes, options, programs): (Arc<Registry>, EngineOptions, Programs),
) -> Result<Engine, Failure> {
    let ports = Ports {
        supervisor: supervisor(session)?,
        outbound: args.outbound()?,
        secrets: Arc::new(args.secrets(session)),
        models: Arc::new(args.models()?),
        keyring: Arc::new(FileKeyring::new(session.place.keyring())),
        workdir: session.place.project.clone(),
        programs: Arc::new(programs),
    };
    let store = (door.store().clone(), door.hints().clone());
    Ok(Engine::with_hints(store, nodes, ports, options))
}

/// Starts processes as children of this program, with their files in the data folder.
pub(crate) fn supervisor(session: &Session) -> Result<Supervisor, Failure> {
    let program = std::env::current_exe().map_err(|error| {
        Failure::new(format!(
            "the file of this program cannot be found: {}",
            io_text(&error)
        ))
    })?;
    Ok(Supervisor {
        program,
        dir: session.place.attempts(),
    })
}
