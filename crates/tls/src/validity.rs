//! Validity period of a certificate, for its renewal in time and for the decision to trust it.

use std::time::Duration;

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_cert::Certificate;
use x509_cert::der::{DateTime, Decode as _};
use x509_cert::time::Validity;

/// Returns the last second of the certificate's validity, since 1970. None: the library cannot read what rustls could.
pub(crate) fn end(certificate: &CertificateDer<'_>) -> Option<u64> {
    validity(certificate).map(|validity| validity.not_after.to_unix_duration().as_secs())
}

/// Returns a time in seconds since 1970 as a date for people.
pub(crate) fn date(unix_s: u64) -> String {
    let date = DateTime::from_unix_duration(Duration::from_secs(unix_s));
    date.map_or_else(|_| format!("second {unix_s} since 1970"), |date| date.to_string())
}

/// Checks that the certificate is valid now. One that cannot be read here is left to rustls to judge.
///
/// # Errors
/// It is not valid yet, or not any more.
pub(crate) fn judge(certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), CertificateError> {
    let Some(Validity { not_before, not_after }) = validity(certificate) else { return Ok(()) };
    let [not_before, not_after] =
        [not_before, not_after].map(|time| UnixTime::since_unix_epoch(time.to_unix_duration()));
    if now < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before });
    }
    if now > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after });
    }
    Ok(())
}

fn validity(certificate: &CertificateDer<'_>) -> Option<Validity> {
    Some(Certificate::from_der(certificate).ok()?.tbs_certificate.validity)
}
