//! A database with a middleware for RESP clients and sessions for SQL clients, and what both ask.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::sync::Once;

use crate::client::{Answer, Client};
use crate::postgres::shared;
use crate::session::Session;
use crate::support::Server;
use crate::support::patience::wait_until;

/// Who asks for a lock here that somebody else holds. The other tests of the program have their databases in the same
/// server, and locks of rows are waited for as locks of transactions, which belong to no database.
pub(crate) const WAITING: &str = "SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
    WHERE NOT granted AND datname = current_database()";

/// A database of a test's own, and what talks to it.
pub(crate) struct Place {
    pub(crate) database: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        static ROLE: Once = Once::new();
        let server = shared();
        let database = server.create_database();
        ROLE.call_once(|| drop(server.psql("postgres", "CREATE ROLE app LOGIN")));
        server.psql(
            &database,
            "GRANT USAGE ON SCHEMA posthaste TO app; CREATE TABLE bill (id int PRIMARY KEY)",
        );
        server.psql(&database, "GRANT ALL ON bill TO app");
        Self { database }
    }

    /// An application's session: its role has no right on any table of the schema.
    pub(crate) fn app(&self) -> Session {
        Session::open(shared(), &self.database, "app")
    }

    pub(crate) fn as_owner(&self, sql: &str) -> String {
        shared().psql(&self.database, sql)
    }

    /// Waits until somebody asks for a lock that somebody else holds.
    #[track_caller]
    pub(crate) fn wait_for_waiting(&self, what: &str) {
        wait_until(what, || !self.as_owner(WAITING).is_empty());
    }

    pub(crate) fn middleware(&self, arguments: &[&str]) -> Server {
        Server::start(&shared().url(&self.database), arguments)
    }
}

/// Longer than any client here waits for an answer: a pop that nobody wakes fails its test.
pub(crate) const BLOCK: &[&str] = &["POP", "QUEUE", "q", "BLOCK", "600000"];

pub(crate) fn login(server: &Server, account: &str) -> Client {
    Client::login(server.addr(), account).expect("a login")
}

pub(crate) fn ask(client: &mut Client, words: &[&str]) -> Answer {
    client.ask(words).expect("an answer")
}

/// The answers to requests that are sent in one go, so that one call does all of them.
pub(crate) fn together(client: &mut Client, pipeline: &[&[&str]]) -> Vec<Answer> {
    begin_together(client, pipeline);
    pipeline.iter().map(|_| client.answer().expect("an answer")).collect()
}

/// The same, whose answers are read later.
pub(crate) fn begin_together(client: &mut Client, pipeline: &[&[&str]]) {
    let lines = pipeline.iter().map(|words| words.join(" ") + "\r\n");
    client.write(lines.collect::<String>().as_bytes()).expect("it runs");
}

/// The body of the next message of queue q.
pub(crate) fn pop(client: &mut Client) -> Option<String> {
    ask(client, &["POP", "QUEUE", "q"]).body().map(str::to_owned)
}
