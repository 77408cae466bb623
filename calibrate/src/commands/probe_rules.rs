//! `calibrate --probe-rules`: what the driver does where the double's rules are broken.

use std::io::{self, Write};
use std::path::Path;

use kernels::units::Bytes;

use super::Failure;
use super::found::Found;
use crate::command_line::{GpuOptions, ProbedRules};
use crate::device::{self, Card};
use crate::driver_rules::Misuse;
use crate::exit::Exit;
use crate::rule_probe::{self, Got, Probe, ProbedOn, Verdict};
use crate::stderr;
use crate::whole_file::WholeFile;

/// What a child allocates at most, besides its context.
const ROOM: Bytes = Bytes(16 << 20);

/// Performs every misuse in a child, and compares.
pub(super) fn run(rules: ProbedRules, options: &GpuOptions, out: &mut impl Write) -> Result<Exit, Failure> {
    let found = Found::look()?;
    let device = found.choose(options.device.as_ref())?;
    let state = found.state(device);
    if rules == ProbedRules::Faulting {
        rule_probe::refuse_beside_others(&state)?;
    }
    let unwritable = |path: &Path, source: io::Error| Failure::File { path: path.to_path_buf(), source };
    let file = options.out.as_deref().map(|path| WholeFile::begin(path).map_err(|error| unwritable(path, error)));
    let file = file.transpose()?;
    // A device that cannot be taken, or is full, would answer every misuse with that.
    device::try_out(Card::at(found.library, device.index)?, ROOM)?;
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
    if let (Some(file), Some(path)) = (file, &options.out) {
        rule_probe::write(&probes, &on, file).map_err(|error| unwritable(path, error))?;
    }
    let verdicts: Vec<_> = probes.iter().map(|probe| probe.got.verdict(probe.misuse.rule())).collect();
    if verdicts.iter().all(|verdict| *verdict == Verdict::Unknown) {
        stderr::line(format_args!("error: no rule could be tried\n  help: the table says why, rule by rule"));
        return Ok(Exit::NoGpu);
    }
    Ok(if verdicts.contains(&Verdict::Differs) { Exit::Unexpected } else { Exit::Ok })
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
