//! The power is cut at any point of SQLite's disk access, and the file is opened again.

mod disk;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use kernel::digest::Digest;
use kernel::ids::{Seq, StreamId};
use store::seed::Draws;
use store::{Position, ReadFrom, Store, StoreError};
use store_sqlite::{Access, Durability, Options, Sharing, SqliteStore};

use crate::bed::{Log, block_on};
use disk::{Disk, Step, Unsynced, restore};

/// An acknowledgement to the caller.
#[derive(Clone, Debug)]
enum Told {
    /// The log has this many events.
    Appended {
        stream: StreamId,
        next_seq: Seq,
    },
    Blob {
        digest: Digest,
    },
    Purged {
        stream: StreamId,
    },
}

/// The contents that each stream's writer made, acknowledged or not.
type Written = BTreeMap<StreamId, Vec<String>>;

struct Recording {
    steps: Vec<Step<Told>>,
    written: Written,
}

fn options(vfs: &str, durability: Durability) -> Options {
    Options {
        durability,
        sharing: Sharing::Exclusive,
        // Small, so that commits copy the log into the file many times in a short run.
        log_pages: 24,
        vfs: Some(vfs.into()),
        ..Options::default()
    }
}

/// Writes from several tasks at a time, reopening the store now and then.
fn record(seed: u64, durability: Durability) -> Recording {
    let (disk, vfs) = Disk::new();
    let written = Arc::new(Mutex::new(Written::new()));
    block_on(async {
        for round in 0..3_u64 {
            let store = SqliteStore::open(Disk::<Told>::path(), options(&vfs, durability));
            let store = Arc::new(store.expect("the store opens"));
            let tasks = (0..4_u64).map(|task| {
                let (store, disk, written) =
                    (Arc::clone(&store), disk.clone(), Arc::clone(&written));
                let draws = Draws::new(seed * 100 + round * 10 + task);
                tokio::spawn(drive(
                    store,
                    disk,
                    written,
                    format!("run-{round}-{task}"),
                    draws,
                ))
            });
            for task in tasks.collect::<Vec<_>>() {
                task.await.expect("the task ends");
            }
            while store.maintain().await.expect("housekeeping works") {}
        }
    });
    let written = written.lock().expect("all tasks ended").clone();
    Recording {
        steps: disk.steps(),
        written,
    }
}

async fn drive(
    store: Arc<SqliteStore>,
    disk: Disk<Told>,
    written: Arc<Mutex<Written>>,
    name: String,
    mut draws: Draws,
) {
    let mut log = Log::new(&name);
    for n in 0..6 {
        if draws.per_mille(200) {
            let bytes = format!("{name} {n}").into_bytes();
            let digest = store.put_blob(&"local".into(), bytes).await;
            let digest = digest.expect("the disk is healthy");
            disk.note(Told::Blob { digest });
        }
        // Now and then a content that is stored as a blob.
        let size = if draws.per_mille(150) { 40_000 } else { 300 };
        let contents: Vec<String> = (0..=draws.below(2))
            .map(|k| format!("{name} {n}.{k} {}", "x".repeat(size)))
            .collect();
        log.settled = n == 5;
        let attempts = || written.lock().expect("no task panics");
        attempts()
            .entry(log.id.clone())
            .or_default()
            .extend(contents.clone());
        let done = log.append(&*store, &contents).await;
        done.expect("the disk is healthy");
        let (stream, next_seq) = (log.id.clone(), log.next_seq);
        disk.note(Told::Appended { stream, next_seq });
    }
    if draws.per_mille(250) {
        let stream = log.id.clone();
        let done = store.purge(&stream, "test").await;
        done.expect("nobody holds the stream");
        disk.note(Told::Purged { stream });
    }
}

/// Opens the files after a cut and compares them with the earlier acknowledgements. Returns the
/// first fault.
fn check(recording: &Recording, cut: usize, unsynced: &mut Unsynced) -> Result<(), String> {
    let folder = scratch();
    let steps = &recording.steps[..cut];
    restore(steps, unsynced, folder.path());
    block_on(compare(
        &folder.path().join("runs.db"),
        steps,
        &recording.written,
    ))
}

