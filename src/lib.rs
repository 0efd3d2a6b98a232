//! The program `posthaste`: flags in, an exit code out.
//!
//! Exit codes: 0, done; 1, failed; 2, wrong usage. An error is one line on stderr.
//!
//! It is a library so that its reading of files can be tested without running it ([`files`]).

// A closed pipe or a full disk must not make us panic, as print! would: see stdout.rs, and stderr.rs of the load generator.
#![warn(clippy::print_stdout, clippy::print_stderr)]

mod admin;
mod bench;
mod cache;
mod config;
mod environment;
pub mod files;
mod flags;
mod import;
mod lab;
mod logging;
mod migrate;
mod open_files;
mod placed;
mod pools;
mod precedence;
mod queue;
mod reference;
mod requested;
mod resp;
mod secret_file;
mod secrets;
mod signals;
mod stdout;
mod tier;
mod web;

use std::error::Error;
use std::process::ExitCode;

use posthaste_load::LoadError;
use posthaste_load::stderr::complain;

use config::Misuse;
use flags::{Admin, Bench, Program};

/// Does what the command line asks for.
#[must_use]
pub fn main() -> ExitCode {
    secrets::hide();
    let args: Vec<_> = std::env::args_os().collect();
    let program = match config::program(args.clone()) {
        Ok(program) => program,
        Err(refusal) => return refusal.report(),
    };
    if matches!(program, Program::Bench(_) | Program::Admin(_) | Program::Migrate(_)) {
        let tell = |text: &str| complain(format_args!("posthaste: {text}"));
        environment::report_unknown(&config::commands(), &args, tell);
    }
    let result = match program {
        Program::Queue(flags) => queue::run(&flags),
        Program::Cache(flags) => cache::run(&flags),
        Program::Bench(Bench::Queue(flags)) => bench::run(*flags),
        Program::Bench(Bench::Cache(flags)) => bench::run_cache(*flags),
        Program::Bench(Bench::Merge(flags)) => bench::merge(&flags),
        Program::Bench(Bench::Store(flags)) => bench::run_store(&flags),
        Program::Admin(Admin { command }) => admin::run(&command),
        Program::Migrate(flags) => migrate::run(&flags),
        Program::Lab(flags) => lab::run(&flags),
        Program::Completions(flags) => reference::completions(&flags),
        Program::Man(flags) => reference::man(&flags),
        Program::Reference(flags) => reference::run(&flags),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let origin = environment::origin_of_failure(&config::commands(), &args, &error.to_string());
            if logging::is_json() {
                tracing::error!("{origin}{error}");
            } else {
                complain(format_args!("posthaste: {origin}{error}"));
            }
            exit_code(error.as_ref())
        }
    }
}

/// Returns 2 for wrong usage, 1 for any other failure.
fn exit_code(error: &(dyn Error + 'static)) -> ExitCode {
    let misused = error.is::<Misuse>() || error.downcast_ref().is_some_and(LoadError::is_usage);
    ExitCode::from(if misused { 2 } else { 1 })
}
