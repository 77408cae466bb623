//! The `sim` binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    sim::run()
}
