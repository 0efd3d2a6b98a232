//! Measures what the disk does beside an embedded store: appends as many bytes as the store's log grows by to
//! a plain file.
//!
//! The file has a name, because file systems save themselves work for a nameless file whose end nobody will
//! read. So it must be removed, also when a signal ends the run.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use posthaste_measure::lock;

/// Path of the file, while there is one.
static PATH_IN_USE: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Removes the file if there is one, and keeps another from being made until the returned guard is dropped:
/// for a program that ends at once.
pub(crate) fn remove_file() -> impl Sized {
    let mut path_in_use = lock(&PATH_IN_USE);
    // A failure is ignored: the user has asked for the end.
    path_in_use.take().into_iter().for_each(|path| drop(fs::remove_file(path)));
    path_in_use
}

/// Returns operations per second when the bytes by which a log grows in two batches are appended to a growing
/// file beside the store, in turn, with one sync for each.
pub(crate) fn append(
    dir: &Path,
    batch: usize,
    batch_bytes: [u64; 2],
    span: Duration,
) -> Result<f64, Box<dyn Error>> {
    let path = path_beside(dir);
    let file = create(&path)
        .map_err(|error| format!("cannot create {} to measure the disk: {error}", path.display()))?;
    let rate = append_in_turn(file, batch, batch_bytes, span);
    let mut path_in_use = lock(&PATH_IN_USE);
    fs::remove_file(path)?;
    *path_in_use = None;
    Ok(rate?)
}

/// Checks that the file beside a store can be created, before the store is filled.
///
/// # Errors
/// What is in the way.
pub(crate) fn has_room(dir: &Path) -> Result<(), String> {
    let path = path_beside(dir);
    match path.exists() {
        true => Err(format!("{} is in the way: remove it, or name another directory", path.display())),
        false => Ok(()),
    }
}

/// Creates the file. One of that name that exists already belongs to somebody else, and is an error.
fn create(path: &Path) -> io::Result<File> {
    let mut path_in_use = lock(&PATH_IN_USE);
    let file = File::create_new(path)?;
    *path_in_use = Some(path.to_owned());
    Ok(file)
}

fn path_beside(dir: &Path) -> PathBuf {
    // Normalized, since with a slash at its end the file would be inside the store.
    let mut name = dir.components().as_path().as_os_str().to_owned();
    name.push(".raw");
    name.into()
}

fn append_in_turn(mut file: File, batch: usize, batch_bytes: [u64; 2], span: Duration) -> io::Result<f64> {
    let batches = batch_bytes.map(|bytes| vec![b'x'; bytes as usize]);
    let start = Instant::now();
    let mut done = 0;
    loop {
        for bytes in &batches {
            file.write_all(bytes)?;
            file.sync_data()?;
            done += batch;
        }
        let elapsed = start.elapsed();
        if elapsed >= span {
            return Ok(done as f64 / elapsed.as_secs_f64());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_beside_a_store_is_nobody_else_s() {
        let dir = tempfile::tempdir().expect("a directory");
        let appended = |store: &str| append(&dir.path().join(store), 1, [10, 10], Duration::from_millis(1));
        let others = ["data.raw", "data.v2.raw"];
        for file in others {
            fs::write(dir.path().join(file), "kept").expect("a file");
        }
        appended("data.v1/").expect("its file has another name");
        let error = appended("data.v2").expect_err("its file is there");
        assert!(error.to_string().contains("data.v2.raw"), "{error}");
        assert!(
            has_room(&dir.path().join("data.v2")).is_err() && has_room(&dir.path().join("data.v1/")).is_ok()
        );
        for file in others {
            assert_eq!(fs::read(dir.path().join(file)).expect("it is there"), b"kept");
        }
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 2);
    }
}
