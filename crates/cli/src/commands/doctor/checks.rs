//! The checks, one function each.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use kernel::ids::StreamId;
use kernel::stream::FORMAT_VERSION;
use runtime::door::Door;
use runtime::supervisor::ProcessLimit;
use store::{ListQuery, Listed, StoreError};
use store_sqlite::{Durability, Options, SqliteStore};
use tokio::task;

use super::Finding;
use crate::exit::{Failure, io_text};
use crate::session::Session;
use crate::{compose, lookup, text};

/// Maximum number of measured syncs, and their total time.
const SYNCS: usize = 50;
const SYNC_BUDGET: Duration = Duration::from_secs(2);
/// A faster sync never reached a disk; a slower one delays every step noticeably.
const SYNC_TOO_FAST: Duration = Duration::from_micros(15);
const SYNC_SLOW: Duration = Duration::from_millis(30);
/// Free space below which to warn, and below which operation soon fails.
const SPACE_LOW: u64 = 1 << 30;
const SPACE_NONE: u64 = 50 << 20;
/// Bytes of leftovers in the folder of attempts that cause a warning.
const LEFTOVERS_MANY: u64 = 100 << 20;

pub(super) fn version() -> Finding {
    Finding::ok(
        "version",
        format!(
            "runwright {} on {} {}, event format {FORMAT_VERSION}, engine {}, store schema {}",
            env!("CARGO_PKG_VERSION"),
            std::env::consts::OS,
            std::env::consts::ARCH,
            kernel::ENGINE_VERSION,
            store_sqlite::SCHEMA_VERSION,
        ),
    )
}

pub(super) fn folder(session: &Session) -> Finding {
    let data = &session.place.data;
    let shown = data.display();
    if !data.exists() {
        return Finding::ok("folder", format!("the first run creates {shown}"));
    }
    match tempfile_in(data) {
        Ok(path) => {
            let _ = fs::remove_file(path);
            Finding::ok("folder", shown.to_string())
        }
        Err(error) => Finding::bad(
            "folder",
            format!("{shown} cannot be written to: {}", io_text(&error)),
            "change its permissions, or choose another with --data",
        ),
    }
}

/// Whether other users may read or change the files of the data folder.
pub(super) fn permissions(session: &Session) -> Finding {
    let loose = session.place.loose();
    let Some(first) = loose.first() else {
        return Finding::ok("permissions", "only you can use the store");
    };
    let what = match loose.len() {
        1 => format!("other users can use {}", first.display()),
        all => format!(
            "other users can use {} and {} more",
            first.display(),
            all - 1
        ),
    };
    let data = session.place.data.display();
    Finding::warn(
        "permissions",
        what,
        format!("`chmod -R go= {data}` removes their access"),
    )
}

fn tempfile_in(folder: &Path) -> std::io::Result<std::path::PathBuf> {
    let path = folder.join(format!(".doctor-{}", std::process::id()));
    File::create_new(&path)?;
    Ok(path)
}

/// Findings on the disk of the data folder, or of the folder it will be created in.
pub(super) fn disk(session: &Session) -> Vec<Finding> {
    let above = session
        .place
        .data
        .ancestors()
        .find(|folder| folder.is_dir());
    let Some(folder) = above else {
        return Vec::new();
    };
    vec![space(folder), syncs(folder), durability(session)]
}

fn space(folder: &Path) -> Finding {
    match rustix::fs::statvfs(folder) {
        Err(error) => Finding::warn(
            "space",
            format!("free space cannot be read: {error}"),
            "check the disk by hand",
        ),
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let what = format!("{} free", text::bytes(free));
            match free {
                ..SPACE_NONE => Finding::bad("space", what, "make room: a full disk stops runs"),
                SPACE_NONE..SPACE_LOW => Finding::warn("space", what, "make room soon"),
                _ => Finding::ok("space", what),
            }
        }
    }
}

