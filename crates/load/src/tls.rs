//! The options of clients that speak TLS, whatever they ask. Their aliases are the names that memtier_benchmark and
//! redis-cli use.

use std::io;
use std::path::PathBuf;

use clap::Args;
use posthaste_tls::{Check, Connector, TlsError, Trust};
use rustls::{AlertDescription, CertificateError, Error, InvalidMessage};
use serde::Serialize;

use crate::error::LoadError;
use crate::paths;

/// Whether to speak TLS, whom to trust, and who we are.
#[derive(Args, Clone, Debug, Default, Serialize)]
pub struct TlsOptions {
    /// Speak TLS to servers over TCP
    #[arg(long)]
    pub tls: bool,

    /// Authorities of servers, or their own certificates, in PEM form [default: the system's authorities]
    #[arg(long, alias = "cacert", value_name = "FILE")]
    #[serde(serialize_with = "paths::legibly")]
    pub tls_ca: Option<PathBuf>,

    /// The certificate shown to servers that ask for one
    #[arg(long, alias = "cert", value_name = "FILE")]
    #[serde(serialize_with = "paths::legibly")]
    pub tls_cert: Option<PathBuf>,

    /// Private key of --tls-cert
    #[arg(long, alias = "key", value_name = "FILE")]
    #[serde(skip)]
    pub tls_key: Option<PathBuf>,
}

impl TlsOptions {
    /// Returns what encrypts connections; None without `--tls`.
    ///
    /// # Errors
    /// The options contradict each other, or name a file that cannot be used.
    pub fn connector(&self) -> Result<Option<Connector>, LoadError> {
        let usage = |text: &str| Err(LoadError::Usage(text.to_owned()));
        let own = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => return usage("--tls-cert and --tls-key go together"),
        };
        if !self.tls {
            let is_idle = own.is_none() && self.tls_ca.is_none();
            return if is_idle {
                Ok(None)
            } else {
                usage("--tls-ca and --tls-cert do nothing without --tls")
            };
        }
        let trust = Trust { check: Check::SignerAndName, roots: self.tls_ca.clone(), own };
        let connector = Connector::open(&trust).map_err(|error| match error {
            TlsError::NobodyTrusted => LoadError::Usage(
                "there are no certificates to trust: name a file of them with --tls-ca".to_owned(),
            ),
            error => LoadError::Failed(format!("{}: {error}", self.option_of(&error))),
        });
        connector.map(Some)
    }

    /// Returns the option that names what cannot be used.
    fn option_of(&self, error: &TlsError) -> &'static str {
        match error {
            TlsError::File(path, _) if self.tls_key.as_ref() == Some(path) => "--tls-key",
            TlsError::File(path, _) if self.tls_cert.as_ref() == Some(path) => "--tls-cert",
            TlsError::File(..) => "--tls-ca",
            _ => "--tls",
        }
    }
}

/// Returns what to do about a connection on which TLS failed; None if it failed otherwise.
#[must_use]
pub fn advice(error: &io::Error) -> Option<&'static str> {
    match error.get_ref()?.downcast_ref()? {
        Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => Some("name the host as its certificate does"),
        Error::InvalidCertificate(
            CertificateError::Expired
            | CertificateError::ExpiredContext { .. }
            | CertificateError::NotValidYet
            | CertificateError::NotValidYetContext { .. },
        ) => Some("its certificate has ended or not begun: renew it, if the clocks are right"),
        Error::InvalidCertificate(_) => Some(
            "its certificate is not trusted: name its authority, or the certificate itself, with --tls-ca",
        ),
        Error::InvalidMessage(InvalidMessage::InvalidContentType) => {
            Some("it does not speak TLS there: leave out --tls")
        }
        Error::AlertReceived(AlertDescription::CertificateRequired) => {
            Some("it wants a certificate: show one with --tls-cert and --tls-key")
        }
        Error::AlertReceived(_) => {
            Some("it refused the certificate: show one of an authority that it knows (--tls-cert, --tls-key)")
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_fails_for_another_reason_gets_no_advice_about_certificates() {
        assert_eq!(advice(&io::Error::from(io::ErrorKind::ConnectionRefused)), None);
        let wrong = Error::InvalidCertificate(CertificateError::UnknownIssuer);
        assert!(advice(&io::Error::other(wrong)).is_some_and(|advice| advice.contains("--tls-ca")));
    }
}
