//! A continuum: points on a circle of 32 bits, each of which belongs to a server. A key's hash is a place on it, and
//! a point near that place says which server owns the key.

use md5::{Digest as _, Md5};

/// Points of each server if all have the same weight.
const POINTS: u32 = 160;

/// Which point near a key's hash decides.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Near {
    /// The first point that is not below the hash; behind the last point, the first of all.
    Next,
    /// The last point that is not above the hash; before the first point, the last of all.
    Last,
}

/// The points of all servers, in order.
pub(super) struct Ring {
    points: Vec<(u32, usize)>,
    near: Near,
}

impl Ring {
    /// Sorts the points; of equal points that of the earlier server comes first.
    pub(super) fn new(mut points: Vec<(u32, usize)>, near: Near) -> Self {
        points.sort_unstable();
        Self { points, near }
    }

    /// The server that owns a key with this hash.
    pub(super) fn owner(&self, hash: u32) -> usize {
        let point = match self.near {
            Near::Next => {
                let place = self.points.partition_point(|(point, _)| *point < hash);
                self.points.get(place).or(self.points.first())
            }
            Near::Last => {
                let place = self.points.partition_point(|(point, _)| *point <= hash);
                place.checked_sub(1).map_or(self.points.last(), |place| self.points.get(place))
            }
        };
        point.map_or(0, |(_, server)| *server)
    }
}

/// Points from MD5, four for each digest of `NAME-i`, as libmemcached has them. It computes the number of a server's
/// digests in single precision, and so must this: rounding decides about whole digests.
pub(super) fn md5_points(names: &[(String, u32)]) -> Vec<(u32, usize)> {
    let total: u32 = names.iter().map(|(_, weight)| weight).sum();
    let mut points = Vec::new();
    for (server, (name, weight)) in names.iter().enumerate() {
        let part = *weight as f32 / total as f32;
        let digests = (f64::from(part * POINTS as f32 / 4.0 * names.len() as f32) + 1e-10) as f32;
        for digest in 0..digests.floor() as u32 {
            points.extend(md5_words(format!("{name}-{digest}").as_bytes()).map(|point| (point, server)));
        }
    }
    points
}

/// The four little-endian words of the digest of `text`.
pub(super) fn md5_words(text: &[u8]) -> [u32; 4] {
    let digest: [u8; 16] = Md5::digest(text).into();
    std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|byte| digest[4 * i + byte])))
}

/// Points from SHA-1, one for each `NAME:i`, as Dalli has them.
pub(super) fn sha1_points(names: &[(String, u32)]) -> Vec<(u32, usize)> {
    let total: u32 = names.iter().map(|(_, weight)| weight).sum();
    let mut points = Vec::new();
    for (server, (name, weight)) in names.iter().enumerate() {
        let count = names.len() as f64 * f64::from(POINTS) * f64::from(*weight) / f64::from(total);
        for i in 0..count.floor() as u32 {
            let digest: [u8; 20] = sha1::Sha1::digest(format!("{name}:{i}").as_bytes()).into();
            points.push((u32::from_be_bytes(std::array::from_fn(|byte| digest[byte])), server));
        }
    }
    points
}
