//! The server's side of TLS: its certificate, the clients it accepts, and how both are read again while it runs.
//!
//! Open connections keep the files they began with; those accepted after [`Acceptor::reload`] get the new
//! ones. Files that cannot be used change nothing, and neither does a certificate that has expired or is not valid
//! yet, which every client would refuse: a renewal that went wrong costs an error message and no service.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use rustls::crypto::ring;
use rustls::pki_types::UnixTime;
use rustls::server::WebPkiClientVerifier;
use rustls::{Error, ServerConfig, ServerConnection};

use crate::error::TlsError;
use crate::files::{authorities, certificates, key, unusable};
use crate::stream::Tls;
use crate::validity::Validity;

/// Paths of the server's certificate, its key, and its clients' authorities.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// The server's certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities, one of which must have signed a client's certificate. None: clients need no certificate.
    pub clients: Option<PathBuf>,
}

/// Encrypts accepted connections.
#[derive(Debug)]
pub struct Acceptor {
    files: ServerFiles,
    current: RwLock<Current>,
    refusal: &'static [u8],
}

/// What new connections are given.
#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// When the certificate is valid; None: unknown.
    validity: Option<Validity>,
}

impl Current {
    /// Returns why clients refuse the certificate now, if its validity is known and they do.
    fn fault(&self) -> Option<String> {
        self.validity?.fault(UnixTime::now())
    }
}

/// New files that can be used and are not yet in force.
#[derive(Debug)]
pub struct Renewed(Current);

impl Acceptor {
    /// Reads the files. `refusal` is sent to clients that speak plain text, in the words of their protocol. An
    /// certificate that is not valid now is accepted here: at the start there is no better one yet, and its clients are
    /// the judges.
    ///
    /// # Errors
    /// Which file cannot be used, and why.
    pub fn open(files: ServerFiles, refusal: &'static [u8]) -> Result<Self, TlsError> {
        let current = RwLock::new(read(&files)?);
        Ok(Self { files, current, refusal })
    }

    /// Reads the files again.
    ///
    /// # Errors
    /// As [`Acceptor::open`]; what was read before stays in force.
    pub fn reload(&self) -> Result<(), TlsError> {
        self.read_again().map(|renewed| self.renew(renewed))
    }

    /// Reads the files again without changing anything yet, for a caller that has more to read before
    /// anything may change.
    ///
    /// # Errors
    /// As [`Acceptor::open`], or the certificate is not valid now.
    pub fn read_again(&self) -> Result<Renewed, TlsError> {
        let current = read(&self.files)?;
        match current.fault() {
            None => Ok(Renewed(current)),
            Some(fault) => {
                let why = format!("it {fault}, and clients would refuse it");
                Err(unusable(&self.files.certificate, &why))
            }
        }
    }

    /// Puts in force what was read again.
    pub fn renew(&self, Renewed(current): Renewed) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// Returns the configuration in force, for callers with a stream of their own.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// Returns when the certificate in force expires, in seconds since 1970; None: that cannot be read. The
    /// intermediate certificates are not considered: one may expire sooner without harm, as clients find other paths.
    #[must_use]
    pub fn certificate_not_after_s(&self) -> Option<u64> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.validity.map(Validity::not_after_s)
    }

    /// Returns why clients refuse the certificate in force now, as the rest of a sentence about it ("expired at …");
    /// None: its validity is no reason.
    #[must_use]
    pub fn certificate_fault(&self) -> Option<String> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).fault()
    }

    /// Encrypts an accepted connection; its handshake happens as it is read.
    ///
    /// # Errors
    /// The library's, which has none for files that could be used.
    pub fn accept<S: Read + Write>(&self, socket: S) -> Result<Tls<S>, TlsError> {
        let session = ServerConnection::new(self.config())?;
        Ok(Tls::new(socket, session.into()).refusing(self.refusal))
    }
}

fn read(files: &ServerFiles) -> Result<Current, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions()?;
    let builder = match &files.clients {
        None => builder.with_no_client_auth(),
        Some(path) => {
            let roots = Arc::new(authorities(path)?);
            let verifier = WebPkiClientVerifier::builder_with_provider(roots, provider).build();
            builder.with_client_cert_verifier(verifier.map_err(|error| unusable(path, &error))?)
        }
    };
    let chain = certificates(&files.certificate)?;
    let validity = chain.first().and_then(Validity::of);
    let config = builder.with_single_cert(chain, key(&files.key)?).map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            let other = format!("it is not the certificate of the key in {}", files.key.display());
            unusable(&files.certificate, &other)
        }
        error => unusable(&files.certificate, &error),
    })?;
    Ok(Current { config: Arc::new(config), validity })
}
