//! What is made from the tables of options and metrics: pages that are fresh, completions that complete, manual pages.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// What `make reference` writes, and from what.
const FILES: [(&str, &str); 3] = [
    ("options", "docs/reference/options.md"),
    ("metrics", "docs/reference/metrics.md"),
    ("config", "deploy/posthaste.toml"),
];

fn run(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_posthaste")).args(words).output().expect("the program runs")
}

fn said(words: &[&str]) -> String {
    let output = run(words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn what_is_written_down_is_what_the_program_says() {
    for (topic, file) in FILES {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
        let written = fs::read_to_string(&path).unwrap_or_default();
        assert!(written == said(&["reference", topic]), "{file} is not fresh: run `make reference`");
    }
}

#[test]
fn help_that_finds_no_room_is_a_failure() {
    for words in [&["--help"][..], &["admin", "queues", "--help"], &["--version"]] {
        let full = fs::OpenOptions::new().write(true).open("/dev/full").expect("a device");
        let output = Command::new(env!("CARGO_BIN_EXE_posthaste")).args(words).stdout(full).output();
        let output = output.expect("the program runs");
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(1) && error.contains("No space left"), "{words:?}: {error}");
    }
}

#[test]
fn a_shell_completes_commands_and_options() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("posthaste");
    fs::write(&path, said(&["completions", "bash"])).expect("a file");
    let completed = |line: &str| {
        let script = format!(
            "source {}; COMP_WORDS=({line}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); _posthaste posthaste \
             \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; echo \"${{COMPREPLY[@]}}\"",
            path.display()
        );
        let output = Command::new("bash").args(["-c", &script]).output().expect("bash runs");
        String::from_utf8(output.stdout).expect("text").trim().to_owned()
    };
    assert_eq!(completed("posthaste que"), "queue");
    assert_eq!(completed("posthaste admin doc"), "doctor");
    assert_eq!(completed("posthaste queue --max-m"), "--max-message");
    // Words where words are expected, files where files are, and else neither.
    assert_eq!(completed("posthaste cache --hash tw"), "twemproxy");
    assert_eq!(completed("posthaste cache --writes o"), "owner");
    assert_eq!(completed("posthaste cache --eject o"), "on off");
    assert_eq!(completed("posthaste cache --zone Cargo.l"), "Cargo.l");
    assert_eq!(completed("posthaste cache --config Cargo.l"), "Cargo.lock");
    assert_eq!(completed("posthaste queue --accounts Cargo.l"), "Cargo.lock");
    assert_eq!(completed("posthaste queue --pop-strategy de"), "delete-retry");
    assert_eq!(completed("posthaste bench store --pop-backoff e"), "exponential");
    assert_eq!(completed("posthaste queue --priority-line reada"), "readable");
    for shell in ["zsh", "fish"] {
        assert!(said(&["completions", shell]).contains("max-message"), "{shell}");
    }
}

#[test]
fn every_command_has_its_manual_page() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let dir = dir.path().join("new");
    said(&["man", "--out", &dir.display().to_string()]);
    for (page, word) in [
        ("posthaste", "queue"),
        ("posthaste-queue", "max\\-message"),
        ("posthaste-admin-doctor", "older\\-than"),
    ] {
        let text = fs::read_to_string(dir.join(format!("{page}.1"))).expect(page);
        assert!(text.contains(".TH ") && text.contains(word), "{page}: {text}");
    }
    let pages: Vec<_> =
        fs::read_dir(&dir).expect("a directory").flatten().map(|page| page.file_name()).collect();
    assert!(!pages.iter().any(|page| page.to_string_lossy().contains("help")), "{pages:?}");
    let backup = said(&["man", "admin", "backup"]);
    assert!(backup.contains("\n.SH EXAMPLES\n.nf\n  posthaste admin backup "), "as they are: {backup}");
    assert!(said(&["man", "queue"]).contains("POSTHASTE_QUEUE_LISTEN"));
    assert!(said(&["man", "bench", "queue"]).contains("twelve\\-step"));
    let output = run(&["man", "frobnicate"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("no command frobnicate"));
}
