//! One connection to the database, used by one thread at a time; made again when it breaks, with patience.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustc_hash::FxHashMap;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::error::{DbError, SqlState};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{AsyncMessage, Client, Row, Statement};

use super::address::PostgresAddress;
use super::cancel::Peer;
use super::connect::{Connected, PostgresConnection, connect, limit};
use super::failure::{Failure, given_up, is_refusal, one_line};
use super::migrations::{self, MigrateError};
use super::reach::Reach;

/// Time after which a database that does not answer is given up, and the clients that wait are told so.
pub(super) const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// Limits for the end of a statement that the server is told to end, and for its hearing of it. A pooler may be the
/// slower of the two, and is not left before it has passed that on.
const END_WITHIN: Duration = Duration::from_secs(3);
const HEAR_WITHIN: Duration = Duration::from_secs(30);

/// Asks whether the session began with what this client said when it connected. A pooler lends sessions of its own, and
/// has them told by SET, if at all.
pub(super) const OWN_SESSION: &str = "SELECT count(*) = 2 FROM pg_settings \
                                      WHERE name IN ('application_name', 'client_encoding') AND source = 'client'";

/// Makes calls see what was committed while they waited for a lock.
const READ_COMMITTED: &str = "SELECT set_config('default_transaction_isolation', 'read committed', false)";

/// Turns the server's timeouts off. How long a statement, its wait for a lock or its transaction may take is decided
/// here: what takes longer is tried in parts. Nor may idle sessions be ended. Two of these settings are newer than the
/// oldest supported server, where they are null in this query.
pub(super) const NO_TIMEOUT: &str = "SELECT set_config(name, '0', false) FROM unnest(ARRAY['statement_timeout', 'lock_timeout', \
                          'transaction_timeout', 'idle_session_timeout', 'idle_in_transaction_session_timeout']) AS name \
                          WHERE current_setting(name, true) <> '0'";

/// Has warnings told, one of which says that a commit has not waited for a standby.
const WARNINGS: &str = "SELECT set_config('client_min_messages', 'warning', false)";

/// Asks whether the server takes writes: the URL may let in one that does not. A standby says no too.
const TAKES_WRITES: &str = "SELECT current_setting('transaction_read_only') = 'off'";

const NO_WRITES: &str = "PostgreSQL takes no writes, as on a standby or with default_transaction_read_only: name the primary, or \
                         all servers with commas, and leave target_session_attrs=any out";

/// A server, for as long as what it has said is true. It counts as another one after a restart, and also when it has
/// lost something without one: if one of its processes is killed, the others begin anew from what was flushed, and all
/// connections end. And so it does when its schema is made anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Server {
    started: SystemTime,
    /// OID of a table, which is another one in another schema of the same name.
    table: u32,
    life: i64,
}

/// A value for a statement, and the type that it has there.
pub(super) type Argument<'a> = (&'a (dyn ToSql + Sync), Type);

/// How a statement is sent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Not prepared.
    Once,
    /// Prepared by name, where sessions are kept.
    Prepared,
    /// Like `Prepared`, in a REPEATABLE READ transaction of its own.
    Repeatable,
}

/// One connection.
pub(super) struct Link {
    reach: Arc<Reach>,
    runtime: Runtime,
    client: Option<Client>,
    /// The server that the connection has reached.
    peer: Option<Peer>,
    /// The task that drives the connection.
    connection_task: Option<JoinHandle<()>>,
    /// Set when the server says that a commit has not waited for a standby.
    unconfirmed: Arc<AtomicBool>,
    /// How long a reply is waited for.
    within: Duration,
    /// How often the connection was made.
    made: u64,
    /// Life of the server, as told last: behind a pooler a connection outlives servers.
    life: Option<i64>,
    /// Statements prepared in this session, by their SQL.
    statements: FxHashMap<String, Statement>,
    notices: Option<UnboundedSender<String>>,
    /// Whether whoever asks something makes the connection again.
    renews_itself: bool,
}

