//! Flags of `posthaste lab`, which passes all arguments on to the laboratory.

use std::ffi::OsString;

use clap::Args;

/// `posthaste lab`
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  posthaste lab run experiments/clients.toml --quick
  posthaste lab report results/clients-quick
  posthaste lab --help"
)]
pub(crate) struct LabFlags {
    /// What the laboratory is to do: run, report, models, …; `posthaste lab --help` lists it
    #[arg(value_name = "ARGUMENTS", trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}
