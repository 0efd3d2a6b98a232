//! The side that connects: whom it trusts, and the certificate it shows.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::error::TlsError;
use crate::files::{certificates, key, unusable};
use crate::judge::Judge;
use crate::stream::Tls;

/// What of a server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Nothing: encryption against eavesdroppers only.
    Nothing,
    /// That somebody we trust signed it.
    Signer,
    /// That, and that it was made for the host.
    SignerAndName,
}

/// Whom we trust, and who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// How closely we look.
    pub check: Check,
    /// Certificates to trust: authorities, or a server's own. None: the system's.
    pub roots: Option<PathBuf>,
    /// Our certificate and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

impl Trust {
    /// What this means to the library. The files are read.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn config(&self) -> Result<ClientConfig, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let trusted = match (self.check, &self.roots) {
            (Check::Nothing, _) => Vec::new(),
            (_, Some(path)) => certificates(path)?,
            (_, None) => rustls_native_certs::load_native_certs().certs,
        };
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        if self.check != Check::Nothing && roots.is_empty() {
            return Err(TlsError::NobodyTrusted);
        }
        // The system's certificates are authorities, never a server's own.
        let servers = if self.roots.is_some() { trusted } else { Vec::new() };
        let judge = Judge {
            check: self.check,
            roots,
            servers,
            algorithms: provider.signature_verification_algorithms,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(judge));
        let Some((certificate, key_file)) = &self.own else { return Ok(builder.with_no_client_auth()) };
        let with_key = builder.with_client_auth_cert(certificates(certificate)?, key(key_file)?);
        with_key.map_err(|error| unusable(certificate, &error))
    }
}

/// Makes encrypted connections of plain ones.
#[derive(Clone, Debug)]
pub struct Connector {
    config: Arc<ClientConfig>,
}

impl PartialEq for Connector {
    /// The same files may have been other files at another time, so only what was read once is equal.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.config, &other.config)
    }
}

impl Eq for Connector {}

impl Connector {
    /// Reads the files.
    ///
    /// # Errors
    /// As [`Trust::config`].
    pub fn open(trust: &Trust) -> Result<Self, TlsError> {
        let mut config = trust.config()?;
        // Connections here live long and are few: what resuming saves is not worth remembering sessions for.
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config) })
    }

    /// The beginning of a session with the server at `host:port`.
    ///
    /// # Errors
    /// What stands there is no host.
    pub fn session(&self, address: &str) -> Result<ClientConnection, TlsError> {
        let host = host(address);
        let name = ServerName::try_from(host.to_owned()).map_err(|_| TlsError::Host(host.to_owned()))?;
        Ok(ClientConnection::new(Arc::clone(&self.config), name)?)
    }

    /// Encrypts a connection to `host:port`; its handshake happens as it is read and written.
    ///
    /// # Errors
    /// As [`Connector::session`].
    pub fn connect<S: Read + Write>(&self, socket: S, address: &str) -> Result<Tls<S>, TlsError> {
        Ok(Tls::new(socket, self.session(address)?.into()))
    }
}

/// The host of `host:port` or `[address]:port`; the port may be missing.
fn host(address: &str) -> &str {
    let bracketed = address.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    bracketed.or_else(|| address.rsplit_once(':')).map_or(address, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn the_host_is_what_a_certificate_is_made_for() {
        for (address, expected) in [
            ("a.example:7411", "a.example"),
            ("127.0.0.1:1", "127.0.0.1"),
            ("[::1]:1", "::1"),
            ("a.example", "a.example"),
            ("[::1]", "::1"),
        ] {
            assert_eq!(host(address), expected);
        }
    }
}
