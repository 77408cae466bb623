//! The records of Rungwise's results and the writers that show them.
//!
//! A command fills one of eight reports ([`RunReport`], [`PriceReport`], [`LadderReport`], [`StartupReport`],
//! A command fills one of nine reports ([`RunReport`], [`PriceReport`], [`LadderReport`], [`StartupReport`],
//! [`ExplainReport`], [`SweepReport`], [`ProposeReport`], [`FitReport`], [`ValidateReport`]) and hands it to a writer; long
//! runs also stream a [`StepRecord`] per step and a [`RequestRecord`] per request. Field names are the public names of the
//! JSON, JSONL and CSV output:
//! `SCHEMA.md` of this crate lists every one.
//!
//! ```text
//! RunReport ─┬─► text::run      tables, candidates side by side
//!            ├─► json::write    pretty JSON, keys in the order of the fields
//!            └─► rows::run      CSV, one row a candidate
//! StepRecord ──► StepLog        steps.jsonl        RequestRecord ──► RequestLog   requests.csv
//! ```
//!
//! The crate knows none of the simulator's types: records hold strings, numbers and options, so that a report written
//! by one version can be read and shown by another. Writers return the I/O error of the sink unchanged, so a caller
//! can tell a closed pipe from a full disk; [`AtomicFile`] is for results that must appear whole or not at all.

mod atomic;
mod compare;
mod cost;
mod descriptor;
mod engine;
mod explain;
mod figure;
mod figures;
mod fit;
#[cfg(feature = "frames")]
pub mod frames;
mod history;
mod import;
pub mod json;
mod ladder;
mod log;
#[cfg(feature = "pages")]
pub mod page;
mod pairs;
mod price;
mod profile;
mod propose;
mod requests;
pub mod rows;
mod run;
mod seeds;
mod startup;
mod steps;
mod sweep;
pub mod text;
pub mod trace;
mod validate;

mod warning;

pub use atomic::{AtomicFile, OutputError, remove_unfinished};
pub use compare::{
    CompareError, ComparedFigure, ComparedPair, ComparedRun, ComparisonReport, FiguresError, Limit, RunBySeed,
    SeedFigures, Threshold, ThresholdError, ThresholdReport,
};
pub use cost::CostTerms;
pub use descriptor::DescriptorRecord;
pub use engine::EngineReport;
pub use explain::{Alternative, Choice, ExplainReport, RuleCheck, StepShapeReport};
pub use figure::{Figure, Interval};
pub use figures::{Better, FIGURES, FigureGroup, FigureSpec, Scale};
pub use fit::{FitError, FitFigure, FitHeldOut, FitLeftOut, FitOutlier, FitReport, FitSource};
pub use history::{BatchCount, CandidateHistory, HistoryReport, Timeline, TimelineBin};
pub use import::{ImportLines, ImportReport, ImportSource, ImportTraffic};
pub use ladder::{LadderCandidate, LadderCounts, LadderReport, LadderSizes, PaddedSpan};
pub use log::Log;
pub use pairs::{Difference, PairReport, Verdict};
pub use price::{
    BudgetCounts, EncoderCounts, PriceCandidate, PriceReport, PriceRung, ReplayCounts, ReplaySizeCounts, Saving,
    StepTimes,
};
pub use profile::{GroupReport, ProfileReport};
pub use propose::{
    FlagsFile, FlagsReport, LadderChoice, ProposeQuestion, ProposeReport, ProposeVerdict, RungWorth,
    STEP_MS_PER_REQUEST, SearchReport, Sensitivity, SensitivityPoint, SingleChange,
};
pub use requests::{RequestLog, RequestRecord};
pub use run::{
    ArtifactReport, CandidateReport, ColdStart, CostBreakdown, Fallbacks, KvBlocks, PrefixCache, RunReport, RungReport,
    ScenarioReport, SloAttainment, SloReport, SpecDecode, Startup,
};
pub use seeds::SeedsError;
pub use startup::{CaptureReport, PhaseReport, StartMemory, StartupCandidate, StartupReport};
pub use steps::{STEP_SCHEMA, StepHeader, StepLine, StepLog, StepRecord};
pub use sweep::{
    BestPoint, Lead, Objectives, PointReport, SWEEP_SCHEMA, SweepAxis, SweepCollector, SweepManifest, SweepPoint,
    SweepReport, SweepSample, SweepSetting, SweepShard, SweptFile,
};
pub use trace::{TraceHeader, TraceLog, TraceSpan};
pub use validate::{
    CostSource, DecodeErrors, FigureValidation, PredictedEvents, RunValidation, StepTimeValidation, ValidateReport,
};
pub use warning::Warning;

/// A short name from a closed list (a mode, a cause): borrowed when the simulator writes it, owned when read back.
pub type Name = std::borrow::Cow<'static, str>;
