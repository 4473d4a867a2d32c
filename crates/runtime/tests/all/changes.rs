//! Following which runs change.

use std::sync::Arc;

use kernel::run::Start;
use runtime::access::{Principal, Scopes};
use runtime::api::{Api, RunChanges};
use store::Store;

use crate::engine::{chain, create, engine_on, memory};
use crate::support::Lab;

fn who() -> Principal {
    Principal {
        tenant: "local".into(),
        workspace: None,
        run: None,
        id: "ci".into(),
        issuer: None,
        scopes: Scopes::Everything,
        groups: Default::default(),
        roles: Default::default(),
    }
}

fn api(store: &Arc<dyn Store>, lab: &Lab) -> Api {
    Api::new(engine_on(store.clone(), "another", lab))
}

async fn follow(api: &Api) -> RunChanges {
    api.follow_runs(&who()).await.expect("a follower")
}

async fn made(api: &Api) -> String {
    let run = create(api.engine(), &chain(), Start::WhenClaimed).await;
    run.header.stream.to_string()
}

async fn next(changes: &mut RunChanges) -> (Vec<String>, bool) {
    let changed = changes.next().await.expect("changes");
    let runs = changed.runs.iter().map(ToString::to_string);
    (runs.collect(), changed.has_more)
}

#[tokio::test(start_paused = true)]
async fn changes_by_another_process_are_seen_without_hints() {
    let (lab, store) = (Lab::new(), memory());
    let (ours, other) = (api(&store, &lab), api(&store, &lab));
    made(&other).await;
    let mut changes = follow(&ours).await;
    let run = made(&other).await;
    assert_eq!(next(&mut changes).await, (vec![run], false));
}

#[tokio::test(start_paused = true)]
async fn each_follower_sees_each_change_once() {
    let (lab, store) = (Lab::new(), memory());
    let api = api(&store, &lab);
    let mut early = follow(&api).await;
    let one = made(&api).await;
    assert_eq!(next(&mut early).await, (vec![one], false));
    let two = made(&api).await;
    // It begins after a change that the other has not seen yet.
    let mut late = follow(&api).await;
    let three = made(&api).await;
    assert_eq!(next(&mut late).await, (vec![three.clone()], false));
    let mut rest = vec![two, three];
    rest.sort();
    assert_eq!(next(&mut early).await, (rest, false));
}

#[tokio::test(start_paused = true)]
async fn a_follower_far_behind_learns_that_more_changed() {
    let (lab, store) = (Lab::new(), memory());
    let api = api(&store, &lab);
    let mut changes = follow(&api).await;
    for _ in 0..1_100 {
        made(&api).await;
    }
    let (runs, has_more) = next(&mut changes).await;
    assert!(has_more && runs.len() <= 100, "{}", runs.len());
    let run = made(&api).await;
    assert_eq!(next(&mut changes).await, (vec![run], false));
}
