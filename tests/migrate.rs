//! `posthaste migrate` against a real PostgreSQL: installing, doing nothing, refusing, and every way not to connect.

#[path = "support/postgres.rs"]
mod postgres;

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output};

use postgres::{Postgres, Stop, shared};

fn migrate(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_posthaste"));
    command.arg("migrate").args(words);
    for name in ["PGPASSWORD", "PGPASSFILE", "POSTHASTE_MIGRATE_STORE", "POSTHASTE_MIGRATE_PRINT"] {
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

fn migrations() -> usize {
    let names = fs::read_dir("sql").expect("the directory sql").flatten().map(|entry| entry.file_name());
    names.filter(|name| name.as_encoded_bytes()[0].is_ascii_digit()).count()
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
            command.stdout(std::process::Stdio::piped()).spawn().expect("the program runs")
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
        let mut queue = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        queue.args(["queue", "--listen", "127.0.0.1:0", "--http", "off", "--store", &url]);
        for output in [run(&["--store", &url]), queue.output().expect("the program runs")] {
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

#[test]
fn a_schema_of_somebody_else_is_not_touched() {
    let server = shared();
    let database = server.create_empty_database();
    server.psql(&database, "CREATE SCHEMA posthaste; CREATE TABLE posthaste.precious (x int)");
    let (line, code) = refusal(&run(&["--store", &server.url(&database)]));
    assert_eq!(code, Some(1));
    assert!(line.contains("0001_tables.sql") && line.contains("already exists"), "{line}");
    assert_eq!(server.psql(&database, "SELECT count(*) FROM posthaste.precious"), "0");
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
    let by_file = || migrate(&["--store", &url]).env("PGPASSFILE", &file).output().expect("the program runs");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).expect("its mode");
    assert_eq!(done(&by_file()), "up to date\n");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("its mode");
    assert!(refusal(&by_file()).0.contains("wants a password"));
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

/// A certificate and its key in PEM form, signed by `signer`, else by itself.
fn certificate(extra: &[&str], signer: Option<&(String, String)>) -> (String, String) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = |name: &str| dir.path().join(name).display().to_string();
    let mut openssl = Command::new("openssl");
    openssl.args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(["-days", "2", "-keyout", &path("key"), "-out", &path("crt")]).args(extra);
    if let Some((certificate, key)) = signer {
        fs::write(path("ca.crt"), certificate).and_then(|()| fs::write(path("ca.key"), key)).expect("files");
        openssl.args(["-CA", &path("ca.crt"), "-CAkey", &path("ca.key")]);
        openssl.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
    }
    let output = openssl.output().expect("openssl runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let read = |name: &str| fs::read_to_string(path(name)).expect("openssl wrote it");
    (read("crt"), read("key"))
}

#[test]
fn connections_are_encrypted_as_sslmode_says() {
    let server = Postgres::start(&[]);
    let database = server.create_database();
    let authority = certificate(&["-subj", "/CN=test authority"], None);
    let stranger = certificate(&["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"], None);
    let own = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"];
    let own = certificate(&own, Some(&authority));
    let client = certificate(&["-subj", "/CN=app"], Some(&authority));
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (ca, wrong) = (file("ca.crt", &authority.0), file("stranger.crt", &stranger.0));
    let (crt, key) = (file("client.crt", &client.0), file("client.key", &client.1));
    server.encrypt(&own.0, &own.1, &authority.0);
    server.psql("postgres", "CREATE ROLE app SUPERUSER LOGIN PASSWORD 'sesame'; CREATE ROLE scram SUPERUSER LOGIN PASSWORD 'sesame'");
    server.admit_over_tcp(
        "hostssl all postgres all trust\nhostssl all scram all scram-sha-256\nhostssl all app all cert",
    );
    let ask = |user: &str, host: &str, parameters: &str| {
        run(&["--store", &format!("postgres://{user}@{host}:{}/{database}?{parameters}", server.port())])
    };
    for (user, host, parameters) in [
        ("postgres", "127.0.0.1", String::new()),
        ("postgres", "127.0.0.1", "sslmode=require".into()),
        ("postgres", "localhost", format!("sslmode=verify-full&sslrootcert={ca}")),
        ("postgres", "127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ca}")),
        ("scram:sesame", "localhost", "sslmode=require&channel_binding=require".into()),
        ("app", "localhost", format!("sslmode=require&sslcert={crt}&sslkey={key}")),
    ] {
        assert_eq!(done(&ask(user, host, &parameters)), "up to date\n", "{user} {host} {parameters}");
    }
    for (user, host, parameters, words) in [
        ("postgres", "127.0.0.1", "sslmode=disable".to_owned(), "no encryption"),
        ("postgres", "127.0.0.1", format!("sslmode=verify-full&sslrootcert={ca}"), "127.0.0.1"),
        ("postgres", "localhost", format!("sslmode=verify-ca&sslrootcert={wrong}"), "certificate"),
        ("postgres", "localhost", "sslmode=verify-full".into(), "certificate"),
        ("app", "localhost", "sslmode=require".into(), "certificate"),
    ] {
        let (line, code) = refusal(&ask(user, host, &parameters));
        assert_eq!(code, Some(1), "{parameters}: {line}");
        assert!(line.contains(words), "{user} {host} {parameters}: {line}");
    }
    // A server that signed its own certificate, as PostgreSQL's manual makes one.
    server.encrypt(&stranger.0, &stranger.1, &authority.0);
    let parameters = format!("sslmode=verify-full&sslrootcert={wrong}");
    assert_eq!(done(&ask("postgres", "localhost", &parameters)), "up to date\n");
}
