//! The side that is connected to: its certificate, whose clients it takes, and both read again while it runs.
//!
//! Connections keep what they began with; those that come after [`Acceptor::reload`] get the new files. Files that
//! cannot be used change nothing, and neither does a certificate that is over, which every client would refuse: so a renewal that
//! went wrong costs an error message and no service.

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
use crate::validity;

/// Where certificate and key are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerFiles {
    /// Our certificate, followed by those that lead to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities whose clients may come, each with a certificate; None: anybody may.
    pub clients: Option<PathBuf>,
}

/// Makes encrypted connections of accepted ones.
#[derive(Debug)]
pub struct Acceptor {
    files: ServerFiles,
    current: RwLock<Current>,
    refusal: &'static [u8],
}

/// What connections begin with.
#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    /// When the certificate ends, in seconds since 1970.
    ends: Option<u64>,
}

impl Current {
    /// When the certificate ended; None: it has not.
    fn over_since(&self) -> Option<u64> {
        self.ends.filter(|ends| *ends < UnixTime::now().as_secs())
    }
}

/// Files that were read again and can be used, not yet in force.
#[derive(Debug)]
pub struct Renewed(Current);

impl Acceptor {
    /// Reads the files. `refusal` is what a client that speaks plain text is told, in the words of its protocol. Of a certificate
    /// that is over there is nothing better to be had yet, and its clients are the judges.
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

    /// Reads the files again and changes nothing yet, for whoever has more to read before anything may change.
    ///
    /// # Errors
    /// As [`Acceptor::open`], or the certificate is over.
    pub fn read_again(&self) -> Result<Renewed, TlsError> {
        let current = read(&self.files)?;
        match current.over_since() {
            None => Ok(Renewed(current)),
            Some(ended) => {
                let over = format!("it ended at {}, and clients would refuse it", validity::date(ended));
                Err(unusable(&self.files.certificate, &over))
            }
        }
    }

    /// Puts in force what was read again.
    pub fn renew(&self, Renewed(current): Renewed) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = current;
    }

    /// What is in force, for whoever brings a stream of their own.
    #[must_use]
    pub fn config(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current.read().unwrap_or_else(PoisonError::into_inner).config)
    }

    /// When the certificate in force ends, in seconds since 1970; None: that cannot be read. Of those that lead from it to its
    /// authority some may end sooner and harm nobody, for clients find other ways.
    #[must_use]
    pub fn certificate_ends(&self) -> Option<u64> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).ends
    }

    /// Whether it has ended.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.current.read().unwrap_or_else(PoisonError::into_inner).over_since().is_some()
    }

    /// Encrypts a connection just accepted; its handshake happens as it is read.
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
    let ends = chain.first().and_then(validity::end);
    let config = builder.with_single_cert(chain, key(&files.key)?).map_err(|error| match error {
        Error::InconsistentKeys(_) => {
            let other = format!("it is not the certificate of the key in {}", files.key.display());
            unusable(&files.certificate, &other)
        }
        error => unusable(&files.certificate, &error),
    })?;
    Ok(Current { config: Arc::new(config), ends })
}
