//! `runwright serve`: the OpenWOP protocol over HTTP.

use std::fs::{File, TryLockError};
use std::net::SocketAddr;
use std::num::{NonZeroU32, NonZeroUsize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use kernel::document::Audited;
use kernel::ids::TenantId;
use kernel::stream::StreamKind;
use kernel::time::Timestamp;
use runtime::access::{AuthOptions, Authenticator, checkpoints};
use runtime::api::{Api, ExpiryToken};
use runtime::authority::Authority;
use runtime::door::Door;
use runtime::engine::maintenance::Maintenance;
use runtime::engine::{Engine, EngineOptions, Scope};
use runtime::holder;
use runtime::keyring::FileKeyring;
use runtime::private;
use runtime::programs::{self, Fallback, Programs};
use runtime::servers::{self, Presence};
use runtime::supervisor::ProcessLimit;
use runtime::telemetry;
use runtime::webhooks::{Reach, Webhooks};
use server::{App, Gate, Limits, Saves};
use store::ListQuery;
use tokio::signal::unix::{SignalKind, signal};

use super::telemetry::TelemetryArgs;
use crate::args::PortArgs;
use crate::data::Data;
use crate::exit::{Exit, Failure, io_text};
use crate::folders;
use crate::session::{Form, Session};
use crate::span::Span;
use crate::{compose, database, env, lookup, talk, text, web};

/// Maximum runs driven at a time; more wait in the queue.
const MAX_RUNS: usize = 2_048;

/// Command-line arguments.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  runwright serve --data ./data --workflows ./workflows
  runwright serve --data ./data --workflows ./workflows --dev --listen 127.0.0.1:0

Prints its address on stdout once it answers, and logs to stderr, one JSON object per line. It is
ready when GET /readyz answers 200. Every client needs a key; `runwright keys create` makes one,
also while a server runs. Every tenant may run every workflow of the folders. SIGTERM lets
requests and running nodes end; unfinished runs continue after the next start.")]
pub(crate) struct Args {
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "HOST:PORT", env = env::LISTEN, hide_env = true,
          default_value = "127.0.0.1:8080")]
    listen: String,

    /// A folder of workflow definitions to register; may be given several times
    #[arg(long, value_name = "DIR")]
    workflows: Vec<PathBuf>,

    /// Require no key. Only for a server that no one else can reach
    #[arg(long)]
    dev: bool,

    /// Treat every key as a test key: the test provider may answer instead of a model
    #[arg(long, help_heading = "For tests")]
    test_keys: bool,

    /// A token that may erase ended runs without a key, for tests of retention: POST
    /// /v1/test/runs/RUN/expire?token=TOKEN
    #[arg(long, help_heading = "For tests", value_name = "TOKEN", requires = "test_keys",
          value_parser = expiry)]
    expire_token: Option<ExpiryToken>,

    /// The tenant of the runs of --dev
    #[arg(long, value_name = "TENANT", default_value = "local", value_parser = crate::args::tenant)]
    tenant: TenantId,

    /// The file with the rules for JWTs (TOML); API keys need none
    #[arg(long, value_name = "FILE", env = env::AUTH, hide_env = true)]
    auth: Option<PathBuf>,

    /// Erase runs this long after their end, such as 30d [default: never]
    #[arg(long, value_name = "SPAN")]
    retain_finished: Option<Span>,

    /// Requests per second per principal, and the size of a burst
    #[arg(long, value_name = "N", default_value = "5000", value_parser = text::from_one::<NonZeroU32>)]
    principal_rate: NonZeroU32,

    /// Requests per second per tenant, and the size of a burst [default: any number]
    #[arg(long, value_name = "N", value_parser = text::from_one::<NonZeroU32>)]
    tenant_rate: Option<NonZeroU32>,

    /// Refuse new runs while this many are driven or streamed [default: they wait in the queue]
    #[arg(long, value_name = "N", value_parser = text::from_one::<NonZeroUsize>)]
    max_in_flight: Option<NonZeroUsize>,

    /// End in order when standard input ends: with whoever started it, however that ended
    #[arg(long, hide = true)]
    until_stdin_ends: bool,

    /// Refuse saves of workbench runs that do not continue the last one [default: they are
    /// accepted, and the replaced save is kept as a branch]
    #[arg(long)]
    refuse_stale_saves: bool,

    /// Let web pages of this origin, as `https://app.example.org`, call the server; may be given
    /// several times [default: only the server's own pages]
    #[arg(long, value_name = "ORIGIN", value_parser = web::origin)]
    allow_origin: Vec<String>,

    /// Also answer requests without a key under this host name, as `runs.example.org`; may be given
    /// several times [default: localhost, and the address of --listen]
    #[arg(long, value_name = "NAME", value_parser = web::host)]
    host: Vec<String>,

    /// Announce the end of OpenWOP 1 on this day, such as 2026-12-04, in its answers
    /// [default: no end is announced]
    #[arg(long, value_name = "DAY", value_parser = day)]
    v1_sunset: Option<Timestamp>,

    /// Keep every save of a workbench run on the audit trail [default: decisions and deletions]
    #[arg(long)]
    audit_saves: bool,

    /// Time after which another server takes over the queues of a lost one
    #[arg(long, value_name = "SPAN", default_value = "15s")]
    authority_lease: Span,

    /// Leave the queues to another server: this one assigns tasks only while the other has the
    /// authority
    #[arg(long, conflicts_with = "authority_lease")]
    no_authority: bool,

    /// Serve a store that another server serves already
    #[arg(long)]
    join: bool,

    /// Let webhooks call any address, also this machine and without encryption. For tests and
    /// closed networks
    #[arg(long)]
    allow_private_webhooks: bool,

    #[command(flatten)]
    telemetry: TelemetryArgs,

    #[command(flatten)]
    ports: PortArgs,
}

