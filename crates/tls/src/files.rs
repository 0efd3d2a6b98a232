//! Reading of certificates and keys from PEM files. Every error names its file.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::TlsError;

/// Reads the certificates in a file, at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(unusable(path, &"no certificate in it")),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(path, &in_words(&error))),
    }
}

/// Reads the first private key in a file.
pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(path, &in_words(&error)))
}

/// Describes a library error in words for the person who provided the file.
fn in_words(error: &pem::Error) -> String {
    match error {
        pem::Error::MissingSectionEnd { .. } => "it breaks off before its -----END line".into(),
        pem::Error::NoItemsFound => "no private key in it that can be read without a password".into(),
        pem::Error::Base64Decode(_) => "it is damaged, or a key that wants a password".into(),
        pem::Error::Io(error) => error.to_string(),
        error => error.to_string(),
    }
}

/// Reads the authorities in a file.
pub(crate) fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| unusable(path, &error))?;
    }
    Ok(roots)
}

pub(crate) fn unusable(path: &Path, why: &dyn std::fmt::Display) -> TlsError {
    TlsError::File(path.to_owned(), why.to_string())
}
