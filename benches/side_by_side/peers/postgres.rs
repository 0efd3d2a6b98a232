//! PostgreSQL with its default settings, on a unix socket, loaded by pgbench.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Signal, getuid};
use tempfile::TempDir;

use crate::Result;
use crate::peers::{find, text};
use crate::process::{As, Server, command, directory, finish};

/// Where Debian and its relatives put one directory for each major version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// More than the most clients of any scenario.
const CONNECTIONS: &str = "max_connections=300";

/// One of the SQL files of this benchmark.
pub(crate) fn sql_file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/side_by_side/sql").join(name)
}

/// A cluster that runs. Fields are dropped in order: the server ends before its directory goes.
pub(crate) struct Postgres {
    pub(crate) server: Server,
    dir: TempDir,
}

/// `postgres (PostgreSQL) 15.9`, or what to install.
pub(crate) fn version() -> String {
    let version = program("postgres").and_then(|program| finish(Command::new(program).arg("--version")));
    version.map_or_else(|missing| missing.to_string(), |version| version.trim().to_owned())
}

/// The newest installed version's program.
fn program(name: &str) -> Result<PathBuf> {
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let numbered = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let newest =
        numbered.max().map(|version| Path::new(VERSIONS).join(version.to_string()).join("bin").join(name));
    match newest {
        Some(program) if program.is_file() => Ok(program),
        _ => find(name, "postgresql"),
    }
}

/// PostgreSQL refuses to run as root: then it runs as the user its package made.
fn user() -> As {
    if getuid().is_root() { As::User("postgres") } else { As::Me }
}

impl Postgres {
    /// Makes a cluster and starts it.
    pub(crate) fn start(below: &Path) -> Result<Self> {
        let dir = directory(below)?;
        if let As::User(name) = user() {
            finish(Command::new("chown").arg(name).arg(dir.path()))?;
        }
        let data = dir.path().join("data");
        let mut initdb = command(program("initdb")?, &user());
        finish(initdb.args(["--auth=trust", "--username=postgres", "--pgdata", text(&data)?]))?;
        let mut postgres = command(program("postgres")?, &user());
        postgres.args([
            "-D",
            text(&data)?,
            "-k",
            text(dir.path())?,
            "-c",
            "listen_addresses=",
            "-c",
            CONNECTIONS,
        ]);
        // Its fast way to stop, which does not wait for clients, is SIGINT.
        let mut server = Server::spawn("postgres", postgres, dir.path())?.stopped_by(Signal::INT);
        let socket = dir.path().join(".s.PGSQL.5432");
        server.wait_until(|log| {
            (socket.exists() && log.contains("ready to accept connections")).then_some(())
        })?;
        Ok(Self { server, dir })
    }

    /// A new database, with an SQL file run in it.
    pub(crate) fn create(&self, database: &str, schema: &Path) -> Result<()> {
        self.run("postgres", &["--command", &format!("CREATE DATABASE {database}")])?;
        // These tables are near empty and churn: with what statistics say at some moment the planner may settle on
        // reading a whole table of dead rows for good. Index scans only are to PostgreSQL's favor here.
        self.run("postgres", &["--command", &format!("ALTER DATABASE {database} SET enable_seqscan = off")])?;
        self.run(database, &["--file", text(schema)?])
    }

    /// As `posthaste --store` takes it.
    pub(crate) fn url(&self, database: &str) -> Result<String> {
        Ok(format!("postgres://postgres@/{database}?host={}", text(self.dir.path())?))
    }

    /// Runs SQL.
    pub(crate) fn sql(&self, database: &str, sql: &str) -> Result<()> {
        self.run(database, &["--command", sql])
    }

    /// Clears away what earlier runs left behind.
    pub(crate) fn vacuum(&self, database: &str) -> Result<()> {
        self.run(database, &["--command", "VACUUM"])
    }

    /// Runs a query; the columns of its rows are parted by bars.
    pub(crate) fn ask(&self, database: &str, sql: &str) -> Result<String> {
        finish(self.psql(database)?.args(["--no-align", "--tuples-only", "--command", sql]))
    }

    /// psql, ready to be told what to do.
    pub(crate) fn psql(&self, database: &str) -> Result<Command> {
        let mut psql = command(find("psql", "postgresql-client")?, &As::Me);
        psql.args(["--no-psqlrc", "--quiet", "--set", "ON_ERROR_STOP=1"]);
        psql.args(["--host", text(self.dir.path())?, "--username", "postgres", "--dbname", database]);
        Ok(psql)
    }

    /// pg_dump of a database, to its output.
    pub(crate) fn dump(&self, database: &str) -> Result<Command> {
        let mut dump = command(program("pg_dump")?, &As::Me);
        dump.args(["--host", text(self.dir.path())?, "--username", "postgres", database]);
        Ok(dump)
    }

    fn run(&self, database: &str, arguments: &[&str]) -> Result<()> {
        finish(self.psql(database)?.args(arguments)).map(drop)
    }

    /// Transactions per second of a pgbench script, connection times left out.
    pub(crate) fn pgbench(&self, run: &PgBench<'_>) -> Result<f64> {
        let mut pgbench = command(program("pgbench")?, &As::Me);
        pgbench.args(["--no-vacuum", "--protocol=prepared", "--jobs=2"]);
        pgbench.args(["--client", &run.clients.to_string(), "--time", &run.seconds.to_string()]);
        pgbench.args(["--define", run.define, "--file", text(run.script)?]);
        pgbench.args(["--host", text(self.dir.path())?, "--username", "postgres", run.database]);
        let output = finish(&mut pgbench)?;
        let tps =
            output.lines().find_map(|line| line.strip_prefix("tps = ")?.split(' ').next()?.parse().ok());
        tps.ok_or_else(|| format!("pgbench says no tps: {output}").into())
    }
}

/// One pgbench run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PgBench<'a> {
    pub(crate) database: &'a str,
    pub(crate) script: &'a Path,
    /// A variable of the script with its value.
    pub(crate) define: &'a str,
    pub(crate) clients: usize,
    pub(crate) seconds: usize,
}
