//! Open files: how many the clients may have, how many HTTP, and what is left to the store.
//!
//! A process may have so many open, and a store that cannot open one more cannot go on. So those who come from outside get
//! no more than leaves it enough.

/// What is open besides, in all but the largest setups: listeners, files of the store, servers of a cache.
const OTHERS: u64 = 200;

/// What a connection to HTTP has open at most: its socket, once more by which a hang-up is noticed, and its events; and both
/// ends of its way inside, while it is answered.
const OF_HTTP: u64 = 5;

/// Ways inside that HTTP keeps for who asks next, of two ends each.
pub const WAYS_INSIDE_KEPT: usize = 64;

/// Connections to HTTP, however many files there may be; of fewer it has a share.
const HTTP_MAX: u64 = 1024;
const HTTP_SHARE: u64 = 32;

/// So many connections to HTTP fit into a limit of `files`; None: there is no limit.
pub fn http_connections(files: Option<u64>) -> usize {
    files.map_or(HTTP_MAX, |files| (files / HTTP_SHARE).clamp(1, HTTP_MAX)) as usize
}

/// What a tier may need of `files` beside its clients.
pub fn beside_clients(files: u64) -> u64 {
    OTHERS + of_http(files)
}

fn of_http(files: u64) -> u64 {
    OF_HTTP * http_connections(Some(files)) as u64 + 2 * WAYS_INSIDE_KEPT as u64
}

/// So many clients fit into a limit of `files`; of few files half are theirs.
pub fn clients(files: u64) -> usize {
    let room = files.saturating_sub(beside_clients(files)).max(files / 2).max(1);
    usize::try_from(room).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_and_http_leave_files_for_the_store() {
        assert_eq!([4096, 20_000, 1 << 20].map(clients), [3128, 16_547, 1_043_128]);
        assert_eq!([None, Some(1 << 20), Some(4096)].map(http_connections), [1024, 1024, 128]);
        for files in [1024, 4096, 20_000, 1 << 20] {
            let taken = clients(files) as u64 + of_http(files);
            assert_eq!(files - taken, OTHERS, "{files}");
        }
    }

    #[test]
    fn of_few_files_everybody_gets_some() {
        assert_eq!([300, 1, 0].map(clients), [150, 1, 1]);
        assert_eq!([300, 1, 0].map(|files| http_connections(Some(files))), [9, 1, 1]);
    }
}
