//! Verification of a server's certificate.

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
    verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, ServerName, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use x509_cert::Certificate;
use x509_cert::der::{Decode as _, Encode as _};

use crate::connector::Check;
use crate::validity::Validity;

/// Verifies a server's certificate against what it was told to trust.
#[derive(Debug)]
pub(crate) struct CertificateVerifier {
    pub(crate) check: Check,
    pub(crate) roots: RootCertStore,
    /// Trusted certificates that may be the server's own: many servers have a self-signed one, which is not
    /// an authority's certificate and would be refused as one.
    pub(crate) servers: Vec<CertificateDer<'static>>,
    pub(crate) algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for CertificateVerifier {
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
        if self.servers.contains(end_entity) {
            // One that cannot be read here is left to rustls to judge.
            Validity::of(end_entity).map_or(Ok(()), |validity| validity.check(now))?;
        } else {
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
        // Of a certificate that proves nothing only the key counts, whatever its version and extensions.
        match public_key(certificate).filter(|_| self.check == Check::Nothing) {
            Some(key) => verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms),
            None => verify_tls13_signature(message, certificate, signed, &self.algorithms),
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Returns a certificate's public key; None: it cannot be read.
fn public_key(certificate: &CertificateDer<'_>) -> Option<SubjectPublicKeyInfoDer<'static>> {
    let certificate = Certificate::from_der(certificate).ok()?;
    Some(certificate.tbs_certificate.subject_public_key_info.to_der().ok()?.into())
}
