//! Lists of runs: filters, counts, sums of costs, and the changes of a list.

use std::time::Duration;

use runtime::access::{NewKey, Scope, Scopes};
use serde_json::{Value, json};
use server::Limits;
use tokio::time::timeout;

use crate::client::{Conn, DEADLINE, Request};
use crate::host::{Host, chain, everything, node};
use crate::models::{self, models, peer};

fn ids(page: &Value) -> Vec<String> {
    let rows = page["runs"].as_array().expect("rows");
    let id = |row: &Value| row["runId"].as_str().expect("an id").to_owned();
    rows.iter().map(id).collect()
}

async fn listed(host: &Host, query: &str) -> Vec<String> {
    ids(&host.get(&format!("/v1/runs?{query}")).await.json())
}

/// Three runs: of one principal with attributes, of another that failed, and a later one.
async fn three(host: &Host) -> [String; 3] {
    let body = json!({
        "workflowId": "three", "tags": ["nightly"],
        "metadata": { "customer": "Zürich GmbH", "batch": 7, "deep": { "not": "listed" } },
    });
    let first = host.completed(&body).await;
    let key = NewKey {
        principal: Some("robot".into()),
        ..everything()
    };
    let key = host.key(key).await;
    let made = Request::new("POST", "/v1/runs").key(&key);
    let made = made.json(&json!({ "workflowId": "fails" }));
    let made = made.send(host.address).await.json();
    let second = made["runId"].as_str().expect("a run").to_owned();
    let settled = host.engine.settled(&second.as_str().into()).await;
    settled.expect("an end");
    let third = host.create(&json!({ "workflowId": "waits" })).await;
    [first, second, third]
}

#[tokio::test]
async fn lists_are_filtered_by_text_creator_and_attribute() {
    let host = Host::new().await;
    let [first, second, third] = three(&host).await;
    for (query, wanted) in [
        ("principal=robot", vec![&second]),
        ("principal=nobody", vec![]),
        ("attribute=customer=Z%C3%BCrich%20GmbH", vec![&first]),
        ("attribute=batch=7", vec![&first]),
        ("attribute=batch=7&attribute=customer=x", vec![]),
        ("attribute=deep=listed", vec![]),
        ("text=z%C3%9CRICH", vec![&first]),
        ("text=NIGHT", vec![&first]),
        ("text=robot", vec![&second]),
        ("text=waits", vec![&third]),
        ("text=no%20such%20text", vec![]),
        ("status=failed&text=fails", vec![&second]),
        ("status=failed&status=failed", vec![&second]),
        ("status=failed&status=completed", vec![&second, &first]),
    ] {
        let found = listed(&host, query).await;
        assert_eq!(found.iter().collect::<Vec<_>>(), wanted, "{query}");
    }
    let text = format!("text={}", &third[third.len() - 8..]);
    assert_eq!(listed(&host, &text).await, [third]);
    let row = host.get("/v1/runs?attribute=batch=7").await.json()["runs"][0].clone();
    assert_eq!(
        row["attributes"],
        json!({ "customer": "Zürich GmbH", "batch": 7 })
    );
    assert_eq!(row["principal"], "somebody");
}

#[tokio::test]
async fn lists_are_filtered_by_the_time_of_creation() {
    let host = Host::new().await;
    let [first, second, third] = three(&host).await;
    let rows = host.get("/v1/runs").await.json()["runs"].clone();
    let at = rows[1]["createdAt"].as_str().expect("a time");
    let since = listed(&host, &format!("createdAfter={at}")).await;
    assert_eq!(since, [third.clone(), second.clone()]);
    let until = listed(&host, &format!("createdBefore={at}")).await;
    assert_eq!(until, [first]);
    let both = format!("createdAfter={at}&createdBefore={at}");
    assert!(listed(&host, &both).await.is_empty());
    let counted = host.get(&format!("/v1/runs:count?createdAfter={at}")).await;
    assert_eq!(counted.json()["total"], 2);
}

#[tokio::test]
async fn wrong_conditions_of_lists_are_rejected() {
    let host = Host::new().await;
    for query in [
        "createdAfter=yesterday",
        "attribute=customer",
        "attribute==x",
        &"attribute=a=b&".repeat(9),
        &format!("text={}", "x".repeat(257)),
        "owner=me",
    ] {
        for path in ["/v1/runs", "/v1/runs:count"] {
            let answer = host.get(&format!("{path}?{query}")).await;
            assert_eq!(answer.refusal(400), "validation_error", "{path}?{query}");
        }
    }
}