/// The accepted host names: those of --host and the one of --listen.
fn hosts(args: &Args) -> Vec<String> {
    let listened = args.listen.rsplit_once(':').map(|(name, _)| name);
    let listened = listened.and_then(|name| web::host(name).ok());
    args.host.iter().cloned().chain(listened).collect()
}

/// The beginning of a day, in UTC.
fn day(text: &str) -> Result<Timestamp, String> {
    Timestamp::parse(&format!("{text}T00:00:00Z"))
        .ok_or_else(|| "it is not a day such as 2026-12-04".to_owned())
}

/// A token that cannot be guessed.
fn expiry(text: &str) -> Result<ExpiryToken, String> {
    let least = ExpiryToken::LEAST;
    ExpiryToken::parse(text).ok_or_else(|| format!("it needs at least {least} characters"))
}

/// Serves until a signal comes.
pub(crate) async fn run(args: Args, session: &Session) -> Result<Exit, Failure> {
    let addresses = resolve(&args.listen).await?;
    check_dev(&args, &addresses)?;
    let door = session.create()?;
    let gate = gate(&args, &door)?;
    let _locks = lock(session, &args)?;
    talk::listen_to_server();
    let workflows = folders::register(&door, &args.workflows).await?;
    let options = EngineOptions {
        scope: Scope::Everything,
        max_runs: MAX_RUNS,
        maintenance: Some(Maintenance {
            retain_finished: args.retain_finished.as_ref().map(|Span(kept)| *kept),
        }),
        authority: (!args.no_authority).then(|| Authority {
            lease: (args.authority_lease.0)
                .clamp(Duration::from_secs(1), Duration::from_secs(3_600)),
        }),
        watches_queues: true,
        poll: session
            .database
            .as_ref()
            .map_or(EngineOptions::default().poll, |_| database::POLL),
        ..EngineOptions::default()
    };
    let programs = programs(&args, session)?;
    let engine = compose::engine_under(
        session,
        &door,
        &args.ports,
        (session.nodes.clone(), options, programs),
    )?;
    args.telemetry.export(&engine)?;
    let limits = Limits {
        principal_rate: Some(args.principal_rate),
        tenant_rate: args.tenant_rate,
        in_flight: args.max_in_flight.map(NonZeroUsize::get),
        retain_finished: args.retain_finished.as_ref().map(|Span(kept)| *kept),
        saves: if args.refuse_stale_saves {
            Saves::Continue
        } else {
            Saves::LastWins
        },
        v1_sunset: args.v1_sunset,
        origins: args.allow_origin.clone(),
        hosts: hosts(&args),
        ..Limits::default()
    };
    let reach = if args.allow_private_webhooks {
        Reach::Private
    } else {
        Reach::Public
    };
    let api = Api::new(engine.clone())
        .with_webhooks(Webhooks::new(reach))
        .with_test_provider(args.test_keys)
        .with_expiry(args.expire_token.clone())
        .with_document_audit(if args.audit_saves {
            Audited::Saves
        } else {
            Audited::Decisions
        });
    let snapshots = session.place.data.join("snapshots");
    let app = App::offering(api, gate, limits, &workflows).with_snapshots(snapshots);
    let listening = listen(&addresses, &app, &args.listen).await?;
    let address = listening.address();
    let mut signals = [
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ]
    .into_iter()
    .collect::<Result<Vec<_>, _>>()
    .map_err(|error| Failure::new(io_text(&error)))?;
    telemetry::begin(&engine).await?;
    engine.start();
    server::deliver_webhooks(&app);
    checkpoints::keep(&engine);
    tokio::spawn(free_the_lost(engine.clone()));
    if session
        .place
        .project
        .join(faces::player::names::FOLDER)
        .is_dir()
    {
        // The files follow sessions that this server continues, and answers given to it.
        let project = session.place.project.clone();
        tokio::spawn(super::play::keep_files(engine.door().clone(), project));
    }
    // A file lock shows a server of a folder; those of a database can be on any machine.
    let entry = match &session.database {
        Some(_) => {
            let keyring = FileKeyring::new(session.place.keyring());
            let store = door.store().clone();
            let mut presence = Presence::new(store, format!("http://{address}"), keyring);
            presence.renew().await?;
            Some(tokio::spawn(presence.keep()))
        }
        None => None,
    };
    let serving = tokio::spawn(listening.serve());
    app.ready();
    say_address(session, address)?;
    tracing::info!(%address, "ready");

    let [terminate, interrupt] = &mut signals[..] else {
        return Err(Failure::new("signals cannot be received"));
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        () = stdin_ends(), if args.until_stdin_ends => {}
    }
    tracing::info!("draining");
    if let Some(entry) = entry {
        entry.abort();
    }
    app.drain();
    let grace = app.limits().grace;
    let orderly = async {
        let (served, ()) = tokio::join!(serving, engine.drain(grace));
        if session.database.is_some() {
            // Otherwise the entry ends by itself.
            let store = engine.door().store();
            let _ = servers::withdraw(&**store, &holder::this_process()).await;
        }
        served
    };
    tokio::select! {
        _ = orderly => tracing::info!("stopped"),
        // A second signal ends the process at once.
        _ = terminate.recv() => tracing::warn!("stopped at once"),
        _ = interrupt.recv() => tracing::warn!("stopped at once"),
    }
    Ok(Exit::Done)
}

