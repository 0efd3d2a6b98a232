//! `posthaste lab …`: hands over to the laboratory, a Python program of its own.
//!
//! This process becomes that one, so signals and the exit code need nobody between them. The laboratory is told which
//! program to try: the one that was called.

use std::env;
use std::error::Error;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, access};

use crate::flags::LabFlags;

/// The laboratory's name.
const PROGRAM: &str = "posthaste-lab";
/// Where `make lab` puts it, seen from a checkout.
const ENVIRONMENT: &str = ".venv/bin";
/// How the laboratory is told what to try.
const TOLD: &str = "POSTHASTE";

/// Runs it. Returns only when that fails.
pub(crate) fn run(flags: &LabFlags) -> Result<(), Box<dyn Error>> {
    let this = env::current_exe()?;
    let Some(lab) = find(&this) else {
        return Err(format!(
            "{PROGRAM} is not on PATH, not beside {} and not in {ENVIRONMENT}: `make lab` in a checkout installs it",
            this.display()
        )
        .into());
    };
    let mut command = Command::new(&lab);
    command.args(&flags.arguments);
    if env::var_os(TOLD).is_none() {
        command.env(TOLD, &this);
    }
    Err(format!("cannot run {}: {}", lab.display(), command.exec()).into())
}

/// On PATH, else beside this program, else in the environment of a checkout. One that cannot be run is none, as for a shell.
fn find(this: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let beside = this.parent().map(Path::to_owned);
    let mut places = env::split_paths(&path).chain(beside).chain([PathBuf::from(ENVIRONMENT)]);
    let can_be_run = |program: &PathBuf| program.is_file() && access(program, Access::EXEC_OK).is_ok();
    places.find_map(|place| Some(place.join(PROGRAM)).filter(can_be_run))
}
