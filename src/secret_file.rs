//! The secret that the command line logs in with. It is read from a file, because every user of the machine
//! can read arguments.

pub(crate) use posthaste_load::queue::secret::secret_in;

/// Advice if a tier requires an account; the tier's own words are about requests and headers, which users of
/// the command line do not write.
pub(crate) const WHO: &str = "name an account with --user, and the file with its secret with --secret-file";
