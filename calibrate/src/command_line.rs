//! The command line of `calibrate`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use kernels::geometry::PRESETS;
use kernels::units::Bytes;

use crate::completions::Shell;
use crate::device_name::DeviceName;
use crate::plan::{Ladder, LadderEngine};
use crate::served_model::DEFAULT_MODEL;

/// Measures what a step, a launch, a replay and a capture cost on one machine, and reads, checks and shows the profiles
/// made of that.
#[derive(Debug, Parser)]
#[command(
    name = "calibrate",
    version,
    args_conflicts_with_subcommands = true,
    max_term_width = 100,
    after_help = "\
Examples:
  calibrate list
  calibrate show a100-llama-3-8b
  calibrate show --toml a100-llama-3-8b > mine.toml     a start for your own
  calibrate check mine.toml
  calibrate report mine.toml                            step time over rows, and what it rests on
  calibrate diff monday.toml tuesday.toml               what differs, and is it more than noise?
  calibrate --list                                      the GPUs of this machine
  calibrate --device 0                                  measure: a few minutes, one profile
  calibrate --device 0 --quick --model qwen3-8b         measure roughly, in under a minute
  calibrate --device 0 --model ./config.json --tp-shard 4 --ladder 1,2,4,8,16 --modes full
  calibrate --device 0 --resume                         go on where it was ended
  calibrate --self-check --device 0                     does everything work there?
  calibrate --probe-rules --device 0                    does the driver keep its own rules?
  calibrate probe launch                                one thing alone, on a small model
  calibrate replay results/steps.jsonl                  recorded steps, predicted and measured

Exit codes:
  0  everything asked for was done
  1  an unexpected failure, for instance of writing output, a check of --self-check that failed,
     or a driver that differs from the rules of --probe-rules
  2  wrong use of the command line
  3  a bad profile, or a model that cannot be measured
  4  no usable GPU, or a build that cannot measure
  6  too noisy to measure, or the GPU is busy: somebody else holds it, or its memory
130  interrupted: what was measured is kept, --resume goes on"
)]
pub(crate) struct CommandLine {
    #[command(flatten)]
    pub(crate) gpu: GpuOptions,
    #[command(subcommand)]
    pub(crate) action: Option<Action>,
}

/// What is asked of a GPU.
#[derive(Debug, Default, Args)]
pub(crate) struct GpuOptions {
    /// The GPU: an index as CUDA counts, a UUID, the UUID of a MIG instance, or a PCI address. Without another task:
    /// measure it, and write a profile.
    #[arg(long, value_name = "GPU", conflicts_with = "list", allow_negative_numbers = true)]
    pub(crate) device: Option<DeviceName>,
    /// List the GPUs of this machine, by CUDA's index and by that of nvidia-smi.
    #[arg(long, group = "task")]
    pub(crate) list: bool,
    /// Check driver, kernels, graphs and matrix products on the GPU against references, and measure nothing.
    #[arg(long, group = "task")]
    pub(crate) self_check: bool,
    /// Try on the driver, in child processes, the rules that the tests' driver double follows. Only those that return an
    /// error code, unless `faulting` allows those that wreck a context too.
    #[arg(long, group = "task", value_name = "RULES", num_args = 0..=1, require_equals = true, default_missing_value = "returning")]
    pub(crate) probe_rules: Option<ProbedRules>,
    /// The profile's file (default: named after device and model; a file that is there is kept beside it, numbered; results
    /// of an unfinished run lie in FILE.partial, and are replaced without `--resume`); with
    /// `--probe-rules` a file for what it finds, as TOML.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["list", "self_check"])]
    pub(crate) out: Option<PathBuf>,
    /// Compile the kernels for this GPU with NVRTC instead of taking the embedded PTX; PATH is the library or its folder.
    #[arg(long, value_name = "PATH", num_args = 0..=1, require_equals = true, conflicts_with = "list")]
    #[expect(clippy::option_option, reason = "absent, without a path, with a path: as it is typed")]
    pub(crate) nvrtc: Option<Option<PathBuf>>,
    #[command(flatten)]
    pub(crate) measuring: MeasuringOptions,
}

