//! `serve`: one process that keeps the store open and carries out commands of `exec` over a Unix
//! socket.
//!
//! Concurrent commands are made durable together. Nothing is acknowledged before it is durable, so
//! a killed server loses no acknowledged command, and `exec` continues without it.

mod ask;
mod group;
mod tmux;
mod wire;

use std::fs::{File, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Duration;

use runtime::private;
use rustix::fs::{FlockOperation, flock};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use super::Refused;
use super::folder::Folder;
use super::options::{Notify, Options};
use group::Order;
use wire::{Answer, GREETING, MAX_LINE, Near, Request, SOCKET};

pub(super) use ask::ask;

/// The options of the command.
pub(super) const WORDS: [&str; 5] = [
    "--state-dir=",
    "--views=",
    "--contract=",
    "--notify=",
    "--enforce-leases",
];
/// Held by the server.
const LOCK: &str = "serve.lock";
/// Maximum number of queued commands; further ones wait to be read.
const MAX_WAITING: usize = 256;
/// Connections at a time.
const MAX_CONNECTIONS: usize = 512;
/// Maximum time for a connection to send its command.
const REQUEST_WAIT: Duration = Duration::from_secs(10);

/// Serves until a stop signal.
pub(super) fn run(options: &Options) -> Result<String, Refused> {
    let Some(dir) = &options.state_dir else {
        return Err("serve needs --state-dir=DIR".into());
    };
    let mut folder = Folder::open(dir, options)?;
    let claim = claim(&folder.data, dir)?;
    folder.settle()?;
    folder.let_go();
    let threads = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(failed)?;
    let data = folder.data.clone();
    let (orders, waiting) = mpsc::channel(MAX_WAITING);
    let notifier = notifier(dir, options, &orders)?;
    let terms = group::Terms::from_options(options);
    let worker = thread("runtime", move || group::work(&folder, waiting, terms))?;
    let served = threads.block_on(serve(&data, orders));
    // The notifier reports its pending outcomes, then the writer has no further sender.
    if let Some(Notifying { stop, thread }) = notifier {
        drop(stop);
        ended(thread)?;
    }
    let worked = ended(worker)?;
    drop(claim);
    served.and(worked).map(|()| String::new())
}

/// A notifier on its own thread, with its stop handle.
struct Notifying {
    stop: std::sync::mpsc::Sender<()>,
    thread: JoinHandle<()>,
}

/// Starts the notifier, if one was requested.
fn notifier(
    dir: &Path,
    options: &Options,
    orders: &mpsc::Sender<Order>,
) -> Result<Option<Notifying>, Refused> {
    match options.notify {
        None => Ok(None),
        Some(Notify::Tmux) => {
            let folder = Folder::read(dir, options)?;
            let notifier = tmux::Notifier::new(folder, options.clone(), orders.clone());
            let (stop, stopped) = std::sync::mpsc::channel();
            let thread = thread("notifier", move || notifier.work(&stopped))?;
            Ok(Some(Notifying { stop, thread }))
        }
    }
}

fn thread<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, Refused> {
    let thread = std::thread::Builder::new().name(name.to_owned());
    thread.spawn(work).map_err(failed)
}

fn ended<T>(thread: JoinHandle<T>) -> Result<T, Refused> {
    let failed = |_| Refused("io error: a thread of the server has failed".into());
    thread.join().map_err(failed)
}

fn failed(error: std::io::Error) -> Refused {
    Refused(format!("io error: {error}"))
}

/// The right to serve the directory, as long as the file is open.
fn claim(data: &Path, dir: &Path) -> Result<File, Refused> {
    let file = private::file()
        .create(true)
        .truncate(false)
        .write(true)
        .open(data.join(LOCK))
        .map_err(failed)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(file),
        Err(rustix::io::Errno::WOULDBLOCK) => {
            Err(format!("another process serves {} already", dir.display()).into())
        }
        Err(error) => Err(failed(error.into())),
    }
}

