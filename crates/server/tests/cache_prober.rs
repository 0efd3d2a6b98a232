//! Who brings servers back: servers that are the test's, and answer as it likes.

#[path = "support/cache_by_hand.rs"]
mod cache_by_hand;
#[path = "../../../tests/support/patience.rs"]
mod patience;

use std::io::{BufRead as _, BufReader, ErrorKind, Read as _, Write as _};
use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use cache_by_hand::Thread;
use patience::wait_until;
use posthaste_measure::{Clock, Hand};
use posthaste_server::cache::admin_state::AdminState;
use posthaste_server::cache::claims::ClaimMode;
use posthaste_server::cache::flushes::OwnFlushes;
use posthaste_server::cache::layout::{Layout, MemberPlan};
use posthaste_server::cache::missed_writes::{MissedKey, MissedWrite};
use posthaste_server::cache::prober::Prober;
use posthaste_server::cache::rules::{Rules, Writes};
use posthaste_server::cache::shared::CacheShared;

/// A tier before servers at these doors; nobody turns its thread.
fn shared(doors: &[&TcpListener]) -> Arc<CacheShared> {
    shared_by(doors, Rules::default(), Clock::start())
}

/// The same by these rules and this clock.
fn shared_by(doors: &[&TcpListener], rules: Rules, clock: Clock) -> Arc<CacheShared> {
    let member = |door: &&TcpListener| MemberPlan::of(&door.local_addr().expect("an address").to_string());
    let layout = Layout::of_one_pool(doors.iter().map(member).collect(), rules);
    Arc::clone(&Thread::new(&layout, clock).shared)
}

fn door() -> TcpListener {
    TcpListener::bind("127.0.0.1:0").expect("a free port")
}

/// Answers every line as a memcached would that has nothing, after `heard` was told of it.
fn serve(door: TcpListener, heard: impl FnMut(&str) + Send + 'static) {
    serve_as("1.6.18", door, heard);
}

/// The same, of another version.
fn serve_as(version: &'static str, door: TcpListener, mut heard: impl FnMut(&str) + Send + 'static) {
    thread::spawn(move || {
        for stream in door.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().expect("a second handle"));
            let (mut stream, mut line) = (stream, String::new());
            while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                heard(&line);
                let answer = match line.split_whitespace().next() {
                    Some("version") => format!("VERSION {version}\r\n"),
                    Some("stats") => "END\r\n".to_owned(),
                    Some("flush_all") => "OK\r\n".to_owned(),
                    // Servers that are older know it not; with this router nothing else of that kind is asked here.
                    Some("md") => "ERROR\r\n".to_owned(),
                    _ => "NOT_FOUND\r\n".to_owned(),
                };
                // The prober may have seen enough.
                let _ = stream.write_all(answer.as_bytes());
                line.clear();
            }
        }
    });
}

/// Says these words to the first who connects and asks something, and closes the connection; then serves as [`serve`]
/// does.
fn serve_all_but_the_first(door: TcpListener, words: &'static str, heard: impl FnMut(&str) + Send + 'static) {
    thread::spawn(move || {
        let mut lines = BufReader::new(door.accept().expect("a connection").0);
        lines.read_line(&mut String::new()).expect("a line");
        lines.get_mut().write_all(words.as_bytes()).expect("the prober listens");
        drop(lines);
        serve(door, heard);
    });
}

fn key(number: usize) -> MissedWrite {
    MissedWrite::Key(MissedKey { key: format!("k{number}").into_bytes(), base64: false })
}

#[test]
fn a_server_comes_back_though_with_every_deletion_another_key_is_written() {
    let door = door();
    let shared = shared(&[&door]);
    let server = Arc::clone(&shared.fleet.table().servers[0]);
    server.health.note_lost_connection(vec![key(0)], None);
    let (writers, its, mut number) = (Arc::clone(&shared), Arc::clone(&server), 0);
    serve(door, move |_| {
        number += 1;
        // Writes that may not wait note what the server misses.
        if !writers.fleet.are_writes_paused() {
            let _ = its.health.note_missed_write(key(number));
        }
    });
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    wait_until("it is back", || !server.health.is_away());
    prober.stop();
    assert!(!shared.fleet.are_writes_paused());
}