/// Waits for the end of standard input, on a thread that does not delay the end of the process.
async fn stdin_ends() {
    let (ended, end) = tokio::sync::oneshot::channel();
    let read = move || {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        let _ = ended.send(());
    };
    if let Err(error) = std::thread::Builder::new().spawn(read) {
        tracing::error!(%error, "standard input cannot be watched: the server ends");
    }
    let _ = end.await;
}

async fn resolve(listen: &str) -> Result<Vec<SocketAddr>, Failure> {
    let typed = kernel::problem::quoted(listen);
    let addresses: Vec<SocketAddr> = tokio::net::lookup_host(listen)
        .await
        .map_err(|error| {
            Failure::new(format!(
                "--listen {typed} is not an address: {}",
                io_text(&error)
            ))
            .hint("write HOST:PORT, as 127.0.0.1:8080")
        })?
        .collect();
    if addresses.is_empty() {
        Err(Failure::new(format!("--listen {typed} has no address")))
    } else {
        Ok(addresses)
    }
}

async fn listen(
    addresses: &[SocketAddr],
    app: &App,
    typed: &str,
) -> Result<server::listen::Listening, Failure> {
    let mut last = None;
    for address in addresses {
        match server::listen::Listening::at(*address, app.clone()).await {
            Ok(listening) => return Ok(listening),
            Err(error) => last = Some(error),
        }
    }
    let why = last.map_or_else(String::new, |error| io_text(&error));
    let typed = kernel::problem::quoted(typed);
    Err(Failure::new(format!("cannot listen on {typed}: {why}"))
        .hint("choose another port with --listen, or 0 for a free one"))
}

/// A server that others can reach requires a key.
fn check_dev(args: &Args, addresses: &[SocketAddr]) -> Result<(), Failure> {
    let is_loopback = addresses.iter().all(|address| address.ip().is_loopback());
    if args.dev && !is_loopback {
        let what = "--dev requires no key, so it serves only this machine";
        return Err(Failure::new(what).hint("listen on 127.0.0.1, or remove --dev"));
    }
    Ok(())
}