/// A folder in memory where there is one: thousands of images are opened, and their syncs
/// prove nothing.
fn scratch() -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let folder = if memory.is_dir() {
        tempfile::tempdir_in(memory)
    } else {
        tempfile::tempdir()
    };
    folder.expect("a folder can be made")
}

async fn compare(path: &Path, steps: &[Step<Told>], written: &Written) -> Result<(), String> {
    let opened = SqliteStore::open(path, Options::default());
    let store = opened.map_err(|error| format!("it does not open: {error}"))?;
    let findings = store.inspect().await.map_err(|error| error.to_string())?;
    if !findings.is_empty() {
        return Err(format!("it is not healthy: {findings:?}"));
    }
    let mut purged = Vec::new();
    let mut told: BTreeMap<&StreamId, Seq> = BTreeMap::new();
    for step in steps {
        let Step::Noted(note) = step else { continue };
        match note {
            Told::Appended { stream, next_seq } => {
                told.insert(stream, *next_seq);
            }
            Told::Blob { digest } => {
                let read = store.blob(&"local".into(), digest).await;
                read.map_err(|error| format!("blob {digest}: {error}"))?;
            }
            Told::Purged { stream } => purged.push(stream),
        }
    }
    let mut events = 0;
    for (stream, contents) in written {
        let loaded = store.load(stream, ReadFrom::Seq(0), usize::MAX).await;
        let tombstone = store.tombstone(stream).await;
        let tombstone = tombstone.map_err(|error| error.to_string())?;
        if purged.contains(&stream) && tombstone.is_none() {
            return Err(format!("the purge of {stream} is lost"));
        }
        let told = told.get(stream).copied().unwrap_or(0);
        let next_seq = match (&loaded, tombstone) {
            (_, Some(tombstone)) => tombstone.next_seq,
            (Ok(loaded), None) => loaded.next_seq,
            (Err(StoreError::Missing), None) => 0,
            (Err(error), None) => return Err(format!("{stream}: {error}")),
        };
        if next_seq < told {
            return Err(format!(
                "{stream} has {next_seq} events, {told} were acknowledged"
            ));
        }
        if let Ok(loaded) = loaded {
            events += loaded.records.len();
            for (record, content) in loaded.records.iter().zip(contents) {
                if record.content != content.as_bytes() {
                    return Err(format!("{stream} holds what was never written"));
                }
            }
        }
    }
    let feed = store.feed(Position(0), usize::MAX).await;
    let feed = feed.map_err(|error| error.to_string())?;
    if feed.len() != events {
        return Err(format!(
            "the feed has {} events, the logs {events}",
            feed.len()
        ));
    }
    // The store can be used again.
    let mut log = Log::new("run-afterwards");
    let done = log.append(&store, &["afterwards".into()]).await;
    done.map_err(|error| format!("it takes no more appends: {error}"))
}

/// Cuts right before and right after each sync, and at some points between.
fn cuts(recording: &Recording, draws: &mut Draws) -> Vec<usize> {
    let steps = &recording.steps;
    let around_sync = |nth: &usize| {
        let is_sync = |step: Option<&Step<Told>>| matches!(step, Some(Step::Synced { .. }));
        is_sync(steps.get(*nth)) || is_sync(steps.get(nth.wrapping_sub(1)))
    };
    (0..=steps.len())
        .filter(|nth| around_sync(nth) || draws.per_mille(30))
        .collect()
}

#[test]
fn soak_power_cuts_lose_nothing_acknowledged() {
    let (mut recordings, mut syncs, mut all) = (0, 0, 0);
    for seed in store::seed::cases(1, 20) {
        let recording = record(seed, Durability::Full);
        let mut draws = Draws::new(seed);
        let cuts = cuts(&recording, &mut draws);
        recordings += 1;
        all += cuts.len();
        let is_sync = |step: &&Step<Told>| matches!(step, Step::Synced { .. });
        syncs += recording.steps.iter().filter(is_sync).count();
        for cut in cuts {
            let torn = Draws::new(draws.number());
            for mut unsynced in [Unsynced::Lost, Unsynced::Kept, Unsynced::Torn(torn)] {
                if let Err(wrong) = check(&recording, cut, &mut unsynced) {
                    panic!("seed {seed}, cut after step {cut}, unsynced {unsynced:?}: {wrong}");
                }
            }
        }
    }
    testkit::figures(
        "soak_power_cuts_lose_nothing_acknowledged",
        &format!(
            "{recordings} recordings of 4 writers with {syncs} sync points, cut at {all} points in \
             3 ways each"
        ),
    );
}

