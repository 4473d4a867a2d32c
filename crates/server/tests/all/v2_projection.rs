//! Stored facts in OpenWOP 2: all of them are shown, in its own words.

use std::path::Path;

use kernel::delivery::{Deliveries, Item, Outcome, Sent};
use kernel::ids::WebhookId;
use runtime::access::AuthOptions;
use runtime::outbound::Outbound;
use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;
use store::{Guard, LeaseChange, ReadFrom};

use crate::client::Request;
use crate::gates::signoff;
use crate::host::{Host, Models};
use crate::v2::{KEY, at, create, get, post};
use crate::workbench::session::{SECRET, session};
use crate::workbench::{ID, document};

/// Creates a run of a workflow and waits for its end.
async fn ended(host: &Host, workflow: &str) -> String {
    let run = create(host, &json!({ "workflowId": workflow })).await;
    let id = run.strip_prefix("acme/").unwrap();
    host.engine.settled(&id.into()).await.unwrap();
    run
}

#[tokio::test]
async fn a_diff_is_in_the_words_of_version_2() {
    let host = Host::new().await;
    let order = json!({
        "workflowId": "fails",
        "configurable": { "version": 1, "ai": { "model": "m" } },
    });
    let failed = create(&host, &order).await;
    let id = failed.strip_prefix("acme/").unwrap();
    host.engine.settled(&id.into()).await.unwrap();
    let completed = ended(&host, "three").await;
    let path = format!(
        "{}:diff?against={}",
        at(&completed),
        failed.replace('/', "~2F")
    );
    let diff = get(&host, &path).await.json();
    assert_eq!(
        (&diff["a"], &diff["b"]),
        (&json!(completed), &json!(failed))
    );
    let snapshot = get(&host, &at(&failed)).await.json();
    let states = &diff["stateDiff"];
    assert_eq!(states["error"]["b"]["code"], snapshot["error"]["code"]);
    assert_eq!(
        states["nodeStates"]["fail"]["b"]["error"],
        snapshot["nodeStates"]["fail"]["error"]
    );
    assert_eq!(states["configurable"]["b"]["ai"]["model"], "m");
}

#[tokio::test]
async fn a_forged_token_is_the_same_with_and_without_a_key() {
    let host = Host::new().await;
    for key in [None, Some(KEY)] {
        let request = Request::new("POST", "/interrupts/nothing")
            .header("openwop-version", "2")
            .json(&json!({ "resumeValue": 1 }));
        let request = match key {
            Some(key) => request.header("idempotency-key", key),
            None => request,
        };
        let refused = request.send(host.address).await;
        assert_eq!(refused.refusal(401), "interrupt_token_invalid", "{key:?}");
    }
}

#[tokio::test]
async fn links_work_without_a_header() {
    let host = Host::new().await;
    host.add(&signoff(&json!({ "title": "Ship it?" }))).await;
    let run = create(&host, &json!({ "workflowId": "signoff" })).await;
    let id = run.strip_prefix("acme/").unwrap();
    host.until(id, |status| status == "waiting-approval").await;
    let snapshot = host.get(&at(&run)).await.json();
    assert_eq!(snapshot["runId"], run);
    let open = &snapshot["extensions"]["runwright.run"]["interrupts"][0];
    let link = open["callbackUrl"].as_str().unwrap();
    let shown = Request::new("GET", link).send(host.address).await;
    assert_eq!(shown.status, 200, "{}", shown.json());
    assert_eq!(shown.header("openwop-version"), Some("2.0"));
}