#[tokio::test]
async fn counts_by_status_follow_the_filters() {
    let host = Host::new().await;
    three(&host).await;
    let counts = async |query: &str| host.get(&format!("/v1/runs:count?{query}")).await.json();
    let all = counts("").await;
    assert_eq!(
        all,
        json!({
            "total": 3, "complete": true,
            "byStatus": { "completed": 1, "failed": 1, "running": 1 },
        })
    );
    for (query, wanted) in [
        ("workflowId=three", json!({ "completed": 1 })),
        ("tag=nightly", json!({ "completed": 1 })),
        ("principal=robot", json!({ "failed": 1 })),
        ("text=waits", json!({ "running": 1 })),
        ("workflowId=none", json!({})),
    ] {
        assert_eq!(counts(query).await["byStatus"], wanted, "{query}");
    }
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let theirs = Request::new("GET", "/v1/runs:count").key(&stranger);
    assert_eq!(theirs.send(host.address).await.json()["total"], 0);
}

#[tokio::test]
async fn filters_without_an_index_search_a_bounded_part() {
    let host = Host::new().await;
    let [tagged, ..] = three(&host).await;
    // More and newer runs than are searched, of another principal and without a tag.
    let columns = "tenant, next_seq, chain, packed_to, epoch, settled, runnable, queue, priority";
    let store = rusqlite::Connection::open(host.store_file()).expect("the store");
    let copied = store.execute(
        &format!(
            "WITH RECURSIVE n (n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < 21000)
             INSERT INTO streams (name, {columns}, created_at, updated_at, index_row)
             SELECT 'run-' || n, {columns}, created_at + n, updated_at,
               json_set(index_row, '$.createdAt', created_at + n,
                 '$.tags', json('[]'), '$.summary.principal', 'copy')
             FROM streams CROSS JOIN n WHERE name = ?1"
        ),
        [&tagged],
    );
    assert_eq!(copied, Ok(21_000));
    for filter in ["tag=nightly", "principal=robot", "text=robot"] {
        let counted = host.get(&format!("/v1/runs:count?{filter}")).await.json();
        assert_eq!(counted["complete"], false, "{filter}: {counted}");
    }
    let costs = host.get("/v1/costs?principal=robot").await.json();
    assert_eq!(
        (&costs["complete"], &costs["runs"]),
        (&json!(false), &json!(0))
    );
    // A page says where the search continues.
    let page = host.get("/v1/runs?tag=nightly").await.json();
    assert_eq!(page["runs"], json!([]));
    let cursor = page["nextCursor"].as_str().expect("a cursor");
    assert_eq!(
        listed(&host, &format!("tag=nightly&cursor={cursor}")).await,
        [tagged]
    );
    // A key of a workspace counts its own runs, however many its tenant has.
    let red = host.key_of("acme", Some("red"), Scopes::Everything).await;
    let made = Request::new("POST", "/v1/runs").key(&red);
    let made = made.json(&json!({ "workflowId": "three" }));
    let made = made.send(host.address).await.json();
    let run = made["runId"].as_str().expect("a run").to_owned();
    let settled = host.engine.settled(&run.as_str().into()).await;
    settled.expect("an end");
    let counted = Request::new("GET", "/v1/runs:count").key(&red);
    assert_eq!(
        counted.send(host.address).await.json(),
        json!({ "total": 1, "complete": true, "byStatus": { "completed": 1 } })
    );
}

#[tokio::test]
async fn costs_of_a_call_count_once_after_a_fork() {
    let prices = "[provider.p.price.m-1]\ninput = 10.0\noutput = 100.0";
    let host = models::host(models(prices, peer())).await;
    let ask = node(
        "ask",
        "core.ai.chatCompletion",
        json!({ "prompt": "When?" }),
    );
    host.put(&[chain("asks", &[ask, node("n", "core.noop", json!({}))])])
        .await;
    let run = host.completed(&json!({ "workflowId": "asks" })).await;
    let costs = async |by: &str| host.get(&format!("/v1/costs?by={by}")).await.json();
    let model = costs("model").await;
    assert_eq!(model["groups"][0]["name"], "p/m-1", "{model}");
    let usd = |found: &Value| found["total"]["cost"]["USD"].as_f64().expect("an amount");
    assert!((usd(&model) - 0.0013).abs() < 1e-9, "{model}");
    assert_eq!(model["total"]["calls"], 1);

    let last = host.events(&run).await.len() - 1;
    for body in [
        json!({ "mode": "replay" }),
        json!({ "mode": "branch", "fromSeq": last }),
    ] {
        let fork = host
            .post(&format!("/v1/runs/{run}:fork"), &body)
            .await
            .json();
        let fork = fork["runId"].as_str().expect("a run");
        host.engine.settled(&fork.into()).await.expect("an end");
    }
    let again = costs("workflow").await;
    assert_eq!(again["runs"], 3);
    assert_eq!(again["total"]["calls"], 1, "{again}");
    let day = costs("day").await;
    let name = day["groups"][0]["name"].as_str().expect("a day");
    assert_eq!((name.len(), name.matches('-').count()), (10, 2));
    let refused = host.get("/v1/costs?by=colour").await;
    assert_eq!(refused.refusal(400), "validation_error");
}

