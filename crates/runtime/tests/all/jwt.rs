//! JWTs of an issuer whose keys are in a file, at a URL, or shared.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use kernel::time::Timestamp;
use ring::rand::SystemRandom;
use ring::rsa::PublicKeyComponents;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair, RSA_PKCS1_SHA256, RsaKeyPair,
};
use runtime::access::{AuthError, AuthOptions, Authenticator, Scope};
use runtime::outbound::{Allowed, Outbound};
use serde_json::{Value, json};
use store::ManualClock;
use store::memory::MemoryStore;

use crate::peer::{Peer, answer};

/// The key of an issuer that exists in these tests only.
const RSA: &str = include_str!("../fixtures/issuer-rsa-pkcs8.b64");
const SECRET: &[u8] = b"a secret of the issuer and of us";

fn b64(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn rsa() -> RsaKeyPair {
    let text: String = RSA.split_whitespace().collect();
    RsaKeyPair::from_pkcs8(&STANDARD.decode(text).unwrap()).unwrap()
}

fn rsa_jwk(kid: &str) -> Value {
    let public: PublicKeyComponents<Vec<u8>> = rsa().public().into();
    json!({ "kty": "RSA", "kid": kid, "use": "sig", "alg": "RS256",
            "n": b64(public.n), "e": b64(public.e) })
}

fn p256() -> EcdsaKeyPair {
    let random = SystemRandom::new();
    let algorithm = &ECDSA_P256_SHA256_FIXED_SIGNING;
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(algorithm, &random).unwrap();
    EcdsaKeyPair::from_pkcs8(algorithm, pkcs8.as_ref(), &random).unwrap()
}

fn p256_jwk(kid: &str, pair: &EcdsaKeyPair) -> Value {
    let point = pair.public_key().as_ref();
    json!({ "kty": "EC", "crv": "P-256", "kid": kid,
            "x": b64(&point[1..33]), "y": b64(&point[33..65]) })
}

/// The signing key.
enum With<'a> {
    Rs256(&'a RsaKeyPair),
    Es256(&'a EcdsaKeyPair),
    Hs256(&'a [u8]),
    Nothing,
}

fn sign(header: &Value, claims: &Value, with: &With) -> String {
    let message = format!("{}.{}", b64(header.to_string()), b64(claims.to_string()));
    let bytes = message.as_bytes();
    let random = SystemRandom::new();
    let signature = match with {
        With::Rs256(pair) => {
            let mut signature = vec![0; pair.public().modulus_len()];
            pair.sign(&RSA_PKCS1_SHA256, &random, bytes, &mut signature)
                .unwrap();
            signature
        }
        With::Es256(pair) => pair.sign(&random, bytes).unwrap().as_ref().to_vec(),
        With::Hs256(secret) => {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret);
            ring::hmac::sign(&key, bytes).as_ref().to_vec()
        }
        With::Nothing => Vec::new(),
    };
    format!("{message}.{}", b64(signature))
}

fn in_seconds(seconds: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_secs()).unwrap() + seconds
}

fn claims() -> Value {
    json!({ "iss": "https://issuer.test", "aud": ["other", "runwright"], "sub": "user-1",
            "exp": in_seconds(300), "tenant": "acme", "scope": "openid runs:read" })
}

fn with(key: &str, value: Value) -> Value {
    let mut claims = claims();
    claims[key] = value;
    claims
}

fn configured(text: &str, folder: &Path) -> Authenticator {
    at(Arc::new(ManualClock::new(Timestamp(0))), text, folder)
}

fn at(clock: Arc<ManualClock>, text: &str, folder: &Path) -> Authenticator {
    let text = format!("[jwt]\nissuer='https://issuer.test'\naudience=['runwright']\n{text}");
    let outbound = Outbound::new(Allowed::parse(["127.0.0.0/8"]).unwrap());
    let options = AuthOptions::parse(&text, folder, outbound).unwrap_or_else(|why| panic!("{why}"));
    Authenticator::new(Arc::new(MemoryStore::new(clock)), options)
}

/// A folder with the issuer's keys.
fn keys(keys: &[Value]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let set = json!({ "keys": keys });
    std::fs::write(folder.path().join("keys.json"), set.to_string()).unwrap();
    folder
}

const RS256: &str = "algorithm='RS256'\njwks='keys.json'";
const ES256: &str = "algorithm='ES256'\njwks='keys.json'";

#[tokio::test]
async fn each_algorithm_accepts_its_claims() {
    let (rsa, p256) = (rsa(), p256());
    let mut tried = 0;
    let folder = keys(&[json!({ "kty": "odd" }), rsa_jwk("a"), p256_jwk("a", &p256)]);
    std::fs::write(folder.path().join("secret"), SECRET).unwrap();
    for (text, alg, signer) in [
        (RS256, "RS256", With::Rs256(&rsa)),
        (ES256, "ES256", With::Es256(&p256)),
        (
            "algorithm='HS256'\nsecret='file:secret'",
            "HS256",
            With::Hs256(SECRET),
        ),
    ] {
        let authenticator = configured(text, folder.path());
        let mut claims = with("workspace", json!("blue"));
        claims["groups"] = json!(["finance", 7, "", "x".repeat(257)]);
        claims["roles"] = json!("controller auditor");
        let token = sign(&json!({ "alg": alg, "kid": "a" }), &claims, &signer);
        let principal = authenticator.authenticate(&token).await.unwrap();
        assert_eq!(principal.tenant.as_str(), "acme");
        assert_eq!(principal.workspace.as_deref(), Some("blue"));
        assert_eq!(principal.id, "user-1");
        assert_eq!(principal.issuer.as_deref(), Some("https://issuer.test"));
        assert!(principal.scopes.has(Scope::RunsRead));
        assert!(!principal.scopes.has(Scope::RunsCancel));
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        assert_eq!(principal.groups, words(&["finance"]), "what can be a name");
        assert_eq!(principal.roles, words(&["auditor", "controller"]));
        // One changed bit in the claims.
        let (head, rest) = token.split_once('.').unwrap();
        let forged = format!("{head}.{}", rest.replacen('e', "f", 1));
        assert!(authenticator.authenticate(&forged).await.is_err());
        // Without a key id the only key of its kind is used.
        let nameless = sign(&json!({ "alg": alg }), &claims, &signer);
        assert!(authenticator.authenticate(&nameless).await.is_ok());
        tried += 1;
    }
    assert_eq!(tried, 3);
}

#[tokio::test]
async fn a_token_chooses_no_algorithm() {
    let (rsa, p256) = (rsa(), p256());
    let folder = keys(&[rsa_jwk("a")]);
    let authenticator = configured(RS256, folder.path());
    let modulus: PublicKeyComponents<Vec<u8>> = rsa.public().into();
    let jwk = rsa_jwk("a").to_string();
    for (alg, signer) in [
        // The public key, in some form, as if it were a shared secret.
        ("HS256", With::Hs256(&modulus.n)),
        ("HS256", With::Hs256(rsa.public().as_ref())),
        ("HS256", With::Hs256(jwk.as_bytes())),
        ("ES256", With::Es256(&p256)),
        ("RS384", With::Rs256(&rsa)),
        ("PS256", With::Rs256(&rsa)),
    ] {
        let token = sign(&json!({ "alg": alg, "kid": "a" }), &claims(), &signer);
        let result = authenticator.authenticate(&token).await;
        let found = alg;
        let refused = AuthError::OtherAlgorithm {
            found,
            expected: "RS256",
        };
        assert_eq!(result, Err(refused), "{alg}");
    }
    for alg in ["none", "None", "", "RS256"] {
        let token = sign(
            &json!({ "alg": alg, "kid": "a" }),
            &claims(),
            &With::Nothing,
        );
        assert!(authenticator.authenticate(&token).await.is_err(), "{alg}");
    }
}

#[tokio::test]
async fn a_token_for_others_or_for_another_time_is_refused() {
    let rsa = rsa();
    let folder = keys(&[rsa_jwk("a")]);
    let authenticator = configured(&format!("{RS256}\nleeway_s=20"), folder.path());
    let header = json!({ "alg": "RS256", "kid": "a" });
    let check = async |claims: Value| {
        let token = sign(&header, &claims, &With::Rs256(&rsa));
        authenticator.authenticate(&token).await.map(drop)
    };
    let without = |name: &str| {
        let mut claims = claims();
        claims.as_object_mut().unwrap().remove(name);
        claims
    };
    assert_eq!(check(claims()).await, Ok(()));
    assert_eq!(check(with("aud", json!("runwright"))).await, Ok(()));
    assert_eq!(check(with("exp", json!(in_seconds(-5)))).await, Ok(()));
    assert_eq!(check(with("nbf", json!(in_seconds(5)))).await, Ok(()));
    assert_eq!(
        check(with("exp", json!(in_seconds(-60)))).await,
        Err(AuthError::Expired)
    );
    for wrong in [
        with("nbf", json!(in_seconds(60))),
        with("aud", json!("other")),
        with("iss", json!("https://issuer.test/")),
        with("tenant", json!("")),
        with("tenant", json!(7)),
        with("tenant", json!("a\nb")),
        with("tenant", json!("*")),
        with("workspace", json!(["blue"])),
        with("exp", json!("tomorrow")),
        without("exp"),
        without("aud"),
        without("iss"),
        without("sub"),
        without("tenant"),
    ] {
        assert_eq!(
            check(wrong.clone()).await,
            Err(AuthError::Unknown),
            "{wrong}"
        );
    }
    let mut critical = header.clone();
    critical["crit"] = json!(["exp"]);
    let critical = sign(&critical, &claims(), &With::Rs256(&rsa));
    let critical = authenticator.authenticate(&critical).await;
    assert_eq!(critical, Err(AuthError::Unknown));
    let silent = sign(&header, &without("scope"), &With::Rs256(&rsa));
    let silent = authenticator.authenticate(&silent).await.unwrap();
    assert_eq!(silent.scopes.words().len(), 0);
}

#[tokio::test]
async fn claims_are_found_by_the_names_that_are_configured() {
    let rsa = rsa();
    let folder = keys(&[rsa_jwk("a")]);
    let text =
        format!("{RS256}\nfixed_tenant='acme'\n[jwt.claims]\nprincipal='client'\nscopes='roles'");
    let authenticator = configured(&text, folder.path());
    let mut claims = with("client", json!("robot"));
    claims["tenant"] = json!("somebody-else");
    claims["roles"] = json!(["runs:cancel", 3]);
    let token = sign(
        &json!({ "alg": "RS256", "kid": "a" }),
        &claims,
        &With::Rs256(&rsa),
    );
    let principal = authenticator.authenticate(&token).await.unwrap();
    assert_eq!(
        (principal.tenant.as_str(), &*principal.id),
        ("acme", "robot")
    );
    assert!(principal.scopes.has(Scope::RunsCancel));
    assert!(!principal.scopes.has(Scope::RunsRead));
}

/// As a sign-in service issues them: no audience, no scopes, the page in `azp`.
#[tokio::test]
async fn a_session_without_audience_and_scopes_counts_by_its_party() {
    let rsa = rsa();
    let folder = keys(&[rsa_jwk("a")]);
    let text = format!(
        "[jwt]\nissuer='https://issuer.test'\nauthorized_parties=['https://app.test']\n{RS256}\n\
         grant=['runs:read','runs:create']\n[jwt.claims]\ntenant=['org_id','o.id','user:{{sub}}']"
    );
    let options = AuthOptions::parse(&text, folder.path(), Outbound::default());
    let options = options.unwrap_or_else(|why| panic!("{why}"));
    let store = MemoryStore::new(Arc::new(ManualClock::new(Timestamp(0))));
    let authenticator = Authenticator::new(Arc::new(store), options);
    let session = |more: Value| {
        let mut claims = json!({ "iss": "https://issuer.test", "sub": "user_1", "sid": "sess_1",
                                 "azp": "https://app.test", "exp": in_seconds(60) });
        let Value::Object(more) = more else {
            panic!("{more}")
        };
        claims.as_object_mut().unwrap().extend(more);
        let header = json!({ "alg": "RS256", "kid": "a" });
        sign(&header, &claims, &With::Rs256(&rsa))
    };
    let of = async |more: Value| authenticator.authenticate(&session(more)).await;
    let alone = of(json!({})).await.unwrap();
    assert_eq!(
        (alone.tenant.as_str(), &*alone.id),
        ("user:user_1", "user_1")
    );
    assert!(alone.scopes.has(Scope::RunsCreate) && !alone.scopes.has(Scope::RunsCancel));
    assert_eq!(
        of(json!({ "org_id": "org_1" }))
            .await
            .unwrap()
            .tenant
            .as_str(),
        "org_1"
    );
    let nested = json!({ "o": { "id": "org_2", "rol": "admin" } });
    assert_eq!(of(nested).await.unwrap().tenant.as_str(), "org_2");
    // The token's scopes count, even if there are none.
    let less = of(json!({ "scope": "" })).await.unwrap();
    assert!(!less.scopes.has(Scope::RunsRead));
    for wrong in [
        json!({ "azp": "https://other.test" }),
        json!({ "azp": null }),
        json!({ "aud": "another service" }),
        json!({ "org_id": 7 }),
        json!({ "iss": "https://other.test" }),
    ] {
        assert_eq!(of(wrong.clone()).await, Err(AuthError::Unknown), "{wrong}");
    }
}

#[tokio::test]
async fn a_new_issuer_key_is_fetched_once_unknown_ones_cannot_flood() {
    let (old, new) = (p256(), p256());
    let set = Arc::new(Mutex::new(json!({ "keys": [p256_jwk("old", &old)] })));
    let served = set.clone();
    let peer =
        Peer::start(move |_| answer("200 OK", &[], served.lock().unwrap().to_string())).await;
    let text = format!("algorithm='ES256'\njwks='{}'", peer.url("/keys"));
    let clock = Arc::new(ManualClock::new(Timestamp(0)));
    let authenticator = at(clock.clone(), &text, Path::new(""));
    let check = async |kid: &str, pair: &EcdsaKeyPair| {
        let header = json!({ "alg": "ES256", "kid": kid });
        let token = sign(&header, &claims(), &With::Es256(pair));
        authenticator.authenticate(&token).await.map(drop)
    };
    assert_eq!(check("old", &old).await, Ok(()));
    assert_eq!(check("old", &old).await, Ok(()));
    assert_eq!(check("old", &new).await, Err(AuthError::Unknown));
    assert_eq!(peer.got().len(), 1);

    *set.lock().unwrap() = json!({ "keys": [p256_jwk("new", &new)] });
    for attempt in 0..20 {
        let kid = format!("made-up-{attempt}");
        assert_eq!(check(&kid, &new).await, Err(AuthError::Unknown));
    }
    assert_eq!(peer.got().len(), 1, "asked again too soon");
    clock.advance(Duration::from_secs(10));
    assert_eq!(check("new", &new).await, Ok(()));
    assert_eq!(check("old", &old).await, Err(AuthError::Unknown));
    assert_eq!(peer.got().len(), 2);
}

#[tokio::test]
async fn an_unreachable_issuer_differs_from_a_bad_token() {
    let pair = p256();
    let peer = Peer::start(|_| answer("500 Oops", &[], "")).await;
    let text = format!("algorithm='ES256'\njwks='{}'", peer.url("/keys"));
    let authenticator = configured(&text, Path::new(""));
    let header = json!({ "alg": "ES256", "kid": "a" });
    let token = sign(&header, &claims(), &With::Es256(&pair));
    let result = authenticator.authenticate(&token).await;
    assert_eq!(result, Err(AuthError::Unavailable));
}

#[tokio::test]
async fn the_required_algorithm_is_named() {
    let folder = keys(&[]);
    std::fs::write(folder.path().join("secret"), SECRET).unwrap();
    let text = "algorithm='HS256'\nsecret='file:secret'";
    let authenticator = configured(text, folder.path());
    let token = sign(&json!({ "alg": "HS512" }), &claims(), &With::Hs256(SECRET));
    let refused = authenticator.authenticate(&token).await.unwrap_err();
    assert_eq!(refused.code(), "invalid_token");
    let said = refused.to_string();
    assert!(said.contains("signed with HS512"), "{said}");
    assert!(said.contains("must sign with HS256"), "{said}");
}
