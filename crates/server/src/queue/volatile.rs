//! The commit of stores without a disk: there is none, and the type says so.

use posthaste_wire::fault::Fault;

use super::rules::Commit;

/// What [`Rules::seal`](super::rules::Rules::seal) of such a store never hands out.
#[derive(Clone, Copy, Debug)]
pub enum NoCommit {}

impl Commit for NoCommit {
    fn sync(&mut self) -> Result<(), Fault> {
        match *self {}
    }
}
