//! A memcached process for a test: the distribution's, on a port of its own, gone when the test is.

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// How long it may take until it listens. Machines that are shared stand still at times.
const START: Duration = Duration::from_secs(180);

/// A running memcached.
pub(crate) struct Memcached {
    child: Child,
    pub(crate) addr: SocketAddr,
    arguments: Vec<String>,
}

impl Memcached {
    /// Starts it on a free port.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let arguments: Vec<String> = arguments.iter().map(ToString::to_string).collect();
        // The port was free a moment ago; somebody else may have taken it since.
        let started = (0..5).find_map(|_| {
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let addr = free.expect("a free port");
            Some((launch(addr, &arguments)?, addr))
        });
        let (child, addr) = started.expect("memcached listens");
        Self { child, addr, arguments }
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
        while name == "STOP" && !self.is_stopped() {
            thread::sleep(Duration::from_millis(1));
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
        let start = Instant::now();
        self.child = loop {
            if let Some(child) = launch(self.addr, &self.arguments) {
                break child;
            }
            assert!(start.elapsed() < START, "memcached does not listen again");
            thread::sleep(Duration::from_millis(5));
        };
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

/// None: it ended instead of listening.
fn launch(addr: SocketAddr, arguments: &[String]) -> Option<Child> {
    let mut command = Command::new("memcached");
    command.args(["-l", "127.0.0.1", "-p", &addr.port().to_string(), "-U", "0", "-t", "2", "-c", "4096"]);
    if rustix::process::getuid().is_root() {
        command.args(["-u", "nobody"]);
    }
    let child =
        command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("memcached is installed: apt-get install memcached");
    let start = Instant::now();
    while TcpStream::connect(addr).is_err() {
        if child.try_wait().expect("a child can be asked").is_some() {
            return None;
        }
        assert!(start.elapsed() < START, "memcached does not listen");
        thread::sleep(Duration::from_millis(5));
    }
    Some(child)
}
