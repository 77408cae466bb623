//! What the engine's configuration makes of the graph flags before any attention backend is known (specification
//! section 7).

use super::error::EngineError;
use super::ladder::CaptureLadder;
use super::options::{CompilationMode, CudagraphMode, Runner, Version, VllmOptions};
use super::splitting::{Splitting, sequence_parallel};
use super::warning::{GraphWarning, ModeChange};

/// The graph part of the engine's configuration after its own rewrites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphConfig {
    /// The mode the user asked for, or the default.
    pub requested: CudagraphMode,
    /// The mode after the rewrites.
    pub mode: CudagraphMode,
    /// How the model is compiled.
    pub compilation: CompilationMode,
    /// The ladder and what belongs to it.
    pub capture: CaptureLadder,
    /// Where the model is cut.
    pub splitting: Splitting,
    /// Every change of the mode, in order, and the ladder's own warnings.
    pub warnings: Vec<GraphWarning>,
}

impl GraphConfig {
    /// Runs the rewrites in the engine's order. Unset flags take the defaults of optimization level 2.
    ///
    /// # Errors
    /// Whatever the ladder refuses, and options that the release or its runner does not have.
    pub fn build(options: &VllmOptions) -> Result<Self, EngineError> {
        check_release(options)?;
        let graphs = &options.graphs;
        let requested = graphs.cudagraph_mode.unwrap_or(CudagraphMode::FullAndPiecewise);
        let mut mode = ModeHistory { mode: requested, warnings: Vec::new() };
        let mut compilation = graphs.compilation_mode.unwrap_or(CompilationMode::VllmCompile);
        if graphs.enforce_eager {
            compilation = CompilationMode::None;
            mode.change(CudagraphMode::None, ModeChange::EnforceEager);
        }
        if graphs.dynamic_sd_schedule.is_some() && options.runner == Runner::V1 && mode.mode.has_full() {
            mode.change(CudagraphMode::Piecewise, ModeChange::DynamicSpeculation);
        }
        if compilation != CompilationMode::VllmCompile {
            mode.change(mode.mode.without_piecewise(), ModeChange::Compilation(compilation));
        }
        let mut capture = CaptureLadder::generate(options, mode.mode)?;
        if options.runner == Runner::V2 && compilation == CompilationMode::StockTorchCompile {
            mode.change(CudagraphMode::None, ModeChange::Compilation(compilation));
            capture = CaptureLadder::default();
        }
        let splitting = Splitting::normalise(mode.mode, compilation, graphs, options.version);
        mode.change(splitting.mode, ModeChange::SplittingOps);
        let mut warnings = mode.warnings;
        warnings.append(&mut capture.warnings);
        Ok(Self { requested, mode: splitting.mode, compilation, capture, splitting, warnings })
    }
}

/// The mode on its way through the rewrites.
struct ModeHistory {
    mode: CudagraphMode,
    warnings: Vec<GraphWarning>,
}

impl ModeHistory {
    fn change(&mut self, to: CudagraphMode, reason: ModeChange) {
        if to != self.mode {
            self.warnings.push(GraphWarning::ModeChanged { from: self.mode, to, reason });
            self.mode = to;
        }
    }
}

/// Options that the release lacks, or that it runs on the other runner.
fn check_release(options: &VllmOptions) -> Result<(), EngineError> {
    let (version, graphs) = (options.version, &options.graphs);
    if graphs.enable_sp && version != Version::V0_31_0 {
        return Err(EngineError::NoSuchOption { version, option: "enable_sp" });
    }
    if version == Version::V0_31_0 && options.runner == Runner::V2 {
        if sequence_parallel(graphs, version) {
            return Err(EngineError::NeedsRunnerV1 { version, option: "enable_sp" });
        }
        if graphs.compilation_mode == Some(CompilationMode::StockTorchCompile) && !graphs.enforce_eager {
            return Err(EngineError::NeedsRunnerV1 { version, option: "compilation_mode = STOCK_TORCH_COMPILE" });
        }
    }
    Ok(())
}