fn syncs(folder: &Path) -> Finding {
    let measured = tempfile_in(folder).and_then(|path| {
        let measured = measure(&path);
        let _ = fs::remove_file(&path);
        measured
    });
    match measured {
        Err(error) => Finding::warn(
            "sync",
            format!("syncs cannot be measured: {}", io_text(&error)),
            "check that the folder is writable",
        ),
        Ok(median) => {
            let what = format!("a sync takes {:.2} ms", median.as_secs_f64() * 1e3);
            if median < SYNC_TOO_FAST {
                Finding::warn(
                    "sync",
                    format!("{what}: too fast to have reached a disk"),
                    "this file system may lose acknowledged writes in a power cut",
                )
            } else if median > SYNC_SLOW {
                Finding::warn("sync", what, "every step waits for it; a faster disk helps")
            } else {
                Finding::ok("sync", what)
            }
        }
    }
}

/// The median time of a synced write.
fn measure(path: &Path) -> std::io::Result<Duration> {
    let mut file = File::options().append(true).open(path)?;
    let begun = Instant::now();
    let mut times = Vec::with_capacity(SYNCS);
    while times.len() < SYNCS && (times.is_empty() || begun.elapsed() < SYNC_BUDGET) {
        file.write_all(&[0; 4096])?;
        let since = Instant::now();
        file.sync_data()?;
        times.push(since.elapsed());
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

fn durability(session: &Session) -> Finding {
    match session.durability {
        Durability::Full => Finding::ok(
            "durability",
            "full: a write is acknowledged when it is on the disk",
        ),
        Durability::Relaxed => Finding::warn(
            "durability",
            "relaxed: a power cut may lose the last acknowledged writes",
            "remove --durability to make it full",
        ),
    }
}

/// Findings on the confinement of tenants' programs.
pub(super) fn programs() -> Finding {
    match runtime::programs::confinement() {
        Ok(confinement) => {
            let limit = ProcessLimit::here();
            let what = format!(
                "programs of tenants can be confined by {}; their number is limited by {}",
                confinement.0,
                limit.as_str()
            );
            match limit {
                ProcessLimit::User | ProcessLimit::ControlGroup => Finding::ok("programs", what),
                ProcessLimit::Supervisor => Finding::warn(
                    "programs",
                    what,
                    "run the server as a user other than root, or where it can make control groups \
                     (a writable pids controller)",
                ),
            }
        }
        Err(why) => Finding::warn(
            "programs",
            format!("programs of tenants cannot be confined: {why}"),
            "only workflows registered by the operator run programs here",
        ),
    }
}

/// Findings on the store.
pub(super) async fn store(session: &Session) -> Result<Vec<Finding>, Failure> {
    let path = session.place.store();
    if !session.may_have_store() {
        return Ok(vec![Finding::ok(
            "store",
            "none yet; the first run creates it",
        )]);
    }
    let door = match session.read() {
        Ok(door) => door,
        Err(failure) => {
            let next = match &failure {
                Failure::Said {
                    hint: Some(hint), ..
                } => hint.clone(),
                _ => "check the file and its permissions".to_owned(),
            };
            return Ok(vec![Finding::bad("store", failure.to_string(), next)]);
        }
    };
    let rows = lookup::all(&door, ListQuery::default()).await?;
    let open: Vec<&Listed> = rows.iter().filter(|row| !row.index.settled).collect();
    // Recent writes are in the write-ahead log until a checkpoint.
    let mut log = path.clone().into_os_string();
    log.push("-wal");
    let sizes =
        [path.as_path(), Path::new(&log)].map(|file| fs::metadata(file).map_or(0, |f| f.len()));
    let size: u64 = sizes.iter().sum();
    let size = match &session.database {
        Some(address) => format!("in {address}"),
        None => text::bytes(size),
    };
    let what = format!(
        "opens; {}, {} of them not settled, {size}",
        text::count(rows.len(), "run"),
        open.len(),
    );
    Ok(vec![
        Finding::ok("store", what),
        abandoned(&door, &open).await?,
        leftovers(session, &rows),
    ])
}

/// Runs without a living engine.
async fn abandoned(door: &Door, open: &[&Listed]) -> Result<Finding, Failure> {
    let now = door.store().now();
    let mut abandoned = 0;
    for row in open {
        let loaded = door.store().load_head(&row.stream).await?;
        let is_held = loaded.lease.is_some_and(|lease| {
            lease.expires_at > now && !runtime::holder::is_dead(&lease.holder)
        });
        if !is_held && loaded.index.runnable {
            abandoned += 1;
        }
    }
    Ok(match abandoned {
        0 => Finding::ok("runs", "no run waits for an engine"),
        n => Finding::warn(
            "runs",
            format!(
                "{} could continue, but no process drives them",
                text::count(n, "run")
            ),
            "`runwright resume` drives them",
        ),
    })
}

/// Folders of attempts whose run has settled or is missing in the store.
fn leftover_runs(session: &Session, rows: &[Listed]) -> Vec<StreamId> {
    let Ok(entries) = fs::read_dir(session.place.attempts()) else {
        return Vec::new();
    };
    let open = |name: &str| {
        rows.iter()
            .any(|row| row.stream.as_str() == name && !row.index.settled)
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| !open(name))
        .map(StreamId::from)
        .collect()
}

fn leftovers(session: &Session, rows: &[Listed]) -> Finding {
    let runs = leftover_runs(session, rows);
    let size: u64 = runs
        .iter()
        .map(|run| size_of(&lookup::folder(session, run)))
        .sum();
    let what = format!(
        "{} left {}",
        text::count(runs.len(), "settled run"),
        text::bytes(size)
    );
    match size {
        _ if runs.is_empty() => Finding::ok("leftovers", "none"),
        ..LEFTOVERS_MANY => Finding::ok("leftovers", what),
        _ => Finding::warn("leftovers", what, "`runwright doctor --clean` removes it"),
    }
}

fn size_of(path: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(path) else {
        return 0;
    };
    let sizes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(file) if file.is_dir() => size_of(&entry.path()),
        Ok(file) => file.len(),
        Err(_) => 0,
    });
    sizes.sum()
}

