//! Provider policies over HTTP: every mode, in every scope, checked against the requests sent.

use std::path::Path;

use runtime::access::Scopes;
use runtime::models::Providers;
use runtime::outbound::Outbound;
use runtime::secrets::{FileSecrets, SecretSources};
use runtime::webhooks::Reach;
use serde_json::{Value, json};
use server::Limits;

use crate::client::Request;
use crate::host::{Host, Models, chain, node};
use crate::model::{Model, Says};

const ANSWERS: [Says; 1] = [Says::Text("Yes.")];

/// A host with a provider of its own, one that accepts other credentials, and policies.
async fn host(model: &Model, vault: &Path, policies: &str) -> Host {
    let address = model.address;
    let text = format!(
        "default = \"p\"\n[provider.p]\nbase_url = \"http://{address}/v1\"\nmodel = \"m-1\"\n\
         [provider.own]\nbase_url = \"http://{address}/v1\"\nmodel = \"m-1\"\nbyok = false\n{policies}"
    );
    let models = Models {
        providers: Providers::parse(&text, Path::new("/")).unwrap(),
        outbound: Outbound::new(address.to_string().parse().unwrap()),
        secrets: SecretSources::none().with_files(FileSecrets::new(vault)),
        ..Models::default()
    };
    let host = Host::with_models(Limits::default(), Reach::Public, models).await;
    let ask = node(
        "ask",
        "core.ai.chatCompletion",
        json!({ "prompt": "Is it so?" }),
    );
    host.put(&[chain("ask", &[ask])]).await;
    host
}

/// The result of a run with these settings: `ok`, or the error.
async fn asked(host: &Host, key: &str, configurable: Value) -> String {
    let order = json!({ "workflowId": "ask", "configurable": configurable });
    let request = Request::new("POST", "/v1/runs").key(key).json(&order);
    let made = request.send(host.address).await.json();
    let run = made["runId"].as_str().unwrap();
    let stands = |status: &str| !matches!(status, "pending" | "running");
    let snapshot = host.until(run, stands).await;
    if snapshot["status"] != "waiting-input" {
        crate::schemas::check_log(host, run).await;
    }
    let error = if snapshot["status"] == "waiting-input" {
        // Missing credentials become a question.
        &snapshot["interrupt"]["payload"]["data"]["payload"]["error"]
    } else {
        &snapshot["error"]
    };
    match error["details"]["reason"].as_str() {
        Some(reason) => {
            assert_eq!(error["code"], "provider_policy_denied");
            format!("{reason} {}", error["details"]["scope"].as_str().unwrap())
        }
        None if snapshot["status"] == "completed" => "ok".to_owned(),
        None => error["code"].as_str().unwrap().to_owned(),
    }
}

#[tokio::test]
async fn every_mode_is_kept_in_every_scope() {
    let vault = tempfile::tempdir().unwrap();
    std::fs::create_dir(vault.path().join("acme")).unwrap();
    std::fs::write(vault.path().join("acme/mine"), "a-key-of-our-own").unwrap();
    let mine = json!({ "ai.credentialRef": "secret://mine" });
    let lost = json!({ "ai.credentialRef": "secret://lost" });
    let small = json!({ "model": "m-small" });
    for (mode, cases) in [
        ("disabled", vec![(mine.clone(), Some("provider_disabled"))]),
        ("optional", vec![(json!({}), None), (mine.clone(), None)]),
        (
            "required",
            vec![
                (json!({}), Some("byok_required")),
                (lost, Some("byok_required_but_unresolved")),
                (mine, None),
            ],
        ),
        (
            "restricted",
            vec![(json!({}), Some("model_not_allowed")), (small, None)],
        ),
    ] {
        for (scope, whom) in [
            ("host", ""),
            ("tenant", "tenant = \"acme\"\n"),
            ("workspace", "tenant = \"acme\"\nworkspace = \"lab\"\n"),
        ] {
            let models = match mode {
                "restricted" => "models = [\"m-sm*\"]\n",
                _ => "",
            };
            // Policies of other scopes or wider ones are overridden.
            let policies = format!(
                "[[policy]]\n{whom}mode = \"{mode}\"\n{models}\
                 [[policy]]\ntenant = \"umbrella\"\nworkspace = \"lab\"\nmode = \"disabled\"\n"
            );
            let model = Model::saying(&ANSWERS);
            let host = host(&model, vault.path(), &policies).await;
            let key = host.key_of("acme", Some("lab"), Scopes::Everything).await;
            let mut sent = 0;
            for (settings, denied) in cases.clone() {
                let expected = match denied {
                    Some(reason) => format!("{reason} {scope}"),
                    None => "ok".to_owned(),
                };
                sent += usize::from(denied.is_none());
                assert_eq!(
                    asked(&host, &key, settings).await,
                    expected,
                    "{mode} {scope}"
                );
            }
            assert_eq!(model.asked().len(), sent, "{mode}: nothing else was sent");
            if scope == "workspace" {
                // The neighbouring workspace has no policy.
                let next_door = host.key_of("acme", Some("shop"), Scopes::Everything).await;
                assert_eq!(asked(&host, &next_door, json!({})).await, "ok");
            }
            host.stop().await;
        }
    }
}

#[tokio::test]
async fn whose_credential_is_used_is_settled_by_the_host() {
    let vault = tempfile::tempdir().unwrap();
    std::fs::create_dir(vault.path().join("acme")).unwrap();
    std::fs::write(vault.path().join("acme/mine"), "a-key-of-our-own").unwrap();
    let model = Model::saying(&ANSWERS);
    let host = host(&model, vault.path(), "").await;
    let with = |provider: &str, reference: &str| json!({ "ai.provider": provider, "ai.credentialRef": reference });
    for (settings, expected) in [
        (with("p", "secret://mine"), "ok"),
        (with("p", "secret://lost"), "credential_not_found"),
        (
            with("p", "secret://run/mine"),
            "credential_scope_unsupported",
        ),
        (with("p", "env:PATH"), "credential_not_found"),
        (with("own", "secret://mine"), "credential_forbidden"),
        (json!({ "ai.provider": "own" }), "ok"),
    ] {
        let key = host.key.clone();
        let got = asked(&host, &key, settings.clone()).await;
        assert_eq!(got, expected, "{settings}");
    }
    let discovery = host.get("/.well-known/openwop").await.json();
    assert_eq!(discovery["aiProviders"]["byok"], json!(["p"]));
    assert_eq!(discovery["secrets"]["supported"], true);
    assert!(
        discovery["secrets"]["scopes"]
            .as_array()
            .unwrap()
            .contains(&json!("user"))
    );
}
