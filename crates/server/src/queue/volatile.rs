//! The commit of stores without a disk: there never is one, and the type says so.

use posthaste_wire::fault::Fault;

use super::rules::Commit;

/// The commit type of a store whose [`Rules::seal`](super::rules::Rules::seal) never returns one.
#[derive(Clone, Copy, Debug)]
pub enum NoCommit {}

impl Commit for NoCommit {
    fn sync(&mut self) -> Result<(), Fault> {
        match *self {}
    }
}
