//! Connections that open, close and idle, as many as there are ports: none is refused, and nothing of them stays behind.

use std::thread;

use crate::client::{Answer, Client};
use crate::measure::{Limit, ask, connect, of};
use crate::process::{allow_files, files};
use crate::support::Server;
use crate::support::patience::wait_for;

/// Threads that open and close connections.
const THREADS: usize = 4;

#[test]
fn connections_that_open_close_and_idle_leave_nothing_behind() {
    let (idle, opened) = (of(500, 10_000), of(4_000, 100_000));
    allow_files(idle as u64 + 500);
    let server = Server::start("memory:", &[]);
    let limit = Limit::new(format!("{idle} idle connections while {opened} others open and close"));
    let mut idlers: Vec<Client> = (0..idle).map(|_| connect(&server)).collect();
    idlers.iter_mut().for_each(ping);
    let before = files(server.pid());
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let server = &server;
            scope.spawn(move || {
                (thread..opened).step_by(THREADS).for_each(|number| come_and_go(server, number))
            });
        }
    });
    wait_for(format!("what is closed is gone, and {before} files are open"), || {
        let now = files(server.pid());
        if now <= before { Ok(()) } else { Err(now) }
    });
    idlers.iter_mut().for_each(ping);
    limit.finish(&server, 150, "the idle ones are served before and after");
}

/// Clients leave in every way.
fn come_and_go(server: &Server, number: usize) {
    let mut client = connect(server);
    match number % 4 {
        0 => ping(&mut client),
        // The answer finds nobody.
        1 => client.send(&["PING"]).expect("the server reads"),
        // Half a request.
        2 => client.write(b"*2\r\n$4\r\nECHO\r\n$100\r\nhalf").expect("the server reads"),
        _ => {}
    }
}

fn ping(client: &mut Client) {
    assert_eq!(ask(client, &["PING"]), Answer::Text(b"PONG".to_vec()));
}