#[tokio::test]
async fn a_damaged_run_does_not_hide_the_list() {
    let host = Host::new().await;
    let (whole, damaged) = (ended(&host, "three").await, ended(&host, "fails").await);
    let store = rusqlite::Connection::open(host.store_file()).unwrap();
    let id = damaged.strip_prefix("acme/").unwrap();
    let of_run = "stream = (SELECT id FROM streams WHERE name = ?1)";
    for sql in [
        format!("UPDATE events SET content = X'7B' WHERE {of_run}"),
        format!("DELETE FROM checkpoints WHERE {of_run}"),
    ] {
        store.execute(&sql, [id]).unwrap();
    }
    let refused = get(&host, &at(&damaged)).await;
    assert_eq!(refused.refusal(500), "internal_error");
    let page = get(&host, "/runs").await;
    assert_eq!(page.status, 200, "{}", page.json());
    let runs = page.json()["runs"].as_array().unwrap().clone();
    let of = |id: &str| runs.iter().find(|run| run["runId"] == *id).unwrap().clone();
    assert_eq!(of(&whole)["status"], "completed");
    let shown = of(&damaged);
    assert_eq!(shown["status"], "failed");
    assert_eq!(shown["workflowId"], "fails");
    assert_eq!(shown["extensions"]["runwright.run"]["unreadable"], true);
    assert_eq!(shown["owner"]["subject"]["issuer"], "urn:openwop:legacy");
}

#[tokio::test]
async fn unknown_filters_are_reported_and_ignored() {
    let host = Host::new().await;
    let run = ended(&host, "three").await;
    let page = get(&host, "/runs?colour=red").await;
    assert_eq!(page.status, 200);
    assert!(page.header("runwright-warning").is_some());
    assert_eq!(page.json()["runs"][0]["runId"], run);
    let parent = run.replace('/', "~2F");
    let children = get(&host, &format!("/runs?parentRunId={parent}")).await;
    assert_eq!(children.json(), json!({ "runs": [] }));
    let foreign = get(&host, "/runs?parentRunId=umbrella~2Frun-1").await;
    assert_eq!(foreign.refusal(403), "id_tenant_mismatch");
}

#[tokio::test]
async fn an_open_server_claims_no_lane() {
    let host = Host::new().await;
    let gate = server::Gate::open_to("acme".into());
    let api = runtime::api::Api::new(host.engine.clone());
    let app = server::App::new(api, gate, Limits::default());
    let listening = server::listen::Listening::at(([127, 0, 0, 1], 0).into(), app);
    let listening = listening.await.unwrap();
    let address = listening.address();
    let serving = tokio::spawn(listening.serve());
    let root = Request::new("GET", "/.well-known/openwop").header("openwop-version", "2");
    let root = root.send(address).await.json();
    serving.abort();
    assert_eq!(root.get("auth"), None);
    assert!(get(&host, "/.well-known/openwop").await.json()["auth"].is_object());
}

