//! Any bytes as the records of two load generators: a report, or an error in one line. The files of a record, and the
//! two records, are parted by a byte that none of them needs; the last is a log of histograms, of which a line that
//! begins with `~` is packed as the log wants it.

#![no_main]

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::ZlibEncoder;
use libfuzzer_sys::fuzz_target;
use posthaste_load::merge::merge;

/// Longer records are slow and show nothing that shorter ones do not.
const BYTES: usize = 8192;

const FILES: [&str; 4] = ["run.json", "summary.json", "windows.csv", "latency.hlog"];
const BETWEEN: u8 = 0xff;

/// How a compressed histogram begins.
const COMPRESSED: u32 = 0x1c84_9314;

fuzz_target!(|data: &[u8]| {
    let directory = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    let mut parts = data[..data.len().min(BYTES)].split(|byte| *byte == BETWEEN);
    let records = ["a", "b"].map(|name| directory.path().join(name));
    for record in &records {
        write(record, &FILES.map(|_| parts.next().unwrap_or_default()));
    }
    for together in [&records[..1], &records[..]] {
        match merge(together) {
            Ok(merged) => {
                assert!(!merged.to_string().is_empty());
                serde_json::to_string(&merged).expect("a report is JSON");
            }
            Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
        }
    }
});

fn write(record: &Path, files: &[&[u8]; 4]) {
    fs::create_dir(record).expect("a directory");
    for (name, bytes) in FILES.iter().zip(files) {
        let bytes = if *name == "latency.hlog" { log(bytes) } else { bytes.to_vec() };
        fs::write(record.join(name), bytes).expect("a file");
    }
}

fn log(bytes: &[u8]) -> Vec<u8> {
    let mut log = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_prefix(b"~") {
            None => log.extend_from_slice(line),
            Some(plain) => {
                let mut packed = ZlibEncoder::new(Vec::new(), Compression::fast());
                packed.write_all(plain).expect("memory takes it");
                let packed = packed.finish().expect("memory takes it");
                let length = u32::try_from(packed.len()).expect("it is short").to_be_bytes();
                let mut text = String::from("Tag=pop/response,1.000,1.000,1.0,");
                let histogram = STANDARD.encode([&COMPRESSED.to_be_bytes()[..], &length, &packed].concat());
                writeln!(text, "{histogram}").expect("memory takes it");
                log.extend_from_slice(text.as_bytes());
            }
        }
    }
    log
}
