//! Every parser, fed with whatever a fuzzer makes up. `run.sh` builds this and runs it; `RUNGWISE_FUZZ` names the target.
//!
//! A target holds if nothing panics, nothing hangs, memory stays bounded, and what is refused is refused as bad input.

#![no_main]

mod command;
mod files;
mod target;

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use target::Target;

static TARGET: OnceLock<Target> = OnceLock::new();

fuzz_target!(
    init: {
        let name = std::env::var("RUNGWISE_FUZZ").unwrap_or_default();
        let target = Target::named(&name);
        let names: Vec<&str> = Target::ALL.iter().map(|target| target.name).collect();
        let target = target.unwrap_or_else(|| panic!("RUNGWISE_FUZZ is {name:?}, expected one of {names:?}"));
        TARGET.set(target).expect("set once");
    },
    |data: &[u8]| (TARGET.get().expect("set before").feed)(data)
);
