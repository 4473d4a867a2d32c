//! Lists: index rows by filter, newest first, in pages.

use std::collections::BTreeMap;

use kernel::ids::StreamId;
use kernel::stream::StreamKind;

use super::world::*;
use crate::*;

/// Streams `run-0` .. `run-5`, newest last; each differs from the others in something.
async fn six(w: &World<'_>) {
    for n in 0..6_u64 {
        let tenant = if n == 5 { "globex" } else { "acme" };
        let mut log = Log::for_tenant(tenant, &format!("run-{n}"));
        let draft = log.next(["a"]).index(|row| {
            row.created_at = START.plus_ms(n);
            row.kind = if n == 4 {
                StreamKind::Document
            } else {
                StreamKind::Run
            };
            row.workspace = (n < 3).then(|| format!("w{}", n % 2));
            row.subject = format!("s{}", n % 2);
            row.status = ["pending", "running", "done"][n as usize % 3].into();
            row.tags = (0..n).map(|tag| format!("tag-{tag}")).collect();
            row.parent = (n == 1 || n == 2).then(|| StreamId::new("run-0"));
        });
        w.put(&mut log, draft).await;
    }
}

pub(super) async fn the_newest_creation_goes_first(w: World<'_>) {
    six(&w).await;
    assert_eq!(
        w.listed(everything()).await,
        ["run-5", "run-4", "run-3", "run-2", "run-1", "run-0"]
    );
    let limited = ListQuery {
        limit: 2,
        ..everything()
    };
    assert_eq!(w.listed(limited).await, ["run-5", "run-4"]);
    assert_eq!(w.listed(ListQuery::default()).await, [""; 0]);
}

pub(super) async fn every_filter_given_must_match(w: World<'_>) {
    six(&w).await;
    let acme = || ListQuery {
        tenant: Some("acme".into()),
        ..everything()
    };
    let some = |text: &str| Some(text.to_owned());
    let cases: [(ListQuery, &[&str]); 14] = [
        (acme(), &["run-4", "run-3", "run-2", "run-1", "run-0"]),
        (
            ListQuery {
                tenant: Some("globex".into()),
                ..everything()
            },
            &["run-5"],
        ),
        (
            ListQuery {
                tenant: Some("initech".into()),
                ..everything()
            },
            &[],
        ),
        (
            ListQuery {
                workspace: some("w0"),
                ..acme()
            },
            &["run-2", "run-0"],
        ),
        (
            ListQuery {
                kind: Some(StreamKind::Document),
                ..everything()
            },
            &["run-4"],
        ),
        (
            ListQuery {
                subject: some("s1"),
                ..everything()
            },
            &["run-5", "run-3", "run-1"],
        ),
        (
            ListQuery {
                statuses: vec!["done".into()],
                ..acme()
            },
            &["run-2"],
        ),
        (
            ListQuery {
                statuses: vec!["done".into(), "pending".into()],
                ..everything()
            },
            &["run-5", "run-3", "run-2", "run-0"],
        ),
        (
            ListQuery {
                tag: some("tag-3"),
                ..everything()
            },
            &["run-5", "run-4"],
        ),
        (
            ListQuery {
                tag: some("tag-"),
                ..everything()
            },
            &[],
        ),
        (
            ListQuery {
                parent: Some("run-0".into()),
                ..everything()
            },
            &["run-2", "run-1"],
        ),
        (
            ListQuery {
                since: Some(START.plus_ms(3)),
                ..acme()
            },
            &["run-4", "run-3"],
        ),
        (
            ListQuery {
                kind: Some(StreamKind::Run),
                statuses: vec!["pending".into()],
                ..acme()
            },
            &["run-3", "run-0"],
        ),
        (
            ListQuery {
                workspace: some("w0"),
                kind: Some(StreamKind::Run),
                subject: some("s0"),
                statuses: vec!["done".into()],
                tag: some("tag-1"),
                parent: Some("run-0".into()),
                ..acme()
            },
            &["run-2"],
        ),
    ];
    for (query, wanted) in cases {
        assert_eq!(w.listed(query.clone()).await, wanted, "{query:?}");
        let mut counts = BTreeMap::new();
        for row in w.list(query.clone()).await.unwrap() {
            *counts.entry(row.index.status).or_default() += 1;
        }
        let query = ListQuery { limit: 0, ..query };
        assert_eq!(w.store.count(query.clone()).await, Ok(counts), "{query:?}");
    }
}

pub(super) async fn a_row_shows_the_current_stream(mut w: World<'_>) {
    let mut log = w.create("run-1").await;
    let draft = log.next(["a", "b"]).index(|row| {
        row.status = "done".into();
        row.settled = true;
        row.tags = vec!["new".into()];
        row.summary = serde_json::json!({"n": 1});
    });
    w.put(&mut log, draft).await;
    w.reopen().await;
    let wanted = Listed {
        stream: log.id().clone(),
        tenant: log.header.tenant().clone(),
        next_seq: 3,
        index: log.index.clone(),
    };
    assert_eq!(w.list(everything()).await, Ok(vec![wanted]));
    let old = ListQuery {
        statuses: vec!["running".into()],
        ..everything()
    };
    assert_eq!(w.listed(old).await, [""; 0]);
    let draft = log.next(["c"]).index(|row| row.tags.clear());
    w.put(&mut log, draft).await;
    assert_eq!(
        w.listed(ListQuery {
            tag: Some("new".into()),
            ..everything()
        })
        .await,
        [""; 0]
    );
}

pub(super) async fn pages_follow_each_other_without_gap_or_double(w: World<'_>) {
    for n in 0..11_u64 {
        // Three streams share each creation time.
        let mut log = Log::new(&format!("run-{n:02}"));
        let draft = log
            .next(["a"])
            .index(|row| row.created_at = START.plus_ms(n / 3));
        w.put(&mut log, draft).await;
    }
    let all = w.list(everything()).await.unwrap();
    let ids: Vec<_> = all.iter().map(|row| row.stream.as_str()).collect();
    let wanted: Vec<_> = (0..11).rev().map(|n| format!("run-{n:02}")).collect();
    assert_eq!(ids, wanted, "equal times are ordered by id, descending");
    for limit in 1..5 {
        let mut pages = Vec::new();
        let mut after = None;
        // Bounded, so that a page that does not advance fails instead of hanging.
        for _ in 0..=all.len() {
            let query = ListQuery {
                after,
                limit,
                ..everything()
            };
            let page = w.list(query).await.unwrap();
            assert!(page.len() <= limit);
            let Some(last) = page.last() else { break };
            after = Some(ListCursor {
                created_at: last.index.created_at,
                stream: last.stream.clone(),
            });
            pages.extend(page);
        }
        assert_eq!(pages, all);
    }
}

pub(super) async fn a_cursor_outlives_its_row(w: World<'_>) {
    for n in 0..4 {
        w.create(&format!("run-{n}")).await;
    }
    let cursor = ListCursor {
        created_at: START,
        stream: "run-2".into(),
    };
    w.purge(&cursor.stream, "gone").await.unwrap();
    w.create("run-9").await;
    let query = ListQuery {
        after: Some(cursor),
        ..everything()
    };
    assert_eq!(w.listed(query).await, ["run-1", "run-0"]);
}