#[test]
fn a_server_that_deletes_slowly_does_not_keep_writes_waiting() {
    let door = door();
    let shared = shared(&[&door]);
    let server = Arc::clone(&shared.fleet.table().servers[0]);
    server.health.note_lost_connection(vec![key(0)], None);
    let (said, heard) = mpsc::channel();
    let (fleet, its, mut number, mut deletions) = (Arc::clone(&shared), Arc::clone(&server), 0, 0);
    serve(door, move |line| {
        let is_paused = fleet.fleet.are_writes_paused();
        let _ = said.send((Instant::now(), is_paused, line.to_owned()));
        if is_paused && line.starts_with("delete") {
            deletions += 1;
            // 64 of them take a third of the time that they may, also on a machine that is busy with others.
            if deletions % 8 == 0 {
                thread::sleep(Duration::from_millis(8));
            }
        } else if line.starts_with("delete") {
            number += 1;
            let mut missed = if number < 8 { number..=number } else { 10_000..=20_000 };
            assert!(missed.all(|number| its.health.note_missed_write(key(number))), "it is away");
        }
    });
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    wait_until("it is back", || !server.health.is_away());
    prober.stop();
    let heard: Vec<_> = heard.try_iter().collect();
    assert!(heard.iter().any(|(_, is_paused, line)| *is_paused && line == "flush_all\r\n"));
    // All of them one after the other would take 10 s. On a busy machine writes may be paused several times.
    let pauses = heard.chunk_by(|one, next| one.1 && next.1).filter(|heard| heard[0].1);
    let longest = pauses.map(|heard| heard[heard.len() - 1].0 - heard[0].0).max();
    assert!(longest.expect("they were paused") < Duration::from_secs(8), "{longest:?}");
}

#[test]
fn a_server_that_takes_its_time_for_every_deletion_does_not_keep_writes_waiting() {
    let door = door();
    let shared = shared(&[&door]);
    let server = Arc::clone(&shared.fleet.table().servers[0]);
    server.health.note_lost_connection(vec![key(0)], None);
    let is_slow = Arc::new(AtomicBool::new(true));
    let (tier, its, slow, mut number) = (Arc::clone(&shared), Arc::clone(&server), Arc::clone(&is_slow), 0);
    serve(door, move |line| {
        if !slow.load(Ordering::SeqCst) || !line.starts_with("delete") {
            return;
        }
        if tier.fleet.are_writes_paused() {
            // Less than a reply may take then; 64 of them one after the other take 9.6 s.
            return thread::sleep(Duration::from_millis(150));
        }
        number += 1;
        let mut missed = if number < 8 { number..=number } else { 100..=200 };
        assert!(missed.all(|number| its.health.note_missed_write(key(number))), "it is away");
    });
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    wait_until("writes wait", || shared.fleet.are_writes_paused());
    let begun = Instant::now();
    wait_until("writes go on", || !shared.fleet.are_writes_paused());
    let took = begun.elapsed();
    is_slow.store(false, Ordering::SeqCst);
    wait_until("it is back", || !server.health.is_away());
    prober.stop();
    assert!(took < Duration::from_secs(8), "{took:?}");
}

/// Waits until a server was flushed so often; what else it was told of flushes would make it show again what it has
/// hidden.
fn wait_for_flushes(heard: &mpsc::Receiver<String>, times: usize) {
    let mut flushes = Vec::new();
    wait_until("it is flushed", || {
        flushes.extend(heard.try_iter().filter(|line| line.starts_with("flush_all")));
        flushes.len() >= times
    });
    assert_eq!(flushes, vec!["flush_all\r\n"; times]);
}

