//! Commands in this process, as the binary runs them.

use std::ffi::OsStr;
use std::io;

use calibrate::exit::Exit;
use clap::Parser;
use sim::commands::{Cli, Failure};

/// Runs `sim` with these words, and says whether it did what they ask. What it refuses must be bad input or wrong use, said in
/// a message that can be printed.
pub fn sim<S: AsRef<OsStr>>(words: &[S]) -> bool {
    let line = [OsStr::new("sim")].into_iter().chain(words.iter().map(AsRef::as_ref));
    let done = Cli::try_parse_from(line).map_err(Failure::from).and_then(|cli| cli.execute(&mut io::sink()));
    let Err(failure) = done else { return true };
    let exit = failure.report();
    assert!(matches!(exit, Exit::BadInput | Exit::Usage), "ended with {exit:?}: {failure}");
    false
}
