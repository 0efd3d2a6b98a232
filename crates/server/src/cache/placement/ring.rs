//! A ring, or continuum: points on a circle of 32 bits, each of which belongs to a server. The point next to a key's hash
//! determines which server owns the key.

use md5::{Digest as _, Md5};

use super::NamedServer;

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

/// A point on the circle. Points are ordered by hash; of equal ones, that of the earlier server comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Point {
    hash: u32,
    server: usize,
}

/// The points of all servers, in order.
pub(super) struct Ring {
    points: Vec<Point>,
    near: Near,
}

impl Ring {
    /// Sorts the points.
    pub(super) fn new(mut points: Vec<Point>, near: Near) -> Self {
        points.sort_unstable();
        Self { points, near }
    }

    /// The server that owns a key with this hash.
    pub(super) fn owner(&self, hash: u32) -> usize {
        let point = match self.near {
            Near::Next => {
                let place = self.points.partition_point(|point| point.hash < hash);
                self.points.get(place).or(self.points.first())
            }
            Near::Last => {
                let place = self.points.partition_point(|point| point.hash <= hash);
                place.checked_sub(1).map_or(self.points.last(), |place| self.points.get(place))
            }
        };
        point.map_or(0, |point| point.server)
    }
}

/// Points from MD5, four for each digest of `NAME-i`, as libmemcached has them. It computes the number of a server's
/// digests in single precision, and so must this: rounding decides about whole digests.
pub(super) fn md5_points(servers: &[NamedServer<'_>]) -> Vec<Point> {
    let total: u32 = servers.iter().map(|server| server.weight).sum();
    let mut points = Vec::new();
    for (server, NamedServer { name, weight }) in servers.iter().enumerate() {
        let part = *weight as f32 / total as f32;
        let digests = (f64::from(part * POINTS as f32 / 4.0 * servers.len() as f32) + 1e-10) as f32;
        for digest in 0..digests.floor() as u32 {
            points
                .extend(md5_words(format!("{name}-{digest}").as_bytes()).map(|hash| Point { hash, server }));
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
pub(super) fn sha1_points(servers: &[NamedServer<'_>]) -> Vec<Point> {
    let total: u32 = servers.iter().map(|server| server.weight).sum();
    let mut points = Vec::new();
    for (server, NamedServer { name, weight }) in servers.iter().enumerate() {
        let count = servers.len() as f64 * f64::from(POINTS) * f64::from(*weight) / f64::from(total);
        for i in 0..count.floor() as u32 {
            let digest: [u8; 20] = sha1::Sha1::digest(format!("{name}:{i}").as_bytes()).into();
            let hash = u32::from_be_bytes(std::array::from_fn(|byte| digest[byte]));
            points.push(Point { hash, server });
        }
    }
    points
}
