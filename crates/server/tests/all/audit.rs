//! The audit trail over HTTP.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use runtime::access::Scopes;
use runtime::access::signing::PublicKey;
use serde_json::{Value, json};

use crate::client::Request;
use crate::host::Host;

async fn verify(host: &Host, query: &str) -> Value {
    let answer = host.get(&format!("/v1/audit/verify{query}")).await;
    assert_eq!(answer.status, 200, "{}", answer.json());
    answer.json()
}

#[tokio::test]
async fn checkpoints_are_made_in_time_and_verify_with_the_advertised_key() {
    let host = Host::new().await;
    for n in 0..3 {
        let order = json!({ "url": format!("https://1.1.1.{n}/"), "events": ["*"] });
        assert_eq!(host.post("/v1/webhooks", &order).await.status, 201);
    }
    // The engine does it by itself, a moment after the last entry.
    let report = loop {
        let report = verify(&host, "?fromSeq=0&toSeq=1000000").await;
        let at = report["checkpoints"].as_array().unwrap().last();
        // The key of the host itself, and three webhooks.
        if at.is_some_and(|at| at["atSequence"].as_u64() >= Some(3)) {
            break report;
        }
        tokio::task::yield_now().await;
    };
    assert_eq!(report["chainValid"], true);
    assert_eq!(report["checkpointsValid"], true);
    assert_eq!(report["anomalies"], json!([]));
    assert_eq!(
        (&report["fromSeq"], &report["toSeq"]),
        (&json!(0), &json!(1_000_000))
    );
    let capabilities = host.get("/.well-known/openwop").await.json();
    let auth = &capabilities["auth"];
    assert!(
        auth["profiles"]
            .to_string()
            .contains("openwop-audit-log-integrity")
    );
    let integrity = &auth["auditLogIntegrity"];
    assert_eq!(integrity["hashChain"], true);
    assert_eq!(integrity["checkpointSignatureAlgorithm"], "ed25519");
    let spki = integrity["checkpointPublicKey"].as_str().unwrap();
    assert!(PublicKey::read(spki).is_some());
    let key = STANDARD.decode(spki).unwrap();
    let key = ring::signature::UnparsedPublicKey::new(&ring::signature::ED25519, &key[12..]);
    let mut covered = None;
    for checkpoint in report["checkpoints"].as_array().unwrap() {
        let hex = checkpoint["merkleRoot"].as_str().unwrap();
        let root: Vec<u8> = (0..32)
            .map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).unwrap())
            .collect();
        let signature = STANDARD
            .decode(checkpoint["signature"].as_str().unwrap())
            .unwrap();
        key.verify(&root, &signature)
            .expect("the raw root is signed");
        let at = checkpoint["atSequence"].as_u64();
        assert!(covered < at, "ascending");
        covered = at;
    }
    let part = verify(&host, "?fromSeq=1&toSeq=2").await;
    assert_eq!((&part["fromSeq"], &part["toSeq"]), (&json!(1), &json!(2)));
    assert_eq!(part["chainValid"], true);
    for query in ["?fromSeq=2&toSeq=1", "?fromSeq=-1", "?toSeq=x"] {
        let refused = host.get(&format!("/v1/audit/verify{query}")).await;
        assert_eq!(refused.refusal(400), "validation_error", "{query}");
    }
    let metrics = String::from_utf8(host.get("/metrics").await.body).unwrap();
    assert!(
        metrics.contains("runwright_audit_outbox_entries"),
        "{metrics}"
    );
    host.stop().await;
}

#[tokio::test]
async fn a_tenant_without_a_trail_and_a_key_of_a_workspace_see_no_entry_of_others() {
    let host = Host::new().await;
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let bound = host.key_of("acme", Some("red"), Scopes::Everything).await;
    let request = Request::new("GET", "/v1/audit/verify").key(&stranger);
    let report = request.send(host.address).await.json();
    assert_eq!(report["chainValid"], true);
    assert!(
        report["toSeq"].as_u64() <= Some(1),
        "its own key alone: {report}"
    );
    let request = Request::new("GET", "/v1/audit/verify").key(&bound);
    assert_eq!(request.send(host.address).await.refusal(404), "not_found");
    host.stop().await;
}
