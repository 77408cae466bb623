//! What the engine's configuration makes of the graph flags before any attention backend is known (specification
//! section 7).

use super::compile_ranges::CompileRanges;
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
    /// What is compiled; empty without vLLM's own compilation.
    pub compiled: CompileRanges,
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
        let (endpoints, budget) = (&graphs.compile_ranges_endpoints, options.scheduler.max_num_batched_tokens);
        let ranges = CompileRanges::new(endpoints, &capture.compile_sizes, budget)?;
        let compiled = if compilation == CompilationMode::VllmCompile { ranges } else { CompileRanges::default() };
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
        warnings.extend(about_endpoints(graphs, &compiled, budget));
        Ok(Self {
            runner,
            requested,
            mode: splitting.mode,
            compilation,
            breakable,
            capture,
            splitting,
            compiled,
            cudagraph_num_of_warmups: u32::from(!graphs.enforce_eager),
            warnings,
        })
    }
}

/// Endpoints of compile ranges that change nothing.
fn about_endpoints(graphs: &GraphOptions, compiled: &CompileRanges, budget: u32) -> Option<GraphWarning> {
    let (given, ranges) = (graphs.compile_ranges_endpoints.len(), compiled.ranges().len());
    if given > 0 && ranges == 0 {
        let reason = "only the compilation mode VLLM_COMPILE compiles ranges of sizes";
        return Some(GraphWarning::Unused { option: "compile_ranges_endpoints", reason });
    }
    // Every endpoint that is kept adds one range to the one that ends at the budget.
    let dropped = (given + 1).saturating_sub(ranges);
    (given > 0 && dropped > 0).then_some(GraphWarning::EndpointsDropped { dropped, max_num_batched_tokens: budget })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::vllm::options::{KvOptions, OptimizationLevel, SchedulerOptions};

    fn build(graphs: GraphOptions) -> Result<GraphConfig, EngineError> {
        let (scheduler, kv) = (SchedulerOptions::default(), KvOptions::default());
        GraphConfig::build(&VllmOptions { version: Version::V0_33_0, runner: None, scheduler, kv, graphs })
    }

    fn mode(graphs: GraphOptions) -> CudagraphMode {
        build(graphs).expect("the engine starts").mode
    }

    #[test]
    fn models_and_connectors_take_modes_away_before_the_ladder_is_made() {
        let of = |model_kind, cudagraph_mode| GraphOptions { cudagraph_mode, model_kind, ..GraphOptions::default() };
        assert_eq!(mode(of(ModelKind::Pooling, None)), CudagraphMode::Piecewise);
        assert_eq!(mode(of(ModelKind::Pooling, Some(CudagraphMode::None))), CudagraphMode::None);
        assert_eq!(mode(of(ModelKind::EncoderDecoder, None)), CudagraphMode::FullDecodeOnly);
        assert_eq!(mode(of(ModelKind::EncoderDecoder, Some(CudagraphMode::Piecewise))), CudagraphMode::FullDecodeOnly);
        let connector = GraphOptions { kv_connector_needs_piecewise: true, ..GraphOptions::default() };
        assert_eq!(mode(connector.clone()), CudagraphMode::Piecewise);
        // The connector comes last, also after what an encoder-decoder model leaves.
        let both = GraphOptions { model_kind: ModelKind::EncoderDecoder, ..connector };
        assert_eq!(mode(both), CudagraphMode::Piecewise);
    }

    #[test]
    fn piecewise_graphs_need_something_that_makes_pieces() {
        let uncompiled = GraphOptions {
            model_kind: ModelKind::Pooling,
            optimization_level: OptimizationLevel::O0,
            cudagraph_mode: Some(CudagraphMode::Full),
            ..GraphOptions::default()
        };
        let (mode, compilation) = (CudagraphMode::Piecewise, CompilationMode::None);
        assert_eq!(build(uncompiled.clone()), Err(EngineError::PiecewiseUncompiled { mode, compilation }));
        let breakable = GraphOptions { use_breakable_cudagraph: true, ..uncompiled };
        assert_eq!(build(breakable).expect("broken while captured").mode, CudagraphMode::Piecewise);
    }

    #[test]
    fn endpoints_that_change_nothing_are_named() {
        let warning = |optimization_level, endpoints: &[u32]| {
            let compile_ranges_endpoints = endpoints.to_vec();
            let made = build(GraphOptions { optimization_level, compile_ranges_endpoints, ..GraphOptions::default() });
            made.expect("the engine starts").warnings.pop().map(|warning| warning.to_string())
        };
        assert_eq!(warning(OptimizationLevel::O2, &[64, 512]), None);
        assert_eq!(warning(OptimizationLevel::O0, &[]), None);
        let dropped = warning(OptimizationLevel::O2, &[1, 64, 64, 2048, 4096]).expect("64 is kept once");
        assert!(dropped.starts_with("4 of compile_ranges_endpoints change nothing"), "{dropped}");
        let unused = warning(OptimizationLevel::O0, &[64]).expect("nothing is compiled");
        assert!(unused.starts_with("compile_ranges_endpoints changes nothing"), "{unused}");
    }

    #[test]
    fn breakable_graphs_take_the_place_of_compilation() {
        let breakable = GraphOptions {
            use_breakable_cudagraph: true,
            compilation_mode: Some(CompilationMode::VllmCompile),
            ..GraphOptions::default()
        };
        let made = build(breakable).expect("the engine starts");
        assert_eq!((made.compilation, made.mode), (CompilationMode::None, CudagraphMode::FullAndPiecewise));
        assert_eq!((made.splitting.ops.len(), made.capture.ladder.sizes.len()), (0, 51));
    }
}
