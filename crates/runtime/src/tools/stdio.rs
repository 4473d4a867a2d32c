//! The protocol on the standard streams of a process, which the supervisor starts and ends.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kernel::ids::AttemptKey;
use kernel::run::NodeError;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

use crate::nodes::{Ports, STOP_GRACE, Started};
use crate::programs::Confinement;
use crate::supervisor::{Finish, Running, Seen, Spec, Stream};
use crate::telemetry::context;

/// Bytes on their way to or from a process.
const PIPE_BYTES: usize = 64 << 10;
/// Bytes that a server may write in one session.
const OUTPUT_BYTES: u64 = 64 << 20;
/// Bytes kept of what a process says on its standard error.
const KEPT_BYTES: usize = 2 << 10;
/// Servers started by this process.
static STARTED: AtomicU64 = AtomicU64::new(0);
/// Variables of the engine that a server is given.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// A process, and what is left of it once it is over.
pub(super) struct Server {
    /// What is said to it and what it says.
    pub stream: DuplexStream,
    /// Ends when the process and all it started are gone; gives what it complained of.
    pub over: JoinHandle<String>,
}

/// What a server is started by.
pub(super) struct Start<'a> {
    /// Program and arguments.
    pub argv: &'a [String],
    /// The variables its configuration gives it.
    pub env: BTreeMap<String, String>,
    /// What it is kept from.
    pub confinement: Option<Confinement>,
}

/// Starts a server for an attempt.
pub(super) async fn start(
    ports: &Ports,
    started: &Started,
    name: &str,
    start: Start<'_>,
) -> Result<Server, NodeError> {
    let mut env: BTreeMap<String, String> = INHERITED
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)))
        .collect();
    env.extend(start.env);
    context::say_to_program(started.trace(), &mut env);
    // A server has no result that a later life of the engine could adopt: each has its own place.
    let nth = STARTED.fetch_add(1, Ordering::Relaxed);
    let key = format!("{}.mcp.{name}.{}.{nth}", started.key(), started.restarts());
    let spec = Spec {
        run: started.run().clone(),
        key: AttemptKey::new(key),
        restarts: started.restarts(),
        argv: start.argv.to_vec(),
        env,
        cwd: ports.workdir.clone(),
        stdin: Vec::new(),
        timeout: None,
        grace: STOP_GRACE,
        output_limit: OUTPUT_BYTES,
        confinement: start.confinement,
    };
    let running = ports.supervisor.start_talking(spec).await;
    let running = running.map_err(|error| not_started(name, &error.to_string()))?;
    let (stream, ours) = tokio::io::duplex(PIPE_BYTES);
    Ok(Server {
        stream,
        over: tokio::spawn(carry(running, ours)),
    })
}

pub(super) fn not_started(name: &str, why: &str) -> NodeError {
    let text = format!("the server of tools {name} cannot be started: {why}");
    NodeError::new("mcp_not_started", text)
}

/// Carries bytes both ways until either side has ended, then ends the process.
async fn carry(mut running: Running, stream: DuplexStream) -> String {
    let (mut from, mut to) = tokio::io::split(stream);
    let mut complaints = String::new();
    let mut buffer = vec![0; PIPE_BYTES];
    loop {
        tokio::select! {
            biased;
            seen = running.next() => match seen {
                Seen::Started { .. } => {}
                Seen::Output(Stream::Stdout, bytes) => {
                    if to.write_all(&bytes).await.is_err() {
                        break;
                    }
                }
                Seen::Output(Stream::Stderr, bytes) => keep(&mut complaints, &bytes),
                Seen::Finished(finish) => {
                    if let Finish::NotStarted { message, .. } = finish {
                        complaints = message;
                    }
                    return complaints;
                }
            },
            read = from.read(&mut buffer) => match read {
                Ok(n) if n > 0 && running.say(&buffer[..n]).await.is_ok() => {}
                _ => break,
            },
        }
    }
    // A process that ends at once may be found out by what is said to it before what it complains
    // of is heard.
    running
        .stop_hearing(|stream, bytes| {
            if stream == Stream::Stderr {
                keep(&mut complaints, bytes);
            }
        })
        .await;
    complaints
}

/// Keeps the end of what is complained of.
fn keep(complaints: &mut String, bytes: &[u8]) {
    complaints.push_str(&String::from_utf8_lossy(bytes));
    let mut from = complaints.len().saturating_sub(KEPT_BYTES);
    while !complaints.is_char_boundary(from) {
        from += 1;
    }
    complaints.drain(..from);
}

/// How long a process has to end by itself once nothing more is said to it.
pub(super) const FAREWELL: Duration = Duration::from_secs(20);
