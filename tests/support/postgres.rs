//! A PostgreSQL of a test's own: made in a temporary directory, and gone with the test, however the test ends.
//!
//! Beside every server stands a guard, a shell that waits for the end of its input. That input is a pipe which only
//! this process holds open, so the guard hears of its end in every case, SIGKILL included; then it ends the server
//! and removes the directory. (The kernel's own means, a signal at the parent's death, goes by threads, and every
//! test is a thread.)

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::fs::{self, File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::thread;

use rustix::process::{Pid, Signal, getuid, kill_process};

use crate::support::patience::{RECOVERY, wait_for, wait_within};

/// Where Debian and its relatives put one directory for each major version.
const VERSIONS: &str = "/usr/lib/postgresql";
/// Short, for a socket's path has at most 107 bytes, and open to the user that the server runs as. `POSTGRES_BELOW` names
/// another such directory: one in memory spares long campaigns the pauses of a disk.
const BELOW: &str = "/tmp";
/// The database that the others are copies of.
const TEMPLATE: &str = "posthaste_template";
/// How many bytes of its log the output of a failed test has.
const LAST_WORDS: usize = 16 * 1024;

/// What the guard does with the directory that is its first argument.
const GUARD: &str = r#"
trap '' HUP INT TERM
cat > /dev/null
pid=$(head -n 1 "$1/data/postmaster.pid" 2> /dev/null)
lives() { grep -qsF "$1" "/proc/$pid/cmdline"; }
if [ -n "$pid" ] && lives "$1"; then
    kill -QUIT "$pid"
    for _ in $(seq 200); do lives "$1" || break; sleep 0.05; done
    if lives "$1"; then kill -KILL "$pid"; fi
fi
rm -rf "$1"
"#;

/// A server that runs, or has been stopped to be started again.
pub(crate) struct Postgres {
    dir: PathBuf,
    settings: Vec<String>,
    environment: Vec<(String, String)>,
    port: u16,
    postmaster: Option<Child>,
    guard: Child,
    /// Whether the template is there.
    template: Mutex<bool>,
    databases: AtomicU32,
}

/// How a server is stopped.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// When the last client has gone.
    Smart,
    /// Clients are sent away.
    Fast,
    /// Like a crash, only that nothing lingers.
    Immediate,
}

/// One server for the whole test program, gone with it. No test can crash it, so it spares them the disk's pauses.
pub(crate) fn shared() -> &'static Postgres {
    static SHARED: OnceLock<Postgres> = OnceLock::new();
    SHARED.get_or_init(|| Postgres::start(&["fsync=off"]))
}

impl Postgres {
    /// Makes and starts one with the given settings (`name=value`). It trusts everybody on this machine.
    pub(crate) fn start(settings: &[&str]) -> Self {
        Self::start_below(&below(), settings)
    }

    /// The same with all of it in a directory of its own below this one.
    pub(crate) fn start_below(place: &Path, settings: &[&str]) -> Self {
        let mut server = Self::prepare(place, settings);
        let mut initdb = server.command("initdb");
        initdb.args(["--no-sync", "--auth=trust", "--username=postgres", "--encoding=UTF8", "--locale=C"]);
        finish(initdb.arg("--pgdata").arg(server.data()));
        server.begin();
        server
    }

    /// Starts it again with more in the environment of its processes.
    pub(crate) fn restart_with(&mut self, environment: Vec<(String, String)>) {
        self.environment = environment;
        self.stop(Stop::Fast);
        self.start_again();
    }

    /// Makes and starts a standby that follows `primary`, over its unix socket.
    pub(crate) fn standby_of(primary: &Self, settings: &[&str]) -> Self {
        let mut standby = Self::prepare(&below(), settings);
        let mut backup = standby.command("pg_basebackup");
        backup.args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf", "--username=postgres"]);
        backup.arg("--host").arg(&primary.dir).args(["--port", &primary.port.to_string()]);
        finish(backup.arg("--pgdata").arg(standby.data()));
        standby.begin();
        standby
    }

    /// Makes a standby the primary, and waits until it is.
    pub(crate) fn promote(&self) {
        assert_eq!(self.psql("postgres", "SELECT pg_promote()"), "t");
    }

