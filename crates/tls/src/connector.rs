//! The client's side of TLS: which servers it trusts, and the certificate it presents.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, RootCertStore};

use crate::error::TlsError;
use crate::files::{certificates, key, unusable};
use crate::stream::Tls;
use crate::verifier::CertificateVerifier;

/// How closely a server's certificate is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// Not at all: encryption protects against eavesdroppers only.
    Nothing,
    /// It must be signed by a trusted authority or be a trusted certificate itself.
    Signer,
    /// As `Signer`, and it must have been made for the host.
    SignerAndName,
}

/// Which servers are trusted, and our own certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trust {
    /// How closely a server's certificate is checked.
    pub check: Check,
    /// File of the certificates to trust: authorities, or a server's own. None: the system's.
    pub roots: Option<PathBuf>,
    /// Our certificate and its key.
    pub own: Option<(PathBuf, PathBuf)>,
}

impl Trust {
    /// Reads the files and returns the configuration for the TLS library.
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
        let verifier = CertificateVerifier {
            check: self.check,
            roots,
            servers,
            algorithms: provider.signature_verification_algorithms,
        };
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier));
        let Some((certificate, key_file)) = &self.own else { return Ok(builder.with_no_client_auth()) };
        let with_key = builder.with_client_auth_cert(certificates(certificate)?, key(key_file)?);
        with_key.map_err(|error| unusable(certificate, &error))
    }
}

/// Encrypts connections to servers.
#[derive(Clone, Debug)]
pub struct Connector {
    config: Arc<ClientConfig>,
}

impl PartialEq for Connector {
    /// Compares by identity: the same paths may have held other files at another time.
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
        // Connections live long and are few, so resuming sessions would save too little to be worth the memory.
        config.resumption = Resumption::disabled();
        Ok(Self { config: Arc::new(config) })
    }

    /// Begins a session with the server at `host:port`.
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

/// Returns the host of `host:port` or `[address]:port`; the port may be missing.
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
