//! Tables of measured costs, and what each gives of a profile.
//!
//! ```text
//! file ─► sheet (names, lines, cells) ─► vidur | llmservingsim | steps ─► parts of a profile, each with where it comes from
//!         JSON                        ─► bench_forward ─► steps
//! ```

pub mod bench_forward;
pub mod composed;
pub mod grids;
pub mod llmservingsim;
pub mod sheet;
pub mod soundness;
pub mod steps;
pub mod vidur;
pub mod whole_steps;

use calibrate::profile::{Attention, Curve, Group};

use super::measured_step::MeasuredStep;
use super::{FitError, Source};
use sheet::Sheet;
use vidur::{AttentionTimes, Linear, TableShape};

/// The kinds of tables, by who makes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableKind {
    /// Vidur's and Frontier's profiler.
    Vidur,
    /// LLMServingSim's kernel tables.
    LlmServingSim,
    /// `vllm bench forward`.
    BenchForward,
    /// Measured steps of one's own: mode, rows, requests, context, milliseconds.
    Steps,
}

impl TableKind {
    /// Every kind.
    pub const ALL: [Self; 4] = [Self::Vidur, Self::LlmServingSim, Self::BenchForward, Self::Steps];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Vidur => "vidur",
            Self::LlmServingSim => "llmservingsim",
            Self::BenchForward => "vllm-bench-forward",
            Self::Steps => "steps",
        }
    }

    /// What its files look like.
    #[must_use]
    pub fn looks(self) -> &'static str {
        match self {
            Self::Vidur => {
                "mlp.csv, linear_op.csv or attention.csv of Vidur or Frontier (num_tokens or prefill_chunk_size, \
                 time_stats.attn_pre_proj.median, ...)"
            }
            Self::LlmServingSim => {
                "kernel tables of LLMServingSim (layer,tokens,time_us or layer,sequences,time_us or \
                 prefill_chunk,kv_prefill,n_decode,kv_decode,time_us)"
            }
            Self::BenchForward => {
                "the JSON of `vllm bench forward` ([{\"case\": ..., \"requests\": ..., \"ranks\": ...}])"
            }
            Self::Steps => "measured steps as CSV (mode,rows,requests,context,milliseconds)",
        }
    }
}

/// One table as it was read.
#[derive(Clone, Debug)]
pub enum Table {
    /// Linear and elementwise operations.
    Linear(Linear),
    /// Attention.
    Attention(AttentionTimes),
    /// Kernels of one kind, as LLMServingSim's profiler has them.
    Kernels(KernelKind, Sheet),
    /// Whole steps.
    Steps(Vec<MeasuredStep>),
}

impl Table {
    /// Reads a file of a kind, or of the kind that it looks like. `ranks` is the number of tensor-parallel ranks to read where
    /// a table holds several.
    ///
    /// # Errors
    /// It is of no kind that is known, or not as that kind should be.
    pub fn read(source: &Source, kind: Option<TableKind>, ranks: Option<u32>) -> Result<Self, FitError> {
        let text = source.text.trim_start_matches('\u{feff}').trim_start();
        if text.is_empty() {
            return Err(FitError::file(&source.file, "an empty file", "give the table whole"));
        }
        if kind == Some(TableKind::BenchForward) || (kind.is_none() && text.starts_with(['[', '{'])) {
            return bench_forward::read(source).map(Self::Steps);
        }
        let sheet = Sheet::read(source)?;
        let is = |asked| kind.is_none_or(|kind| kind == asked);
        if is(TableKind::Vidur) && vidur::is_linear(&sheet) {
            return vidur::linear(&sheet, ranks).map(Self::Linear);
        }
        if is(TableKind::Vidur) && vidur::is_attention(&sheet) {
            return vidur::attention(&sheet, ranks).map(Self::Attention);
        }
        if is(TableKind::LlmServingSim)
            && let Some(kernels) = KernelKind::of(&sheet)
        {
            return Ok(Self::Kernels(kernels, sheet));
        }
        if is(TableKind::Steps) && (kind.is_some() || steps::is_steps(&sheet)) {
            return steps::read(&sheet).map(Self::Steps);
        }
        Err(Self::foreign(source, kind))
    }

    fn foreign(source: &Source, kind: Option<TableKind>) -> FitError {
        let first = source.text.trim_start_matches('\u{feff}').lines().next().unwrap_or_default();
        let first = sheet::shown(first);
        match kind {
            Some(kind) => FitError::line(
                &source.file,
                1,
                format!("the columns are not those of --from {}: {first}", kind.name()),
                format!("expected {}", kind.looks()),
            ),
            None => FitError::line(
                &source.file,
                1,
                format!("no table of a known kind begins with {first}"),
                format!("known are: {}", TableKind::ALL.map(TableKind::looks).join("; ")),
            ),
        }
    }

    /// What it says of the model.
    #[must_use]
    pub fn shape(&self) -> Option<&TableShape> {
        match self {
            Self::Linear(linear) => Some(&linear.shape),
            Self::Attention(attention) => Some(&attention.shape),
            Self::Kernels(..) | Self::Steps(_) => None,
        }
    }

    /// Tensor-parallel ranks of which it has the times of one, where it says.
    #[must_use]
    pub fn ranks(&self) -> Option<u32> {
        match self {
            Self::Linear(linear) => Some(linear.ranks),
            Self::Attention(attention) => Some(attention.ranks),
            Self::Kernels(..) | Self::Steps(_) => None,
        }
    }
}

/// Which kernels a table of LLMServingSim has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KernelKind {
    /// Everything but attention and head.
    Dense,
    /// LM head and sampler.
    Head,
    /// Attention, prefills and decodes in one kernel among it.
    Attention,
}

impl KernelKind {
    fn of(sheet: &Sheet) -> Option<Self> {
        if llmservingsim::is_dense(sheet) {
            return Some(Self::Dense);
        }
        if llmservingsim::is_head(sheet) {
            return Some(Self::Head);
        }
        llmservingsim::is_attention(sheet).then_some(Self::Attention)
    }

    /// In words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Dense => "kernels of a layer by tokens",
            Self::Head => "LM head and sampler by sequences",
            Self::Attention => "attention of decodes, prefills and both at once",
        }
    }
}

/// What tables give of a profile. What is `None` no table gave.
#[derive(Clone, Debug, Default)]
pub struct Parts {
    /// Everything but attention and head.
    pub dense: Option<Group<Curve>>,
    /// LM head and sampler.
    pub head: Option<Group<Curve>>,
    /// Attention.
    pub attention: Option<Group<Attention>>,
    /// What launching an operation alone costs at most.
    pub launch_gap: Option<LaunchGap>,
    /// Whether the parts were made of whole steps, whose host time is inside.
    pub of_whole_steps: bool,
    /// What no device is likely to have.
    pub doubts: Vec<String>,
}

/// How much longer an operation takes that is launched alone and timed with events than its kernel.
///
/// The time of the events is inside, so it is an upper bound of the gap between two launches (profile-data specification,
/// "Launch tax"), and no step is priced with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LaunchGap {
    /// Microseconds per operation: the median over the sizes that both tables have.
    pub us_per_operation: f64,
    /// The least and the most of them.
    pub range_us: [f64; 2],
    /// Sizes that both tables have.
    pub sizes: u32,
}
