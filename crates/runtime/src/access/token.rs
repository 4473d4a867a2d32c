//! API keys on the wire: `rw_<key id>_<secret>`.
//!
//! The secret is 24 random bytes. 192 bits cannot be guessed, however fast each guess is, so the
//! store keeps a plain SHA-256 of the token. A slow hash protects secrets that people choose, and
//! would cost each request as much as an attacker's guess.

use std::fmt;

use kernel::digest::Digest;
use kernel::ids::{KeyId, TenantId};
use kernel::registry::KEY_ID_BYTES;
use subtle::ConstantTimeEq as _;

/// The prefix of every token, by which people and scanners recognise a leaked one.
pub(super) const PREFIX: &str = "rw_";
/// Random bytes of the secret.
const SECRET_BYTES: usize = 24;

/// A source of randomness.
pub trait Entropy: Send + Sync {
    /// Fills `bytes` with unpredictable data.
    ///
    /// # Errors
    /// If no randomness is available. The bytes must not be used then.
    fn fill(&self, bytes: &mut [u8]) -> std::io::Result<()>;
}

/// The operating system's randomness.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsEntropy;

impl Entropy for OsEntropy {
    fn fill(&self, bytes: &mut [u8]) -> std::io::Result<()> {
        getrandom::fill(bytes).map_err(|error| std::io::Error::other(error.to_string()))
    }
}

/// A token with its secret. Neither `Debug` nor `Display` shows it.
#[derive(Clone)]
pub struct Token {
    key: KeyId,
    text: String,
}

impl Token {
    /// Draws a new token for a tenant.
    ///
    /// # Errors
    /// The entropy's.
    pub(super) fn draw(tenant: &TenantId, entropy: &dyn Entropy) -> std::io::Result<Self> {
        let mut id = [0; KEY_ID_BYTES];
        let mut secret = [0; SECRET_BYTES];
        entropy.fill(&mut id)?;
        entropy.fill(&mut secret)?;
        let key = KeyId::for_tenant(tenant, id);
        let text = format!("{PREFIX}{key}_{}", hex(&secret));
        Ok(Self { key, text })
    }

    /// Parses a bearer token. `None` unless it has the form of an API key.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (key, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let key = KeyId::parse(key)?;
        let is_hex = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        let fits = secret.len() == 2 * SECRET_BYTES && secret.bytes().all(is_hex);
        fits.then(|| Self {
            key,
            text: text.to_owned(),
        })
    }

    /// The public part: the key id.
    pub fn key(&self) -> &KeyId {
        &self.key
    }

    /// The whole token with its secret. Shown once to the key's creator, never stored.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// The digest that the registry stores.
    pub(super) fn digest(&self) -> Digest {
        Digest::compute(self.text.as_bytes())
    }

    /// Compares with a stored digest in constant time.
    pub(super) fn has_digest(&self, kept: &Digest) -> bool {
        self.digest().0.ct_eq(&kept.0).into()
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({PREFIX}{}_…)", self.key)
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_back_and_only_its_own_digest_fits() {
        let tenant = TenantId::new("t");
        let token = Token::draw(&tenant, &OsEntropy).unwrap();
        let other = Token::draw(&tenant, &OsEntropy).unwrap();
        let read = Token::parse(token.reveal()).unwrap();
        assert_eq!(read.key(), token.key());
        assert!(read.has_digest(&token.digest()));
        assert!(!read.has_digest(&other.digest()));
        let shown = format!("{token:?}");
        let secret = token.reveal().rsplit_once('_').unwrap().1;
        assert!(!shown.contains(secret), "{shown}");
    }

    #[test]
    fn malformed_tokens_are_not_read() {
        let token = Token::draw(&TenantId::new("t"), &OsEntropy).unwrap();
        let text = token.reveal();
        let bad = [
            "",
            "rw_",
            "rw__",
            &text[1..],
            &text[..text.len() - 1],
            &format!("{text}0"),
            &text.to_uppercase(),
            &text.replace("rw_", "rw_é"),
        ];
        for bad in bad {
            assert!(Token::parse(bad).is_none(), "{bad}");
        }
    }
}