/// A socket that exists as long as this value.
struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// Listens for this user alone. A killed server's socket is replaced: this process holds the
    /// right to serve, so no other server listens there.
    fn bind(data: &Path) -> std::io::Result<Self> {
        let near = Near::new(data)?;
        let fresh = near.path(".serve.sock.new");
        match std::fs::remove_file(&fresh) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let listener = UnixListener::bind(&fresh)?;
        std::fs::set_permissions(&fresh, Permissions::from_mode(0o600))?;
        let path = data.join(SOCKET);
        // Under its final name it never has other permissions.
        std::fs::rename(&fresh, near.path(SOCKET))?;
        Ok(Self { listener, path })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A leftover socket refuses connections, and `exec` continues without a server.
        let _ = std::fs::remove_file(&self.path);
    }
}

async fn serve(data: &Path, orders: mpsc::Sender<Order>) -> Result<(), Refused> {
    let listen = |kind| signal(kind).map_err(failed);
    let (mut stop, mut interrupt) = (
        listen(SignalKind::terminate())?,
        listen(SignalKind::interrupt())?,
    );
    let socket = Socket::bind(data).map_err(failed)?;
    // The parent process waits for this line.
    let said = writeln!(std::io::stdout(), "serving {}", socket.path.display());
    let _ = said.and_then(|()| std::io::stdout().flush());
    let (stopping, stopped) = watch::channel(());
    let mut conversations = JoinSet::new();
    loop {
        while conversations.try_join_next().is_some() {}
        let has_room = conversations.len() < MAX_CONNECTIONS;
        tokio::select! {
            biased;
            () = told(&mut stop, &mut interrupt) => break,
            () = orders.closed() => break,
            accepted = socket.listener.accept(), if has_room => {
                // A broken connection is ignored.
                let Ok((stream, _)) = accepted else { continue };
                conversations.spawn(converse(stream, orders.clone(), stopped.clone()));
            }
            Some(_) = conversations.join_next(), if !has_room => {}
        }
    }
    // No further connections are accepted; commands that were received are answered.
    drop(socket);
    drop(stopping);
    drop(orders);
    while conversations.join_next().await.is_some() {}
    Ok(())
}

async fn told(stop: &mut Signal, interrupt: &mut Signal) {
    tokio::select! {
        _ = stop.recv() => {}
        _ = interrupt.recv() => {}
    }
}

/// One command of one connection. Any error ends the connection, which the client can interpret.
async fn converse(
    mut stream: UnixStream,
    orders: mpsc::Sender<Order>,
    mut stopped: watch::Receiver<()>,
) -> Option<()> {
    if !is_trusted(&stream) {
        return None;
    }
    stream.write_all(GREETING.as_bytes()).await.ok()?;
    let (reading, mut writing) = stream.split();
    let mut line = String::new();
    let mut reader = BufReader::new(reading.take(MAX_LINE));
    let read = tokio::select! {
        biased;
        read = tokio::time::timeout(REQUEST_WAIT, reader.read_line(&mut line)) => read.ok()?.ok()?,
        _ = stopped.changed() => return None,
    };
    // A partial line is not a command.
    if read == 0 || !line.ends_with('\n') {
        return None;
    }
    let request: Request = serde_json::from_str(&line).ok()?;
    let (reply, answer) = oneshot::channel();
    orders.send(Order { request, reply }).await.ok()?;
    let answer: Answer = answer.await.ok()?;
    let answer = serde_json::to_vec(&answer).ok()?;
    writing.write_all(&answer).await.ok()?;
    writing.shutdown().await.ok()
}

/// Whether the client is this user, or root.
fn is_trusted(stream: &UnixStream) -> bool {
    let own = rustix::process::geteuid().as_raw();
    (stream.peer_cred()).is_ok_and(|peer| peer.uid() == own || peer.uid() == 0)
}