#[test]
fn a_server_that_comes_back_before_a_flush_is_due_forgets_everything_when_it_is() {
    for missed in [MissedWrite::AllKeys, key(0)] {
        let (door, hand) = (door(), Hand::at_zero());
        let shared = shared_by(&[&door], Rules::default(), Clock::by_hand(hand, 0));
        let server = Arc::clone(&shared.fleet.table().servers[0]);
        shared.fleet.note_flush(shared.fleet.began_s + 1000);
        let at_once = usize::from(missed == MissedWrite::AllKeys);
        server.health.note_lost_connection(vec![missed], None);
        let (said, heard) = mpsc::channel();
        serve(door, move |line| drop(said.send(line.to_owned())));
        let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
        wait_until("it is back", || !server.health.is_away());
        wait_for_flushes(&heard, at_once);
        let (flushes, writer) = (&shared.fleet.flushes, OwnFlushes::default());
        let before = flushes.mark(&writer, ClaimMode::Shared);
        hand.set(1_000_000_000_000);
        shared.fleet.watch.wake();
        wait_for_flushes(&heard, 1);
        prober.stop();
        assert!(flushes.was_any_under_way(&writer, &before), "what was written beside it is undone");
        assert_eq!(heard.try_iter().filter(|line| line.starts_with("flush_all")).count(), 0);
    }
}

#[test]
fn a_server_that_was_away_when_a_flush_was_due_is_flushed_before_it_takes_part() {
    let (door, hand) = (door(), Hand::at_zero());
    let shared = shared_by(&[&door], Rules::default(), Clock::by_hand(hand, 0));
    let server = Arc::clone(&shared.fleet.table().servers[0]);
    shared.fleet.note_flush(shared.fleet.began_s + 1000);
    shared.fleet.set_flush_reminder(&server, 0);
    server.health.note_lost_connection(vec![key(0)], None);
    hand.set(1_000_000_000_000);
    let (said, heard) = mpsc::channel();
    serve(door, move |line| drop(said.send(line.to_owned())));
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    wait_until("it is back", || !server.health.is_away());
    prober.stop();
    wait_for_flushes(&heard, 1);
}

#[test]
fn servers_that_forget_what_they_hold_as_they_are_received_do_so_again_when_a_flush_is_due() {
    let (doors, hand) = ([door(), door()], Hand::at_zero());
    let sharded = Rules { writes: Writes::Owner, ..Rules::default() };
    let shared = shared_by(&doors.each_ref(), sharded, Clock::by_hand(hand, 0));
    shared.fleet.note_flush(shared.fleet.began_s + 1000);
    let heard = doors.map(|door| {
        let (said, heard) = mpsc::channel();
        serve(door, move |line| drop(said.send(line.to_owned())));
        heard
    });
    let mut layout = shared.fleet.layout();
    layout.pools[0].rules = Rules::default();
    shared.fleet.load(&layout).expect("it is good");
    heard.iter().for_each(|heard| wait_for_flushes(heard, 1));
    hand.set(1_000_000_000_000);
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    heard.iter().for_each(|heard| wait_for_flushes(heard, 1));
    prober.stop();
}

#[test]
fn a_server_that_joins_before_a_flush_is_due_forgets_everything_when_it_is() {
    let (first, second, hand) = (door(), door(), Hand::at_zero());
    let shared = shared_by(&[&first], Rules::default(), Clock::by_hand(hand, 0));
    shared.fleet.note_flush(shared.fleet.began_s + 1000);
    let mut layout = shared.fleet.layout();
    layout.pools[0].members.push(MemberPlan::of(&second.local_addr().expect("an address").to_string()));
    let [(told_first, first_heard), (told_second, second_heard)] = [mpsc::channel(), mpsc::channel()];
    serve(first, move |line| drop(told_first.send(line.to_owned())));
    serve(second, move |line| drop(told_second.send(line.to_owned())));
    shared.fleet.load(&layout).expect("it is good");
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    let servers = shared.fleet.table().servers.clone();
    wait_until("they are there", || servers.iter().all(|server| server.health.is_answering()));
    let flushes =
        |heard: &mpsc::Receiver<String>| heard.try_iter().filter(|line| line.starts_with("flush")).count();
    assert_eq!(flushes(&second_heard), 0, "it is not due yet");
    hand.set(1_000_000_000_000);
    shared.fleet.watch.wake();
    wait_for_flushes(&second_heard, 1);
    prober.stop();
    assert_eq!(flushes(&first_heard), 0, "it was sent the flush itself");
}

