//! The Model Context Protocol on the standard streams of a supervised process.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use kernel::ids::AttemptKey;
use kernel::run::NodeError;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::task::JoinHandle;

use crate::ports::{Ports, STOP_GRACE, Started};
use crate::programs::Confinement;
use crate::supervisor::{Finish, Running, Seen, Spec, Stream};
use crate::trace_context;

/// Bytes buffered to or from a process.
const PIPE_BYTES: usize = 64 << 10;
/// The most bytes that a server may write in one session.
const OUTPUT_BYTES: u64 = 64 << 20;
/// Bytes of a process's standard error that are kept.
const KEPT_BYTES: usize = 2 << 10;
/// Servers started by this process.
static STARTED: AtomicU64 = AtomicU64::new(0);
/// Variables that a server inherits from the engine.
const INHERITED: [&str; 4] = ["PATH", "HOME", "LANG", "TMPDIR"];

/// A process, and the rest of its standard error once it has ended.
pub(super) struct Server {
    /// Its standard input and output.
    pub stream: DuplexStream,
    /// Completes when the process and all it started are gone; returns the end of its standard
    /// error.
    pub over: JoinHandle<String>,
}

/// The parameters of a server.
pub(super) struct Start<'a> {
    /// Program and arguments.
    pub argv: &'a [String],
    /// The variables its configuration sets.
    pub env: BTreeMap<String, String>,
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
    trace_context::say_to_program(started.trace(), &mut env);
    // A server leaves no result that a later engine could adopt: each has its own directory.
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
    let text = format!("the tool server {name} cannot be started: {why}");
    NodeError::new("mcp_not_started", text)
}

/// Copies bytes both ways until either side has ended, then ends the process.
async fn carry(mut running: Running, stream: DuplexStream) -> String {
    let (mut from, mut to) = tokio::io::split(stream);
    let mut complaints = String::new();
    let mut buffer = vec![0; PIPE_BYTES];
    loop {
        tokio::select! {
            biased;
            seen = running.next() => match seen {
                Seen::Started { .. } | Seen::Stalled | Seen::Continues => {}
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
    // A write may fail because the process has ended, before its standard error has been read.
    running
        .stop_hearing(|stream, bytes| {
            if stream == Stream::Stderr {
                keep(&mut complaints, bytes);
            }
        })
        .await;
    complaints
}

/// Keeps the end of the standard error.
fn keep(complaints: &mut String, bytes: &[u8]) {
    complaints.push_str(&String::from_utf8_lossy(bytes));
    let from = complaints.len().saturating_sub(KEPT_BYTES);
    complaints.drain(..complaints.ceil_char_boundary(from));
}

/// How long a process has to exit by itself after its input ends.
pub(super) const FAREWELL: Duration = Duration::from_secs(20);
