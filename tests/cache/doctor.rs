//! `admin doctor` asks the servers behind a tier as the tier does.

use std::path::Path;
use std::process::Command;

use crate::certificates::Authority;
use crate::client::start;
use crate::memcached::Memcached;

fn text(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}

#[test]
fn a_server_that_speaks_tls_is_asked_over_tls() {
    let (authority, other) = (Authority::new(), Authority::new());
    let (theirs, ca) = (authority.issue("memcached"), authority.certificate());
    let files = format!("ssl_chain_cert={},ssl_key={}", text(&theirs.certificate), text(&theirs.key));
    let (encrypted, plain) = (Memcached::start(&["-Z", "-o", &files]), Memcached::start(&[]));
    let to_it = format!("tls:{}", encrypted.name());
    let router = start(&["--server", &to_it, "--server", &plain.name(), "--server-tls-ca", text(&ca)]);
    assert_eq!(router.readiness().0, 200);
    let http = router.http().to_string();
    let findings = |ca: &Path| {
        let mut doctor = Command::new(env!("CARGO_BIN_EXE_posthaste"));
        doctor.args(["admin", "doctor", "--http", &http, "--server-tls-ca", text(ca)]);
        String::from_utf8(doctor.output().expect("the program runs").stdout).expect("text")
    };
    let said = findings(&ca);
    assert!(said.contains("problem") && !said.contains("cannot be asked"), "{said}");
    let said = findings(&other.certificate());
    let unasked: Vec<&str> = said.lines().filter(|line| line.contains("cannot be asked")).collect();
    assert_eq!(unasked.len(), 1, "{said}");
    assert!(unasked[0].contains(&encrypted.name()) && unasked[0].contains("--server-tls-ca"), "{said}");
}
