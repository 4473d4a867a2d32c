//! Concurrent writers that do not know of each other.

use std::collections::BTreeSet;

use serde_json::json;

use super::{Caller, ID, code, document, noted};
use crate::host::Host;

const WRITERS: usize = 64;

#[tokio::test]
async fn no_acknowledged_save_of_64_stale_writers_is_lost() {
    let host = Host::new().await;
    let caller = Caller::new(&host);
    caller.saved(&document(ID)).await;
    // Each knows only the beginning, and its own saves.
    let writers = (0..WRITERS).map(|n| {
        let caller = caller.clone();
        async move {
            let mut saves = Vec::new();
            let mut own = document(ID);
            for round in 0..2 {
                own = noted(own, &format!("{n}/{round}"));
                let answer = caller.saved(&own).await;
                let tag = answer.header("etag").unwrap().trim_matches('"').to_owned();
                let number = answer.header("run-save").unwrap().to_owned();
                saves.push((tag, number, own.clone()));
            }
            saves
        }
    });
    let acknowledged = futures_util::future::join_all(writers).await;
    let path = format!("/api/runs/{ID}/revisions?limit=500");
    let history = caller.get(&path).await.json();
    let rows = history["revisions"].as_array().unwrap();
    let kept: BTreeSet<&str> = rows
        .iter()
        .map(|row| row["digest"].as_str().unwrap())
        .collect();
    assert_eq!(rows.len(), 1 + 2 * WRITERS, "each is a save of its own");
    for (tag, number, document) in acknowledged.iter().flatten() {
        assert!(kept.contains(tag.as_str()), "{tag} is lost");
        let path = format!("/api/runs/{ID}?save={number}");
        assert_eq!(caller.get(&path).await.json(), *document, "save {number}");
    }
    // And each save in the history can be read again.
    for row in rows {
        let path = format!("/api/runs/{ID}?save={}", row["save"]);
        let answer = caller.get(&path).await;
        assert_eq!(answer.status, 200);
        assert_eq!(
            answer.header("etag").unwrap().trim_matches('"'),
            row["digest"]
        );
    }
    assert!(rows.iter().any(|row| row["branch"] == json!(true)));
    assert!(caller.list("").await[0]["branches"].as_u64().unwrap() > 0);
}

#[tokio::test]
async fn a_server_may_refuse_stale_saves() {
    let limits = server::Limits {
        saves: server::Saves::Continue,
        ..server::Limits::default()
    };
    let host = Host::with(limits).await;
    let caller = Caller::new(&host);
    caller.saved(&document(ID)).await;
    caller.saved(&noted(document(ID), "one")).await;
    let refused = caller.put(&noted(document(ID), "other")).await;
    assert_eq!(code(&refused, 409), "STALE_REVISION");
    caller
        .saved(&noted(noted(document(ID), "one"), "two"))
        .await;
}
