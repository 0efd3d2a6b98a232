//! `posthaste migrate` against a real PostgreSQL: installing, doing nothing, refusing, and every way not to connect.

mod support;

#[path = "support/client.rs"]
mod client;

#[path = "support/postgres.rs"]
mod postgres;

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use client::Client;
use postgres::{Postgres, Stop, shared};
use support::Server;
use support::patience::wait_for;

fn migrate(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.arg("migrate").args(words);
    for name in [
        "PGPASSWORD",
        "PGPASSFILE",
        "PGSSLMODE",
        "PGUSER",
        "POSTHASTE_MIGRATE_STORE",
        "POSTHASTE_MIGRATE_PRINT",
    ] {
        command.env_remove(name);
    }
    command
}

fn run(words: &[&str]) -> Output {
    migrate(words).output().expect("the program runs")
}

/// What a good run wrote to stdout.
fn done(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

/// The one line of an error, which never has the password, and the exit code.
fn refusal(output: &Output) -> (String, Option<i32>) {
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(!error.contains("sesame"), "{error}");
    (error.trim_end().to_owned(), output.status.code())
}

/// The numbered files, in their order.
fn files() -> Vec<PathBuf> {
    let entries = fs::read_dir("sql").expect("the directory sql").flatten();
    let numbered = entries.filter(|entry| entry.file_name().as_encoded_bytes()[0].is_ascii_digit());
    let mut files: Vec<PathBuf> = numbered.map(|entry| entry.path()).collect();
    files.sort();
    files
}

fn migrations() -> usize {
    files().len()
}

/// A database with the schema as it was when there were only so many files, and with a queue that holds two messages.
fn older(server: &Postgres, known: usize) -> String {
    let database = server.create_empty_database();
    for (file, number) in files().iter().take(known).zip(1..) {
        let text = fs::read_to_string(file).expect("the file");
        let sum = Command::new("sha1sum").arg(file).output().expect("sha1sum runs").stdout;
        let sum = String::from_utf8_lossy(&sum[..40]).into_owned();
        let note = format!("INSERT INTO posthaste.migration VALUES ({number}, 'by hand', '{sum}')");
        server.psql(&database, &format!("BEGIN; {text}; {note}; COMMIT"));
    }
    server.psql(
        &database,
        "INSERT INTO posthaste.account VALUES (nextval('posthaste.account_id'), 'ann', true);
        INSERT INTO posthaste.queue (id, name) VALUES (nextval('posthaste.queue_id'), 'old');
        INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
            SELECT part, id, 255::bigint << 54 | id, (SELECT id FROM posthaste.queue), (SELECT id FROM posthaste.account), 0,
                1000, convert_to('message ' || part, 'UTF8')
            FROM (SELECT part, nextval('posthaste.message_id') AS id FROM unnest(ARRAY[0, 2]) AS part) AS new",
    );
    database
}

/// What `posthaste queue` says, which is not to start.
fn queue(url: &str) -> Output {
    let mut queue = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    queue.args(["queue", "--listen", "127.0.0.1:0", "--http", "off", "--store", url]);
    let mut queue = queue.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut stderr = Vec::new();
    for line in BufReader::new(queue.stderr.take().expect("stderr is piped")).lines() {
        let line = line.expect("text");
        if line.contains("listening on") {
            queue.kill().and_then(|()| queue.wait()).expect("it can be killed");
            panic!("it started: {line}");
        }
        stderr.extend([line.as_bytes(), b"\n"].concat());
    }
    Output { status: queue.wait().expect("it can be waited for"), stdout: Vec::new(), stderr }
}

#[test]
fn it_installs_once_and_then_has_nothing_to_do() {
    let server = shared();
    let database = server.create_empty_database();
    let first = done(&run(&["--store", &server.url(&database)]));
    assert_eq!(first.lines().count(), migrations(), "{first}");
    assert!(first.starts_with("applied 0001\n"), "{first}");
    assert_eq!(done(&run(&["--store", &server.url(&database)])), "up to date\n");
    let noted = server.psql(&database, "SELECT count(*), max(number) FROM posthaste.migration");
    assert_eq!(noted, format!("{0}|{0}", migrations()));
}

#[test]
fn two_at_once_take_turns() {
    let server = shared();
    let database = server.create_empty_database();
    let url = server.url(&database);
    let running: Vec<_> = (0..4)
        .map(|_| {
            let mut command = migrate(&["--store", &url]);
            command.stdout(Stdio::piped()).spawn().expect("the program runs")
        })
        .collect();
    let outputs = running.into_iter().map(|child| child.wait_with_output().expect("it can be waited for"));
    let mut said: Vec<usize> = outputs.map(|output| done(&output).matches("applied").count()).collect();
    said.sort_unstable();
    assert_eq!(said, [0, 0, 0, migrations()]);
}

#[test]
fn the_printed_script_makes_the_same_schema() {
    let server = shared();
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("schema.sql");
    fs::write(&file, done(&run(&["--print"]))).expect("a file");
    let printed = server.create_empty_database();
    server.psql_file(&printed, &file);
    let migrated = server.create_database();
    assert_eq!(server.schema(&printed), server.schema(&migrated));
    assert_eq!(done(&run(&["--store", &server.url(&printed)])), "up to date\n");
}

/// Each file is applied for itself, so a schema may be of any age.
#[test]
fn an_older_schema_is_brought_up_to_date_and_keeps_what_it_holds() {
    let server = shared();
    let made_at_once = server.schema(&server.create_database());
    for known in [1, 6, migrations() - 1] {
        let database = older(server, known);
        let url = server.url(&database);
        let applied: String =
            (known + 1..=migrations()).map(|number| format!("applied {number:04}\n")).collect();
        assert_eq!(done(&run(&["--store", &url])), applied);
        assert_eq!(done(&run(&["--store", &url])), "up to date\n");
        assert_eq!(server.schema(&database), made_at_once, "from {known} on");
        let middleware = Server::start(&url, &[]);
        let mut client = Client::login(middleware.addr(), "ben").expect("it runs");
        for body in ["message 0", "message 2"] {
            let popped = client.ask(&["POP", "QUEUE", "old"]).expect("it runs");
            let from = popped.get("from").and_then(client::Answer::text);
            assert_eq!((popped.body(), from), (Some(body), Some("ann")), "from {known} on");
        }
        let sent = client.ask(&["SEND", "old", "new"]).expect("it runs");
        assert!(sent.integer() > Some(2), "from {known} on: {sent:?}");
    }
}

#[test]
fn a_middleware_does_not_start_on_a_schema_of_another_age() {
    let server = shared();
    let newest = migrations();
    let newer = server.create_database();
    server.psql(&newer, "INSERT INTO posthaste.migration (number, name, sha1) VALUES (9999, 'future', '')");
    for (database, words) in [
        (server.create_empty_database(), "no posthaste schema: run posthaste migrate --store URL".to_owned()),
        (
            older(server, newest - 1),
            format!("is at {}, this program needs {newest}: run posthaste migrate --store URL", newest - 1),
        ),
        (newer, format!("it knows {newest}, the database has 9999): upgrade posthaste")),
    ] {
        let (line, code) = refusal(&queue(&server.url(&database)));
        assert_eq!(code, Some(1), "{line}");
        assert!(line.ends_with(&words), "{line}");
    }
}

/// As after a logical replication, which brings no sequences along.
#[test]
fn a_middleware_does_not_start_where_ids_of_messages_would_come_again() {
    let server = shared();
    let database = server.create_database();
    server.psql(
        &database,
        "SELECT posthaste.create_queue('q'), posthaste.send('a', 'q', '1'), posthaste.send('a', 'q', '2')",
    );
    let floor = "INSERT INTO posthaste.ring_floor VALUES (posthaste.place_of(0, 2000));";
    let in_the_ring = "DELETE FROM posthaste.message;
        INSERT INTO posthaste.message (ring, id, place, queue_id, sender_id, recipient_id, sent_ms, body)
        VALUES (posthaste.current_part(), 2, posthaste.place_of(0, 2), 1, 1, 0, posthaste.now_ms(), '2');";
    for stand in ["", in_the_ring, &format!("DELETE FROM posthaste.message; {floor}")] {
        server.psql(&database, &format!("{stand} SELECT setval('posthaste.message_id', 1)"));
        let (line, code) = refusal(&queue(&server.url(&database)));
        assert_eq!(code, Some(1), "{line}");
        assert!(line.contains("the sequence posthaste.message_id is at 1 and"), "{line}");
    }
    server.psql(&database, "SELECT setval('posthaste.message_id', 2000)");
    let middleware = Server::start(&server.url(&database), &[]);
    let mut client = Client::login(middleware.addr(), "bob").expect("it runs");
    client.ask(&["SEND", "q", "found"]).expect("it runs");
    assert_eq!(client.ask(&["POP", "QUEUE", "q"]).expect("it runs").body(), Some("found"));
}

/// Also when its connections have to be made again, as they have to be when the server is upgraded with the schema.
#[test]
fn a_middleware_that_runs_goes_on_when_the_schema_is_upgraded() {
    let server = shared();
    let database = server.create_database();
    let middleware = Server::start(&server.url(&database), &[]);
    let mut client = Client::login(middleware.addr(), "ben").expect("it runs");
    client.ask(&["QCREATE", "q"]).expect("it runs");
    server
        .psql(&database, "INSERT INTO posthaste.migration (number, name, sha1) VALUES (9999, 'future', '')");
    let cut = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
        WHERE datname = current_database() AND application_name = 'posthaste'";
    server.psql(&database, cut);
    // A request may find a connection broken.
    wait_for("it goes on", || {
        let sent = client.ask(&["SEND", "q", "x"]).expect("it runs");
        if sent.integer().is_some() { Ok(()) } else { Err(middleware.log()) }
    });
    assert!(!middleware.log().contains("upgrade posthaste"), "{}", middleware.log());
}

/// Functions without a comment, those that touch a table, themselves or by others, and tell no plan, and those whose plan
/// tells of a function that they do not call, or of an index that does not exist.
fn without_a_word(server: &Postgres, database: &str) -> String {
    let sql = r"
        WITH RECURSIVE told AS (
            SELECT proname::text AS name, regexp_replace(prosrc, '--[^\n]*', '', 'g') AS body,
                coalesce(obj_description(oid, 'pg_proc'), '') AS said
            FROM pg_proc WHERE pronamespace = 'posthaste'::regnamespace),
        calls AS (
            SELECT DISTINCT t.name, u.name AS other FROM told t JOIN told u ON t.body ~ ('\m' || u.name || '\s*\(')),
        reach(name, other) AS (
            SELECT * FROM calls UNION SELECT r.name, c.other FROM reach r JOIN calls c ON c.name = r.other),
        touches AS (
            SELECT t.name FROM told t WHERE EXISTS (
                SELECT FROM pg_class WHERE relnamespace = 'posthaste'::regnamespace AND relkind IN ('r', 'p')
                AND t.body ~ ('\m(FROM|INTO|UPDATE|JOIN|TABLE)\s+(posthaste\.)?' || relname || '\M'))),
        named AS (
            SELECT t.name, w.found[1] AS word
            FROM told t, regexp_matches(split_part(t.said, 'Plan:', 2), '\m[a-z0-9]+_[a-z0-9_]+\M', 'g') AS w(found))
        SELECT string_agg(DISTINCT wrong.name, ' ' ORDER BY wrong.name) FROM (
            SELECT name FROM told WHERE said = ''
            UNION ALL SELECT t.name FROM told t WHERE t.said !~ 'Plan: \S|Inlined' AND (
                t.name IN (SELECT name FROM touches)
                OR EXISTS (SELECT FROM reach r WHERE r.name = t.name AND r.other IN (SELECT name FROM touches)))
            UNION ALL SELECT n.name FROM named n WHERE n.word IN (SELECT name FROM told)
                AND NOT EXISTS (SELECT FROM reach r WHERE r.name = n.name AND r.other = n.word)
            UNION ALL SELECT n.name FROM named n WHERE n.word ~ '_(pkey|key)$|_by_'
                AND n.word NOT IN (SELECT relname FROM pg_class) AND n.word NOT IN (SELECT name FROM told)
        ) AS wrong";
    server.psql(database, sql)
}

#[test]
fn every_function_tells_its_rule_and_its_plan() {
    let server = shared();
    let database = server.create_database();
    assert_eq!(without_a_word(server, &database), "");
    let mock = server.create_empty_database();
    done(&run(&["--store", &server.url(&mock), "--mock", "200"]));
    assert_eq!(without_a_word(server, &mock), "");
    for (name, said) in [
        ("silent", "null"),
        ("blunt", "'All queues.'"),
        ("stale", "'All queues. Plan: as add_queue.'"),
        ("wishful", "'All queues. Plan: queue_by_wish.'"),
        ("clear", "'All queues. Plan: reads the table.'"),
    ] {
        let make = format!(
            "CREATE FUNCTION posthaste.{name}() RETURNS bigint LANGUAGE sql AS 'SELECT id FROM posthaste.queue'"
        );
        server.psql(&database, &format!("{make}; COMMENT ON FUNCTION posthaste.{name} IS {said}"));
    }
    assert_eq!(without_a_word(server, &database), "blunt silent stale wishful", "it would be found");
}

#[test]
fn a_newer_schema_is_left_alone() {
    let server = shared();
    let database = server.create_database();
    server
        .psql(&database, "INSERT INTO posthaste.migration (number, name, sha1) VALUES (9999, 'future', '')");
    let (line, code) = refusal(&run(&["--store", &server.url(&database)]));
    assert_eq!(code, Some(1));
    assert!(line.contains("upgrade posthaste") && line.contains("9999"), "{line}");
}

#[test]
fn a_schema_made_of_other_files_is_named_and_left_alone() {
    let server = shared();
    for (made, named) in [
        ("UPDATE posthaste.migration SET sha1 = repeat('0', 40) WHERE number = 7", "0007_batch.sql"),
        ("ALTER TABLE posthaste.migration DROP COLUMN sha1", "0001_tables.sql"),
    ] {
        let database = server.create_database();
        server.psql(&database, made);
        let url = server.url(&database);
        for output in [run(&["--store", &url]), queue(&url)] {
            let (line, code) = refusal(&output);
            assert_eq!(code, Some(1), "{made}");
            assert!(line.contains(named) && line.contains("empty database"), "{made}: {line}");
        }
    }
}

#[test]
fn a_database_that_is_not_utf8_is_refused() {
    let server = shared();
    server.psql("postgres", "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let (line, code) = refusal(&run(&["--store", &server.url("latin")]));
    assert_eq!(code, Some(1));
    assert!(line.contains("LATIN1") && line.contains("ENCODING 'UTF8'"), "{line}");
}

/// There a body may hold bytes that no text has, and a POP of it would fail after it was taken.
#[test]
fn the_printed_script_is_for_utf8_only_and_a_middleware_checks_that_again() {
    let server = shared();
    server.psql("postgres", "CREATE DATABASE bytes ENCODING 'SQL_ASCII' LOCALE 'C' TEMPLATE template0");
    let script = done(&run(&["--print"]));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("schema.sql");
    fs::write(&file, &script).expect("a file");
    let mut psql = Command::new("psql");
    psql.arg("--host").arg(server.socket_dir()).args(["--port", &server.port().to_string(), "--no-psqlrc"]);
    psql.args(["--username=postgres", "--dbname=bytes", "--file"]).arg(&file);
    let output = psql.output().expect("psql runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("SQL_ASCII: create one with ENCODING 'UTF8'"),
        "{said}"
    );
    assert_eq!(server.psql("bytes", "SELECT count(*) FROM pg_namespace WHERE nspname = 'posthaste'"), "0");
    let (_, rest) = script.split_once("END $$;").expect("a check");
    fs::write(&file, rest).expect("a file");
    server.psql_file("bytes", &file);
    let (line, code) = refusal(&queue(&server.url("bytes")));
    assert_eq!(code, Some(1));
    assert!(line.contains("SQL_ASCII"), "{line}");
}

#[test]
fn a_schema_of_somebody_else_is_not_touched() {
    let server = shared();
    let database = server.create_empty_database();
    server.psql(&database, "CREATE SCHEMA posthaste; CREATE TABLE posthaste.precious (x int)");
    let (line, code) = refusal(&run(&["--store", &server.url(&database)]));
    assert_eq!(code, Some(1));
    assert!(line.contains("0001_tables.sql") && line.contains("already exists"), "{line}");
    assert!(line.contains("somebody else made this one") && line.contains("DROP SCHEMA posthaste"), "{line}");
    assert_eq!(server.psql(&database, "SELECT count(*) FROM posthaste.precious"), "0");
}

#[test]
fn a_role_that_may_make_no_schema_is_told_what_it_needs() {
    let server = shared();
    let database = server.create_empty_database();
    server.psql("postgres", "CREATE ROLE guest LOGIN");
    let url = server.url(&database).replace("postgres@", "guest@");
    let (line, code) = refusal(&run(&["--store", &url]));
    assert_eq!(code, Some(1));
    assert!(line.contains("permission denied") && line.contains("GRANT CREATE ON DATABASE"), "{line}");
    server.psql("postgres", &format!("GRANT CREATE ON DATABASE {database} TO guest"));
    done(&run(&["--store", &url]));
}

#[test]
fn a_role_that_did_not_make_the_schema_is_told_to_be_the_one_that_did() {
    let server = shared();
    let database = server.create_empty_database();
    done(&run(&["--store", &server.url(&database)]));
    server.psql("postgres", "CREATE ROLE stranger LOGIN");
    let url = server.url(&database).replace("postgres@", "stranger@");
    for output in [run(&["--store", &url]), queue(&url)] {
        let (line, code) = refusal(&output);
        assert_eq!(code, Some(1));
        assert!(line.contains("permission denied") && line.contains("the role that migrated"), "{line}");
    }
}

#[test]
fn wrong_use_is_one_line_and_exit_code_2() {
    for (words, names) in [
        (&[][..], "--store"),
        (&["--store", "embedded:./x"], "postgres://"),
        (&["--store", "postgres://app:sesame@/x"], "no host"),
        (&["--store", "postgres://app:sesame@db/x?sslmod=require"], "sslmod"),
        (&["--store", "postgres://app:ses@ame@db/x"], "%40"),
        (&["--store", "postgres://app:sesame@db:5432x/x"], "port"),
    ] {
        let (line, code) = refusal(&run(words));
        assert_eq!(code, Some(2), "{words:?}: {line}");
        assert!(line.contains(names), "{words:?}: {line}");
    }
}

#[test]
fn every_way_not_to_connect_says_what_to_do() {
    let mut server = Postgres::start(&[]);
    let database = server.create_empty_database();
    server.psql(
        "postgres",
        "CREATE ROLE app LOGIN PASSWORD 'right'; CREATE ROLE full LOGIN CONNECTION LIMIT 0",
    );
    server.psql("postgres", "CREATE DATABASE standby");
    server.psql("postgres", "ALTER DATABASE standby SET default_transaction_read_only = on");
    server.admit_over_tcp(
        "host all app all scram-sha-256\nhost all postgres all trust\nhost all full all trust",
    );
    let place = format!("127.0.0.1:{}", server.port());
    for (url, words) in [
        (format!("postgres://app:sesame@{place}/{database}"), "password"),
        (format!("postgres://app@{place}/{database}"), "PGPASSWORD"),
        (format!("postgres://postgres:sesame@{place}/nosuch"), "createdb"),
        (format!("postgres://other:sesame@{place}/{database}"), "pg_hba.conf"),
        (format!("postgres://full:sesame@{place}/{database}"), "max_connections"),
        (format!("postgres://postgres:sesame@{place}/standby"), "standby"),
        (
            format!("postgres://postgres:sesame@{place}/{database}?target_session_attrs=read-only"),
            "takes writes, and target_session_attrs=read-only",
        ),
        (format!("postgres://postgres:sesame@{place}/{database}?sslmode=require"), "sslmode"),
    ] {
        let (line, code) = refusal(&run(&["--store", &url]));
        assert_eq!(code, Some(1), "{url}: {line}");
        assert!(line.contains(words) && line.contains(&place), "{url}: {line}");
    }
    server.stop(Stop::Fast);
    let (line, code) = refusal(&run(&["--store", &format!("postgres://app:sesame@{place}/{database}")]));
    assert_eq!(code, Some(1));
    assert!(line.contains(&place) && line.contains("is it running"), "{line}");
}

#[test]
fn the_password_may_stand_in_the_environment_or_the_password_file() {
    let server = Postgres::start(&[]);
    let database = server.create_empty_database();
    server.psql("postgres", "CREATE ROLE app LOGIN PASSWORD 'sesame'");
    server.psql("postgres", &format!("ALTER DATABASE {database} OWNER TO app"));
    server.admit_over_tcp("host all all all scram-sha-256");
    let url = format!("postgres://app@localhost:{}/{database}", server.port());
    let by_environment = migrate(&["--store", &url]).env("PGPASSWORD", "sesame").output();
    assert!(done(&by_environment.expect("the program runs")).contains("applied"));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("pgpass");
    fs::write(&file, format!("localhost:{}:*:app:sesame\n", server.port())).expect("a file");
    // An empty password is none, as libpq has it.
    let by_file = || {
        let mut migrate = migrate(&["--store", &url]);
        migrate.env("PGPASSWORD", "").env("PGPASSFILE", &file).output().expect("the program runs")
    };
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    assert_eq!(done(&by_file()), "up to date\n");
    let mut by_home = migrate(&["--store", &url]);
    by_home.env("HOME", dir.path()).env("PGPASSFILE", "");
    fs::copy(&file, dir.path().join(".pgpass")).expect("a copy, with its mode");
    assert_eq!(done(&by_home.output().expect("the program runs")), "up to date\n");
    // Who names no user is who runs the program, unless PGUSER names another one.
    let me = Command::new("id").arg("-un").output().expect("id runs").stdout;
    let me = String::from_utf8(me).expect("a name").trim_end().to_owned();
    let make = if me == "postgres" { "ALTER" } else { "CREATE" };
    server.psql("postgres", &format!("{make} ROLE \"{me}\" LOGIN PASSWORD 'sesame'; GRANT app TO \"{me}\""));
    fs::write(&file, format!("localhost:{}:*:{me}:sesame\n", server.port())).expect("a file");
    let nameless = format!("postgres://localhost:{}/{database}", server.port());
    let mut by_nobody = migrate(&["--store", &nameless]);
    by_nobody.env_remove("USER").env("PGPASSFILE", &file);
    assert_eq!(done(&by_nobody.output().expect("the program runs")), "up to date\n");
    let mut by_name = migrate(&["--store", &nameless]);
    by_name.env("PGUSER", "app").env("PGPASSWORD", "sesame");
    assert_eq!(done(&by_name.output().expect("the program runs")), "up to date\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("its mode");
    let (said, _) = refusal(&by_file());
    assert!(said.contains("wants a password, and ") && said.contains("chmod 0600"), "{said}");
}

#[test]
fn a_unix_socket_and_several_hosts_will_do() {
    let server = shared();
    let database = server.create_database();
    let (dir, port) = (server.socket_dir().display(), server.port());
    for url in [
        format!("postgres://postgres@/{database}?host={dir}&port={port}"),
        format!("postgres://postgres@127.0.0.1:1,127.0.0.1:{port}/{database}"),
        format!("postgres://postgres@nosuch.invalid:{port}/{database}?hostaddr=127.0.0.1"),
    ] {
        assert_eq!(done(&run(&["--store", &url])), "up to date\n", "{url}");
    }
}

#[test]
fn what_is_committed_survives_a_kill_of_the_server() {
    let mut server = Postgres::start(&[]);
    let database = server.create_database();
    server.psql(&database, "CREATE TABLE kept (x int); INSERT INTO kept VALUES (7)");
    for how in [None, Some(Stop::Smart), Some(Stop::Fast), Some(Stop::Immediate)] {
        match how {
            Some(how) => server.stop(how),
            None => server.kill9(),
        }
        server.start_again();
        assert_eq!(server.psql(&database, "SELECT x FROM kept"), "7", "{how:?}");
    }
}
