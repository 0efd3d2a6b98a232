//! Encryption as libpq's parameters ask for it: `sslmode`, `sslrootcert`, `sslcert` and `sslkey`.
//!
//! Files are read for every connection, so a renewed certificate needs no restart.

use std::path::PathBuf;

use posthaste_tls::{Check, TlsError, Trust};
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

/// Value of `sslrootcert` that means the system's certificates, as in libpq.
const SYSTEM: &str = "system";

/// How connections are encrypted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TlsOptions {
    /// Whether they are encrypted: never, if possible, or always.
    pub(super) mode: SslMode,
    trust: Trust,
}

impl TlsOptions {
    /// The parameters understood here.
    pub(super) const NAMES: [&str; 4] = ["sslmode", "sslrootcert", "sslcert", "sslkey"];

    /// Returns the options in the parameters of a URL.
    ///
    /// # Errors
    /// Which parameter is wrong.
    pub(super) fn new<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Result<Self, String> {
        let roots = value("sslrootcert");
        let (mode, check) = match value("sslmode").unwrap_or("prefer") {
            "disable" => (SslMode::Disable, Check::Nothing),
            "prefer" => (SslMode::Prefer, Check::Nothing),
            "require" if roots.is_none() => (SslMode::Require, Check::Nothing),
            // A URL that names a certificate to trust wants it checked; libpq sees it so, too.
            "require" | "verify-ca" => (SslMode::Require, Check::Signer),
            "verify-full" => (SslMode::Require, Check::SignerAndName),
            _ => {
                return Err(
                    "sslmode (or PGSSLMODE) is disable, prefer, require, verify-ca or verify-full".into()
                );
            }
        };
        if roots.is_some() && check == Check::Nothing {
            return Err("sslrootcert is not looked at without sslmode=verify-full (or verify-ca)".into());
        }
        let own = match (value("sslcert"), value("sslkey")) {
            (None, None) => None,
            (Some(certificate), Some(key)) => Some((certificate.into(), key.into())),
            _ => return Err("sslcert and sslkey go together".into()),
        };
        let roots = roots.filter(|roots| *roots != SYSTEM).map(PathBuf::from);
        Ok(Self { mode, trust: Trust { check, roots, own } })
    }

    /// Returns what encrypts a connection.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub(super) fn connector(&self) -> Result<MakeRustlsConnect, String> {
        let mut config = self.trust.config().map_err(|error| match error {
            TlsError::NobodyTrusted => {
                "there are no certificates to trust: name a file with sslrootcert".to_owned()
            }
            error => error.to_string(),
        })?;
        // For `sslnegotiation=direct`; servers that do not know it ignore it.
        config.alpn_protocols = vec![b"postgresql".to_vec()];
        Ok(MakeRustlsConnect::new(config))
    }
}
