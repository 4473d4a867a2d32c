//! Sessions of browsers: a bearer token, sealed into the text of a cookie.
//!
//! The server keeps nothing. Every request of a session is authenticated with the token inside it,
//! so a revoked key ends its sessions, and a restart of the server ends none.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use kernel::ids::TenantId;
use kernel::sealed::Sealed;
use kernel::time::Timestamp;
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use store::StoreError;

use super::{Api, ApiError};
use crate::access::AuthError;
use crate::keyring::KeyringError;
use crate::seal::{Seal, SealError};

/// The life of a session.
pub const SESSION_LIFE: Duration = Duration::from_secs(12 * 60 * 60);
/// The owner of sealed sessions. No credential can name it, so no other sealed value opens as a
/// session.
const SEALED_FOR: &str = "* sessions";
/// Random bytes of the page's secret.
const SECRET_BYTES: usize = 24;

/// An open session.
#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Session {
    /// The bearer token that signed in.
    pub bearer: String,
    /// A secret that the page sends with each request, and pages of other origins cannot read.
    pub page_secret: String,
    /// When the session ends.
    pub expires_at: Timestamp,
}

impl Api {
    /// Begins a session for a bearer token that was authenticated; returns it and its sealed text.
    ///
    /// # Errors
    /// The keyring's.
    pub fn begin_session(&self, bearer: &str) -> Result<(Session, String), ApiError> {
        let mut secret = [0; SECRET_BYTES];
        let drawn = SystemRandom::new().fill(&mut secret);
        drawn.map_err(|_| StoreError::unavailable("the system gives no randomness"))?;
        let session = Session {
            bearer: bearer.to_owned(),
            page_secret: URL_SAFE_NO_PAD.encode(secret),
            expires_at: self.door().store().now().plus(SESSION_LIFE),
        };
        let clear = serde_json::to_value(&session).map_err(StoreError::unavailable)?;
        let sealed = self
            .session_seal()
            .seal(&clear)
            .map_err(StoreError::unavailable)?;
        let text = URL_SAFE_NO_PAD.encode(sealed.to_string());
        Ok((session, text))
    }

    /// Opens the sealed text of a session.
    ///
    /// # Errors
    /// `Expired`, `Unknown` for a text that this instance did not seal, or the keyring's.
    pub fn session(&self, text: &str) -> Result<Session, AuthError> {
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let value = bytes.and_then(|bytes| serde_json::from_slice(&bytes).ok());
        let sealed = value.as_ref().and_then(Sealed::from_value);
        let sealed = sealed.ok_or(AuthError::Unknown)?;
        let clear = match self.session_seal().open(&sealed) {
            Ok(clear) => clear,
            Err(SealError::Keyring(KeyringError::Unavailable(what))) => {
                tracing::warn!(%what, "a session could not be opened");
                return Err(AuthError::Unavailable);
            }
            Err(_) => return Err(AuthError::Unknown),
        };
        let session: Session = serde_json::from_value(clear).map_err(|_| AuthError::Unknown)?;
        if session.expires_at <= self.door().store().now() {
            return Err(AuthError::Expired);
        }
        Ok(session)
    }

    fn session_seal(&self) -> Seal {
        Seal::new(self.engine().keyring(), TenantId::from(SEALED_FOR))
    }
}