/// Removes leftovers of settled runs, and runs the store's maintenance.
pub(super) async fn clean(session: &Session) -> Result<Vec<Finding>, Failure> {
    if !session.may_have_store() {
        return Ok(Vec::new());
    }
    let door = session.write()?;
    let rows = lookup::all(&door, ListQuery::default()).await?;
    let supervisor = compose::supervisor(session)?;
    let leftover = leftover_runs(session, &rows);
    for run in &leftover {
        supervisor
            .forget(run)
            .map_err(|error| Failure::file(&lookup::folder(session, run), &error))?;
    }
    while door.store().maintain().await? {}
    drop((door, supervisor));
    let what = format!(
        "removed the leftovers of {}",
        text::count(leftover.len(), "run")
    );
    let mut findings = vec![Finding::ok("clean", what)];
    if session.database.is_none() {
        findings.push(compact(session).await?);
    }
    Ok(findings)
}

/// Rewrites the store file, so that purged runs are unrecoverable.
async fn compact(session: &Session) -> Result<Finding, Failure> {
    let path = session.place.store();
    let options = Options {
        durability: session.durability,
        // Another process with an open store keeps it open: a longer wait would not help.
        busy_timeout: Duration::from_millis(500),
        ..Options::default()
    };
    let compacted = task::spawn_blocking(move || SqliteStore::compact(path, options)).await;
    Ok(
        match compacted.map_err(|error| Failure::new(error.to_string()))? {
            Ok(()) => Finding::ok("erased", "the store file has no data of purged runs"),
            Err(StoreError::Unavailable(why)) => Finding::warn(
                "erased",
                format!("the store file was not rewritten: {why}"),
                "stop every process that uses the store, then run `runwright doctor --clean` again",
            ),
            Err(error) => return Err(error.into()),
        },
    )
}
