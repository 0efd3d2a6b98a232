//! The command that deletes a key, written in one place, because one key needs care.

/// Writes it to `output`. `base64`: the key is written so.
///
/// memcached from 1.6.40 on takes `delete noreply` for a deletion that is not to be answered. The time that deletes once took
/// keeps the key from being the last word.
pub(crate) fn write(key: &[u8], base64: bool, output: &mut Vec<u8>) {
    let (verb, end): (&[u8], &[u8]) = match key {
        _ if base64 => (b"md ", b" b\r\n"),
        b"noreply" => (b"delete ", b" 0\r\n"),
        _ => (b"delete ", b"\r\n"),
    };
    [verb, key, end].iter().for_each(|part| output.extend_from_slice(part));
}
