//! What was found, as a table for people and as a file.

use std::io::{self, Write};

use serde::Serialize;

use super::{Got, Verdict};
use crate::driver_rules::{CaptureAfter, Misuse, Outcome, Source};
use crate::whole_file::WholeFile;

/// One rule and what the driver did.
#[derive(Clone, Debug)]
pub(crate) struct Probe {
    pub(crate) misuse: Misuse,
    pub(crate) got: Got,
}

/// What was asked.
#[derive(Clone, Debug)]
pub(crate) struct ProbedOn {
    /// Name and place of the device.
    pub(crate) device: String,
    /// CUDA version of the driver, and its release where NVML tells.
    pub(crate) driver: String,
    /// Whether that was the tests' double.
    pub(crate) is_double: bool,
}

/// Writes a line for each rule, and a sentence.
///
/// # Errors
/// `out` cannot be written.
pub(crate) fn table(probes: &[Probe], on: &ProbedOn, out: &mut impl Write) -> io::Result<()> {
    let width = probes.iter().map(|probe| probe.misuse.rule().name.len()).max().unwrap_or(0);
    writeln!(out, "{:<width$}  {:<28}  {:<28}  agrees", "rule", "expected", "got")?;
    for Probe { misuse, got } in probes {
        let rule = misuse.rule();
        let verdict = match got.verdict(rule) {
            Verdict::Agrees => "yes",
            Verdict::Differs => "NO",
            Verdict::Unknown => "?",
        };
        writeln!(out, "{:<width$}  {:<28}  {:<28}  {verdict}", rule.name, expected(*misuse), shown(got))?;
    }
    let count = |verdict| probes.iter().filter(|probe| probe.got.verdict(probe.misuse.rule()) == verdict).count();
    let (agree, differ, unknown) = (count(Verdict::Agrees), count(Verdict::Differs), count(Verdict::Unknown));
    writeln!(out, "\n{} rules: {agree} agree, {differ} differ, {unknown} not tried", probes.len())?;
    for Probe { misuse, got } in probes {
        if got.verdict(misuse.rule()) == Verdict::Differs {
            let rule = misuse.rule();
            writeln!(out, "  {}: {}; expected by {}", rule.name, rule.misuse, source(rule.source))?;
        }
    }
    if on.is_double {
        writeln!(out, "nothing is confirmed: this was the tests' driver double")?;
    }
    Ok(())
}

fn expected(misuse: Misuse) -> String {
    let rule = misuse.rule();
    match rule.outcome {
        Outcome::Returns(status) => returned(status, rule.capture, rule.context_survives),
        Outcome::Crashes => "crash".to_owned(),
    }
}

fn shown(got: &Got) -> String {
    match got {
        Got::Returned { status, capture, context_survives } => returned(*status, *capture, *context_survives),
        Got::Crashed { signal } => format!("crash, signal {signal}"),
        Got::TimedOut => "no return".to_owned(),
        Got::NotTried(why) => why.clone(),
    }
}

fn returned(status: u32, capture: CaptureAfter, context_survives: bool) -> String {
    let capture = match capture {
        CaptureAfter::None => "",
        CaptureAfter::Intact => ", capture goes on",
        CaptureAfter::Invalidated => ", capture invalid",
    };
    format!("{status}{capture}{}", if context_survives { "" } else { ", context lost" })
}

#[derive(Serialize)]
struct File<'a> {
    schema: u32,
    device: &'a str,
    driver: &'a str,
    double: bool,
    rule: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    name: &'static str,
    misuse: &'static str,
    source: String,
    expected: Vec<String>,
    got: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    agrees: Option<bool>,
}

/// Writes the file: TOML, a table for each rule.
///
/// # Errors
/// It cannot be written.
pub(crate) fn write(probes: &[Probe], on: &ProbedOn, into: WholeFile) -> io::Result<()> {
    let rule = probes.iter().map(row).collect();
    let file = File { schema: 1, device: &on.device, driver: &on.driver, double: on.is_double, rule };
    into.finish(&toml::to_string(&file).map_err(io::Error::other)?)
}

fn source(source: Source) -> String {
    match source {
        Source::Documentation(page) => format!("documentation: {page}"),
        Source::Issue(issue) => format!("issue: {issue}"),
        Source::Memory => "memory".to_owned(),
    }
}

fn row(Probe { misuse, got }: &Probe) -> Row {
    let rule = misuse.rule();
    let parts = |text: String| text.split(", ").map(str::to_owned).collect();
    let agrees = match got.verdict(rule) {
        Verdict::Agrees => Some(true),
        Verdict::Differs => Some(false),
        Verdict::Unknown => None,
    };
    Row {
        name: rule.name,
        misuse: rule.misuse,
        source: source(rule.source),
        expected: parts(expected(*misuse)),
        got: parts(shown(got)),
        agrees,
    }
}
