//! Errors while TLS is set up, before a byte is encrypted.

use std::fmt;
use std::path::PathBuf;

/// Why TLS cannot be set up.
#[derive(Debug)]
pub enum TlsError {
    /// A file cannot be used, and why.
    File(PathBuf, String),
    /// There are no certificates to trust.
    NobodyTrusted,
    /// The host is not one that a certificate can be made for.
    Host(String),
    /// The library refuses this certificate, key or setting.
    Refused(rustls::Error),
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path, why) => write!(f, "cannot use {}: {why}", path.display()),
            Self::NobodyTrusted => {
                f.write_str("there are no certificates to trust: name a file of them, in PEM form")
            }
            Self::Host(host) => {
                write!(f, "no certificate can be made for {host:?}: name a host or an IP address")
            }
            Self::Refused(error) => write!(f, "TLS cannot be set up: {error}"),
        }
    }
}

impl std::error::Error for TlsError {}

impl From<rustls::Error> for TlsError {
    fn from(error: rustls::Error) -> Self {
        Self::Refused(error)
    }
}
