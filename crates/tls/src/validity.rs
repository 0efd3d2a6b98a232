//! Validity period of a certificate, for its renewal in time and for the decision to trust it.

use std::time::Duration;

use rustls::CertificateError;
use rustls::pki_types::{CertificateDer, UnixTime};
use x509_cert::Certificate;
use x509_cert::der::{DateTime, Decode as _};
use x509_cert::time::Time;

/// When a certificate is valid.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Validity {
    not_before: UnixTime,
    not_after: UnixTime,
}

impl Validity {
    /// Returns the validity of a certificate. None: the library cannot read what rustls could.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let validity = Certificate::from_der(certificate).ok()?.tbs_certificate.validity;
        let unix = |time: Time| UnixTime::since_unix_epoch(time.to_unix_duration());
        Some(Self { not_before: unix(validity.not_before), not_after: unix(validity.not_after) })
    }

    /// Returns the last second of the validity, since 1970.
    pub(crate) fn not_after_s(self) -> u64 {
        self.not_after.as_secs()
    }

    /// Checks that the certificate is valid now.
    ///
    /// # Errors
    /// It is not valid yet, or not any more.
    pub(crate) fn check(self, now: UnixTime) -> Result<(), CertificateError> {
        let Self { not_before, not_after } = self;
        if now < not_before {
            return Err(CertificateError::NotValidYetContext { time: now, not_before });
        }
        if now > not_after {
            return Err(CertificateError::ExpiredContext { time: now, not_after });
        }
        Ok(())
    }

    /// Returns what is wrong with the certificate now, as the rest of a sentence about it; None: it is valid.
    pub(crate) fn fault(self, now: UnixTime) -> Option<String> {
        match self.check(now).err()? {
            CertificateError::NotValidYetContext { not_before, .. } => {
                Some(format!("is not valid before {}", date(not_before)))
            }
            _ => Some(format!("expired at {}", date(self.not_after))),
        }
    }
}

/// Returns a time as a date for people.
fn date(time: UnixTime) -> String {
    let date = DateTime::from_unix_duration(Duration::from_secs(time.as_secs()));
    date.map_or_else(|_| format!("second {} since 1970", time.as_secs()), |date| date.to_string())
}
