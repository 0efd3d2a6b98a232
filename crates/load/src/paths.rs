//! Paths as reports write them. A path may be any bytes, and JSON is text: bytes that are not UTF-8 are replaced.

use std::path::{Path, PathBuf};

use serde::{Serialize as _, Serializer};

/// Writes a path, or null.
///
/// # Errors
/// Those of the serializer.
pub(crate) fn legibly<S: Serializer>(path: &Option<PathBuf>, serializer: S) -> Result<S::Ok, S::Error> {
    path.as_deref().map(Path::to_string_lossy).serialize(serializer)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt as _;

    use serde::Serialize;

    use super::*;

    #[derive(Serialize)]
    struct Options {
        #[serde(serialize_with = "legibly")]
        record: Option<PathBuf>,
    }

    fn written(record: Option<&[u8]>) -> String {
        let record = record.map(|bytes| Path::new(OsStr::from_bytes(bytes)).to_owned());
        serde_json::to_string(&Options { record }).expect("JSON")
    }

    #[test]
    fn paths_of_any_bytes_are_written() {
        assert_eq!(written(None), r#"{"record":null}"#);
        assert_eq!(written(Some(b"runs/a")), r#"{"record":"runs/a"}"#);
        assert_eq!(written(Some(b"runs/\xffa")), "{\"record\":\"runs/\u{fffd}a\"}");
    }
}