/// The next frame of a stream, without keep-alives.
async fn frame(conn: &mut Conn) -> String {
    loop {
        let chunk = timeout(DEADLINE, conn.chunk()).await.expect("in time");
        let text = String::from_utf8(chunk.expect("a frame")).expect("text");
        if !text.starts_with(':') {
            return text;
        }
    }
}

async fn following(host: &Host, key: &str) -> Conn {
    let mut conn = Conn::to(host.address).await;
    let request = Request::new("GET", "/v1/runs:changes").key(key);
    conn.send(&request.bytes()).await;
    assert_eq!(conn.head().await.expect("a head").0, 200);
    assert!(frame(&mut conn).await.starts_with("event: following\n"));
    conn
}

#[tokio::test]
async fn changes_reach_followers_of_their_tenant_alone() {
    let host = Host::new().await;
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let red = host.key_of("acme", Some("red"), Scopes::Everything).await;
    let mut ours = following(&host, &host.key).await;
    let mut theirs = following(&host, &stranger).await;
    let mut reds = following(&host, &red).await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let frame_of_ours = frame(&mut ours).await;
    assert!(
        frame_of_ours.starts_with("event: changed\n"),
        "{frame_of_ours}"
    );
    assert!(frame_of_ours.contains(&run), "{frame_of_ours}");
    // The first change that the others see is their own.
    for (key, conn) in [(&stranger, &mut theirs), (&red, &mut reds)] {
        let made = Request::new("POST", "/v1/runs").key(key);
        let made = made.json(&json!({ "workflowId": "waits" }));
        let made = made.send(host.address).await.json();
        let own = made["runId"].as_str().expect("a run");
        let seen = frame(conn).await;
        assert!(seen.contains(own) && !seen.contains(&run), "{seen}");
    }
}

#[tokio::test]
async fn a_recheck_while_changes_gather_loses_none() {
    let limits = Limits {
        // Shorter than changes gather.
        recheck: Duration::from_millis(5),
        ..Limits::default()
    };
    let host = Host::with(limits).await;
    let mut conn = following(&host, &host.key).await;
    let run = host.create(&json!({ "workflowId": "waits" })).await;
    let seen = frame(&mut conn).await;
    assert!(seen.contains(&run), "{seen}");
}

#[tokio::test]
async fn changes_need_a_credential_and_its_scope() {
    let host = Host::new().await;
    let anonymous = Request::new("GET", "/v1/runs:changes");
    assert_eq!(anonymous.send(host.address).await.status, 401);
    let writer = Scopes::Only([Scope::RunsCreate].into());
    let writer = host.key_of("acme", None, writer).await;
    let unscoped = Request::new("GET", "/v1/runs:changes").key(&writer);
    let refused = unscoped.send(host.address).await;
    assert_eq!(refused.refusal(403), "insufficient_scope");
}

#[tokio::test]
async fn queues_with_work_are_listed() {
    let host = Host::new().await;
    assert_eq!(
        host.get("/v1/coordinator").await.json(),
        json!({ "queues": [] })
    );
    let worker = node(
        "w",
        "runwright.worker",
        json!({ "queue": "render", "repeat": "repeatable" }),
    );
    host.put(&[chain("renders", &[worker])]).await;
    let run = host.create(&json!({ "workflowId": "renders" })).await;
    host.until(&run, |status| status != "pending").await;
    let take = json!({ "worker": "w", "wait_ms": 10_000 });
    let taken = host.post("/v1/coordinator/render/take", &take).await;
    assert_eq!(taken.status, 200, "{}", taken.json());
    let found = host.get("/v1/coordinator").await.json();
    assert_eq!(found["queues"][0]["queue"], "render", "{found}");
    assert_eq!(found["queues"][0]["notified"], 1, "{found}");
    let stranger = host.key_of("umbrella", None, Scopes::Everything).await;
    let theirs = Request::new("GET", "/v1/coordinator").key(&stranger);
    let theirs = theirs.send(host.address).await.json();
    assert_eq!(theirs, json!({ "queues": [] }));
}
