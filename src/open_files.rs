//! The limit of open files: raised as far as the system allows, and what it has room for.

use posthaste_server::front::files;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::flags::MAX_CLIENTS;

/// Raises the limit of open files to what the system allows, as every connection is one.
pub(crate) fn raise_limit() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    if let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }) {
        tracing::warn!("cannot raise the limit of open files: {error}");
    }
}

/// Returns the limit of clients, lowered to what the limit of open files has room for: clients must not take
/// the store's files.
pub(crate) fn clients_that_fit(clients: usize) -> usize {
    clients_within(clients, getrlimit(Resource::Nofile).maximum)
}

fn clients_within(clients: usize, files: Option<u64>) -> usize {
    let Some(files) = files else { return clients };
    let room = files::clients(files);
    // No warning about the default, which nobody asked for; the doctor tells that the limit is lower.
    if clients > room && clients != MAX_CLIENTS {
        tracing::warn!(
            "the limit of {files} open files is too low for the {clients} clients of --max-clients: no more than {room} are \
             let in; set LimitNOFILE= in the unit, or ulimit -n, or allow fewer with --max-clients"
        );
    }
    clients.min(room)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_files_for_the_rest() {
        assert_eq!(clients_within(20_000, None), 20_000);
        assert_eq!(clients_within(20_000, Some(65_536)), 20_000);
        assert_eq!(clients_within(20_000, Some(4096)), 3128);
    }
}
