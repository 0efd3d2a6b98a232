//! What the disk does beside an embedded store: as many bytes as its log grows by, appended to a plain file.
//!
//! The file has a name, since file systems spare themselves the work for one that has none and whose end nobody will read. So it
//! must be removed, also when the run is ended by a signal.

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The file that there is now.
static UNDER_WAY: Mutex<Option<PathBuf>> = Mutex::new(None);

fn under_way() -> MutexGuard<'static, Option<PathBuf>> {
    UNDER_WAY.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the file if there is one, and keeps others from being made until the returned guard is gone: for a program that ends
/// at once.
pub(crate) fn give_up() -> impl Sized {
    let mut under_way = under_way();
    // Its user has asked for an end and not for a file.
    under_way.take().into_iter().for_each(|path| drop(fs::remove_file(path)));
    under_way
}

/// Operations per second when what a log grows by in two batches is appended to a growing file beside the store, in
/// turn, with one sync for each.
pub(crate) fn append(
    dir: &Path,
    batch: usize,
    batch_bytes: [u64; 2],
    span: Duration,
) -> Result<f64, Box<dyn Error>> {
    let path = beside(dir);
    let file = create(&path)
        .map_err(|error| format!("cannot create {} to measure the disk: {error}", path.display()))?;
    let rate = appended(file, batch, batch_bytes, span);
    let mut under_way = under_way();
    fs::remove_file(path)?;
    *under_way = None;
    Ok(rate?)
}

/// A file of that name is somebody else's.
fn create(path: &Path) -> io::Result<File> {
    let mut under_way = under_way();
    let file = File::create_new(path)?;
    *under_way = Some(path.to_owned());
    Ok(file)
}

fn beside(dir: &Path) -> PathBuf {
    // Without the slash at its end, behind which the file would be in the store.
    let mut name = dir.components().as_path().as_os_str().to_owned();
    name.push(".raw");
    name.into()
}

fn appended(mut file: File, batch: usize, batch_bytes: [u64; 2], span: Duration) -> io::Result<f64> {
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
        for file in others {
            assert_eq!(fs::read(dir.path().join(file)).expect("it is there"), b"kept");
        }
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 2);
    }
}
