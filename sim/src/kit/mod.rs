//! The verification kit: what an operator runs to see whether the advice holds on the real machine.
//!
//! ```text
//! sets of options ─► flags ─► server parameters ─┐
//! scenario's traffic ─► requests ─► client ───────┴─► vllm, sglang: a script and its files ─► Kit
//! predicted figures ─► table, with an empty column beside each
//! ```
//!
//! The requests of the simulation itself are written down, arrival by arrival and token by token, wherever the engine's
//! benchmark client can replay them; what it cannot do is said. Files are held in memory: the caller writes them.

mod client;
mod requests;
mod sglang;
mod table;
mod vllm;

use thiserror::Error;

use crate::engine::error::EngineError;
use crate::engine::options::EngineOptions;
use crate::flags::{Advice, Fault, Rebuilt, Target, advise};
use crate::scenario::Scenario;
use crate::traffic::TrafficError;
use requests::Requests;

/// Runs of each set of flags on the same requests: what `vllm bench sweep` does by itself.
const RUNS: u32 = 3;

/// One set of flags to be measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Set {
    /// Its name: unique, and good enough for a folder.
    pub name: String,
    /// The server's options with the set's graph options.
    pub options: EngineOptions,
    /// Tokens of its KV pool, where they are known.
    pub kv_tokens: Option<u64>,
    /// What the simulation says about it, in the order of the table.
    pub predicted: Vec<Predicted>,
}

/// A predicted figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Predicted {
    /// Its name as in the reports: mostly the benchmark client's own key.
    pub figure: String,
    /// Its unit.
    pub unit: String,
    /// Its value, in that unit.
    pub value: f64,
}

/// A file of the kit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KitFile {
    /// Its name, without a folder.
    pub name: String,
    /// Its text.
    pub text: String,
}

/// All that is needed to measure the sets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kit {
    /// The files, to be written into one folder: `README.md` first.
    pub files: Vec<KitFile>,
    /// How to start it, in that folder.
    pub command: String,
    /// What the client cannot reproduce, one sentence each; they stand in `README.md`, too.
    pub not_reproduced: Vec<String>,
}

/// Why there is no kit.
#[derive(Debug, Error)]
pub enum KitFault {
    /// Nothing to measure.
    #[error("there is no set of flags to measure")]
    NoSets,
    /// No traffic to measure it with.
    #[error("there is no seed to draw the traffic with")]
    NoSeeds,
    /// Results of two sets would overwrite each other.
    #[error("two sets are named `{name}`: results are kept by name")]
    SameName {
        /// The name.
        name: String,
    },
    /// A name that cannot be one of a folder.
    #[error("`{name}` cannot name a folder of results: use letters, digits, blanks, and -_.+")]
    Name {
        /// The name.
        name: String,
    },
    /// The target has no benchmark client here.
    #[error("there is no kit for {target}: it is not simulated, so that nothing was predicted for it")]
    NotSimulated {
        /// The target.
        target: Target,
    },
    /// No flags can be written for a set.
    #[error("set `{name}`: {fault}")]
    Flags {
        /// The set.
        name: String,
        /// Why.
        fault: Fault,
    },
    /// The target does not start with a set.
    #[error("set `{name}`: {target} does not start with its flags: {error}")]
    Refused {
        /// The set.
        name: String,
        /// The target.
        target: Target,
        /// What it says.
        error: EngineError,
    },
    /// The traffic cannot be drawn, or has no requests.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
}

/// A set with its flags.
struct Flagged<'a> {
    set: &'a Set,
    advice: Advice,
}

