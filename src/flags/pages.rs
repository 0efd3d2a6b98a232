//! Flags of the commands whose output is generated from all other flags: completions, manual pages, the reference.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

/// `posthaste completions`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste completions bash > /etc/bash_completion.d/posthaste
  posthaste completions zsh > /usr/local/share/zsh/site-functions/_posthaste
  posthaste completions fish > ~/.config/fish/completions/posthaste.fish")]
pub(crate) struct CompletionsFlags {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

/// `posthaste man`
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  posthaste man queue | man -l -
  posthaste man --out /usr/local/share/man/man1")]
pub(crate) struct ManFlags {
    /// The command the page is about, for example bench queue [default: the program]
    #[arg(value_name = "COMMAND", conflicts_with = "out")]
    pub(crate) command: Vec<String>,
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
}

/// `posthaste reference`
#[derive(Args, Debug)]
#[command(after_help = "Example:
  posthaste reference config > posthaste.toml")]
pub(crate) struct ReferenceFlags {
    /// What about
    pub(crate) topic: Topic,
}

/// What `posthaste reference` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Topic {
    /// Every option of every command
    Options,
    /// Every metric of both tiers
    Metrics,
    /// A configuration file with every option and its default
    Config,
}
