//! What the program reads from the text of configuration files, without running anything: for checks of such
//! files, and for fuzzing. Errors are one line, with the line in the file if there is one.

use posthaste_server::cache::layout::Layout;

use crate::config;
use crate::import;
use crate::pools::{self, Defaults, Names};

/// Reads a file as `--config` of a command would, given no further arguments. Pools and routes are not read.
///
/// # Errors
/// What is wrong with it, or that the command wants more than the file says.
pub fn options(command: &str, text: &str) -> Result<(), String> {
    config::from_text(vec!["posthaste".into(), command.into()], "FILE", text)
        .map(drop)
        .map_err(|refusal| refusal.to_string())
}

/// Reads pools and routes as `posthaste cache --config` would, but without resolving the names of servers.
///
/// # Errors
/// What is wrong with it.
pub fn pools(text: &str) -> Result<Layout, String> {
    pools::layout(text, Vec::new(), &Defaults::default(), Names::Believed)
        .map_err(|wrong| wrong.with_line("FILE", text))
}

/// Translates a configuration of mcrouter or twemproxy as `posthaste cache --import` would; returns our file
/// and what was left out. `pool` chooses one of several.
///
/// # Errors
/// What cannot be translated.
pub fn import(text: &str, pool: Option<&str>) -> Result<(String, Vec<String>), String> {
    import::translate(text, pool, "FILE")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_cannot_be_are_told_with_their_line() {
        for (text, said) in [
            ("[queue]\nrecord-requests = \"yes\"\n", "FILE:2: record-requests: write true or false"),
            ("[queue]\n\nstore = [\"memory:\", \"mock:1\"]\n", "FILE:3: store: write a value"),
            ("[queue]\nlisten = []\n", "FILE:2: listen: write a value"),
            ("[queue]\nstore = { a = 1 }\n", "FILE:2: store: write a value"),
            (
                "[queue]\nconfig = \"x\"\n",
                "FILE:2: config cannot stand in a file, which it names: give it on the command line (--config FILE), or in POSTHASTE_QUEUE_CONFIG",
            ),
            (
                "[queue]\n[admin]\nconfig = \"x\"\n",
                "FILE:3: config cannot stand in a file, which it names: give it on the command line (--config FILE), or in POSTHASTE_ADMIN_CONFIG",
            ),
            (
                "config = \"x\"\n",
                "FILE:1: config cannot stand in a file, which it names: give it on the command line (--config FILE)",
            ),
            ("[queue]\n[cache]\ncheck = \"x\"\n", "FILE:3: check can stand on the command line only"),
            ("[queue]\n\"a\\nb\" = 1\n", "FILE:2: unknown option a\\nb"),
            ("[queue]\nmax_message = 1\n", "FILE:2: unknown option max_message; did you mean max-message?"),
            ("[queue]\nlissen = \"a:1\"\n", "FILE:2: unknown option lissen; did you mean listen?"),
            (
                "[queue]\n[cache]\n[[cache.route]]\npool = \"a\"\n",
                "FILE:3: unknown option route; did you mean routes?",
            ),
            ("[queue]\n[cache.pool.a]\nservers = []\n", "FILE:2: unknown option pool; did you mean pools?"),
            ("[queue]\n[cache]\npool = \"a\"\n", "FILE:3: pool can stand on the command line only"),
            (
                "[queue]\n[admin]\nconnect = \"a:1\"\n",
                "FILE:3: unknown option connect; it stands in the table of a part, such as [admin.queues]",
            ),
            ("listen = \"a:1\"\n[queue]\n", "FILE:1: listen: options stand in the table of their command"),
            ("[queue]\n[queues]\n", "FILE:2: there is no command queues"),
            ("\n[cache]\nserver = \"a:1\"\n", "FILE:2: there is no table [queue]"),
            ("[queue]\nbatch = 0\n", "FILE:2: "),
            ("[queue]\nlisten = [\"127.0.0.1:0\", 5]\n", "FILE:2: invalid value '5' for '--listen"),
            ("[queue]\nhttp = \"unix:/a\"\n", "FILE:2: invalid value 'unix:/a' for '--http"),
            ("[queue]\n\nstore = \"tape:\"\n", "FILE:3: --store: unknown store tape"),
            ("[queue]\nstore = \"memory:a\"\n", "FILE:2: --store: memory: takes nothing behind it"),
            ("[queue]\npriority-line = [\"peek\", \"frob\"]\n", "FILE:2: invalid value 'frob'"),
            ("[queue]\ntraces = \"me:secret@host\"\n", "FILE:2: --traces: write http://HOST:PORT,"),
            ("[queue]\n[cache]\nserver = [\"a:b\"]\n", "FILE:3: invalid value 'a:b' for '--server"),
        ] {
            let error = options("queue", text).expect_err(text);
            assert!(error.starts_with(said) && error.lines().count() == 1, "{text}: {error}");
        }
        assert_eq!(
            options("cache", "[cache]\nimport = \"x\"\n").map_err(|error| error.starts_with("FILE:2: ")),
            Err(true)
        );
        assert_eq!(
            options("queue", "[queue]\nlisten = [\"a:1\", \"b:2\"]\nrecord-requests = true\n"),
            Ok(())
        );
    }
}