/// The kit for one engine version: every set of flags under the scenario's traffic of every seed.
///
/// # Errors
/// No set, no seed, names that clash, sets of another engine or such as the target refuses, and traffic without requests.
pub fn kit(scenario: &Scenario, sets: &[Set], target: Target, seeds: &[u64]) -> Result<Kit, KitFault> {
    check_names(sets)?;
    if target == Target::TensorRtLlm {
        return Err(KitFault::NotSimulated { target });
    }
    let flagged = sets.iter().map(|set| flagged(set, target)).collect::<Result<Vec<_>, _>>()?;
    let limits = &sets[0].options;
    let requests = seeds
        .iter()
        .map(|&seed| Requests::draw(&scenario.traffic, seed, limits))
        .collect::<Result<Vec<_>, TrafficError>>()?;
    let first = requests.first().ok_or(KitFault::NoSeeds)?;
    let mut not_reproduced = client::not_reproduced(scenario, first);
    let mut files = match target {
        Target::Vllm(_) => vllm::files(scenario, &flagged, target, &requests, &mut not_reproduced),
        Target::Sglang(_) | Target::TensorRtLlm => {
            sglang::files(scenario, &flagged, target, &requests, &mut not_reproduced)
        }
    };
    files.push(KitFile { name: "results.md".to_owned(), text: table::markdown(sets, target) });
    files.push(KitFile { name: "results.csv".to_owned(), text: table::csv(sets, target) });
    let command = format!("MODEL=org/name sh {SCRIPT}");
    let text = readme(scenario, &flagged, target, &files, &not_reproduced, &command);
    files.insert(0, KitFile { name: "README.md".to_owned(), text });
    Ok(Kit { files, command, not_reproduced })
}

/// The script that runs it all.
const SCRIPT: &str = "verify.sh";

fn check_names(sets: &[Set]) -> Result<(), KitFault> {
    if sets.is_empty() {
        return Err(KitFault::NoSets);
    }
    for (index, Set { name, .. }) in sets.iter().enumerate() {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || " -_.+".contains(c);
        if name.trim().is_empty() || !name.chars().all(is_plain) {
            return Err(KitFault::Name { name: name.clone() });
        }
        if sets[..index].iter().any(|other| other.name == *name) {
            return Err(KitFault::SameName { name: name.clone() });
        }
    }
    Ok(())
}

fn flagged(set: &Set, target: Target) -> Result<Flagged<'_>, KitFault> {
    let advice = advise(&set.options, target, set.kv_tokens)
        .map_err(|fault| KitFault::Flags { name: set.name.clone(), fault })?;
    if let Rebuilt::Refused { target, error } = advice.checked {
        return Err(KitFault::Refused { name: set.name.clone(), target, error });
    }
    Ok(Flagged { set, advice })
}

/// What is in the folder, how it is run, and how far it can be trusted.
fn readme(
    scenario: &Scenario,
    sets: &[Flagged<'_>],
    target: Target,
    files: &[KitFile],
    not_reproduced: &[String],
    command: &str,
) -> String {
    let count = if sets.len() == 1 { "one set".to_owned() } else { format!("{} sets", sets.len()) };
    let mut text = vec![
        format!("# {}\n", scenario.name),
        format!("Measures {count} of flags on {target}.\n"),
        format!("```sh\n{command}\n```\n"),
        "`MODEL` is what the server loads. `SERVER_FLAGS` takes what it needs beside the flags below: quantization, a draft \
         model, a host. Then fill the empty columns of `results.md` (or `results.csv`).\n"
            .to_owned(),
        "## Flags\n".to_owned(),
    ];
    for Flagged { set, advice } in sets {
        let flags = if advice.shell.is_empty() { "(none)" } else { &advice.shell };
        text.push(format!("- {}: `{flags}`", set.name));
        text.extend(advice.environment.iter().map(|(name, value)| format!("  - environment: `{name}={value}`")));
        text.extend(
            advice.checked.differences().iter().map(|difference| format!("  - not as predicted: {difference}")),
        );
    }
    text.push("\n## Files\n".to_owned());
    text.extend(files.iter().map(|file| format!("- `{}`", file.name)));
    text.push("\n## What the client does not reproduce\n".to_owned());
    text.extend(not_reproduced.iter().map(|sentence| format!("- {sentence}")));
    lines(text.into_iter())
}

/// Lines, each with its end.
fn lines(lines: impl Iterator<Item = String>) -> String {
    lines.map(|line| line + "\n").collect()
}

#[cfg(test)]
mod tests;
