//! Signature verification with the cryptography library that TLS already uses.
//!
//! The JWT library takes signatures from a provider. Its default adds a second cryptography library
//! of some forty crates; this one is a page over `ring`. It only verifies: the runtime issues no
//! JWTs.

use jsonwebtoken::crypto::{CryptoProvider, JwtSigner, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey, DecodingKeyKind, EncodingKey};
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, RsaPublicKeyComponents, UnparsedPublicKey,
};

static PROVIDER: CryptoProvider = CryptoProvider {
    signer_factory: refuse,
    verifier_factory: verifier,
    key_utils: KeyUtils::new_unimplemented(),
};

/// Installs this provider in the JWT library. Idempotent.
pub(super) fn install() {
    // A second installation fails and leaves the first in place.
    let _ = PROVIDER.install_default();
}

fn refuse(_: &Algorithm, _: &EncodingKey) -> Result<Box<dyn JwtSigner>> {
    Err(ErrorKind::UnsupportedAlgorithm.into())
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    let key = match (algorithm, key.kind()) {
        (Algorithm::HS256, DecodingKeyKind::SecretOrDer(secret)) => {
            Key::Hmac(ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret))
        }
        (Algorithm::ES256, DecodingKeyKind::SecretOrDer(point)) => Key::P256(point.clone()),
        (Algorithm::RS256, DecodingKeyKind::RsaModulusExponent { n, e }) => Key::Rsa {
            n: without_zeros(n),
            e: without_zeros(e),
        },
        _ => return Err(ErrorKind::InvalidKeyFormat.into()),
    };
    let algorithm = *algorithm;
    Ok(Box::new(Verify { algorithm, key }))
}

/// Strips leading zeros, which some issuers write and `ring` rejects.
fn without_zeros(number: &[u8]) -> Vec<u8> {
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    number[zeros..].to_vec()
}

struct Verify {
    algorithm: Algorithm,
    key: Key,
}

enum Key {
    Hmac(ring::hmac::Key),
    P256(Vec<u8>),
    Rsa { n: Vec<u8>, e: Vec<u8> },
}

impl Verifier<Vec<u8>> for Verify {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match &self.key {
            Key::Hmac(key) => ring::hmac::verify(key, message, signature),
            Key::P256(point) => {
                UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point).verify(message, signature)
            }
            Key::Rsa { n, e } => RsaPublicKeyComponents { n, e }.verify(
                &RSA_PKCS1_2048_8192_SHA256,
                message,
                signature,
            ),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for Verify {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
