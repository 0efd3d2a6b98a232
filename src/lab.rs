//! `posthaste lab …`: becomes the laboratory, a Python program of its own.
//!
//! The process is replaced, so signals and the exit code need no forwarding. The laboratory is told which
//! program to examine: the one that was called.

use std::env;
use std::error::Error;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, access};

use crate::flags::LabFlags;

/// Name of the laboratory's program.
const PROGRAM: &str = "posthaste-lab";
/// Directory into which `make lab` puts it, relative to a checkout.
const ENVIRONMENT: &str = ".venv/bin";
/// Variable that tells the laboratory which program to examine.
const TOLD: &str = "POSTHASTE";

/// Runs the laboratory. Returns only when that fails.
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

/// Finds the laboratory on PATH, else beside this program, else in the environment of a checkout. Files that
/// cannot be executed are ignored, as by a shell.
fn find(this: &Path) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let beside = this.parent().map(Path::to_owned);
    let mut places = env::split_paths(&path).chain(beside).chain([PathBuf::from(ENVIRONMENT)]);
    let can_be_run = |program: &PathBuf| program.is_file() && access(program, Access::EXEC_OK).is_ok();
    places.find_map(|place| Some(place.join(PROGRAM)).filter(can_be_run))
}
