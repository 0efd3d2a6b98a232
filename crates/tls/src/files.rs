//! Certificates and keys in PEM files. Every error names its file.

use std::path::Path;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::error::TlsError;

/// The certificates in a file, at least one.
pub(crate) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(found) if found.is_empty() => Err(unusable(path, &"no certificate in it")),
        Ok(found) => Ok(found),
        Err(error) => Err(unusable(path, &error)),
    }
}

/// The first private key in a file.
pub(crate) fn key(path: &Path) -> Result<PrivateKeyDer<'static>, TlsError> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| unusable(path, &error))
}

/// The authorities in a file.
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
