//! The memcached protocol: decoding of classic and meta text commands, and of replies piece by piece.
//!
//! A router promises the bytes that a bare memcached gives. Broken commands matter most for that: what a server
//! does with one (answer and go on, swallow the announced data, hang up) decides where the next command begins,
//! and a router that decides otherwise is out of step with it for good. So [`decode`] follows memcached 1.6.18
//! in what is counted, compared and converted, in the same order, and a differential test against the real
//! program checks that. What does not affect where commands begin is left to the server to judge.

pub mod answer;
pub mod decode;
pub mod records;
pub mod reply;
pub mod request;

mod base64;
mod classic;
mod meta;
mod number;
mod tokens;

pub use base64::decode as decode_base64;
pub use number::signed_32;

/// Longest key, in bytes as it stands in the line.
pub const KEY_BYTES_MAX: usize = 250;

/// Most words of a meta command, its name included, that memcached takes. With one more, it refuses an `ms`
/// without swallowing its data.
pub const META_WORDS_MAX: usize = 19;

/// Longest line except that of a multi-get, in bytes without its end. memcached hangs up after 2,048 bytes without a
/// line end, whichever clients' requests the connection carries; this leaves room for the few words that a router adds.
pub const LINE_BYTES_MAX: usize = 2000;
