//! Secrets of webhooks, and signatures.
//!
//! There are two schemes. `v1` is OpenWOP's own: the secret's text is the key, the message is the
//! timestamp, a full stop and the body. `standard-webhooks-1` is Standard Webhooks 1.0.0, sent in
//! addition if the subscriber asked for it; its key is the base64-decoded text.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use kernel::delivery::Item;
use kernel::digest::Digest;
use kernel::ids::{TenantId, WebhookId};
use kernel::registry::{Webhook, WebhookSecret};
use kernel::time::Timestamp;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, USER_AGENT};
use ring::hmac;
use serde_json::Value;

use super::Names;
use crate::access::{Entropy, OsEntropy};
use crate::engine::Engine;
use crate::seal::{Seal, SealError};

/// Random bytes of a generated secret, which is twice as many hex digits.
const SECRET_BYTES: usize = 32;
/// Random bytes of a webhook's id.
const ID_BYTES: usize = 12;
/// Bytes of a decoded secret of Standard Webhooks.
const STANDARD_KEY_BYTES: std::ops::RangeInclusive<usize> = 24..=64;
/// Bytes of the text of a subscriber's secret for `v1`.
const TEXT_BYTES: std::ops::RangeInclusive<usize> = 24..=256;
/// The prefix of secrets of Standard Webhooks.
const STANDARD_PREFIX: &str = "whsec_";

/// A secret in plain text. Neither `Debug` nor `Display` shows it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// A new secret: 64 hex digits.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub fn draw() -> std::io::Result<Self> {
        let mut bytes = [0; SECRET_BYTES];
        OsEntropy.fill(&mut bytes)?;
        Ok(Self(hex(&bytes)))
    }

    /// A new secret for Standard Webhooks.
    ///
    /// # Errors
    /// If the system has no randomness.
    pub(crate) fn draw_standard() -> std::io::Result<Self> {
        let mut bytes = [0; SECRET_BYTES];
        OsEntropy.fill(&mut bytes)?;
        let text = STANDARD.encode(bytes);
        Ok(Self(format!("{STANDARD_PREFIX}{text}")))
    }

    /// A subscriber's secret. `None` if its length is invalid.
    pub fn brought(text: &str) -> Option<Self> {
        let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic());
        (is_plain && TEXT_BYTES.contains(&text.len())).then(|| Self(text.to_owned()))
    }

    /// A subscriber's secret for Standard Webhooks: `whsec_` and base64 of 24 to 64 bytes.
    pub fn standard(text: &str) -> Option<Self> {
        let secret = Self(text.to_owned());
        let key = secret.standard_key()?;
        STANDARD_KEY_BYTES.contains(&key.len()).then_some(secret)
    }

    /// The text, to be shown once.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Its identification for people and logs: the first 8 hex digits of its SHA-256.
    pub fn fingerprint(&self) -> String {
        let mut digest = Digest::compute(self.0.as_bytes()).to_string();
        digest.truncate(8);
        digest
    }

    fn standard_key(&self) -> Option<Vec<u8>> {
        let text = self.0.strip_prefix(STANDARD_PREFIX)?;
        STANDARD.decode(text).ok()
    }

    /// `sha256=` and the hex HMAC of OpenWOP's `v1`.
    fn v1(&self, timestamp: &str, body: &[u8]) -> String {
        let key = hmac::Key::new(hmac::HMAC_SHA256, self.0.as_bytes());
        let message = [timestamp.as_bytes(), b".", body].concat();
        format!("sha256={}", hex(hmac::sign(&key, &message).as_ref()))
    }

    /// An entry of `webhook-signature`.
    fn standard_entry(&self, id: &str, timestamp: &str, body: &[u8]) -> Option<String> {
        let key = hmac::Key::new(hmac::HMAC_SHA256, &self.standard_key()?);
        let parts = [id.as_bytes(), b".", timestamp.as_bytes(), b".", body];
        let tag = hmac::sign(&key, &parts.concat());
        Some(format!("v1,{}", STANDARD.encode(tag)))
    }
}

/// A new webhook's id.
pub(crate) fn draw_id() -> std::io::Result<WebhookId> {
    let mut bytes = [0; ID_BYTES];
    OsEntropy.fill(&mut bytes)?;
    Ok(WebhookId::new(format!("wh_{}", hex(&bytes))))
}

