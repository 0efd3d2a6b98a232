//! Certificates for tests, made by openssl(1): an authority, and what it signs.

#![allow(dead_code, reason = "each test program uses its own part of this")]

use std::path::PathBuf;
use std::process::Command;

use tempfile::TempDir;

/// An authority, in a directory of its own.
pub(crate) struct Authority {
    dir: TempDir,
}

/// A certificate and its key.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Pair {
    /// Puts this pair in the place of another one, as a renewal does.
    pub(crate) fn replace(&self, other: &Self) {
        std::fs::copy(&self.certificate, &other.certificate).expect("a certificate can be copied");
        std::fs::copy(&self.key, &other.key).expect("a key can be copied");
    }
}

impl Authority {
    /// Makes one.
    pub(crate) fn new() -> Self {
        let authority = Self { dir: tempfile::tempdir().expect("a temporary directory") };
        let (certificate, key) = (authority.path("ca.crt"), authority.path("ca.key"));
        let subject =
            format!("/CN=authority {}", authority.dir.path().display().to_string().replace('/', " "));
        let made = ["-x509", "-days", "90", "-subj", &subject];
        openssl(&["req"], &made, &[("-keyout", &key), ("-out", &certificate)]);
        authority
    }

    /// Its certificate.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.path("ca.crt")
    }

    /// Signs a certificate for localhost and 127.0.0.1, which the doctor has nothing to say of.
    pub(crate) fn issue(&self, name: &str) -> Pair {
        self.sign(name, "DNS:localhost,IP:127.0.0.1", 30)
    }

    /// Signs one for these names, for so many days; with -1 it is over already.
    pub(crate) fn sign(&self, name: &str, names: &str, days: i32) -> Pair {
        let (pair, request) = self.request(name, names);
        let mut sign = Command::new("openssl");
        sign.args([
            "x509",
            "-req",
            "-copy_extensions",
            "copy",
            "-CAcreateserial",
            "-days",
            &days.to_string(),
        ]);
        for (option, path) in [
            ("-in", &request),
            ("-CA", &self.certificate()),
            ("-CAkey", &self.path("ca.key")),
            ("-out", &pair.certificate),
        ] {
            sign.arg(option).arg(path);
        }
        run(sign);
        pair
    }

    /// Signs one for localhost that is not valid before the year 2049.
    pub(crate) fn sign_too_early(&self, name: &str) -> Pair {
        let (pair, request) = self.request(name, "DNS:localhost");
        let config = self.path("ca.conf");
        let lines = format!(
            "[ca]\ndefault_ca = here\n[here]\ndatabase = {0}/index.txt\nnew_certs_dir = {0}\nrand_serial = yes\n\
             default_md = sha256\npolicy = any\ncopy_extensions = copy\n[any]\ncommonName = supplied\n",
            self.dir.path().display()
        );
        std::fs::write(&config, lines).expect("a file can be written");
        std::fs::write(self.path("index.txt"), "").expect("a file can be written");
        let mut sign = Command::new("openssl");
        sign.args([
            "ca",
            "-batch",
            "-notext",
            "-startdate",
            "20490101000000Z",
            "-enddate",
            "20490201000000Z",
        ]);
        for (option, path) in [
            ("-config", &config),
            ("-in", &request),
            ("-cert", &self.certificate()),
            ("-keyfile", &self.path("ca.key")),
            ("-out", &pair.certificate),
        ] {
            sign.arg(option).arg(path);
        }
        run(sign);
        pair
    }

    /// Makes a key, and a request to sign it for these names.
    fn request(&self, name: &str, names: &str) -> (Pair, PathBuf) {
        let pair =
            Pair { certificate: self.path(&format!("{name}.crt")), key: self.path(&format!("{name}.key")) };
        let (request, subject) = (self.path(&format!("{name}.csr")), format!("/CN={name}"));
        let names = format!("subjectAltName={names}");
        let wanted = ["-subj", &subject, "-addext", &names, "-addext", "basicConstraints=critical,CA:FALSE"];
        openssl(&["req"], &wanted, &[("-keyout", &pair.key), ("-out", &request)]);
        (pair, request)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

fn openssl(command: &[&str], arguments: &[&str], files: &[(&str, &PathBuf)]) {
    let mut openssl = Command::new("openssl");
    openssl.args(command).args(["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]);
    openssl.args(arguments);
    for (option, path) in files {
        openssl.arg(option).arg(path);
    }
    run(openssl);
}

fn run(mut command: Command) {
    let output = command.output().expect("openssl runs");
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
