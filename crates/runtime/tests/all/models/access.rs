//! The model and credential of calls, and policies.

use kernel::run::Outcome;
use serde_json::{Value, json};

use super::*;

#[tokio::test]
async fn policies_are_kept_before_anything_is_sent() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["a"], "stop"))).await;
    let policy = |more: &str| format!("[[policy]]\n{more}");
    let own = json!({ "ai.credentialRef": "env:TOKEN" });
    let lost = json!({ "ai.credentialRef": "env:LOST" });
    for (text, settings, reason) in [
        ("mode = \"disabled\"", json!({}), "provider_disabled"),
        ("mode = \"required\"", json!({}), "byok_required"),
        ("mode = \"required\"", lost, "byok_required_but_unresolved"),
        ("mode = \"restricted\"", json!({}), "model_not_allowed"),
        (
            "mode = \"restricted\"\nmodels = [\"m-1\"]",
            json!({ "model": "m-2" }),
            "model_not_allowed",
        ),
        (
            "tenant = \"local\"\nmode = \"disabled\"",
            json!({}),
            "provider_disabled",
        ),
    ] {
        let lab = lab_for(&peer, "openai", &policy(text));
        let (error, _) = failed(&lab, settings, json!({ "prompt": "a" })).await;
        assert_eq!(error.code, "provider_policy_denied");
        let details = error.details.unwrap();
        assert_eq!(details["reason"], reason, "{text}");
        assert_eq!(details["provider"], "p");
    }
    assert_eq!(peer.got().len(), 0, "nothing was sent");
    for (text, settings) in [
        ("mode = \"required\"", own),
        ("tenant = \"other\"\nmode = \"disabled\"", json!({})),
        ("mode = \"restricted\"\nmodels = [\"m-*\"]", json!({})),
    ] {
        let lab = lab_for(&peer, "openai", &policy(text));
        let recorder = Recorder::new();
        let outcome = run_with(
            &lab,
            &recorder,
            settings,
            json!({ "prompt": "a" }),
            json!({}),
        );
        assert!(matches!(outcome.await, Outcome::Completed(_)), "{text}");
    }
    assert_eq!(
        peer.got()[0].header("authorization"),
        Some("Bearer planted-secret"),
        "the tenant's own credential is used"
    );
}

#[tokio::test]
async fn nothing_of_the_hosts_goes_to_an_address_of_a_workflow() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["a"], "stop"))).await;
    let lab = lab_for(&peer, "openai", "");
    let config = json!({ "baseUrl": "${inputs.url}", "model": "m-3", "prompt": "a" });
    let recorder = Recorder::new();
    let inputs = json!({ "url": peer.url("/other/v1/") });
    let outcome = run_with(&lab, &recorder, json!({}), config.clone(), inputs.clone()).await;
    let Outcome::Completed(completion) = outcome else {
        panic!("it should complete: {outcome:?}")
    };
    assert_eq!(completion.outputs["provider"], "custom");
    let mut own = config;
    own["credentialRef"] = "env:TOKEN".into();
    run_with(&lab, &recorder, json!({}), own.clone(), inputs.clone()).await;
    let got = peer.got();
    assert_eq!(got[0].line, "POST /other/v1/chat/completions");
    assert_eq!(got[0].header("authorization"), None);
    assert_eq!(
        got[1].header("authorization"),
        Some("Bearer planted-secret")
    );
    let lab = lab_for(
        &peer,
        "openai",
        "[[policy]]\nprovider = \"custom\"\nmode = \"disabled\"",
    );
    let outcome = run_with(&lab, &recorder, json!({}), own, inputs).await;
    assert!(
        matches!(&outcome, Outcome::Failed { error, .. } if error.code == "provider_policy_denied")
    );
}

#[tokio::test]
async fn a_runs_own_settings_stand_between_node_and_provider() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["a"], "stop"))).await;
    let lab = lab_for(&peer, "openai", "");
    let settings = json!({ "model": "m-run", "temperature": 0.25, "maxTokens": 5,
        "promptOverrides": { "greeting": "Shout ${inputs.who}." } });
    let inputs = json!({ "who": "Ada" });
    let recorder = Recorder::new();
    let config = json!({ "prompt": "Greet ${inputs.who}.", "promptId": "greeting" });
    run_with(&lab, &recorder, settings.clone(), config, inputs.clone()).await;
    let config = json!({ "prompt": "Greet ${inputs.who}.", "model": "m-node", "temperature": 1,
        "maxTokens": 9 });
    run_with(&lab, &recorder, settings, config, inputs).await;
    let got: Vec<Value> = peer.got().iter().map(body).collect();
    assert_eq!(
        (&got[0]["model"], &got[0]["temperature"]),
        (&json!("m-run"), &json!(0.25))
    );
    assert_eq!(got[0]["max_tokens"], 5);
    assert_eq!(got[0]["messages"][0]["content"], "Shout Ada.");
    assert_eq!(
        (&got[1]["model"], &got[1]["temperature"]),
        (&json!("m-node"), &json!(1.0))
    );
    assert_eq!(got[1]["max_tokens"], 9);
    assert_eq!(got[1]["messages"][0]["content"], "Greet Ada.");
}

