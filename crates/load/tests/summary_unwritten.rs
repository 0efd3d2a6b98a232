//! A program that exits at once. Alone in its file, since it removes what every run of the process has not written.

use std::fs;

use posthaste_load::SummaryFile;

#[test]
fn a_program_that_ends_at_once_leaves_no_empty_summary() {
    let dir = tempfile::tempdir().expect("a directory");
    let [new, written, earlier] = ["new", "written", "earlier"].map(|name| dir.path().join(name));
    fs::write(&earlier, "earlier").expect("written");
    let _open = [&new, &earlier].map(|path| SummaryFile::open(path).expect("it can be written"));
    SummaryFile::open(&written).and_then(|file| file.write("new")).expect("written");
    SummaryFile::remove_unwritten();
    assert!(!new.exists() && written.exists() && earlier.exists());
}