/// The id of a webhook that is registered under the name of an effect, 64 random hexadecimal
/// digits.
pub(crate) fn id_of(effect: &str) -> WebhookId {
    let digits = effect.get(..2 * ID_BYTES).unwrap_or(effect);
    WebhookId::new(format!("wh_{digits}"))
}

/// An unpredictable challenge.
pub(super) fn draw_challenge() -> std::io::Result<String> {
    let mut bytes = [0; SECRET_BYTES];
    OsEntropy.fill(&mut bytes)?;
    Ok(URL_SAFE_NO_PAD.encode(bytes))
}

/// Seals a secret for its tenant.
pub(crate) fn seal(
    engine: &Engine,
    tenant: &TenantId,
    secret: &Secret,
) -> Result<WebhookSecret, SealError> {
    let value = sealer(engine, tenant).seal(&Value::String(secret.0.clone()))?;
    let sealed = kernel::sealed::Sealed::from_value(&value).ok_or(SealError::Broken)?;
    Ok(WebhookSecret {
        sealed,
        fingerprint: secret.fingerprint(),
    })
}

/// Opens a secret that was sealed for its tenant.
pub(crate) fn open(
    engine: &Engine,
    tenant: &TenantId,
    secret: &WebhookSecret,
) -> Result<Secret, SealError> {
    match sealer(engine, tenant).open(&secret.sealed)? {
        Value::String(text) => Ok(Secret(text)),
        _ => Err(SealError::Broken),
    }
}

fn sealer(engine: &Engine, tenant: &TenantId) -> Seal {
    Seal::new(engine.inner.ports.keyring.clone(), tenant.clone())
}

/// The secrets that currently sign for a webhook.
pub(super) struct Signers {
    current: Secret,
    /// The previous one, while both sign.
    previous: Option<Secret>,
    standard: bool,
}

impl Signers {
    /// Opens a webhook's secrets.
    pub(super) fn load(
        engine: &Engine,
        tenant: &TenantId,
        webhook: &Webhook,
        now: Timestamp,
    ) -> Result<Self, SealError> {
        let previous = webhook.overlapping(now);
        Ok(Self {
            current: open(engine, tenant, &webhook.secret)?,
            previous: previous
                .map(|secret| open(engine, tenant, secret))
                .transpose()?,
            standard: webhook.spec.standard,
        })
    }

    /// Those of a webhook that is about to be registered.
    pub(super) fn of_one(secret: Secret) -> Self {
        Self {
            current: secret,
            previous: None,
            standard: true,
        }
    }

