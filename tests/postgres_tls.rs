//! How sslmode and its companions in the store's URL protect connections to PostgreSQL.

mod support;

#[path = "support/postgres.rs"]
mod postgres;

#[path = "support/program.rs"]
mod called;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use called::{program, refusal, run};
use postgres::Postgres;

fn done(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
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
        run(&[
            "migrate",
            "--store",
            &format!("postgres://{user}@{host}:{}/{database}?{parameters}", server.port()),
        ])
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
        ("postgres", "127.0.0.1", "sslmode=disable".to_owned(), "no pg_hba.conf entry"),
        ("postgres", "127.0.0.1", format!("sslmode=verify-full&sslrootcert={ca}"), "127.0.0.1"),
        ("postgres", "localhost", format!("sslmode=verify-ca&sslrootcert={wrong}"), "certificate"),
        ("postgres", "localhost", "sslmode=verify-full".into(), "certificate"),
        ("app", "localhost", "sslmode=require".into(), "certificate"),
    ] {
        let (line, code) = refusal(&ask(user, host, &parameters));
        assert_eq!(code, Some(1), "{parameters}: {line}");
        assert!(line.contains(words), "{user} {host} {parameters}: {line}");
    }
    // The environment counts where the URL says nothing.
    let asked_by = |certificate: &str| {
        let mut migrate = program(&[
            "migrate",
            "--store",
            &format!("postgres://postgres@localhost:{}/{database}", server.port()),
        ]);
        migrate.env("PGSSLMODE", "verify-full").env("PGSSLROOTCERT", certificate);
        migrate.output().expect("the program runs")
    };
    assert_eq!(done(&asked_by(&ca)), "up to date\n");
    assert!(refusal(&asked_by(&wrong)).0.contains("certificate"));
    // A server that signed its own certificate, as PostgreSQL's manual makes one.
    server.encrypt(&stranger.0, &stranger.1, &authority.0);
    let parameters = format!("sslmode=verify-full&sslrootcert={wrong}");
    assert_eq!(done(&ask("postgres", "localhost", &parameters)), "up to date\n");
}

/// A certificate and its key as the PostgreSQL manual's recipe makes them with OpenSSL 3.0: of X.509 version 1.
fn certificate_of_version_1() -> (String, String) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let openssl = |words: &str| {
        let output = Command::new("openssl").args(words.split(' ')).current_dir(dir.path()).output();
        let output = output.expect("openssl runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    openssl("req -new -nodes -newkey rsa:2048 -subj /CN=localhost -keyout key -out csr");
    openssl("x509 -req -in csr -days 2 -signkey key -out crt");
    assert!(openssl("x509 -in crt -noout -text").contains("Version: 1"));
    let read = |name: &str| fs::read_to_string(Path::new(dir.path()).join(name)).expect("openssl wrote it");
    (read("crt"), read("key"))
}

#[test]
fn a_certificate_of_version_1_encrypts_and_proves_nothing() {
    let server = Postgres::start(&[]);
    let database = server.create_database();
    let (certificate, key) = certificate_of_version_1();
    server.encrypt(&certificate, &key, &certificate);
    server.admit_over_tcp("hostssl all postgres all trust");
    let file = tempfile::NamedTempFile::new().expect("a file");
    fs::write(file.path(), &certificate).expect("it can be written");
    let ask = |parameters: &str| {
        let url = format!("postgres://postgres@localhost:{}/{database}?{parameters}", server.port());
        run(&["migrate", "--store", &url])
    };
    for encrypted in ["", "sslmode=require"] {
        assert_eq!(done(&ask(encrypted)), "up to date\n", "{encrypted}");
    }
    let (line, code) = refusal(&ask(&format!("sslmode=verify-ca&sslrootcert={}", file.path().display())));
    assert!(line.contains("UnsupportedCertVersion") && code == Some(1), "{line}");
}