/// What is measured, and for how long.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Measuring")]
#[expect(clippy::struct_excessive_bools, reason = "switches, as they are typed")]
pub(crate) struct MeasuringOptions {
    /// The model whose shapes are measured.
    #[arg(long, value_name = "NAME|FILE", default_value = DEFAULT_MODEL, conflicts_with = "task", requires = "device", help = model_help("The model whose shapes are measured"))]
    pub(crate) model: String,
    /// Measure the shapes of a model that the kernels do not compute (quantized, experts, sliding window, MLA) as those of a
    /// dense bf16 model; its figures count as declared.
    #[arg(long, conflicts_with = "task", requires = "device")]
    pub(crate) shapes_only: bool,
    /// Measure one of N tensor-parallel ranks. What ranks tell each other is not measured.
    #[arg(
        long,
        value_name = "N",
        value_parser = whole(1, 1024),
        allow_negative_numbers = true,
        conflicts_with = "task",
        requires = "device"
    )]
    pub(crate) tp_shard: Option<u32>,
    /// The engine whose ladder is captured and whose planning figures stand beside what is measured.
    #[arg(long, value_enum, default_value_t, conflicts_with = "task", requires = "device")]
    pub(crate) engine: LadderEngine,
    /// Captured sizes, separated by commas (default: the engine's own).
    #[arg(long, value_name = "ROWS,...", allow_hyphen_values = true, conflicts_with = "task", requires = "device")]
    pub(crate) ladder: Option<Ladder>,
    /// Modes of capture.
    #[arg(
        long,
        value_enum,
        value_name = "MODE,...",
        value_delimiter = ',',
        default_value = "full,piecewise",
        conflicts_with = "task",
        requires = "device"
    )]
    pub(crate) modes: Vec<CapturedMode>,
    /// Fewer points and rounds: under a minute instead of a few.
    #[arg(long, conflicts_with = "task", requires = "device")]
    pub(crate) quick: bool,
    /// Time at most, counted from the start of the run; a run may take up to a tenth more. Only what must be done anyway (weights, captures,
    /// six rounds of every timing) may take longer, and the run then says so [default: 3m, with --quick 40s].
    #[arg(
        long,
        value_name = "TIME",
        value_parser = time_limit,
        allow_hyphen_values = true,
        conflicts_with = "task",
        requires = "device"
    )]
    pub(crate) time_limit: Option<Duration>,
    /// GPU memory at most. Layers share weights where all would not fit; the profile says so.
    #[arg(long, value_name = "BYTES", allow_hyphen_values = true, conflicts_with = "task", requires = "device")]
    pub(crate) memory_limit: Option<Bytes>,
    /// Go on with a calibration that was ended: what it had measured is kept, with the same options and on the same machine.
    /// It is refused where an option, the card or the host is another one, or where either is faster or slower by more than a
    /// run may change.
    #[arg(long, conflicts_with = "task", requires = "device")]
    pub(crate) resume: bool,
    /// Do not say how far it is.
    #[arg(long, conflicts_with = "task", requires = "device")]
    pub(crate) no_progress: bool,
}

/// A mode of capture, as it is typed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CapturedMode {
    /// The whole step in one graph.
    Full,
    /// A graph for each piece between attentions.
    Piecewise,
}

/// What `--model` takes; the presets are named here, for nothing else lists them.
fn model_help(what: &str) -> String {
    let presets = PRESETS.join(", ");
    format!("{what}: a preset ({presets}), or the path of a Hugging Face config.json (Llama, Mistral, Qwen2, Qwen3)")
}

/// A whole number within these ends.
fn whole(least: u32, most: u32) -> impl Fn(&str) -> Result<u32, String> + Clone + Send + Sync + 'static {
    move |text| match text.trim().parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("expected a whole number from {least} to {most}")),
    }
}

/// A duration that something can be measured in.
fn time_limit(text: &str) -> Result<Duration, String> {
    let (least, most) = (Duration::from_secs(1), Duration::from_hours(24));
    match humantime::parse_duration(text.trim()) {
        Ok(limit) if (least..=most).contains(&limit) => Ok(limit),
        Ok(_) => Err("expected 1s to 24h".to_owned()),
        Err(_) => Err("expected a number with a unit, for instance 90s or 5m".to_owned()),
    }
}

impl GpuOptions {
    /// Whether there is anything to do.
    pub(crate) fn asks_something(&self) -> bool {
        self.list || self.self_check || self.probe_rules.is_some() || self.device.is_some()
    }
}

/// Which rules `--probe-rules` tries.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProbedRules {
    /// Those whose breach returns an error code.
    Returning,
    /// All: memory faults and garbage handles too. Refused beside other processes, under MPS and on a vGPU.
    Faulting,
}

/// A command with a name.
#[derive(Debug, Subcommand)]
pub(crate) enum Action {
    #[command(flatten)]
    Profiles(ProfileAction),
    /// What `--probe-rules` runs in its children: performs one misuse, and may die of it.
    #[cfg(feature = "gpu")]
    #[command(name = crate::rule_probe::COMMAND, hide = true)]
    PerformMisuse {
        /// Its name in the rule table.
        name: String,
        /// The device, as CUDA counts.
        device: u32,
    },
    /// Run the steps of a recorded run on a GPU, and compare what they take with what was predicted for them.
    #[cfg(feature = "gpu")]
    Replay(ReplayOptions),
    /// Run one probe of a calibration alone, on a small model, and print what it finds as TOML.
    #[cfg(feature = "gpu")]
    Probe(ProbeOptions),
    /// Print a script that completes commands and options in a shell.
    #[command(after_help = "\
Examples:
  calibrate completions bash > ~/.local/share/bash-completion/completions/calibrate
  calibrate completions zsh > ~/.zfunc/_calibrate       a folder of $fpath
  calibrate completions fish > ~/.config/fish/completions/calibrate.fish

Takes effect in the next shell.")]
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Write manual pages, one for `calibrate` and one for each of its commands.
    #[command(after_help = "\
Examples:
  calibrate manual --out ~/.local/share/man/man1
      `man calibrate` finds them there.")]
    Manual {
        /// The folder; it is made where it is missing, and pages of the same name are replaced.
        #[arg(long, value_name = "DIR")]
        out: PathBuf,
    },
}

