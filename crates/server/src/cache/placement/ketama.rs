//! The continuum of libmemcached's weighted ketama: 160 points a server, four from each MD5 digest.
//!
//! The name that is hashed is `host-i`, or `host:port-i` where the port is not memcached's own 11211.

use md5::{Digest as _, Md5};

/// Digests for each server; each gives four points.
const DIGESTS: u32 = 40;

/// memcached's own port, which libmemcached leaves out of a server's name.
const USUAL_PORT: &str = ":11211";

/// The continuum.
pub(super) struct Ring(Vec<(u32, usize)>);

impl Ring {
    pub(super) fn new(names: &[String]) -> Self {
        let mut points = Vec::new();
        for (server, name) in names.iter().enumerate() {
            let name = name.strip_suffix(USUAL_PORT).unwrap_or(name);
            for digest in 0..DIGESTS {
                points.extend(words(format!("{name}-{digest}").as_bytes()).map(|point| (point, server)));
            }
        }
        points.sort_unstable();
        Self(points)
    }

    /// The server of the first point that is not below the key's, or of the first of all.
    pub(super) fn owner(&self, key: &[u8]) -> usize {
        let [hash, ..] = words(key);
        let place = self.0.partition_point(|(point, _)| *point < hash);
        self.0.get(place).or(self.0.first()).map_or(0, |(_, server)| *server)
    }
}

/// The four little-endian words of the digest of `text`.
fn words(text: &[u8]) -> [u32; 4] {
    let digest: [u8; 16] = Md5::digest(text).into();
    std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|byte| digest[4 * i + byte])))
}
