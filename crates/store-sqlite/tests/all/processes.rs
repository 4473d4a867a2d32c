//! Several processes on one store, killed or not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use store::seed::Draws;
use store::{Position, ReadFrom, Store, StoreError};
use store_sqlite::{Access, Options, SqliteStore};

use crate::bed::{File, Log, block_on, open};
use crate::child::{Process, Role, SHARED};

async fn contents(store: &dyn Store, stream: &str) -> Vec<String> {
    let loaded = store
        .load(&stream.into(), ReadFrom::Seq(0), usize::MAX)
        .await;
    let loaded = loaded.unwrap_or_else(|error| panic!("{stream}: {error}"));
    let text = |record: kernel::batch::Record| String::from_utf8(record.content);
    let texts = loaded.records.into_iter().map(text);
    texts.collect::<Result<_, _>>().expect("events are text")
}

#[test]
fn processes_racing_for_a_stream_all_succeed_in_one_order() {
    let file = File::new();
    let times = 40;
    let start = |name| Process::start(Role::Race { times }, name, &file.path());
    let processes = ["a", "b"].map(start);
    let said: Vec<String> = processes.into_iter().flat_map(Process::finish).collect();
    assert_eq!(said.len(), 2 * times as usize);
    block_on(async {
        let store = file.open();
        let log = contents(&store, SHARED).await;
        assert_eq!(log.len(), said.len());
        for won in &said {
            let mut words = won.splitn(3, ' ').skip(1);
            let seq: usize = words.next().unwrap().parse().unwrap();
            assert_eq!(log[seq], words.next().unwrap());
        }
        let feed = store.feed(Position(0), usize::MAX).await.unwrap();
        assert!(feed.is_sorted_by(|a, b| a.position < b.position && a.seq < b.seq));
        assert_eq!(store.inspect().await, Ok(vec![]));
    });
}

#[test]
fn a_stream_is_claimed_by_one_process_only() {
    let file = File::new();
    let streams = 60;
    block_on(async {
        let store = file.open();
        for n in 0..streams {
            let mut log = Log::new(format!("run-{n}"));
            log.append(&store, &["created".into()]).await.unwrap();
        }
    });
    let start = |name| Process::start(Role::Claim { streams }, name, &file.path());
    let processes = ["a", "b", "c"].map(start);
    let held: Vec<String> = processes.into_iter().flat_map(Process::finish).collect();
    let distinct: BTreeSet<&String> = held.iter().collect();
    assert_eq!(held.len(), streams as usize, "each stream is held once");
    assert_eq!(distinct.len(), held.len());
    assert!(
        held.iter().all(|said| said.ends_with(" 1")),
        "by the first epoch"
    );
}

/// Everything acknowledged before the kills is there, and no log has a gap.
async fn check(path: &Path, said: &[String]) {
    let store = open(path);
    let mut logs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in said {
        let words: Vec<&str> = line.splitn(4, ' ').collect();
        let ["appended", stream, events, content] = words[..] else {
            panic!("nobody says {line:?}");
        };
        if !logs.contains_key(stream) {
            logs.insert(stream.to_owned(), contents(&store, stream).await);
        }
        let at: usize = events.parse::<usize>().expect("a number") - 1;
        let found = logs[stream].get(at).map(String::as_str);
        assert_eq!(found, Some(content), "{stream} at {at}");
    }
    assert_eq!(store.inspect().await, Ok(vec![]));
}

#[test]
fn soak_kills_lose_nothing_acknowledged() {
    for seed in store::seed::cases(3, 200) {
        let file = File::new();
        let mut draws = Draws::new(seed);
        let mut said = Vec::new();
        let survivor = Process::start(Role::Load, "survivor", &file.path());
        for round in 0..2 {
            let name = format!("victim-{round}");
            let mut victim = Process::start(Role::Load, &name, &file.path());
            for _ in 0..=draws.below(60) {
                said.push(victim.hear().expect("it goes on until it is killed"));
            }
            said.extend(victim.kill());
        }
        said.extend(survivor.kill());
        block_on(check(&file.path(), &said));
    }
}

#[test]
fn reading_works_with_and_without_a_writer() {
    let file = File::new();
    let reading = || {
        let options = Options {
            access: Access::Read,
            ..Options::default()
        };
        SqliteStore::open(file.path(), options)
    };
    assert!(matches!(reading(), Err(StoreError::Unavailable(_))));
    assert!(!file.path().exists(), "reading makes no store");
    let mut writer = Process::start(Role::Load, "writer", &file.path());
    let mut said: Vec<String> = (0..20).filter_map(|_| writer.hear()).collect();
    block_on(async {
        let beside = reading().expect("the store can be read");
        let first = said[0].split(' ').nth(1).expect("a stream");
        assert!(!contents(&beside, first).await.is_empty());
        let mut log = Log::new("run-new");
        let refused = log.append(&beside, &["a".into()]).await;
        assert!(
            matches!(refused, Err(StoreError::Unavailable(_))),
            "{refused:?}"
        );
        said.extend(writer.kill());
        // The log of the killed writer is next to the file and is read all the same.
        let after = reading().expect("the store can be read");
        for line in &said {
            let stream = line.split(' ').nth(1).expect("a stream");
            assert!(!contents(&after, stream).await.is_empty());
        }
    });
}
