//! Artifacts over HTTP.

use kernel::digest::Digest;
use serde_json::{Value, json};

use crate::client::Request;
use crate::host::{Host, chain};
use crate::peer::Peer;

/// A run whose only node fetched a text that is too long for an event.
pub(crate) async fn fetched(text: &str) -> (Host, Peer, String) {
    let peer = Peer::saying(text).await;
    let host = Host::asking(&[peer.address.to_string()]).await;
    let fetch = json!({
        "id": "fetch", "typeId": "runwright.http", "name": "fetch",
        "position": { "x": 0, "y": 0 }, "inputs": {},
        "config": { "url": format!("http://{}/", peer.address), "captureBytes": 16 },
    });
    let answer = host
        .post("/v1/workflows", &chain("fetches", &[fetch]))
        .await;
    assert_eq!(answer.status, 201, "{}", answer.json());
    let run = host.completed(&json!({ "workflowId": "fetches" })).await;
    let snapshot = host.get(&format!("/v1/runs/{run}")).await.json();
    assert_eq!(snapshot["status"], "completed", "{snapshot:#}");
    (host, peer, run)
}

async fn only_artifact(host: &Host, run: &str) -> Value {
    let listed = host.get(&format!("/v1/runs/{run}/artifacts")).await.json();
    let [only] = &listed["artifacts"].as_array().unwrap()[..] else {
        panic!("one artifact: {listed:#}");
    };
    only.clone()
}

#[tokio::test]
async fn an_artifact_is_read_whole_and_in_ranges() {
    let text: String = (0..400_000)
        .map(|n| char::from(b'a' + (n % 26) as u8))
        .collect();
    let (host, _peer, run) = fetched(&text).await;
    let artifact = only_artifact(&host, &run).await;
    assert_eq!(artifact["nodeId"], "fetch");
    assert_eq!(artifact["size"], text.len());
    let digest = Digest::compute(text.as_bytes()).to_string();
    assert_eq!(artifact["sha256"], digest.as_str());
    let created = host
        .get(&format!("/v1/runs/{run}/events/poll"))
        .await
        .json();
    let created = created["events"].as_array().unwrap().iter();
    let mut created = created.filter(|event| event["type"] == "artifact.created");
    let told = &created.next().expect("the log tells of it")["payload"];
    assert_eq!(told["artifactId"], artifact["artifactId"]);

    let url = artifact["url"].as_str().unwrap();
    let whole = host.get(url).await;
    assert_eq!((whole.status, &whole.body[..]), (200, text.as_bytes()));
    assert_eq!(whole.header("content-type"), artifact["mediaType"].as_str());
    let tag = format!("\"{digest}\"");
    assert_eq!(whole.header("etag"), Some(tag.as_str()));
    assert_eq!(whole.header("accept-ranges"), Some("bytes"));

    let with = |name: &str, value: &str| {
        let request = Request::new("GET", url).key(&host.key);
        request.header(name, value).send(host.address)
    };
    for (from, to) in [(0, 9), (262_143, 262_145), (399_990, 399_999)] {
        let part = with("range", &format!("bytes={from}-{to}")).await;
        assert_eq!(part.status, 206);
        assert_eq!(part.body, text.as_bytes()[from..=to]);
        let said = format!("bytes {from}-{to}/400000");
        assert_eq!(part.header("content-range"), Some(said.as_str()));
    }
    let end = with("range", "bytes=-5").await;
    assert_eq!(
        (end.status, end.body),
        (206, text.as_bytes()[399_995..].to_vec())
    );
    let behind = with("range", "bytes=400000-").await;
    assert_eq!(behind.refusal(416), "range_not_satisfiable");
    let same = with("if-none-match", &tag).await;
    assert_eq!((same.status, same.body.len()), (304, 0));
    let head = Request::new("HEAD", url).key(&host.key);
    let head = head.bytes();
    let mut conn = crate::client::Conn::to(host.address).await;
    conn.send(&head).await;
    let (status, headers) = conn.head().await.expect("an answer");
    assert_eq!(status, 200);
    assert!(headers.contains(&("content-length".into(), "400000".into())));

    let none = host.get(&format!("/v1/runs/{run}/artifacts/none")).await;
    assert_eq!(none.refusal(404), "not_found");
    let nobody = Request::new("GET", &format!("/v1/runs/{run}/artifacts/none"));
    assert_eq!(
        nobody.send(host.address).await.refusal(401),
        "unauthenticated"
    );
    let bare = host.completed(&json!({ "workflowId": "three" })).await;
    let listed = host.get(&format!("/v1/runs/{bare}/artifacts")).await.json();
    assert_eq!(listed, json!({ "artifacts": [] }));
}

#[tokio::test]
async fn a_replay_fetches_nothing_and_has_its_own_artifact() {
    let text = "x".repeat(1_000);
    let (host, peer, run) = fetched(&text).await;
    let asked = peer.asked();
    assert_eq!(asked, 1);
    let forked = host
        .post(
            &format!("/v1/runs/{run}:fork"),
            &json!({ "mode": "replay" }),
        )
        .await;
    let replay = forked.json()["runId"].as_str().unwrap().to_owned();
    assert_eq!(peer.asked(), asked, "the peer counts");
    // The source may be erased: the replay keeps its references.
    let store = host.engine.door().store();
    store.purge(&run.as_str().into(), "test").await.unwrap();
    let artifact = only_artifact(&host, &replay).await;
    let body = host.get(artifact["url"].as_str().unwrap()).await.body;
    assert_eq!(body, text.as_bytes());
}

#[tokio::test]
async fn artifacts_of_a_node_with_a_sensitive_port_are_never_shown() {
    let peer = Peer::saying(&"canary".repeat(100)).await;
    let host = Host::asking(&[peer.address.to_string()]).await;
    let mut fetch = json!({
        "id": "fetch", "typeId": "runwright.http", "name": "fetch",
        "position": { "x": 0, "y": 0 }, "inputs": {},
        "config": { "url": format!("http://{}/", peer.address), "captureBytes": 16 },
    });
    fetch["outputSensitivity"] = json!({ "body": true });
    host.put(&[chain("fetches", &[fetch])]).await;
    let run = host.completed(&json!({ "workflowId": "fetches" })).await;
    let artifact = only_artifact(&host, &run).await;
    assert_eq!(artifact["size"], 600);
    let refused = host.get(artifact["url"].as_str().unwrap()).await;
    assert!(!String::from_utf8_lossy(&refused.body).contains("canary"));
    assert_eq!(refused.refusal(403), "forbidden");
}
