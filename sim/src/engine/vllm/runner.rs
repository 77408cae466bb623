//! Which model runner a server gets (specification section 0).

use super::error::EngineError;
use super::options::{CompilationMode, Drafter, Runner, SpeculativeMethod, Version, VllmOptions};
use super::splitting::sequence_parallel;

/// The runner, and what made it V1 where nobody asked for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunnerChoice {
    /// The runner that dispatches steps.
    pub runner: Runner,
    /// The option that runner V2 lacks; `None` where the runner is the one asked for, or the default.
    pub fallback: Option<&'static str>,
}

impl RunnerChoice {
    /// V2, unless V1 is asked for or an option needs it. An explicit V2 takes dual-batch overlap.
    ///
    /// # Errors
    /// [`EngineError::NeedsRunnerV1`] for an explicit V2 with an option that only V1 runs.
    pub fn of(options: &VllmOptions) -> Result<Self, EngineError> {
        let (version, lacking) = (options.version, lacking_on_v2(options));
        let (runner, fallback) = match options.runner {
            Some(Runner::V1) => (Runner::V1, None),
            Some(Runner::V2) => match lacking {
                Some(option) => return Err(EngineError::NeedsRunnerV1 { version, option }),
                None => (Runner::V2, None),
            },
            None => {
                let fallback = lacking.or(options.graphs.ubatch.map(|_| "ubatch"));
                (if fallback.is_some() { Runner::V1 } else { Runner::V2 }, fallback)
            }
        };
        Ok(Self { runner, fallback })
    }
}

/// An option that runner V2 of the release does not run, whatever is asked.
fn lacking_on_v2(options: &VllmOptions) -> Option<&'static str> {
    let graphs = &options.graphs;
    let drafter = options.scheduler.drafter;
    if let Some(option) = lacking_drafter(drafter, options.version).filter(|_| graphs.num_speculative_tokens > 0) {
        return Some(option);
    }
    if options.version != Version::V0_31_0 {
        return None;
    }
    if sequence_parallel(graphs, options.version) {
        return Some("enable_sp");
    }
    let stock = graphs.compilation_mode == Some(CompilationMode::StockTorchCompile);
    let compiled = !graphs.enforce_eager && !graphs.use_breakable_cudagraph;
    (stock && compiled).then_some("compilation_mode = STOCK_TORCH_COMPILE")
}

/// What runner V2 lacks to draft this way. (A custom class is no method of [`SpeculativeMethod`].)
fn lacking_drafter(drafter: Drafter, version: Version) -> Option<&'static str> {
    let older = version == Version::V0_31_0;
    match drafter.method {
        SpeculativeMethod::Suffix => Some("spec_method = suffix"),
        SpeculativeMethod::Ngram if older => Some("spec_method = ngram (the method where none is given)"),
        SpeculativeMethod::Medusa if older => Some("spec_method = medusa"),
        SpeculativeMethod::MlpSpeculator if older => Some("spec_method = mlp_speculator"),
        SpeculativeMethod::Dflash | SpeculativeMethod::Dspark => None,
        _ => drafter.parallel_drafting.then_some("parallel_drafting"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::vllm::options::{GraphOptions, KvOptions, SchedulerOptions, Ubatch};

    fn choice(version: Version, runner: Option<Runner>, graphs: GraphOptions) -> Result<RunnerChoice, EngineError> {
        let (scheduler, kv) = (SchedulerOptions::default(), KvOptions::default());
        RunnerChoice::of(&VllmOptions { version, runner, scheduler, kv, graphs })
    }

    #[test]
    fn stock_compilation_moves_an_older_server_to_v1() {
        let graphs =
            GraphOptions { compilation_mode: Some(CompilationMode::StockTorchCompile), ..GraphOptions::default() };
        let option = "compilation_mode = STOCK_TORCH_COMPILE";
        let fallback = RunnerChoice { runner: Runner::V1, fallback: Some(option) };
        assert_eq!(choice(Version::V0_31_0, None, graphs.clone()), Ok(fallback));
        let refused = EngineError::NeedsRunnerV1 { version: Version::V0_31_0, option };
        assert_eq!(choice(Version::V0_31_0, Some(Runner::V2), graphs.clone()), Err(refused));
        let v2 = RunnerChoice { runner: Runner::V2, fallback: None };
        assert_eq!(choice(Version::V0_33_0, None, graphs), Ok(v2));
    }

    #[test]
    fn a_drafter_that_v2_lacks_moves_a_server_to_v1() {
        use SpeculativeMethod::{Dflash, DraftModel, Dspark, Eagle, Medusa, MlpSpeculator, Mtp, Ngram, Suffix};
        let runner = |version, runner, method, parallel_drafting, num_speculative_tokens| {
            let drafter = Drafter { method, parallel_drafting, drafting_time: None };
            let scheduler = SchedulerOptions { drafter, ..SchedulerOptions::default() };
            let graphs = GraphOptions { num_speculative_tokens, ..GraphOptions::default() };
            RunnerChoice::of(&VllmOptions { version, runner, scheduler, kv: KvOptions::default(), graphs })
        };
        let of = |version, method, parallel| {
            let choice = runner(version, None, method, parallel, 2).expect("the engine chooses");
            let explicit = runner(version, Some(Runner::V2), method, parallel, 2);
            assert_eq!(choice.runner == Runner::V1, explicit.is_err(), "{version} {method:?}");
            assert_eq!(choice.fallback.is_some(), explicit.is_err(), "{version} {method:?}");
            choice.runner
        };
        for version in [Version::V0_31_0, Version::V0_33_0, Version::Main] {
            assert_eq!(of(version, Suffix, false), Runner::V1);
            assert_eq!(of(version, Eagle, true), Runner::V1, "parallel drafting");
            assert_eq!(of(version, DraftModel, true), Runner::V1, "parallel drafting");
            assert_eq!([Eagle, Mtp, DraftModel].map(|method| of(version, method, false)), [Runner::V2; 3]);
            assert_eq!([Dflash, Dspark].map(|method| of(version, method, true)), [Runner::V2; 2]);
            let older = if version == Version::V0_31_0 { Runner::V1 } else { Runner::V2 };
            assert_eq!([Ngram, Medusa, MlpSpeculator].map(|method| of(version, method, false)), [older; 3]);
            let none = RunnerChoice { runner: Runner::V2, fallback: None };
            assert_eq!(runner(version, None, Suffix, true, 0), Ok(none), "nobody drafts");
            assert_eq!(runner(version, Some(Runner::V1), Suffix, true, 2).map(|choice| choice.fallback), Ok(None));
        }
    }

    #[test]
    fn only_an_explicit_v2_takes_dual_batch_overlap() {
        let ubatch = Some(Ubatch { num_ubatches: 2, decode_threshold: 32, prefill_threshold: 512 });
        let graphs = GraphOptions { ubatch, ..GraphOptions::default() };
        let of = |runner| choice(Version::V0_33_0, runner, graphs.clone()).expect("taken");
        assert_eq!(of(None), RunnerChoice { runner: Runner::V1, fallback: Some("ubatch") });
        assert_eq!(of(Some(Runner::V2)), RunnerChoice { runner: Runner::V2, fallback: None });
    }
}