/// What a replay is asked for.
#[cfg(feature = "gpu")]
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  sim run scenarios/chunked.toml --profile mine.toml --out results --steps
  calibrate replay results/steps.jsonl --device 0
      Graphs are replayed and steps without one are launched, with the requests that each step had.")]
pub(crate) struct ReplayOptions {
    /// The steps.jsonl that `sim run --steps --out DIR` wrote.
    pub(crate) steps: PathBuf,
    /// The GPU, as for measuring [default: the first].
    #[arg(long, value_name = "GPU", allow_negative_numbers = true)]
    pub(crate) device: Option<DeviceName>,
    /// The model that the steps were priced for.
    #[arg(
        long,
        value_name = "NAME|FILE",
        default_value = DEFAULT_MODEL,
        help = model_help("The model that the steps were priced for")
    )]
    pub(crate) model: String,
    /// One of N tensor-parallel ranks.
    #[arg(long, value_name = "N", value_parser = whole(1, 1024), allow_negative_numbers = true)]
    pub(crate) tp_shard: Option<u32>,
    /// Run about so many different shapes at most: of more, a sample that stands for all steps.
    #[arg(
        long,
        value_name = "SHAPES",
        default_value_t = 200,
        value_parser = whole(1, 100_000),
        allow_negative_numbers = true
    )]
    pub(crate) limit: u32,
    /// Time at most for the timings. What is before them comes on top: loading the model, capturing a graph for each
    /// descriptor of the sample.
    #[arg(long, value_name = "TIME", value_parser = time_limit, allow_hyphen_values = true, default_value = "60s")]
    pub(crate) time_limit: Duration,
    /// How the answer is written.
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: ReplayFormat,
    /// Write the JSON document to a file too.
    #[arg(long, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
}

/// How a replay is written.
#[cfg(feature = "gpu")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReplayFormat {
    /// Tables for people.
    #[default]
    Text,
    /// One JSON document, with every shape.
    Json,
}

/// What one probe is asked for.
#[cfg(feature = "gpu")]
#[derive(Debug, Args)]
#[command(after_help = "\
Each figure is a value with its 95 % interval (low, high) and its samples; `campaigns` says how it was timed. \
What disturbed it goes to stderr, and the exit code is 6 then. It is no part of a profile: the model is small, \
with Llama's shape.")]
pub(crate) struct ProbeOptions {
    /// What is measured.
    pub(crate) probe: ProbeName,
    /// The GPU, as for measuring [default: the first].
    #[arg(long, value_name = "GPU", allow_negative_numbers = true)]
    pub(crate) device: Option<DeviceName>,
    /// Fewer sizes and rounds.
    #[arg(long)]
    pub(crate) quick: bool,
    /// Decides the order of the timings.
    #[arg(long, default_value_t = 0, value_parser = whole(0, u32::MAX), allow_negative_numbers = true)]
    pub(crate) seed: u32,
    /// Layers of the model.
    #[arg(long, default_value_t = 4, value_parser = whole(1, 128), allow_negative_numbers = true)]
    pub(crate) layers: u32,
}

/// A probe by its name.
#[cfg(feature = "gpu")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ProbeName {
    /// Launches of empty kernels, and graphs of them.
    Launch,
    /// Copies within the device.
    Bandwidth,
    /// Captures and replays of each size, FULL and PIECEWISE.
    Rungs,
    /// Device memory of executable graphs.
    Executables,
    /// Executables that are switched from one size to another.
    Update,
    /// Everything but attention and head, over captured rows.
    Dense,
    /// Decode attention over requests and context.
    Decode,
    /// Prefill attention over chunk and context.
    Prefill,
    /// LM head over sequences.
    Head,
}

/// What is asked of profiles.
#[derive(Debug, Subcommand)]
pub(crate) enum ProfileAction {
    /// Show a profile: each group of figures, where it comes from and where it holds.
    Show {
        /// A profile file, or the name of a built-in profile (see `calibrate list`).
        profile: OsString,
        /// Print the profile as a file instead, as a start for one's own.
        #[arg(long)]
        toml: bool,
    },
    /// Check a profile, and say nothing but ok if it is one.
    Check {
        /// A profile file, or the name of a built-in profile.
        profile: OsString,
    },
    /// Compare two profiles: what they are about, and every figure that differs, with whether its 95 % intervals overlap.
    #[command(after_help = "\
The last line counts the figures, knots of tables among them, whose intervals do not overlap. Exit codes: 0 both were \
compared, whether they differ or not; 2 wrong use; 3 a profile that cannot be read.")]
    Diff {
        /// A profile file, or the name of a built-in profile.
        a: OsString,
        /// The other one.
        b: OsString,
    },
    /// Report a profile in 80 columns: step time over rows with rungs and tile edges, launches and replays, memory,
    /// attention, precision, warnings.
    Report {
        /// A profile file, or the name of a built-in profile.
        profile: OsString,
    },
    /// List the built-in profiles.
    List,
}