    /// Stops every process of it where it stands (`STOP`), lets them go on (`CONT`), or kills them (`KILL`).
    pub(crate) fn signal_all(&self, signal: Signal) {
        let send = |pid: u32, signal: Signal| {
            let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).expect("a process id");
            let _ = kill_process(pid, signal); // it may have ended by itself
        };
        // One that stands still starts no others, and those it has started stay its own until all have been found.
        send(self.pid(), Signal::STOP);
        self.children().into_iter().for_each(|pid| send(pid, signal));
        send(self.pid(), signal);
    }

    /// The processes that its postmaster has started.
    pub(crate) fn children(&self) -> Vec<u32> {
        let postmaster = self.pid();
        let processes = fs::read_dir("/proc").expect("/proc").flatten();
        let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let parent = |pid: u32| -> Option<u32> {
            let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
            text.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
        };
        numbers.filter(|pid| parent(*pid) == Some(postmaster)).collect()
    }

    /// A directory with a guard, and nothing in it.
    fn prepare(place: &Path, settings: &[&str]) -> Self {
        let dir = tempfile::Builder::new().prefix("posthaste-pg-").tempdir_in(place);
        // From here the guard removes it.
        let dir = dir.expect("a temporary directory").keep();
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(&dir);
        let guard = guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let server = Self {
            dir,
            settings: settings.iter().map(ToString::to_string).collect(),
            environment: Vec::new(),
            port: free_port(),
            postmaster: None,
            guard: guard.expect("sh can be run"),
            template: Mutex::new(false),
            databases: AtomicU32::new(0),
        };
        server.give_away(&server.dir);
        server
    }

    /// Starts it for the first time.
    fn begin(&mut self) {
        // The port was free a moment ago; somebody else may have taken it since.
        for _ in 0..5 {
            match self.launch() {
                Ok(()) => return,
                Err(log) if log.contains("could not bind") => self.port = free_port(),
                Err(log) => panic!("PostgreSQL did not start:\n{log}"),
            }
        }
        panic!("no port was free for PostgreSQL");
    }

    /// The URL of one of its databases, over TCP.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }

    /// Its port on 127.0.0.1.
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// The directory of its unix socket.
    pub(crate) fn socket_dir(&self) -> &Path {
        &self.dir
    }

    /// The process id of its postmaster.
    pub(crate) fn pid(&self) -> u32 {
        self.postmaster.as_ref().expect("it runs").id()
    }

    /// What it wrote to its log so far.
    pub(crate) fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.dir.join("log")).unwrap_or_default()).into_owned()
    }

    /// How long its log is.
    pub(crate) fn log_bytes(&self) -> u64 {
        fs::metadata(self.dir.join("log")).map_or(0, |log| log.len())
    }

    /// What it wrote to its log behind these bytes.
    pub(crate) fn log_after(&self, bytes: u64) -> String {
        let mut log = File::open(self.dir.join("log")).expect("a log");
        log.seek(SeekFrom::Start(bytes)).expect("it is a file");
        let mut text = Vec::new();
        log.read_to_end(&mut text).expect("it can be read");
        String::from_utf8_lossy(&text).into_owned()
    }

    /// A fresh database with nothing in it.
    pub(crate) fn create_empty_database(&self) -> String {
        self.create("template1")
    }

    /// A fresh database with nothing in it, in which a role that is made with it may make a schema.
    pub(crate) fn create_empty_database_for(&self, role: &str) -> String {
        let database = self.create_empty_database();
        self.psql("postgres", &format!("CREATE ROLE {role} LOGIN"));
        self.psql("postgres", &format!("GRANT CREATE ON DATABASE {database} TO {role}"));
        database
    }

    /// A fresh database with the schema in it.
    pub(crate) fn create_database(&self) -> String {
        let mut there = self.template.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if !*there {
            self.psql("postgres", &format!("CREATE DATABASE {TEMPLATE}"));
            let mut migrate = Command::new(env!("CARGO_BIN_EXE_posthaste"));
            let url = self.url(TEMPLATE) + "?connect_timeout=180";
            finish(migrate.args(["migrate", "--store", &url]));
            // PostgreSQL copies no database that somebody uses, and waits for that for five seconds only.
            let sessions = format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{TEMPLATE}'");
            wait_for("nobody uses the template", || {
                let there = self.psql("postgres", &sessions);
                if there == "0" { Ok(()) } else { Err(there) }
            });
            *there = true;
        }
        // Still locked: a template is copied once at a time.
        self.create(TEMPLATE)
    }

    fn create(&self, template: &str) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name} TEMPLATE {template}"));
        name
    }

    /// Waits until no middleware has a session in a database any more: what a killed one had begun there has ended then.
    pub(crate) fn wait_until_left(&self, database: &str) {
        let sessions = format!(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'posthaste' AND datname = '{database}'"
        );
        wait_within(RECOVERY, "what a killed middleware had begun has ended", || {
            if self.psql("postgres", &sessions) == "0" { Ok(()) } else { Err(self.log()) }
        });
    }

    /// Runs SQL as the superuser; the rows as lines, the columns with bars between them.
    pub(crate) fn psql(&self, database: &str, sql: &str) -> String {
        finish(self.psql_command(database).args(["--command", sql])).trim_end().to_owned()
    }

    /// What one statement says, or why it could not be asked: for a server that may be away just now.
    pub(crate) fn try_psql(&self, database: &str, sql: &str) -> Result<String, String> {
        let output = self.psql_command(database).args(["--command", sql]).stdin(Stdio::null()).output();
        let Output { status, stdout, stderr } = output.expect("psql can be run");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim_end().to_owned();
        if status.success() { Ok(text(&stdout)) } else { Err(text(&stderr)) }
    }

    /// Runs a script of psql in one database.
    pub(crate) fn psql_file(&self, database: &str, file: &Path) {
        finish(self.psql_command(database).arg("--file").arg(file));
    }

    /// Runs a pgbench script so many times, once for each of these clients at a time.
    pub(crate) fn pgbench(&self, database: &str, script: &Path, clients: usize, times: usize) {
        let mut pgbench = Command::new(program("pgbench"));
        pgbench.arg("--host").arg(&self.dir).args([
            "--port",
            &self.port.to_string(),
            "--username",
            "postgres",
        ]);
        pgbench.args(["--no-vacuum", "--protocol=prepared", "--client", &clients.to_string()]);
        pgbench.args(["--transactions", &times.to_string(), "--file"]).arg(script).arg(database);
        finish(&mut pgbench);
    }

    fn psql_command(&self, database: &str) -> Command {
        let mut psql = self.client("psql", database);
        psql.args(["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "--set=ON_ERROR_STOP=1"]);
        psql
    }

    /// The definitions of everything in a database, as pg_dump writes them.
    pub(crate) fn schema(&self, database: &str) -> String {
        let dump = finish(self.client("pg_dump", database).arg("--schema-only"));
        // These lines hold a word that is different every time.
        let same = |line: &&str| !line.starts_with("\\restrict") && !line.starts_with("\\unrestrict");
        dump.lines().filter(same).collect::<Vec<_>>().join("\n")
    }

    /// A new database made from a dump.
    pub(crate) fn load(&self, dump: &str) -> String {
        let database = self.create_empty_database();
        let mut psql = self.psql_command(&database);
        let psql = psql.stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        let mut psql = psql.expect("psql can be run");
        let written = psql.stdin.take().expect("stdin is piped").write_all(dump.as_bytes());
        written.expect("psql reads it");
        assert!(psql.wait().expect("a child can be waited for").success(), "the dump is loaded");
        database
    }

    /// Puts a database in the place of another one, whose sessions end.
    pub(crate) fn replace(&self, database: &str, by: &str) {
        self.psql("postgres", &format!("DROP DATABASE {database} WITH (FORCE)"));
        self.psql("postgres", &format!("ALTER DATABASE {by} RENAME TO {database}"));
    }

    /// A database as pg_dump writes it.
    pub(crate) fn dump(&self, database: &str) -> String {
        finish(&mut self.client("pg_dump", database))
    }

    /// A client program on the unix socket, where everybody is trusted at all times.
    fn client(&self, name: &str, database: &str) -> Command {
        let mut command = Command::new(program(name));
        command.arg("--host").arg(&self.dir).args(["--port", &self.port.to_string()]);
        command.args(["--username", "postgres", "--dbname", database]);
        command
    }

    /// From now on TCP connections are let in by these lines of `pg_hba.conf`.
    pub(crate) fn admit_over_tcp(&self, lines: &str) {
        self.put("pg_hba.conf", &format!("local all all trust\n{lines}\n"));
        self.reload();
    }

    /// Encrypts from now on, with this certificate and key in PEM form; clients' certificates must be signed by
    /// `authority`.
    pub(crate) fn encrypt(&self, certificate: &str, key: &str, authority: &str) {
        self.put("server.crt", certificate);
        self.put("server.key", key);
        self.put("root.crt", authority);
        self.psql("postgres", "ALTER SYSTEM SET ssl_ca_file = 'root.crt'");
        self.psql("postgres", "ALTER SYSTEM SET ssl = on");
        self.reload();
    }

    /// Has it read its files again, and waits until it has: a new session tells when its postmaster did.
    fn reload(&self) {
        let loaded_at = || self.psql("postgres", "SELECT pg_conf_load_time()");
        let before = loaded_at();
        self.psql("postgres", "SELECT pg_reload_conf()");
        wait_for("PostgreSQL has read its files again", || {
            if loaded_at() == before { Err(self.log()) } else { Ok(()) }
        });
    }

    /// Writes a file of its data directory.
    fn put(&self, name: &str, text: &str) {
        use std::os::unix::fs::OpenOptionsExt as _;
        let path = self.data().join(name);
        let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&path);
        file.and_then(|mut file| file.write_all(text.as_bytes())).expect("a file in the data directory");
        self.give_away(&path);
    }

    /// Stops it and waits until it has stopped.
    pub(crate) fn stop(&mut self, how: Stop) {
        self.end(match how {
            Stop::Smart => Signal::TERM,
            Stop::Fast => Signal::INT,
            Stop::Immediate => Signal::QUIT,
        });
    }

    /// Kills the postmaster without warning; its processes notice and end by themselves.
    pub(crate) fn kill9(&mut self) {
        self.end(Signal::KILL);
    }

    /// Starts it after a stop or a kill, on the same port.
    pub(crate) fn start_again(&mut self) {
        wait_within(RECOVERY, "PostgreSQL starts again", || match self.launch() {
            // Processes of a killed postmaster have not all noticed yet.
            Err(log) if log.contains("pre-existing shared memory") => Err(log),
            Err(log) => panic!("PostgreSQL did not start again:\n{log}"),
            Ok(()) => Ok(()),
        });
    }

    /// Whether it has ended by itself.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.postmaster.as_mut().is_none_or(|it| it.try_wait().expect("a child can be asked").is_some())
    }

    fn end(&mut self, signal: Signal) {
        if let Some(mut postmaster) = self.postmaster.take() {
            let pid = i32::try_from(postmaster.id()).ok().and_then(Pid::from_raw).expect("a process id");
            let _ = kill_process(pid, signal); // it may have ended by itself
            let _ = kill_process(pid, Signal::CONT); // a test may have stopped it
            postmaster.wait().expect("a child can be waited for");
        }
    }

    /// Starts the postmaster and waits until it accepts connections; its log if it ends instead.
    fn launch(&mut self) -> Result<(), String> {
        let log = File::create(self.dir.join("log")).expect("a log file");
        let mut command = self.command("postgres");
        command.arg("-D").arg(self.data()).arg("-k").arg(&self.dir);
        command.args(["-p", &self.port.to_string(), "-c", "listen_addresses=127.0.0.1"]);
        // Version 13 keeps passwords otherwise.
        command.args(["-c", "password_encryption=scram-sha-256"]);
        // What a database may be set to, and what then fails in functions that are careless.
        command.args(["-c", "plpgsql.extra_errors=all"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let postmaster = command.stdout(Stdio::null()).stderr(log).spawn().expect("postgres can be run");
        let pid = postmaster.id();
        self.postmaster = Some(postmaster); // so that it is ended
        let is_there = wait_within(RECOVERY, "PostgreSQL is ready, or ends", || {
            let is_ready = self.is_ready(pid);
            if is_ready || self.has_ended() { Ok(is_ready) } else { Err(self.log()) }
        });
        if !is_there {
            self.postmaster = None;
            return Err(self.log());
        }
        Ok(())
    }

    /// Whether its own file says so: the process id in the first line, its state in the eighth.
    fn is_ready(&self, pid: u32) -> bool {
        let text = fs::read_to_string(self.data().join("postmaster.pid")).unwrap_or_default();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        lines.first() == Some(&pid.to_string().as_str())
            && matches!(lines.get(7), Some(&("ready" | "standby")))
    }

    fn data(&self) -> PathBuf {
        self.dir.join("data")
    }

    /// A program of the server, as a user it accepts: it refuses to run as root.
    fn command(&self, name: &str) -> Command {
        let mut command = Command::new("env");
        if let Some((user, group)) = unprivileged() {
            command = Command::new("setpriv");
            command.args(["--reuid", &user, "--regid", &group, "--clear-groups", "--", "env"]);
        }
        // Given to the program alone: what is preloaded may make things that must belong to its user.
        command.args(self.environment.iter().map(|(name, value)| format!("{name}={value}")));
        command.arg(program(name)).current_dir(&self.dir).env("LC_ALL", "C").stdin(Stdio::null());
        command
    }

    /// Makes a file or directory the server's own.
    fn give_away(&self, path: &Path) {
        if let Some((user, group)) = unprivileged() {
            finish(Command::new("chown").arg(format!("{user}:{group}")).arg(path));
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = self.log();
            eprintln!(
                "PostgreSQL's log ended:\n{}",
                &log[log.floor_char_boundary(log.len().saturating_sub(LAST_WORDS))..]
            );
        }
        self.end(Signal::QUIT);
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// User and group for the server when we are root: those its package made, else nobody's.
pub(crate) fn unprivileged() -> Option<(String, String)> {
    if !getuid().is_root() {
        return None;
    }
    let accounts = fs::read_to_string("/etc/passwd").expect("the accounts of this machine");
    let numbers = |name: &str| {
        let account = accounts.lines().map(|line| line.split(':').collect::<Vec<_>>());
        let mut found = account.filter(|fields| fields.len() > 3 && fields[0] == name);
        found.next().map(|fields| (fields[2].to_owned(), fields[3].to_owned()))
    };
    Some(numbers("postgres").or_else(|| numbers("nobody")).expect("a user postgres or nobody"))
}

/// A program of the version that stands in the directory which `POSTGRES_BIN` names; else, and what is not there, that
/// of the newest installed version, or whatever stands on the PATH.
fn program(name: &str) -> PathBuf {
    let named = std::env::var_os("POSTGRES_BIN").map(|directory| Path::new(&directory).join(name));
    if let Some(program) = named.filter(|program| program.is_file()) {
        return program;
    }
    let versions = fs::read_dir(VERSIONS).into_iter().flatten().flatten();
    let numbered = versions.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let path = |version: u32| Path::new(VERSIONS).join(version.to_string()).join("bin").join(name);
    let mut there: Vec<u32> = numbered.filter(|version| path(*version).is_file()).collect();
    there.sort_unstable();
    there.last().map_or_else(|| PathBuf::from(name), |newest| path(*newest))
}

fn below() -> PathBuf {
    std::env::var_os("POSTGRES_BELOW").map_or_else(|| BELOW.into(), PathBuf::from)
}

fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
    free.expect("a free port").port()
}

/// Runs a command to its end; what it wrote to stdout.
fn finish(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output();
    let Output { status, stdout, stderr } = output
        .unwrap_or_else(|error| panic!("{command:?}: {error}; install postgresql and postgresql-client"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(status.success(), "{command:?} failed: {}{}", text(&stdout), text(&stderr));
    text(&stdout)
}
