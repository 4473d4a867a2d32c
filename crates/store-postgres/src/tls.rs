//! TLS to the database, with the checks that libpq's modes name.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use rustls_platform_verifier::Verifier;
use store::StoreError;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::address::{Address, Check};

pub(crate) fn connector(address: &Address) -> Result<MakeRustlsConnect, StoreError> {
    let bad = |what: &str, why: String| {
        StoreError::Unavailable(format!("TLS to the store: {what}: {why}"))
    };
    let provider = Arc::new(ring::default_provider());
    let of_system = matches!(address.root_certificates.as_deref(), None | Some("system"));
    let inner: Option<Arc<dyn ServerCertVerifier>> = match address.check {
        Check::Nothing => None,
        Check::Authority | Check::Host if of_system => {
            let verifier = Verifier::new(Arc::clone(&provider))
                .map_err(|error| bad("the system's certificates", error.to_string()))?;
            Some(Arc::new(verifier))
        }
        Check::Authority | Check::Host => {
            let file = address.root_certificates.as_deref().unwrap_or_default();
            let roots = roots(file).map_err(|why| bad(file, why))?;
            let verifier =
                WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider))
                    .build()
                    .map_err(|error| bad(file, error.to_string()))?;
            Some(verifier)
        }
    };
    let verifier = Arc::new(Libpq {
        check: address.check,
        inner,
        provider: Arc::clone(&provider),
    });
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| bad("the versions of TLS", error.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let config = match &address.client_certificate {
        None => config.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate).map_err(|why| bad(certificate, why))?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| bad("the key of the client certificate", error.to_string()))?;
            let config = config.with_client_auth_cert(chain, key);
            config.map_err(|error| bad(certificate, error.to_string()))?
        }
    };
    Ok(MakeRustlsConnect::new(config))
}

fn certificates(file: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_file_iter(file).map_err(|error| error.to_string())?;
    let all: Result<Vec<_>, _> = all.collect();
    all.map_err(|error| error.to_string())
}

fn roots(file: &str) -> Result<Arc<RootCertStore>, String> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(file)? {
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    if roots.is_empty() {
        return Err("it contains no certificate".into());
    }
    Ok(Arc::new(roots))
}

/// Checks a server's certificate as far as the mode asks for it.
#[derive(Debug)]
struct Libpq {
    check: Check,
    inner: Option<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Libpq {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        chain: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        match inner.verify_server_cert(certificate, chain, host, ocsp, now) {
            // The chain was checked before the name.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if self.check == Check::Authority => Ok(ServerCertVerified::assertion()),
            answer => answer,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}