/// The same without syncs: the cuts do find losses, and the remaining log is whole.
#[test]
fn relaxed_durability_loses_writes_but_never_tears() {
    let recording = record(1, Durability::Relaxed);
    let mut lost = 0;
    let mut draws = Draws::new(1);
    for cut in cuts(&recording, &mut draws) {
        match check(&recording, cut, &mut Unsynced::Lost) {
            Ok(()) => {}
            Err(wrong)
                if wrong.contains("acknowledged")
                    || wrong.contains("is lost")
                    || wrong.contains("blob") =>
            {
                lost += 1
            }
            Err(wrong) => panic!("cut after step {cut}: {wrong}"),
        }
    }
    assert!(lost > 0, "no cut found a lost write");
}

#[test]
fn the_recording_syncs_the_file_during_appends() {
    let recording = record(1, Durability::Full);
    let told = |step: &Step<Told>| matches!(step, Step::Noted(_));
    let first = recording.steps.iter().position(told);
    let last = recording.steps.iter().rposition(told);
    let between = &recording.steps[first.unwrap()..last.unwrap()];
    let copied = between
        .iter()
        .filter(|step| matches!(step, Step::Synced { file } if file == "runs.db"))
        .count();
    assert!(copied >= 3, "the log was copied {copied} times");
}

#[test]
fn a_full_disk_is_unavailable_and_nothing_acknowledged_is_lost() {
    let (disk, vfs) = Disk::<Told>::new();
    block_on(async {
        let store = SqliteStore::open(Disk::<Told>::path(), options(&vfs, Durability::Full));
        let store = store.expect("the store opens");
        let mut log = Log::new("run-1");
        let mut refused = 0;
        for n in 0..200_u64 {
            disk.leave_room((n % 3 == 0).then_some(n / 3 % 9));
            let before = log.next_seq;
            match log
                .append(&store, &[format!("event {n} {}", "x".repeat(300))])
                .await
            {
                Ok(()) => {}
                Err(StoreError::Unavailable(why)) => {
                    assert!(why.contains("disk is full"), "{why}");
                    refused += 1;
                    disk.leave_room(None);
                    let loaded = store.load(&log.id, ReadFrom::Seq(0), usize::MAX).await;
                    let next_seq = loaded.map_or(0, |loaded| loaded.next_seq);
                    assert_eq!(next_seq, before, "a full disk takes no part of a batch");
                }
                Err(other) => panic!("{other}"),
            }
        }
        disk.leave_room(None);
        assert!(refused > 20, "only {refused} appends met a full disk");
        assert_eq!(log.next_seq, 200 - refused);
        assert_eq!(store.inspect().await, Ok(vec![]));
    });
}

/// Reads use the one writing connection.
#[test]
fn a_store_without_shared_memory_reads_and_refuses_nothing() {
    let (_disk, vfs) = Disk::<Told>::new();
    block_on(async {
        let open = |access| {
            let options = Options {
                access,
                ..options(&vfs, Durability::Full)
            };
            SqliteStore::open(Disk::<Told>::path(), options)
        };
        assert!(matches!(
            open(Access::Write),
            Err(StoreError::Unavailable(_))
        ));
        let store = open(Access::Create).expect("the store opens");
        let mut log = Log::new("run-1");
        log.append(&store, &["a".into()]).await.expect("it is new");
        drop(store);
        let store = open(Access::Write).expect("the store opens");
        let again = Log::find(&store, "run-1").await.expect("it is there");
        assert_eq!(again.next_seq, 1);
        assert_eq!(store.feed(Position(0), 10).await.expect("a feed").len(), 1);
    });
}