#[test]
fn a_server_that_cannot_be_asked_when_a_flush_is_due_is_lost_until_it_is_flushed() {
    for words in ["", "ERROR Too many open connections\r\n"] {
        let (door, hand) = (door(), Hand::at_zero());
        let shared = shared_by(&[&door], Rules::default(), Clock::by_hand(hand, 0));
        let server = Arc::clone(&shared.fleet.table().servers[0]);
        server.health.note_answer();
        shared.fleet.note_flush(shared.fleet.began_s + 1000);
        shared.fleet.set_flush_reminder(&server, 0);
        hand.set(1_000_000_000_000);
        let (said, heard) = mpsc::channel();
        serve_all_but_the_first(door, words, move |line| drop(said.send(line.to_owned())));
        let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
        wait_for_flushes(&heard, 1);
        wait_until("it is back", || !server.health.is_away());
        prober.stop();
    }
}

/// A server comes back beside eight that say nothing; whether one of them is still waited for then.
fn comes_back_meanwhile() -> bool {
    let silent: Vec<TcpListener> = (0..8).map(|_| door()).collect();
    let lively = door();
    let shared = shared(&silent.iter().chain([&lively]).collect::<Vec<_>>());
    let servers = shared.fleet.table().servers.clone();
    for server in &servers {
        assert!(server.health.note_lost_connection(Vec::new(), None));
    }
    serve(lively, |_| {});
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    wait_until("it is back", || !servers[8].health.is_away());
    let is_waited_for = |door: &TcpListener| {
        door.set_nonblocking(true).expect("an option");
        let Ok((mut asked, _)) = door.accept() else { return false };
        asked.set_nonblocking(true).expect("an option");
        asked.read_to_end(&mut Vec::new()).is_err_and(|error| error.kind() == ErrorKind::WouldBlock)
    };
    let is_meanwhile = silent.iter().any(is_waited_for);
    drop(silent);
    prober.stop();
    is_meanwhile
}

#[test]
fn servers_that_say_nothing_keep_no_other_away() {
    // A machine that stands still lets all be given up first.
    assert!((0..20).any(|_| comes_back_meanwhile()));
}

#[test]
fn a_server_is_not_connected_to_while_a_thread_may_have_something_under_way_on_it() {
    let door = door();
    let shared = shared(&[&door]);
    let server = Arc::clone(&shared.fleet.table().servers[0]);
    server.health.add_user();
    server.health.note_lost_connection(vec![key(0)], None);
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    thread::sleep(Duration::from_millis(300));
    door.set_nonblocking(true).expect("an option");
    assert!(door.accept().is_err_and(|error| error.kind() == ErrorKind::WouldBlock));
    door.set_nonblocking(false).expect("an option");
    serve(door, |_| {});
    server.health.remove_user();
    wait_until("it is back", || !server.health.is_away());
    prober.stop();
}

