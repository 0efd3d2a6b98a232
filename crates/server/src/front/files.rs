//! Open files: how many connections of clients and of HTTP may use, and how many are left for the store.
//!
//! The system limits the open files of a process, and a store that cannot open one more fails. So connections from
//! outside get only what leaves enough for it.

/// Files open besides connections, in all but the largest setups: listeners, files of the store, servers of a cache.
const OTHER_FILES: u64 = 200;

/// The most files that a connection to HTTP has open: its socket, a second descriptor by which a hang-up is noticed, and
/// the events of that descriptor; and both ends of its connection inside, while it is answered.
const FILES_PER_HTTP: u64 = 5;

/// Connections inside that HTTP keeps for the next request, of two descriptors each.
pub const INTERNAL_CONNECTIONS_KEPT: usize = 64;

/// The most connections to HTTP; where few files may be open, one `HTTP_SHARE`-th of them.
const HTTP_MAX: u64 = 1024;
const HTTP_SHARE: u64 = 32;

/// Returns how many connections to HTTP fit into a limit of `files` (None: no limit).
pub fn http_connections(files: Option<u64>) -> usize {
    files.map_or(HTTP_MAX, |files| (files / HTTP_SHARE).clamp(1, HTTP_MAX)) as usize
}

/// Returns how many of `files` a tier may need beside its clients.
pub fn beside_clients(files: u64) -> u64 {
    OTHER_FILES + http_files(files)
}

fn http_files(files: u64) -> u64 {
    FILES_PER_HTTP * http_connections(Some(files)) as u64 + 2 * INTERNAL_CONNECTIONS_KEPT as u64
}

/// Returns how many clients fit into a limit of `files`; if there are few files, half are for clients.
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
            let taken = clients(files) as u64 + http_files(files);
            assert_eq!(files - taken, OTHER_FILES, "{files}");
        }
    }

    #[test]
    fn of_few_files_clients_and_http_get_some() {
        assert_eq!([300, 1, 0].map(clients), [150, 1, 1]);
        assert_eq!([300, 1, 0].map(|files| http_connections(Some(files))), [9, 1, 1]);
    }
}
