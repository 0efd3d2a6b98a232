//! Until when a certificate is good, for whoever is to renew it in time.

use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode as _;

/// The last second of its validity, since 1970. None: the library cannot read what rustls could.
pub(crate) fn end(certificate: &CertificateDer<'_>) -> Option<u64> {
    let certificate = Certificate::from_der(certificate).ok()?;
    Some(certificate.tbs_certificate.validity.not_after.to_unix_duration().as_secs())
}
