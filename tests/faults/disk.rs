//! A disk that loses its power or fills up: an ext4 of its own in a file, behind a loop device.
//!
//! The power is cut by the call with which file systems are tested by their own makers (`FS_IOC_SHUTDOWN`, without a
//! last flush of the journal). From that instant nothing more reaches the file, every write and sync fails, and what
//! only the page cache held is gone when the file system is unmounted. Mounting it again is what a machine does after
//! an outage: the journal is replayed. So cache, journal and order are those of a real kernel. What is not here is a
//! disk that lies about having synced; the simulated disk of `crates/server` tears and drops sectors besides.
//!
//! Only root may do this, and not in every container: a test that gets no disk says so and is skipped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::fs::{FallocateFlags, fallocate, statvfs};
use rustix::process::getuid;

use crate::support::patience::wait_for;

/// Takes the disk away when this program ends, however it does: the end of its input tells it.
const GUARD: &str = r#"
trap '' HUP INT TERM
cat > /dev/null
umount -l "$1/disk" 2> /dev/null
rm -rf "$1"
"#;

/// The call in question: its number, and the flag for not flushing the journal.
const CUT: &str = "import fcntl, os, struct, sys
fcntl.ioctl(os.open(sys.argv[1], os.O_RDONLY), 0x8004587D, struct.pack('I', 2))";

/// A mounted disk.
pub(crate) struct Disk {
    image: PathBuf,
    place: PathBuf,
    guard: Child,
}

impl Disk {
    /// Makes one of so many MiB; `None` where that is not allowed, and then it says so.
    ///
    /// Its file lies in memory where that has room: what is tried is above it, and real disks are slow to restart.
    pub(crate) fn of_mib(mib: u64) -> Option<Self> {
        let memory = Path::new("/dev/shm");
        let has_room = statvfs(memory).is_ok_and(|room| room.f_bavail * room.f_frsize > mib << 22);
        Self::make(if has_room { memory } else { Path::new("/tmp") }, mib)
    }

    /// One whose file lies on another: when the other loses its power, this one goes on and cannot sync any more.
    pub(crate) fn upon(other: &Self, mib: u64) -> Option<Self> {
        Self::make(&other.place, mib)
    }

    fn make(below: &Path, mib: u64) -> Option<Self> {
        if !getuid().is_root() || !Path::new("/dev/loop-control").exists() {
            println!("skipped: only root can mount a disk of its own, and only where there are loop devices");
            return None;
        }
        let dir = tempfile::Builder::new().prefix("posthaste-disk-").tempdir_in(below);
        // From here the guard removes it.
        let dir = dir.expect("a temporary directory").keep();
        let (image, place) = (dir.join("image"), dir.join("disk"));
        let mut guard = Command::new("sh");
        guard.args(["-c", GUARD, "guard"]).arg(&dir);
        let guard = guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let disk = Self { image, place, guard: guard.expect("sh can be run") };
        open_to_all(&dir);
        fs::create_dir(&disk.place).expect("a directory");
        File::create(&disk.image).and_then(|file| file.set_len(mib << 20)).expect("a file with holes");
        let made = run(Command::new("mkfs.ext4").args(["-q", "-F", "-m", "0"]).arg(&disk.image));
        if let Err(why) = made.and_then(|()| disk.mount()) {
            println!("skipped: no disk can be made here: {why}");
            return None;
        }
        open_to_all(&disk.place);
        Some(disk)
    }

    /// Where its files are.
    pub(crate) fn path(&self) -> &Path {
        &self.place
    }

    /// Writes out what the cache holds.
    pub(crate) fn sync(&self) {
        run(Command::new("sync").arg("-f").arg(&self.place)).expect("a sound disk");
    }

    /// From now on nothing reaches it, and whoever writes or syncs is told so.
    pub(crate) fn cut_power(&self) {
        run(Command::new("python3").args(["-c", CUT]).arg(&self.place)).expect("a disk without power");
    }

    /// Takes it away with all that it had not written, and brings it back. Nobody may have anything open there for long.
    pub(crate) fn restart(&self) {
        self.unmount();
        self.mount().expect("a disk that was there before");
    }

    /// Takes it away, when processes have gone that still have files open.
    #[track_caller]
    pub(crate) fn unmount(&self) {
        wait_for("the disk is taken away", || run(Command::new("umount").arg(&self.place)));
    }

    /// Brings it back; why not, in mount's words.
    pub(crate) fn mount(&self) -> Result<(), String> {
        run(Command::new("mount").args(["-o", "loop"]).arg(&self.image).arg(&self.place))
    }

    /// Fills it but for so many bytes, though others write there too.
    pub(crate) fn fill(&self, but: u64) {
        let filler = File::create(self.filler()).expect("a file");
        let (mut taken, mut piece) = (0, 64 << 20);
        while piece >= 4096 {
            let free = statvfs(&self.place).map(|room| room.f_bavail * room.f_frsize).expect("what is free");
            let more = piece.min(free.saturating_sub(but));
            if more > 0 && fallocate(&filler, FallocateFlags::empty(), taken, more).is_ok() {
                taken += more;
            } else {
                piece /= 2;
            }
        }
    }

    /// Gives back what `fill` took.
    pub(crate) fn give_room(&self) {
        fs::remove_file(self.filler()).expect("it was filled");
    }

    fn filler(&self) -> PathBuf {
        self.place.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        drop(self.guard.stdin.take());
        let _ = self.guard.wait();
    }
}

/// Lets every user make files there: PostgreSQL does not run as root.
fn open_to_all(dir: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(dir, fs::Permissions::from_mode(0o755)).expect("a directory of ours");
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.stdin(Stdio::null()).output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {said}")) }
}