impl Link {
    /// Returns a link that is not connected yet and is made again only by `renew` or `connect_spare`, by whoever knows
    /// whether it is an outage that this fails.
    pub(super) fn renewed_by_hand(
        reach: Arc<Reach>,
        notices: Option<UnboundedSender<String>>,
    ) -> std::io::Result<Self> {
        Ok(Self { renews_itself: false, ..Self::new(reach, notices)? })
    }

    /// Returns a link that is not connected yet; payloads of notifications go to `notices`.
    pub(super) fn new(reach: Arc<Reach>, notices: Option<UnboundedSender<String>>) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        Ok(Self {
            reach,
            runtime,
            client: None,
            peer: None,
            connection_task: None,
            unconfirmed: Arc::default(),
            within: ANSWER_WITHIN,
            made: 0,
            life: None,
            statements: FxHashMap::default(),
            notices,
            renews_itself: true,
        })
    }

    /// Connects unless it is connected.
    pub(super) fn ready(&mut self) -> Result<(), Failure> {
        match self.is_open() {
            true => Ok(()),
            false if self.renews_itself => self.renew(),
            false => Err(has_ended()),
        }
    }

    /// Connects, unless it is too early to try again; that it fails is an outage.
    pub(super) fn renew(&mut self) -> Result<(), Failure> {
        if let Some(why) = self.reach.too_early() {
            return Err(Failure::Unreachable(why));
        }
        match self.connect() {
            Ok(()) => Ok(()),
            Err(why) => {
                self.reach.note(Err(&why));
                Err(Failure::Unreachable(why))
            }
        }
    }

    /// Connects while other connections work: that this one fails does not mean that the database is out of reach.
    pub(super) fn connect_spare(&mut self) -> Result<(), Failure> {
        self.connect().map_err(Failure::Unreachable)
    }

    /// Returns whether it is connected, as far as can be known without asking the server.
    pub(super) fn is_open(&self) -> bool {
        self.catch_up();
        self.client.as_ref().is_some_and(|client| !client.is_closed())
    }

    fn connect(&mut self) -> Result<(), String> {
        self.hang_up();
        self.statements.clear();
        let (notices, unconfirmed) = (self.notices.clone(), Arc::clone(&self.unconfirmed));
        let (client, peer, connection_task, life) = self.runtime.block_on(async {
            let Connected { client, connection, peer } =
                connect(&self.reach.address).await.map_err(|error| error.to_string())?;
            let connection_task = tokio::spawn(drive(connection, notices, unconfirmed));
            // A server may let us in and then hang.
            let limit = limit(self.reach.address.config());
            let prepared = timeout(limit, self.prepare(&client)).await;
            let prepared = prepared.unwrap_or_else(|_| {
                Err(format!("PostgreSQL has not answered within {} s of connecting", limit.as_secs()))
            });
            match prepared {
                Ok(life) => Ok((client, peer, connection_task, life)),
                Err(why) => {
                    connection_task.abort();
                    Err(why)
                }
            }
        })?;
        self.client = Some(client);
        self.peer = Some(peer);
        self.connection_task = Some(connection_task);
        self.made += 1;
        self.life = life;
        self.reach.note(Ok(()));
        Ok(())
    }

    /// Checks the schema and that the server takes writes, and sets what a session of our own needs. Returns the server's
    /// life.
    async fn prepare(&self, client: &Client) -> Result<Option<i64>, String> {
        match migrations::check(client).await {
            // A middleware that runs while the schema is upgraded goes on whenever its connections are made again.
            Err(MigrateError::Ahead { .. }) if self.reach.connections_made() > 0 => {}
            checked => checked.map_err(|error| error.to_string())?,
        }
        let rows = client.query_typed(TAKES_WRITES, &[]).await.map_err(|error| one_line(&error))?;
        if rows.first().is_some_and(|row| !row.get::<_, bool>(0)) {
            return Err(NO_WRITES.into());
        }
        let rows = client.query_typed(OWN_SESSION, &[]).await.map_err(|error| one_line(&error))?;
        // A pooler's session is lent to others next, who would find what is set here.
        if rows.first().is_some_and(|row| row.get(0)) {
            for setting in [READ_COMMITTED, NO_TIMEOUT, WARNINGS] {
                client.query_typed(setting, &[]).await.map_err(|error| one_line(&error))?;
            }
        }
        let rows =
            client.query_typed("SELECT posthaste.life()", &[]).await.map_err(|error| one_line(&error))?;
        Ok(rows.first().and_then(|row| row.get(0)))
    }

    /// Ends the connection at once. Its task would keep it otherwise: for as long as the server is silent if a reply is
    /// owed, and until this link is used again if none is, since only then the task runs.
    fn hang_up(&mut self) {
        self.client = None;
        if let Some(connection_task) = self.connection_task.take() {
            connection_task.abort();
            let _ = self.runtime.block_on(connection_task); // it was aborted, or had just ended
        }
    }

    /// Returns how often the connection was made: any request may find it broken and make it again.
    pub(super) fn made(&self) -> u64 {
        self.made
    }

    /// Sets how long replies are waited for from now on.
    pub(super) fn wait_for(&mut self, within: Duration) {
        self.within = within;
    }

    /// Lets the connection notice what happened while it was idle. If its server has gone, that must not be found out
    /// by a request, whose outcome would then be unknown.
    fn catch_up(&self) {
        if self.client.is_some() {
            self.runtime.block_on(async {
                // One turn each: the socket is polled, the connection's task is woken, and it ends.
                for _ in 0..3 {
                    tokio::task::yield_now().await;
                }
            });
        }
    }

    /// Sends one statement with its arguments, and connects first if need be.
    pub(super) fn ask(&mut self, sql: &str, arguments: &[Argument<'_>]) -> Result<Vec<Row>, Failure> {
        self.ready()?;
        self.ask_this(sql, arguments, Manner::Once)
    }

    /// Sends one statement as `ask` does, prepared by name where sessions are kept: for what is asked repeatedly.
    pub(super) fn ask_prepared(
        &mut self,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>, Failure> {
        self.ready()?;
        self.ask_this(sql, arguments, Manner::Prepared)
    }

    /// Asks which server answers. That changes nothing, so a connection that breaks counts as unreachable. So does one
    /// that leads to a server which cannot say it: behind a pooler, one that has become a standby.
    pub(super) fn server(&mut self) -> Result<Server, Failure> {
        let asked = self
            .ask("SELECT pg_postmaster_start_time(), 'posthaste.life'::regclass::oid, posthaste.life()", &[]);
        let rows = asked.map_err(|failure| match failure {
            Failure::Broken(why) => Failure::Unreachable(why),
            Failure::Refused(error) => {
                self.hang_up();
                Failure::Unreachable(format!(
                    "PostgreSQL does not say which server it is: {}",
                    one_line(&error)
                ))
            }
            other => other,
        })?;
        self.life = rows.first().and_then(|row| row.get(2));
        let server = rows.first().zip(self.life).map(|(row, life)| Server {
            started: row.get(0),
            table: row.get(1),
            life,
        });
        server.ok_or_else(|| Failure::Unreachable("PostgreSQL does not say when it was started".into()))
    }

    /// Returns whether the tables are those of the server that answered last: whoever makes the schema anew makes another
    /// server of it, at which no request may have come yet. This reads one row, and none of what `posthaste.life` checks.
    pub(super) fn has_same_tables(&mut self) -> bool {
        let known = self.life;
        let asked = self.ask("SELECT number # tableoid::bigint FROM posthaste.life WHERE is_one", &[]);
        asked.is_ok_and(|rows| rows.first().and_then(|row| row.get(0)) == known)
    }

    /// Returns whether this server answered when that was asked last.
    pub(super) fn is_to(&self, server: Server) -> bool {
        self.life == Some(server.life)
    }

    /// Sends a `SELECT` of at least one row, only over the connection that exists and only to this server: what is
    /// asked relies on what that server has said.
    pub(super) fn ask_of(
        &mut self,
        server: Server,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>, Failure> {
        self.ask_only(server, sql, arguments, Manner::Prepared)
    }

    /// Sends a `SELECT` as `ask_of` does, in a REPEATABLE READ transaction, in a single round trip with BEGIN and
    /// COMMIT.
    pub(super) fn ask_repeatably_of(
        &mut self,
        server: Server,
        sql: &str,
        arguments: &[Argument<'_>],
    ) -> Result<Vec<Row>, Failure> {
        self.ask_only(server, sql, arguments, Manner::Repeatable)
    }

    fn ask_only(
        &mut self,
        server: Server,
        sql: &str,
        arguments: &[Argument<'_>],
        manner: Manner,
    ) -> Result<Vec<Row>, Failure> {
        if !self.is_to(server) {
            return Err(Failure::Elsewhere);
        }
        // A condition that names no column is checked before any row is made, so no row means another server.
        let (started, table) = (arguments.len() + 1, arguments.len() + 2);
        let sql = format!(
            "{sql} WHERE pg_postmaster_start_time() = ${started} AND 'posthaste.life'::regclass::oid = ${table}"
        );
        let mut arguments = arguments.to_vec();
        arguments.push((&server.started, Type::TIMESTAMPTZ));
        arguments.push((&server.table, Type::OID));
        let rows = self.ask_this(&sql, &arguments, manner)?;
        if rows.is_empty() { Err(Failure::Elsewhere) } else { Ok(rows) }
    }

    fn ask_this(
        &mut self,
        sql: &str,
        arguments: &[Argument<'_>],
        manner: Manner,
    ) -> Result<Vec<Row>, Failure> {
        let open = self.client.as_ref().filter(|client| !client.is_closed());
        let Some((client, peer)) = open.zip(self.peer.as_ref()) else {
            return Err(has_ended());
        };
        self.unconfirmed.store(false, Ordering::Relaxed);
        let within = self.within;
        let named = manner != Manner::Once && self.reach.keeps_sessions();
        let statements = &mut self.statements;
        let asked = async {
            if named && !statements.contains_key(sql) {
                let types: Vec<Type> = arguments.iter().map(|(_, kind)| kind.clone()).collect();
                statements.insert(sql.to_owned(), client.prepare_typed(sql, &types).await?);
            }
            let statement = statements.get(sql).filter(|_| named);
            let asked = query(client, statement, sql, arguments);
            match manner {
                Manner::Repeatable => repeatably(client, asked).await,
                Manner::Once | Manner::Prepared => asked.await,
            }
        };
        let answered = self.runtime.block_on(async {
            let mut asked = pin!(asked);
            match timeout(within, &mut asked).await {
                Ok(answered) => Ok(answered),
                Err(_) => {
                    cancel(client, peer, &self.reach.address, within);
                    Err(timeout(END_WITHIN, asked).await)
                }
            }
        });
        match answered {
            Ok(Ok(_)) if self.unconfirmed.load(Ordering::Relaxed) => {
                Err(Failure::Broken("PostgreSQL was made to commit before a standby has confirmed it".into()))
            }
            Ok(Ok(rows)) => Ok(rows),
            Ok(Err(error)) => Err(self.failed(error)),
            Err(ended) => {
                self.hang_up();
                Err(given_up(ended.ok().and_then(Result::err), within))
            }
        }
    }

    /// Turns an error that came in time into a failure, and drops the connection if it is of no further use.
    fn failed(&mut self, error: tokio_postgres::Error) -> Failure {
        // Cancelled by a `statement_timeout`, which a pooler's session may have, or by an administrator.
        if error.code() == Some(&SqlState::QUERY_CANCELED) {
            return Failure::Stopped(format!("PostgreSQL has ended what was asked: {}", one_line(&error)));
        }
        if !is_refusal(&error) {
            self.hang_up();
            return Failure::Broken(format!("the connection to PostgreSQL broke: {}", one_line(&error)));
        }
        if error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION) {
            self.hang_up(); // the primary may be elsewhere now
        }
        Failure::Refused(error)
    }

    /// Lets the connection work for a while although nothing is asked, so that notifications arrive.
    pub(super) fn listen(&mut self, until: impl Future<Output = ()>) {
        self.runtime.block_on(until);
    }
}

/// Returns the failure of what was asked over a connection that is there no more.
fn has_ended() -> Failure {
    Failure::Unreachable("the connection to PostgreSQL has just ended".into())
}

/// Has the server told to end a statement, while its outcome is waited for. Left to itself it would go on once it has
/// what it waits for, and take messages for nobody.
fn cancel(client: &Client, peer: &Peer, address: &PostgresAddress, after: Duration) {
    let seconds = after.as_millis().div_ceil(1000);
    tracing::warn!("PostgreSQL has not answered for {seconds} seconds; it is told to stop");
    let Ok(tls) = address.tls().connector() else { return };
    let (peer, token) = (peer.clone(), client.cancel_token());
    tokio::spawn(async move {
        if let Ok(Err(error)) = timeout(HEAR_WITHIN, peer.cancel(token, tls)).await {
            tracing::debug!("PostgreSQL cannot be told: {error}");
        }
    });
}

/// Sends one statement, prepared or not.
async fn query(
    client: &Client,
    statement: Option<&Statement>,
    sql: &str,
    arguments: &[Argument<'_>],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    match statement {
        Some(statement) => {
            let values: Vec<&(dyn ToSql + Sync)> = arguments.iter().map(|(value, _)| *value).collect();
            client.query(statement, &values).await
        }
        None => client.query_typed(sql, arguments).await,
    }
}

/// Sends the beginning of a transaction, what is asked in it, and its end, in one go. If what is asked fails, the
/// end undoes the transaction.
async fn repeatably(
    client: &Client,
    asked: impl Future<Output = Result<Vec<Row>, tokio_postgres::Error>>,
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let begin = client.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ");
    let end = client.batch_execute("COMMIT");
    // Each sends its message when it is first polled, so they go out in this order.
    let (begun, answer, ended) = tokio::join!(biased; begin, asked, end);
    begun?;
    let rows = answer?;
    ended?;
    Ok(rows)
}

/// Drives a connection and passes on what the server says unasked.
async fn drive(
    mut connection: PostgresConnection,
    notices: Option<UnboundedSender<String>>,
    unconfirmed: Arc<AtomicBool>,
) {
    loop {
        match poll_fn(|context| connection.poll_message(context)).await {
            Some(Ok(AsyncMessage::Notification(note))) => {
                if let Some(notices) = &notices {
                    let _ = notices.send(note.payload().to_owned()); // its reader may be gone
                }
            }
            // It comes before the end of the reply, so it is set by the time the reply is complete.
            Some(Ok(AsyncMessage::Notice(notice))) if is_about_standbys(&notice) => {
                unconfirmed.store(true, Ordering::Relaxed);
            }
            Some(Ok(_)) => {}
            Some(Err(error)) => return tracing::debug!("a connection to PostgreSQL ended: {error}"),
            None => return,
        }
    }
}

/// Returns whether a notice says that the wait of a commit for its standbys was ended from outside. Its words are in the
/// server's language, and its code is that of many warnings, which say nothing about the call; so it is known by where in
/// the server it comes from.
fn is_about_standbys(notice: &DbError) -> bool {
    notice.file() == Some("syncrep.c")
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;
    use std::time::Instant;

    use posthaste_measure::Events;

    use super::{Failure, Link, Reach};

    #[test]
    fn a_server_that_lets_us_in_and_hangs_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let addr = listener.local_addr().expect("its address");
        std::thread::spawn(move || {
            let (mut socket, _) = listener.accept()?;
            if socket.read(&mut [0; 1024])? == 0 {
                return Ok(());
            }
            // Authenticated, and ready for a query.
            socket.write_all(b"R\0\0\0\x08\0\0\0\0Z\0\0\0\x05I")?;
            // Until the other side has hung up.
            while socket.read(&mut [0; 1024])? > 0 {}
            std::io::Result::Ok(())
        });
        let url = format!("postgres://app@{addr}/x?sslmode=disable&connect_timeout=1");
        let reach = Reach::new(url.parse().expect("a good URL"), Events::default());
        let mut link = Link::new(reach, None).expect("a runtime");
        let start = Instant::now();
        let failure = link.ready().expect_err("nobody answers");
        assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
        assert!(matches!(&failure, Failure::Unreachable(why) if why.contains("within 1 s")), "{failure:?}");
    }
}
