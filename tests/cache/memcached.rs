//! A memcached process for a test: the distribution's, on a port of its own, gone when the test is.

use std::fs::{self, Permissions};
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::support::patience::{wait_for, wait_until};

/// A running memcached.
pub(crate) struct Memcached {
    child: Child,
    pub(crate) addr: SocketAddr,
    arguments: Vec<String>,
    /// Where it tells its port.
    home: TempDir,
}

impl Memcached {
    /// Starts it on a free port.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        let home = tempfile::tempdir().expect("a temporary directory");
        // Started by root it runs, and writes, as another user.
        fs::set_permissions(home.path(), Permissions::from_mode(0o777)).expect("permissions");
        let (child, addr) = launch(None, &arguments, home.path()).expect("memcached listens");
        Self { child, addr, arguments, home }
    }

    /// Starts another one on another address of this machine, where the port is the same.
    pub(crate) fn beside(&self, host: [u8; 4]) -> Self {
        let home = tempfile::tempdir().expect("a temporary directory");
        fs::set_permissions(home.path(), Permissions::from_mode(0o777)).expect("permissions");
        let at = SocketAddr::from((host, self.addr.port()));
        let (child, addr) = launch(Some(at), &[], home.path()).expect("memcached listens");
        Self { child, addr, arguments: Vec::new(), home }
    }

    /// As many of them.
    pub(crate) fn several<const N: usize>() -> [Self; N] {
        std::array::from_fn(|_| Self::start(&[]))
    }

    /// Its address as text.
    pub(crate) fn name(&self) -> String {
        self.addr.to_string()
    }

    /// Sends it a signal, by the name that kill(1) gives it.
    pub(crate) fn signal(&self, name: &str) {
        let asked = Command::new("kill").args([&format!("-{name}"), &self.child.id().to_string()]).status();
        assert!(asked.is_ok_and(|status| status.success()), "kill -{name}");
        // Threads of a process that is told to stop may go on for a while.
        if name == "STOP" {
            wait_until("memcached has stopped", || self.is_stopped());
        }
    }

    fn is_stopped(&self) -> bool {
        let tasks = fs::read_dir(format!("/proc/{}/task", self.child.id())).expect("it runs");
        tasks.flatten().all(|task| {
            let stat = fs::read_to_string(task.path().join("stat")).unwrap_or_default();
            stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'))
        })
    }

    /// Ends it without warning.
    pub(crate) fn kill(&mut self) {
        self.child.kill().and_then(|()| self.child.wait()).expect("a child can be killed");
    }

    /// Starts it again where it was.
    pub(crate) fn restart(&mut self) {
        // Somebody may have connected from its port meanwhile, and will go.
        (self.child, _) = wait_for("memcached listens again", || {
            launch(Some(self.addr), &self.arguments, self.home.path()).ok_or("it ended")
        });
    }

    /// The same with other arguments.
    pub(crate) fn restart_as(&mut self, arguments: &[&str]) {
        self.arguments = arguments.iter().map(ToString::to_string).collect();
        self.restart();
    }
}

impl Drop for Memcached {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have been killed
        let _ = self.child.wait();
    }
}

/// Starts it where it was, or else on a port that the system chooses, and waits until it says that it listens: whoever
/// answers at a port may be somebody else. None: it ended instead.
fn launch(at: Option<SocketAddr>, arguments: &[String], home: &Path) -> Option<(Child, SocketAddr)> {
    let told = home.join("port");
    let _ = fs::remove_file(&told); // of the one before
    let port = at.map_or("-1".to_owned(), |addr| addr.port().to_string());
    let host = at.map_or(IpAddr::from([127, 0, 0, 1]), |addr| addr.ip());
    let mut command = Command::new("memcached");
    command.args(["-l", &host.to_string(), "-p", &port, "-U", "0", "-t", "2", "-c", "4096"]);
    command.env("MEMCACHED_PORT_FILENAME", &told);
    if rustix::process::getuid().is_root() {
        command.args(["-u", "nobody"]);
    }
    let child =
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("memcached is installed: apt-get install memcached");
    let port: Option<u16> = wait_for("memcached listens, or ends", || {
        let text = fs::read_to_string(&told).unwrap_or_default();
        let port = text.trim().strip_prefix("TCP INET: ").map(|port| port.parse().expect("a port"));
        let has_ended = child.try_wait().expect("a child can be asked").is_some();
        if port.is_some() || has_ended { Ok(port) } else { Err(text) }
    });
    port.map(|port| (child, SocketAddr::new(host, port)))
}
