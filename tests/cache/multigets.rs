//! How multi-gets are spread over servers by `--multiget auto`: by what they cost, which is the test's to set.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use crate::client::{Client, router};
use crate::support::patience::{wait_for, wait_until};

/// Keys of each multi-get.
const KEYS: u32 = 8;

/// Multi-gets after which it is looked how they were spread; one in 32 goes the dearer way to learn what it costs.
const GETS: u64 = 32;

/// What servers take for a command: so much for each key, or, if one of them is slow, so much on that one alone.
const FOR_A_KEY: Duration = Duration::from_millis(2);
const ON_THE_SLOW_ONE: Duration = Duration::from_millis(40);

/// Two servers that have nothing and take their time.
#[derive(Default)]
struct Pair {
    gets: AtomicU64,
    is_one_slow: AtomicBool,
}

impl Pair {
    fn serve(self: &Arc<Self>, is_slow: bool) -> SocketAddr {
        let door = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let (address, pair) = (door.local_addr().expect("its address"), Arc::clone(self));
        thread::spawn(move || {
            for stream in door.incoming().flatten() {
                let pair = Arc::clone(&pair);
                thread::spawn(move || {
                    let mut answers = stream.try_clone().expect("a second handle");
                    for line in BufReader::new(stream).lines().map_while(Result::ok) {
                        let answer = pair.answer(&line, is_slow);
                        // The router may have been stopped.
                        let _ = answers.write_all(answer);
                    }
                });
            }
        });
        address
    }

    fn answer(&self, line: &str, is_slow: bool) -> &'static [u8] {
        let mut words = line.split(' ');
        match words.next() {
            Some("version") => return b"VERSION 1.6.18\r\n",
            Some("get") => {
                self.gets.fetch_add(1, Ordering::Relaxed);
                match (self.is_one_slow.load(Ordering::Relaxed), is_slow) {
                    (true, true) => thread::sleep(ON_THE_SLOW_ONE),
                    (true, false) => {}
                    (false, _) => thread::sleep(FOR_A_KEY * words.count() as u32),
                }
            }
            _ => {}
        }
        b"END\r\n"
    }
}

#[test]
fn multi_gets_go_the_way_that_costs_less_and_the_other_when_that_changes() {
    let pair = Arc::new(Pair::default());
    let names = [false, true].map(|is_slow| pair.serve(is_slow).to_string());
    for mode in [&["--threads", "1"][..], &["--threads", "1", "--workers", "1"]] {
        pair.is_one_slow.store(false, Ordering::Relaxed);
        let server = router(&[&names[0], &names[1]], mode);
        let mut client = Client::to(server.addr());
        let get = format!("get{}\r\n", (0..KEYS).map(|key| format!(" k{key}")).collect::<String>());
        let split = |client: &mut Client| {
            let before = pair.gets.load(Ordering::Relaxed);
            (0..GETS).for_each(|_| assert_eq!(client.ask(&get), "END\r\n"));
            pair.gets.load(Ordering::Relaxed) - before - GETS
        };
        wait_until("both servers share the keys, for that takes half the time", || {
            split(&mut client) >= GETS - 2
        });
        pair.is_one_slow.store(true, Ordering::Relaxed);
        wait_for("one server is asked for all keys, for it may be the fast one, and that is shown", || {
            let is_whole = split(&mut client) <= 2;
            let said = client.ask("stats routes\r\n");
            let is_shown = said.contains(&format!("STAT multiget_{KEYS} whole whole_mean_us="));
            if is_whole && is_shown { Ok(()) } else { Err(said) }
        });
    }
}
