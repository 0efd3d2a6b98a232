//! The binary: calls `posthaste::main`.

use std::process::ExitCode;

fn main() -> ExitCode {
    posthaste::main()
}
