//! The public keys of an issuer, from a file or its URL.

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use jsonwebtoken::jwk::{Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use kernel::time::Timestamp;
use parking_lot::Mutex;
use reqwest::Method;
use reqwest::header::HeaderMap;
use serde::Deserialize;
use url::Url;

use crate::access::AuthError;
use crate::access::authenticator::is_within;
use crate::named_file::{self, MAX_CONFIG_BYTES};
use crate::outbound::{Outbound, Redirects, Request};

/// How long keys are used before they are fetched again.
const FRESH: Duration = Duration::from_secs(600);
/// How long keys are used while fetching fails: a short outage of the issuer locks out no user.
const STALE: Duration = Duration::from_secs(3600);
/// The shortest time between two fetches. Tokens with unknown key ids cause at most one fetch in
/// that time, however many arrive.
const PAUSE: Duration = Duration::from_secs(10);
/// The time limit of a fetch.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The largest accepted key set.
const MAX_BYTES: usize = 256 << 10;

/// Where an issuer's public keys are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JwksSource {
    /// In a file.
    File(PathBuf),
    /// At a URL, fetched through the guard of outgoing requests.
    Url(Url),
}

/// The keys of an issuer for the configured algorithm.
pub(super) struct Jwks {
    source: JwksSource,
    algorithm: Algorithm,
    outbound: Outbound,
    seen: Mutex<Option<Seen>>,
    /// When the source was last fetched. Locked during a fetch, so that one task fetches for all.
    asked: tokio::sync::Mutex<Option<Timestamp>>,
}

struct Seen {
    keys: HashMap<Option<String>, DecodingKey>,
    at: Timestamp,
}

#[derive(Deserialize)]
struct Document {
    keys: Vec<serde_json::Value>,
}

impl Jwks {
    pub(super) fn new(source: JwksSource, algorithm: Algorithm, outbound: Outbound) -> Self {
        Self {
            source,
            algorithm,
            outbound,
            seen: Mutex::default(),
            asked: tokio::sync::Mutex::default(),
        }
    }

    /// The key that a token names; without a name, the only key.
    pub(super) async fn key(
        &self,
        kid: Option<&str>,
        now: Timestamp,
    ) -> Result<DecodingKey, AuthError> {
        if let Some(key) = self.look(kid, FRESH, now) {
            return Ok(key);
        }
        let mut asked = self.asked.lock().await;
        // Another task may have fetched while this one waited for the lock.
        if let Some(key) = self.look(kid, FRESH, now) {
            return Ok(key);
        }
        if !asked.is_some_and(|at| is_within(PAUSE, at, now)) {
            *asked = Some(now);
            match self.read().await {
                Ok(keys) => *self.seen.lock() = Some(Seen { keys, at: now }),
                Err(why) => tracing::warn!(why, "the keys of the token issuer cannot be read"),
            }
        }
        if let Some(key) = self.look(kid, STALE, now) {
            return Ok(key);
        }
        let seen = self.seen.lock();
        match seen
            .as_ref()
            .is_some_and(|seen| is_within(STALE, seen.at, now))
        {
            true => Err(AuthError::Unknown),
            false => Err(AuthError::Unavailable),
        }
    }

    fn look(&self, kid: Option<&str>, age: Duration, now: Timestamp) -> Option<DecodingKey> {
        let seen = self.seen.lock();
        let seen = seen.as_ref().filter(|seen| is_within(age, seen.at, now))?;
        match kid {
            Some(kid) => seen.keys.get(&Some(kid.to_owned())).cloned(),
            None if seen.keys.len() == 1 => seen.keys.values().next().cloned(),
            None => None,
        }
    }

    async fn read(&self) -> Result<HashMap<Option<String>, DecodingKey>, String> {
        let bytes = match &self.source {
            JwksSource::File(path) => {
                let read = named_file::read_to_string_async(path, MAX_CONFIG_BYTES).await;
                read.map_err(|error| format!("{}: {error}", path.display()))?
                    .into_bytes()
            }
            JwksSource::Url(url) => self.fetch(url).await?,
        };
        let document: Document = serde_json::from_slice(&bytes)
            .map_err(|_| "the document is not a JSON Web Key Set".to_owned())?;
        // Keys of unknown types in a set are meant for other clients.
        let keys = document.keys.into_iter();
        let keys = keys.filter_map(|key| serde_json::from_value::<Jwk>(key).ok());
        let keys = keys.filter(|key| self.is_usable(key));
        let named = |key: Jwk| {
            let decoding = DecodingKey::from_jwk(&key).ok()?;
            let fits = decoding.family() == self.algorithm.family();
            fits.then_some((key.common.key_id, decoding))
        };
        Ok(keys.filter_map(named).collect())
    }

    fn is_usable(&self, key: &Jwk) -> bool {
        let expected = match self.algorithm {
            Algorithm::ES256 => KeyAlgorithm::ES256,
            _ => KeyAlgorithm::RS256,
        };
        let common = &key.common;
        let signs = common.public_key_use.as_ref();
        common.key_algorithm.is_none_or(|named| named == expected)
            && signs.is_none_or(|purpose| *purpose == PublicKeyUse::Signature)
    }

    async fn fetch(&self, url: &Url) -> Result<Vec<u8>, String> {
        let request = Request {
            method: Method::GET,
            url: url.clone(),
            headers: HeaderMap::new(),
            origin_headers: HeaderMap::new(),
            body: Bytes::new(),
            timeout: TIMEOUT,
            redirects: Redirects::Return,
        };
        let text = |error: crate::outbound::OutboundError| error.to_string();
        let mut response = self.outbound.send(request).await.map_err(text)?;
        if !response.status().is_success() {
            return Err(format!("the answer has status {}", response.status()));
        }
        let mut bytes = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(text)? {
            if bytes.len() + chunk.len() > MAX_BYTES {
                return Err(format!("the answer is longer than {MAX_BYTES} bytes"));
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(bytes)
    }
}
