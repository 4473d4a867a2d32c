//! Which files are opened, created, migrated and refused.

use std::path::Path;

use rusqlite::Connection;
use store::{Position, Store, StoreError};
use store_sqlite::{Access, Options, SqliteStore};

use crate::bed::{File, Log, block_on, open};

fn refusal(path: &Path, access: Access) -> StoreError {
    let options = Options {
        access,
        ..Options::default()
    };
    match SqliteStore::open(path, options) {
        Ok(_) => panic!("the file was opened"),
        Err(error) => error,
    }
}

fn with_event(file: &File) {
    block_on(async {
        let mut log = Log::new("run-1");
        log.append(&file.open(), &["a".into()]).await.unwrap();
    });
}

fn sql(file: &File, script: &str) {
    Connection::open(file.path())
        .unwrap()
        .execute_batch(script)
        .unwrap();
}

#[test]
fn a_newer_store_is_refused_with_both_versions_and_left_alone() {
    let file = File::new();
    with_event(&file);
    sql(&file, "PRAGMA user_version = 99");
    for access in [Access::Create, Access::Write, Access::Read] {
        let StoreError::Unavailable(why) = refusal(&file.path(), access) else {
            panic!("a newer store is not damaged");
        };
        assert!(
            why.contains("99") && why.contains("update runwright"),
            "{why}"
        );
    }
    sql(&file, "PRAGMA user_version = 1");
    let store = file.open();
    block_on(async { assert_eq!(store.feed(Position(0), 9).await.unwrap().len(), 1) });
}

#[test]
fn a_store_from_before_the_first_release_is_refused() {
    for mark in ["0x52577374", "0x52577331"] {
        let file = File::new();
        with_event(&file);
        sql(
            &file,
            &format!("PRAGMA application_id = {mark}; PRAGMA user_version = 2"),
        );
        let before = std::fs::read(file.path()).unwrap();
        for access in [Access::Create, Access::Write, Access::Read] {
            let StoreError::Unavailable(why) = refusal(&file.path(), access) else {
                panic!("an older store is not damaged");
            };
            assert!(
                why.contains("older than the first release") && why.contains("new folder"),
                "{why}"
            );
        }
        assert_eq!(std::fs::read(file.path()).unwrap(), before);
    }
}

#[test]
fn a_new_store_has_version_1() {
    assert_eq!(store_sqlite::SCHEMA_VERSION, 1);
}

#[test]
fn a_file_that_is_not_a_store_is_rejected_and_left_alone() {
    let file = File::new();
    sql(&file, "CREATE TABLE theirs (a); PRAGMA user_version = 1");
    let before = std::fs::read(file.path()).unwrap();
    for access in [Access::Create, Access::Write, Access::Read] {
        assert!(matches!(
            refusal(&file.path(), access),
            StoreError::Corrupt(_)
        ));
    }
    assert_eq!(std::fs::read(file.path()).unwrap(), before);

    let file = File::new();
    let text = b"name: order\nsteps: a text that is no database at all\n".repeat(100);
    std::fs::write(file.path(), &text).unwrap();
    for access in [Access::Create, Access::Write, Access::Read] {
        assert!(matches!(
            refusal(&file.path(), access),
            StoreError::Corrupt(_)
        ));
    }
    assert_eq!(std::fs::read(file.path()).unwrap(), text);
}

#[test]
fn only_creating_makes_a_store() {
    for access in [Access::Write, Access::Read] {
        let file = File::new();
        assert!(matches!(
            refusal(&file.path(), access),
            StoreError::Unavailable(_)
        ));
        assert!(!file.path().exists());
        std::fs::write(file.path(), b"").unwrap();
        assert!(matches!(
            refusal(&file.path(), access),
            StoreError::Unavailable(_)
        ));
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(
        refusal(folder.path(), Access::Create),
        StoreError::Unavailable(_)
    ));
    let nowhere = folder.path().join("missing/runs.db");
    assert!(matches!(
        refusal(&nowhere, Access::Create),
        StoreError::Unavailable(_)
    ));
}

#[test]
fn a_store_made_by_many_at_once_is_one_store() {
    let file = File::new();
    let path = file.path();
    std::thread::scope(|scope| {
        for n in 0..6 {
            let path = &path;
            scope.spawn(move || {
                let store = open(path);
                block_on(async {
                    let mut log = Log::new(format!("run-{n}"));
                    log.append(&store, &["a".into()]).await.unwrap();
                });
            });
        }
    });
    let store = file.open();
    block_on(async {
        assert_eq!(store.feed(Position(0), 99).await.unwrap().len(), 6);
        assert_eq!(store.inspect().await, Ok(vec![]));
    });
}

#[test]
fn every_migration_may_run_again() {
    let file = File::new();
    with_event(&file);
    // As after a version that was committed but whose number was not, which cannot happen.
    sql(&file, "PRAGMA user_version = 0");
    let store = file.open();
    block_on(async {
        assert_eq!(store.feed(Position(0), 9).await.unwrap().len(), 1);
        assert_eq!(store.inspect().await, Ok(vec![]));
    });
}

#[test]
fn an_older_store_is_not_read_without_being_migrated() {
    let file = File::new();
    with_event(&file);
    sql(&file, "PRAGMA user_version = 0");
    let StoreError::Unavailable(why) = refusal(&file.path(), Access::Read) else {
        panic!("an older store is not damaged");
    };
    assert!(
        why.contains("open it once for writing") || why.contains("empty"),
        "{why}"
    );
}