#[test]
fn a_server_that_may_still_carry_out_deletions_is_away_until_it_has() {
    let door = door();
    let shared = shared(&[&door]);
    let server = Arc::clone(&shared.fleet.table().servers[0]);
    server.health.note_lost_connection(vec![key(0)], None);
    let (held, holder) = mpsc::channel();
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    // The first to delete something is not answered, and those after it are.
    let holding = thread::spawn(move || {
        for stream in door.incoming().flatten() {
            let mut lines = BufReader::new(stream);
            let mut line = String::new();
            while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) && !line.starts_with("delete") {
                let answer = if line.starts_with("stats") { "END\r\n" } else { "VERSION 1.6.18\r\n" };
                lines.get_mut().write_all(answer.as_bytes()).expect("the prober listens");
                line.clear();
            }
            if line.starts_with("delete") {
                held.send(lines).expect("the test waits");
                return door;
            }
        }
        unreachable!("somebody always comes")
    });
    let unread = holder.recv().expect("a connection");
    let (said, heard) = mpsc::channel();
    serve(holding.join().expect("it ends"), move |line| drop(said.send(line.to_owned())));
    wait_until("the next attempt begins", || heard.try_iter().any(|line| line == "version\r\n"));
    thread::sleep(Duration::from_millis(300));
    assert!(server.health.is_away());
    drop(unread);
    wait_until("it is back", || !server.health.is_away());
    prober.stop();
}

#[test]
fn a_server_that_was_set_up_again_and_is_not_there_is_counted_on_where_none_is_ejected() {
    let door = door();
    let shared = shared(&[&door]);
    let server = Arc::clone(&shared.fleet.table().servers[0]);
    server.health.note_answer();
    server.health.set_admin_state(AdminState::Down);
    drop(door);
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    assert!(!server.health.is_in_rotation());
    server.health.set_admin_state(AdminState::Up);
    wait_until("it is counted on", || server.health.is_in_rotation());
    assert!(server.health.is_away());
    prober.stop();
}

#[test]
fn a_server_of_no_file_is_asked_nothing() {
    let (left, kept) = (door(), door());
    let shared = shared(&[&left, &kept]);
    let servers = shared.fleet.table().servers.clone();
    for server in &servers {
        assert!(server.health.note_lost_connection(vec![key(0)], None));
    }
    let member = MemberPlan::of(&kept.local_addr().expect("an address").to_string());
    shared.fleet.load(&Layout::of_one_pool(vec![member], Rules::default())).expect("it is good");
    left.set_nonblocking(true).expect("an option");
    serve(kept, |_| {});
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    wait_until("it is back", || !servers[1].health.is_away());
    prober.stop();
    assert!(left.accept().is_err() && servers[0].health.is_away());
}

#[test]
fn a_server_is_asked_for_its_version_when_it_is_new_and_when_it_comes_back() {
    let (todays, old, lost) = (door(), door(), door());
    let shared = shared(&[&todays, &old, &lost]);
    let servers = shared.fleet.table().servers.clone();
    assert!(servers[2].health.note_lost_connection(Vec::new(), None));
    // Others were in their place before.
    assert!([0, 2].iter().all(|server| servers[*server].dialect.note(b"VERSION 1.5.22\r\n")));
    serve(todays, |_| {});
    serve_as("1.6.9", old, |_| {});
    serve(lost, |_| {});
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    let are_old = || [0, 1, 2].map(|server: usize| servers[server].dialect.is_old());
    wait_until("they have told", || are_old() == [false, true, false]);
    prober.stop();
}

#[test]
fn a_busy_server_that_did_not_tell_its_version_is_asked_again() {
    let (known, door) = (door(), door());
    let shared = shared(&[&known]);
    // A new one, and no replica, which would be asked again at once.
    let member = MemberPlan::of(&door.local_addr().expect("an address").to_string());
    let sharded = Rules { writes: Writes::Owner, ..Rules::default() };
    shared.fleet.load(&Layout::of_one_pool(vec![member], sharded)).expect("it is good");
    let server = Arc::clone(&shared.fleet.table().servers[1]);
    serve_all_but_the_first(door, "ERROR Too many open connections\r\n", |_| {});
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    wait_until("it has told its version", || {
        server.counts.requests.fetch_add(1, Ordering::Relaxed);
        shared.fleet.watch.wake();
        server.dialect.is_current()
    });
    prober.stop();
    assert_eq!(server.health.losses(), 0);
}

