//! Encryption as libpq's parameters ask for it: `sslmode`, `sslrootcert`, `sslcert` and `sslkey`.
//!
//! Files are read for every connection, so a renewed certificate needs no restart.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// `sslrootcert` when the system's certificates are meant, as in libpq.
const SYSTEM: &str = "system";

/// How connections are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsOptions {
    /// Whether they are.
    pub(super) mode: SslMode,
    check: Check,
    /// The file of certificates to trust; None: the system's.
    roots: Option<PathBuf>,
    /// The files of our own certificate and its key.
    client: Option<(PathBuf, PathBuf)>,
}

/// What of the server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Check {
    /// Nothing: encryption against eavesdroppers only.
    Nothing,
    /// That somebody we trust signed it.
    Signer,
    /// That, and that it was made for the host.
    SignerAndName,
}

impl TlsOptions {
    /// The parameters understood here.
    pub(super) const NAMES: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

    /// From the parameters of a URL.
    ///
    /// # Errors
    /// Which parameter is wrong.
    pub(super) fn new<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Result<Self, String> {
        let roots = value("sslrootcert");
        let (mode, check) = match value("sslmode").unwrap_or("prefer") {
            "disable" => (SslMode::Disable, Check::Nothing),
            "prefer" => (SslMode::Prefer, Check::Nothing),
            "require" if roots.is_none() => (SslMode::Require, Check::Nothing),
            // Who names a certificate to trust wants it looked at; libpq sees it so, too.
            "require" | "verify-ca" => (SslMode::Require, Check::Signer),
            "verify-full" => (SslMode::Require, Check::SignerAndName),
            _ => return Err("sslmode is disable, prefer, require, verify-ca or verify-full".into()),
        };
        if roots.is_some() && check == Check::Nothing {
            return Err("sslrootcert is not looked at without sslmode=verify-full (or verify-ca)".into());
        }
        let client = match (value("sslcert"), value("sslkey")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            _ => return Err("sslcert and sslkey go together".into()),
        };
        Ok(Self { mode, check, roots: roots.filter(|roots| *roots != SYSTEM).map(PathBuf::from), client })
    }

    /// What encrypts a connection.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(super) fn connector(&self) -> Result<MakeRustlsConnect, String> {
        let provider = Arc::new(ring::default_provider());
        let trusted = match (self.check, &self.roots) {
            (Check::Nothing, _) => Vec::new(),
            (_, Some(path)) => certificates(path)?,
            (_, None) => rustls_native_certs::load_native_certs().certs,
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        if self.check != Check::Nothing && roots.is_empty() {
            return Err("there are no certificates to trust: name a file with sslrootcert".into());
        }
        // The system's certificates are authorities, never a server's own.
        let servers = if self.roots.is_some() { trusted } else { Vec::new() };
        let algorithms = provider.signature_verification_algorithms;
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Verifier {
                check: self.check,
                roots,
                servers,
                algorithms,
            }));
        let mut config = match &self.client {
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|error| unusable(key, &error))?;
                let with_key = builder.with_client_auth_cert(certificates(certificate)?, key);
                with_key.map_err(|error| unusable(certificate, &error))?
            }
            None => builder.with_no_client_auth(),
        };
        // For `sslnegotiation=direct`; servers that do not know it ignore it.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(MakeRustlsConnect::new(config))
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(unusable(path, &"no certificate in it")),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(path, &error)),
    }
}

fn unusable(path: &Path, error: &dyn std::fmt::Display) -> String {
    format!("cannot use {}: {error}", path.display())
}

/// Judges the server's certificate.
#[derive(Debug)]
struct Verifier {
    check: Check,
    roots: RootCertStore,
    /// Certificates to trust that may be the server's own: many servers have one signed by nobody else, which is
    /// no authority's certificate and would be refused as one.
    servers: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.check == Check::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if !self.servers.contains(end_entity) {
            let algorithms = self.algorithms.all;
            verify_server_cert_signed_by_trust_anchor(
                &certificate,
                &self.roots,
                intermediates,
                now,
                algorithms,
            )?;
        }
        if self.check == Check::SignerAndName {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
