//! What the engine's configuration makes of the graph flags before any attention backend is known (specification
//! section 7).

use super::error::EngineError;
use super::ladder::CaptureLadder;
use super::options::{CompilationMode, CudagraphMode, GraphOptions, ModelKind, Runner, Version, VllmOptions};
use super::runner::RunnerChoice;
use super::splitting::Splitting;
use super::warning::{GraphWarning, ModeChange};

/// The graph part of the engine's configuration after its own rewrites.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GraphConfig {
    /// The runner that dispatches steps.
    pub runner: Runner,
    /// The mode the user asked for, or the default of the optimization level.
    pub requested: CudagraphMode,
    /// The mode after the rewrites.
    pub mode: CudagraphMode,
    /// How the model is compiled.
    pub compilation: CompilationMode,
    /// PIECEWISE graphs are broken while they are captured, not cut by the compiler.
    pub breakable: bool,
    /// The ladder and what belongs to it.
    pub capture: CaptureLadder,
    /// Where the model is cut.
    pub splitting: Splitting,
    /// Runs before each capture of runner V1; runner V2 always makes one.
    pub cudagraph_num_of_warmups: u32,
    /// Every change of the mode, in order, and the ladder's own warnings.
    pub warnings: Vec<GraphWarning>,
}

impl GraphConfig {
    /// Runs the rewrites in the engine's order.
    ///
    /// # Errors
    /// Whatever the ladder and the splitting operations refuse, piecewise graphs without any way to make them, and
    /// options that the release or its runner does not have.
    pub fn build(options: &VllmOptions) -> Result<Self, EngineError> {
        check_release(options)?;
        let RunnerChoice { runner, fallback } = RunnerChoice::of(options)?;
        let graphs = &options.graphs;
        let level = graphs.optimization_level;
        let breakable = graphs.use_breakable_cudagraph;
        let requested = graphs.cudagraph_mode.unwrap_or(level.cudagraph_mode());
        let mut mode = ModeHistory { mode: requested, warnings: Vec::new() };
        let compilation = if graphs.enforce_eager || breakable {
            CompilationMode::None
        } else {
            graphs.compilation_mode.unwrap_or(level.compilation_mode())
        };
        if graphs.enforce_eager {
            mode.change(CudagraphMode::None, ModeChange::EnforceEager);
        }
        if graphs.dynamic_sd_schedule.is_some() && runner == Runner::V1 && mode.mode.has_full() {
            mode.change(CudagraphMode::Piecewise, ModeChange::DynamicSpeculation);
        }
        let has_pieces = compilation == CompilationMode::VllmCompile || breakable;
        if !has_pieces {
            mode.change(mode.mode.without_piecewise(), ModeChange::Compilation(compilation));
        }
        mode.adapt_to_model(graphs);
        let mut capture = CaptureLadder::generate(options, mode.mode)?;
        if runner == Runner::V2 && compilation == CompilationMode::StockTorchCompile {
            mode.change(CudagraphMode::None, ModeChange::Compilation(compilation));
            capture = CaptureLadder::default();
        }
        let splitting = Splitting::normalise(mode.mode, compilation, graphs, options.version)?;
        mode.change(splitting.mode, ModeChange::SplittingOps);
        if mode.mode.has_piecewise() && !has_pieces {
            return Err(EngineError::PiecewiseUncompiled { mode: mode.mode, compilation });
        }
        let mut warnings: Vec<GraphWarning> = fallback
            .map(|option| GraphWarning::RunnerFallback { version: options.version, option })
            .into_iter()
            .collect();
        warnings.append(&mut mode.warnings);
        warnings.append(&mut capture.warnings);
        Ok(Self {
            runner,
            requested,
            mode: splitting.mode,
            compilation,
            breakable,
            capture,
            splitting,
            cudagraph_num_of_warmups: u32::from(!graphs.enforce_eager),
            warnings,
        })
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

    /// What the kind of model and the KV connector leave of the mode.
    fn adapt_to_model(&mut self, graphs: &GraphOptions) {
        match graphs.model_kind {
            ModelKind::Pooling if self.mode.has_full() => {
                self.change(CudagraphMode::Piecewise, ModeChange::PoolingModel);
            }
            ModelKind::EncoderDecoder if self.mode != CudagraphMode::None => {
                self.change(CudagraphMode::FullDecodeOnly, ModeChange::EncoderDecoder);
            }
            ModelKind::Pooling | ModelKind::EncoderDecoder | ModelKind::DecoderOnly => {}
        }
        if graphs.kv_connector_needs_piecewise && self.mode.has_full() {
            self.change(CudagraphMode::Piecewise, ModeChange::KvConnector);
        }
    }
}

/// Options that the release lacks.
fn check_release(options: &VllmOptions) -> Result<(), EngineError> {
    let (version, graphs) = (options.version, &options.graphs);
    if graphs.enable_sp && version != Version::V0_31_0 {
        return Err(EngineError::NoSuchOption { version, option: "enable_sp" });
    }
    Ok(())
}