    /// The headers of a delivery, without the trace context.
    pub(super) fn headers(
        &self,
        names: &Names,
        id: &str,
        body: &[u8],
        now: Timestamp,
    ) -> HeaderMap {
        let timestamp = now.0.div_euclid(1_000).to_string();
        // While two secrets sign, receivers that read one signature still expect the older one.
        let signer = self.previous.as_ref().unwrap_or(&self.current);
        let mut headers = common();
        let mut put = |name, value: &str| {
            // All our values are valid in a header.
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        let signature = signer.v1(&timestamp, body);
        // Both families of names, with equal values, while both majors are served.
        for (older, newer, value) in [
            (
                "x-openwop-webhook-id",
                "openwop-webhook-id",
                names.webhook.as_str(),
            ),
            (
                "x-openwop-event-type",
                "openwop-event-type",
                names.event_type.as_str(),
            ),
            ("x-openwop-timestamp", "openwop-timestamp", &timestamp),
            ("x-openwop-signature", "openwop-signature", &signature),
            (
                "x-openwop-signature-algorithm",
                "openwop-signature-algorithm",
                "v1",
            ),
        ] {
            put(older, value);
            put(newer, value);
        }
        if self.standard {
            self.standard(&mut headers, id, &timestamp, body);
        }
        headers
    }

    /// The headers of a verification request.
    pub(super) fn verification(&self, id: &str, body: &[u8], now: Timestamp) -> HeaderMap {
        let timestamp = now.0.div_euclid(1_000).to_string();
        let mut headers = common();
        self.standard(&mut headers, id, &timestamp, body);
        headers
    }

    fn standard(&self, headers: &mut HeaderMap, id: &str, timestamp: &str, body: &[u8]) {
        let signers = std::iter::once(&self.current).chain(&self.previous);
        let entries = signers.filter_map(|secret| secret.standard_entry(id, timestamp, body));
        let signature = entries.collect::<Vec<_>>().join(" ");
        let pairs = [
            ("webhook-id", id),
            ("webhook-timestamp", timestamp),
            ("webhook-signature", &signature),
        ];
        for (name, value) in pairs {
            if let Ok(value) = HeaderValue::from_str(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        }
    }
}

fn common() -> HeaderMap {
    let agent = concat!("openwop-webhook-dispatcher/", env!("CARGO_PKG_VERSION"));
    HeaderMap::from_iter([
        (CONTENT_TYPE, HeaderValue::from_static("application/json")),
        (USER_AGENT, HeaderValue::from_static(agent)),
    ])
}

/// The same for each attempt at an event, different for every other event and webhook.
pub(super) fn message_id(webhook: &WebhookId, item: &Item) -> String {
    let Item {
        run_id, sequence, ..
    } = item;
    let digest = Digest::compute(format!("delivery\0{webhook}\0{run_id}\0{sequence}").as_bytes());
    format!("msg_{}", URL_SAFE_NO_PAD.encode(digest.0))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item() -> Item {
        Item {
            run_id: "run-1".into(),
            sequence: 4,
            event_type: "run.completed".into(),
        }
    }

    /// Values of `printf '%s' '1700000000.{"a":1}' | openssl dgst -sha256 -hmac SECRET`.
    #[test]
    fn v1_signs_timestamp_dot_and_body_with_the_secret_text() {
        let secret = Secret("0123456789abcdef0123456789abcdef".into());
        assert_eq!(
            secret.v1("1700000000", br#"{"a":1}"#),
            "sha256=f05f2539e3ae1c49aec5f8cfdad75ef6b06480b133973ffbb7ec9e18827af177"
        );
        assert_eq!(secret.fingerprint(), "3eb1bd43");
    }

    /// The example of the Standard Webhooks specification.
    #[test]
    fn a_standard_signature_is_the_one_of_the_specification() {
        let secret = Secret::standard("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
        let id = "msg_p5jXN8AQM9LWM0D4loKWxJek";
        let entry = secret.standard_entry(id, "1614265330", br#"{"test": 2432232314}"#);
        let expected = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
        assert_eq!(entry.as_deref(), Some(expected));
    }

    #[test]
    fn while_two_secrets_sign_the_single_header_keeps_the_older_one() {
        let old = Secret::standard("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").expect("a secret");
        let new = format!("whsec_{}", STANDARD.encode([7; 32]));
        let new = Secret::standard(&new).expect("a secret");
        let both = Signers {
            current: new.clone(),
            previous: Some(old.clone()),
            standard: true,
        };
        let (webhook, now) = (WebhookId::new("wh_1"), Timestamp(1_700_000_000_999));
        let names = Names {
            webhook: webhook.to_string(),
            event_type: item().event_type,
        };
        let id = message_id(&webhook, &item());
        let headers = both.headers(&names, &id, b"{}", now);
        for (name, value) in &headers {
            if let Some(newer) = name.as_str().strip_prefix("x-") {
                assert_eq!(headers.get(newer), Some(value), "{name}");
            }
        }
        assert_eq!(headers["x-openwop-signature"], old.v1("1700000000", b"{}"));
        assert_eq!(headers["webhook-timestamp"], "1700000000");
        let entry = |secret: &Secret| {
            secret
                .standard_entry(&id, "1700000000", b"{}")
                .expect("one")
        };
        let expected = format!("{} {}", entry(&new), entry(&old));
        assert_eq!(headers["webhook-signature"], expected);
        let is_id = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        assert!(
            (16..=128).contains(&id.len()) && id.chars().all(is_id),
            "{id}"
        );

        let single = Signers {
            current: new.clone(),
            previous: None,
            standard: false,
        };
        let headers = single.headers(&names, &id, b"{}", now);
        assert_eq!(headers["x-openwop-signature"], new.v1("1700000000", b"{}"));
        assert!(
            headers
                .keys()
                .all(|name| !name.as_str().starts_with("webhook-"))
        );
    }

    #[test]
    fn secrets_that_are_too_short_to_keep_anything_are_refused() {
        assert!(Secret::brought("short").is_none());
        assert!(Secret::brought(&"x".repeat(24)).is_some());
        assert!(Secret::brought(&"ü".repeat(24)).is_none());
        assert!(Secret::standard(&"x".repeat(40)).is_none());
        assert!(Secret::standard(&format!("whsec_{}", STANDARD.encode([1; 8]))).is_none());
        let (one, other) = (Secret::draw().expect("one"), Secret::draw().expect("one"));
        assert_eq!(one.reveal().len(), 64);
        assert_ne!(one.reveal(), other.reveal());
    }
}