#[test]
fn a_server_that_knows_no_base64_comes_back_though_keys_were_written_so() {
    let door = door();
    let shared = shared(&[&door]);
    let server = Arc::clone(&shared.fleet.table().servers[0]);
    // "foo", which it may have, and "a b", which it cannot.
    let missed = ["Zm9v", "YSBi"].map(|key| MissedWrite::Key(MissedKey { key: key.into(), base64: true }));
    assert!(server.health.note_lost_connection(missed.into(), None));
    let (said, heard) = mpsc::channel();
    serve_as("1.5.6", door, move |line| drop(said.send(line.to_owned())));
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    wait_until("it is back", || !server.health.is_away());
    prober.stop();
    assert_eq!(
        heard.try_iter().filter(|line| line.starts_with("delete")).collect::<Vec<_>>(),
        ["delete foo\r\n"]
    );
}

/// Answers as the process of this number, which began when the first one did; how often it was asked who it is.
fn serve_as_process(door: TcpListener, pid: &Arc<AtomicU64>) -> Arc<AtomicU64> {
    let (pid, asked) = (Arc::clone(pid), Arc::new(AtomicU64::new(0)));
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        for stream in door.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().expect("a second handle"));
            let (mut stream, mut line) = (stream, String::new());
            while lines.read_line(&mut line).is_ok_and(|bytes| bytes > 0) {
                let answer = if line.starts_with("stats") {
                    counted.fetch_add(1, Ordering::SeqCst);
                    let pid = pid.load(Ordering::SeqCst);
                    format!(
                        "STAT pid {pid}\r\nSTAT uptime 7\r\nSTAT time 1000\r\nSTAT curr_items 0\r\nEND\r\n"
                    )
                } else {
                    "VERSION 1.6.18\r\n".to_owned()
                };
                // The prober may have seen enough.
                let _ = stream.write_all(answer.as_bytes());
                line.clear();
            }
        }
    });
    asked
}

#[test]
fn a_server_that_is_another_process_than_before_has_nothing_and_is_there() {
    let (doors, pid) = ([door(), door()], Arc::new(AtomicU64::new(1)));
    let shared = shared(&doors.each_ref());
    let server = Arc::clone(&shared.fleet.table().servers[0]);
    let [asked, _] = doors.map(|door| serve_as_process(door, &pid));
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    wait_until("it has told who it is", || server.health.has_run());
    // The same again is no news.
    let before = asked.load(Ordering::SeqCst);
    server.health.request_probe();
    wait_until("it is asked", || asked.load(Ordering::SeqCst) > before);
    assert!(!server.health.is_cold());
    pid.store(2, Ordering::SeqCst);
    server.health.request_probe();
    wait_until("it has nothing", || server.health.is_cold());
    prober.stop();
    assert!(server.health.losses() == 0 && !server.health.is_away());
    assert!(shared.fleet.table().pools[0].is_late(&server), "the other one decides");
}

#[test]
fn many_servers_that_say_nothing_do_not_keep_another_one_away() {
    // So many that those which were asked first are due again before all were asked once.
    const SILENT: usize = 200;
    let mut doors: Vec<TcpListener> = (0..=SILENT).map(|_| door()).collect();
    let shared = shared(&doors.iter().collect::<Vec<_>>());
    let servers = shared.fleet.table().servers.clone();
    for server in &servers {
        server.health.note_lost_connection(vec![key(0)], None);
    }
    let (last, silent) = (doors.pop().expect("many"), &servers[..SILENT]);
    let prober = Prober::start(Arc::clone(&shared)).expect("a thread");
    // Until then it says nothing either, and those before it are due again and again.
    thread::sleep(Duration::from_secs(9));
    serve(last, |_| {});
    let begun = Instant::now();
    wait_until("it is back", || !servers[SILENT].health.is_away());
    let took = begun.elapsed();
    prober.stop();
    assert!(silent.iter().all(|server| server.health.is_away()));
    // Each of 32 at once takes 2 s.
    assert!(took < Duration::from_secs(40), "{took:?}");
}
