//! `calibrate --probe-rules`: what the driver does where the double's rules are broken.

use std::io::Write;

use super::Failure;
use super::found::Found;
use crate::command_line::{GpuOptions, ProbedRules};
use crate::device;
use crate::driver_rules::Misuse;
use crate::exit::Exit;
use crate::rule_probe::{self, Got, Probe, ProbedOn, Verdict};

/// Performs every misuse in a child, and compares.
pub(super) fn run(rules: ProbedRules, options: &GpuOptions, out: &mut impl Write) -> Result<Exit, Failure> {
    let found = Found::look()?;
    let device = found.choose(options.device.as_ref())?;
    let state = found.state(device);
    if rules == ProbedRules::Faulting {
        rule_probe::refuse_beside_others(&state)?;
    }
    let release = state.gpu.driver.as_ref().map_or_else(|_| String::new(), |release| format!(" ({release})"));
    let on = ProbedOn {
        device: format!("{}, {}, {}", device.name, device.uuid, device.pci),
        driver: format!("CUDA {}{release}", found.library.version()),
        is_double: found.library.double_version().is_some(),
    };
    found.introduce(out)?;
    writeln!(out, "device   {device}\n")?;
    let is_tried = |misuse: &&Misuse| rules == ProbedRules::Faulting || !misuse.rule().is_faulting();
    let tried = Misuse::ALL.iter().copied().filter(|misuse| is_tried(&misuse));
    let shares_faults = rule_probe::shares_faults(&state);
    let probe = |misuse: Misuse| {
        if shares_faults && misuse.may_fault() {
            return Got::NotTried("it could fault, and MPS shares that".to_owned());
        }
        rule_probe::run(misuse, device.index)
    };
    let probes: Vec<_> = tried.map(|misuse| Probe { misuse, got: probe(misuse) }).collect();
    rule_probe::table(&probes, &on, out)?;
    if let Some(path) = &options.out {
        rule_probe::write(&probes, &on, path).map_err(|source| Failure::File { path: path.clone(), source })?;
    }
    let differs = probes.iter().any(|probe| probe.got.verdict(probe.misuse.rule()) == Verdict::Differs);
    Ok(if differs { Exit::Unexpected } else { Exit::Ok })
}

/// The hidden command of a child.
pub(super) fn perform(name: &str, index: u32, out: &mut impl Write) -> Result<Exit, Failure> {
    let Some(misuse) = Misuse::named(name) else { return Ok(Exit::Usage) };
    if misuse == Misuse::LazyLoadInCapture {
        device::load_modules_lazily();
    } else {
        device::load_modules_eagerly();
    }
    let got = rule_probe::perform_here(misuse, index);
    rule_probe::answer(&got, out)?;
    Ok(Exit::Ok)
}