/// The access rules.
fn gate(args: &Args, door: &Door) -> Result<Gate, Failure> {
    if args.dev {
        return Ok(Gate::open_to(args.tenant.clone()));
    }
    let outbound = args.ports.outbound()?;
    let options = match &args.auth {
        Some(file) => AuthOptions::read(file, outbound),
        None => Ok(AuthOptions::default()),
    };
    let options = options.map_err(|error| Failure::new(error.to_string()))?;
    let authenticator = Authenticator::new(door.store().clone(), options);
    Ok(Gate::Bearer(Arc::new(authenticator)))
}

/// The tenants that may run programs; reports their confinement.
fn programs(args: &Args, session: &Session) -> Result<Programs, Failure> {
    let mut programs = args.ports.programs(session);
    programs.secret.extend(args.auth.clone());
    if args.dev {
        // Only the operator reaches this server.
        programs.own = Some(args.tenant.clone());
    }
    let tenants: Vec<&str> = programs.tenants.iter().map(TenantId::as_str).collect();
    let tenants = tenants.join(", ");
    match (programs::confinement(), programs.fallback) {
        _ if args.dev => {}
        _ if tenants.is_empty() => {
            tracing::info!("only workflows registered by the operator run programs");
        }
        (Ok(confinement), _) => {
            let limit = ProcessLimit::here();
            tracing::info!(
                %tenants,
                by = confinement.0,
                processes_limited_by = limit.as_str(),
                "programs of these tenants run confined"
            );
            if limit == ProcessLimit::Supervisor {
                tracing::warn!(
                    "the kernel does not limit the number of these programs' processes, because \
                     this server runs as root and cannot make control groups: `runwright doctor`"
                );
            }
        }
        (Err(why), Fallback::Unconfined) => tracing::warn!(
            %tenants, %why,
            "programs of these tenants run UNCONFINED: they can read and change all that the \
             server can"
        ),
        (Err(why), Fallback::Refuse) => {
            let what = format!("programs of tenants cannot be confined here: {why}");
            let hint = "remove --allow-programs, or run them unconfined with \
                        --allow-unconfined-programs";
            return Err(Failure::new(what).hint(hint));
        }
    }
    Ok(programs)
}

/// Keeps a second server from the same store unless it is requested, and marks the store as served
/// for other commands.
fn lock(session: &Session, args: &Args) -> Result<(Option<File>, File), Failure> {
    let only = lock_out(session, args)?;
    let path = session.place.served();
    let served = lock_file(&path)?;
    served
        .lock_shared()
        .map_err(|error| Failure::file(&path, &error))?;
    Ok((only, served))
}

fn lock_file(path: &Path) -> Result<File, Failure> {
    let mut how = private::file();
    let opened = how.write(true).create(true).truncate(true).open(path);
    opened.map_err(|error| Failure::file(path, &error))
}

fn lock_out(session: &Session, args: &Args) -> Result<Option<File>, Failure> {
    let path = session.place.data.join("server.lock");
    let file = lock_file(&path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(file)),
        Err(TryLockError::WouldBlock) if args.join => Ok(None),
        Err(TryLockError::WouldBlock) => {
            let data = session.place.data.display();
            Err(
                Failure::new(format!("another server serves the store in {data}"))
                    .hint("stop it first, or serve together with it with --join"),
            )
        }
        Err(TryLockError::Error(error)) => Err(Failure::file(&path, &error)),
    }
}

fn say_address(session: &Session, address: SocketAddr) -> Result<(), Failure> {
    let url = format!("http://{address}");
    let mut data = Data::new();
    match session.form {
        Form::Text => data.line(&url)?,
        Form::Json => data.json_line(&serde_json::json!({ "url": url }))?,
    }
    match data.done() {
        // The reader may have closed its end.
        Ok(()) | Err(Failure::Unread) => Ok(()),
        Err(failure) => Err(failure),
    }
}

/// Releases the leases of this machine's dead processes, so that their runs need not wait for
/// expiry.
async fn free_the_lost(engine: Engine) {
    let query = ListQuery {
        kind: Some(StreamKind::Run),
        statuses: ["pending", "running", "cancelling"]
            .map(str::to_owned)
            .into(),
        ..ListQuery::default()
    };
    let rows = match lookup::pages(engine.door(), query, usize::MAX).await {
        Ok(rows) => rows,
        Err(failure) => {
            tracing::warn!(%failure, "runs of lost servers wait until their leases expire");
            return;
        }
    };
    for row in rows {
        let freed = holder::release_if_dead(&**engine.door().store(), &row.stream).await;
        if let Err(error) = freed {
            tracing::debug!(%error, "a lease was not released; it will expire");
        }
    }
    engine.door().hints().queue();
}