#[tokio::test]
async fn budgets_are_set_aside_before_they_are_spent() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["a"], "stop"))).await;
    let lab = lab_for(&peer, "openai", "");
    let recorder = Recorder::new();
    let config = |tokens: u64| json!({ "prompt": "a", "maxTokens": tokens });
    let budget = json!({ "budget": { "maxTokens": 1000 } });
    let outcome = run_with(&lab, &recorder, budget.clone(), config(900), json!({})).await;
    let Outcome::Completed(completion) = outcome else {
        panic!("it should complete: {outcome:?}")
    };
    assert_eq!(completion.spent, Default::default(), "all is settled");
    assert_eq!(recorder.settled("tokens"), 14);
    recorder.limit(&[("tokens", 14)]);
    let outcome = run_with(&lab, &recorder, budget, config(200), json!({})).await;
    assert!(matches!(&outcome, Outcome::Failed { error, .. } if error.code == "budget_exhausted"));
    for budget in [
        json!({ "modelDeny": ["m-*"] }),
        json!({ "modelAllow": ["m-2", "n-*"] }),
    ] {
        let (error, _) = failed(&lab, json!({ "budget": budget }), config(1)).await;
        assert_eq!(error.code, "budget_model_denied");
    }
    assert_eq!(peer.got().len(), 1);
}

#[tokio::test]
async fn a_named_prompt_is_recorded_by_its_hash() {
    use kernel::digest::Digest;
    use kernel::run::Report;
    use kernel::run::report::PromptParts;

    let peer = Peer::start(|_| Answer::Bytes(openai(&["a"], "stop"))).await;
    let lab = lab_for(&peer, "openai", "");
    let config = json!({ "prompt": "Greet ${inputs.who}.", "promptId": "greeting",
        "systemPrompt": "Be brief." });
    let shouted = json!({ "promptOverrides": { "greeting": "Shout ${inputs.who}!" } });
    for (settings, text, is_override) in [
        (json!({}), "Be brief.\n\nGreet Ada.", false),
        (shouted, "Be brief.\n\nShout Ada!", true),
    ] {
        let recorder = Recorder::new();
        let inputs = json!({ "who": "Ada" });
        run_with(&lab, &recorder, settings, config.clone(), inputs).await;
        let reports = recorder.reports.lock().unwrap().clone();
        let [Report::PromptComposed(composed)] = reports.as_slice() else {
            panic!("one prompt: {reports:?}")
        };
        assert_eq!(composed.refs, ["prompt:greeting"]);
        assert_eq!(composed.parts, PromptParts::SystemAndUser);
        assert_eq!(composed.is_override, is_override);
        assert_eq!(composed.hash, Digest::compute(text.as_bytes()).to_string());
        let who = Digest::compute(b"Ada").to_string();
        assert_eq!(composed.variable_hashes.get("who"), Some(&who));
    }
    let recorder = Recorder::new();
    run_with(
        &lab,
        &recorder,
        json!({}),
        json!({ "prompt": "a" }),
        json!({}),
    )
    .await;
    assert_eq!(recorder.reports.lock().unwrap().as_slice(), []);
}

/// The reference of the engine's own credential is for the operator only.
#[tokio::test]
async fn an_unreadable_engine_credential_is_not_named_to_callers() {
    let peer = Peer::start(|_| Answer::Bytes(openai(&["a"], "stop"))).await;
    for credential in ["file:deep/planted-place", "env:PLANTED_PLACE"] {
        let mut lab = lab_for(&peer, "openai", "");
        let text = format!(
            "[provider.p]\napi = \"openai\"\nbase_url = \"{}\"\nmodel = \"m-1\"\n\
             credential = \"{credential}\"\n",
            peer.url("/v1")
        );
        let providers = Providers::parse(&text, &lab.work()).unwrap();
        lab.models = Arc::new(providers.clone());
        let (error, _) = failed(&lab, json!({}), json!({ "prompt": "a" })).await;
        assert_eq!(error.code, "credential_unavailable");
        assert!(error.host_lacks, "the run waits for the operator");
        let said = serde_json::to_string(&error).unwrap().to_lowercase();
        assert!(said.contains("provider p"), "{said}");
        let work = lab.work().display().to_string();
        for place in ["planted", work.as_str(), "file:", "env:"] {
            assert!(!said.contains(place), "{place}: {said}");
        }
        // The operator sees it.
        let provider = providers.all().next().expect("a provider");
        let why = provider.check_credential().await.unwrap_err();
        assert!(why.to_lowercase().contains("planted"), "{why}");
    }
    assert_eq!(peer.got().len(), 0, "nothing was sent");
}
