//! The memcached protocol: classic and meta text commands to values, and replies piece by piece.
//!
//! A router promises the bytes that a bare memcached gives. Valid commands are the smaller part of that: what a
//! server does with a broken one (answer and go on, swallow the data that was announced, hang up) decides where the
//! next command begins, and two who disagree there are out of step for good. So [`decode`] follows memcached 1.6.18
//! in what is counted, compared and converted, in the same order, and a differential test against the real program
//! holds it to that. Whatever a server can judge without the framing being at stake is left to the server.

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

/// Longest key, as it stands in the line.
pub const KEY_BYTES_MAX: usize = 250;

/// Words of a meta command, its name included, that memcached takes. One more, and an `ms` is refused without its data being passed
/// over.
pub const META_WORDS_MAX: usize = 19;

/// Longest line, its end left out, but of multi-gets. memcached hangs up when 2,048 bytes have come without a line end, whoever's
/// requests the connection carries; this leaves room for the few words that a router adds.
pub const LINE_BYTES_MAX: usize = 2000;