#[tokio::test]
async fn subjects_of_tokens_keep_their_issuer() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("secret"), SECRET).unwrap();
    let text = "[jwt]\nissuer='https://sign-in.example'\nalgorithm='HS256'\nsecret='file:secret'\n\
                authorized_parties=['https://app.example.org']\n\
                grant=['runs:read','runs:create','approvals:respond']\n\
                [jwt.claims]\ntenant=['org_id']\n";
    let auth = AuthOptions::parse(text, Path::new(folder.path()), Outbound::default());
    let models = Models {
        auth: auth.unwrap_or_else(|why| panic!("{why}")),
        ..Models::default()
    };
    let host = Host::with_models(Limits::default(), Reach::Public, models).await;
    let token = session(&json!({ "org_id": "acme" }));
    let ask = async |method: &str, path: &str, body: Option<&Value>| {
        let request = Request::new(method, path).key(&token);
        let request = match body {
            Some(body) => request.json(body),
            None => request,
        };
        let answer = request.send(host.address).await;
        assert!(answer.status < 300, "{path}: {}", answer.json());
        answer
    };
    let save = format!("/api/runs/{ID}");
    ask("PUT", &save, Some(&document(ID))).await;
    let shown = ask("GET", &at(ID), None).await.json();
    let issuer = json!("https://sign-in.example");
    let subject = &shown["owner"]["subject"];
    assert_eq!(
        (&subject["lane"], &subject["issuer"]),
        (&json!("oidc"), &issuer)
    );
    host.add(&signoff(&json!({ "title": "Ship it?" }))).await;
    let order = json!({ "workflowId": "signoff" });
    let run = ask("POST", "/runs", Some(&order)).await.json();
    let run = run["runId"].as_str().unwrap().to_owned();
    let id = run.strip_prefix("acme/").unwrap();
    host.until(id, |status| status == "waiting-approval").await;
    let snapshot = ask("GET", &at(&run), None).await.json();
    let node = snapshot["currentNodeId"].as_str().unwrap();
    let accept = json!({ "resumeValue": { "action": "accept" } });
    let address = format!("{}/interrupts/{node}", at(&run));
    ask("POST", &address, Some(&accept)).await;
    host.engine.settled(&id.into()).await.unwrap();
    let page = ask("GET", &format!("{}/events/poll", at(&run)), None).await;
    let events = page.json()["events"].as_array().unwrap().clone();
    let by = |kind: &str| {
        let found = events.iter().find(|event| event["type"] == kind).unwrap();
        found["payload"]["resolvedBy"].clone()
    };
    let answerer = by("interrupt.resolved");
    assert_eq!(
        (&answerer["lane"], &answerer["issuer"]),
        (&json!("oidc"), &issuer)
    );
    // The log has only a name here.
    assert_eq!(by("approval.received")["issuer"], "urn:openwop:legacy");
}

#[tokio::test]
async fn dead_letters_of_thirty_days_are_all_listed() {
    let host = Host::new().await;
    let order = json!({ "url": "https://a.example/in", "events": ["run.dead-lettered"] });
    let made = post(&host, "/webhooks", &order).await;
    assert_eq!(made.status, 201, "{}", made.json());
    let id = made.json()["webhookId"].as_str().unwrap().to_owned();
    let webhook = WebhookId::new(id.strip_prefix("acme/").unwrap());
    let store = host.engine.door().store();
    let stream = Deliveries::stream(&"acme".into(), &webhook);
    let outcomes = |from: usize| -> Vec<Outcome> {
        let outcome = |n: usize| Outcome {
            item: Item {
                run_id: format!("run-{n:016}").as_str().into(),
                sequence: 1,
                event_type: "run.dead_lettered".to_owned(),
            },
            sent: Sent::Impossible {
                why: "too large".to_owned(),
            },
        };
        (from..from + 50).map(outcome).collect()
    };
    for part in 0..4 {
        let loaded = store
            .load(&stream, ReadFrom::Seq(0), usize::MAX)
            .await
            .unwrap();
        let mut log = Deliveries::at_start(loaded.header);
        for record in &loaded.records {
            log.fold_content(&record.content).unwrap();
        }
        let (batch, _) = log.settle(outcomes(part * 50), None, store.now());
        store
            .append(batch, Guard::Outside, LeaseChange::Keep)
            .await
            .unwrap();
    }
    let path = format!("/webhooks/{}/dead-letters", id.replace('/', "~2F"));
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let query = match &cursor {
            Some(cursor) => format!("{path}?limit=90&cursor={cursor}"),
            None => format!("{path}?limit=90"),
        };
        let page = get(&host, &query).await.json();
        for letter in page["deliveries"].as_array().unwrap() {
            found.push(letter["runId"].as_str().unwrap().to_owned());
        }
        match page["nextCursor"].as_str() {
            Some(next) => cursor = Some(next.to_owned()),
            None => break,
        }
    }
    let newest_first = (0..200).rev().map(|n| format!("acme/run-{n:016}"));
    assert_eq!(found, newest_first.collect::<Vec<_>>());
    let forged = get(&host, &format!("{path}?cursor=7-0000000000000000")).await;
    assert_eq!(forged.refusal(400), "validation_error");
    host.stop().await;
}
