//! Seconds from a loaded model to the first request, phase by phase in the engine's order; process start and weight
//! loading are the same for every candidate and left out.

mod sglang;
mod vllm;

use calibrate::profile::Profile;

use crate::engine::sglang::warning::Phase as GraphPhase;
use crate::engine::shape::{Descriptor, RuntimeMode};

pub use sglang::sglang;
pub use vllm::vllm;

/// A start-up: its phases, one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Startup {
    /// The phases in order.
    pub phases: Vec<Phase>,
}

/// One phase of a start-up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Phase {
    /// What happens.
    pub kind: PhaseKind,
    /// How often: runs, ranges and sizes compiled, or graphs.
    pub count: u32,
    /// How long it takes, in seconds.
    pub seconds: f64,
}

/// What happens in a phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PhaseKind {
    /// The largest step is run once to see what activations take.
    MemoryProfiling,
    /// The model is traced, then compiled or loaded for each range and size.
    Compilation,
    /// Some graphs are captured to see what they take, and dropped.
    GraphSamples,
    /// The KV pool is sized and allocated.
    KvSizing,
    /// Kernels are tuned and run once.
    KernelWarmUp,
    /// The graphs of one mode are captured, each after one warm-up run.
    Capture(RuntimeMode),
    /// SGLang: the graphs of one phase are captured, each after two warm-up runs.
    CaptureOf(GraphPhase),
    /// A last run without a graph: the sampler allocates its buffers.
    SamplerWarmUp,
}

/// The parts of a start-up that are compared between candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartupPart {
    /// Memory profiling, samples included.
    MemoryProfiling,
    /// Compilation.
    Compilation,
    /// Warm-ups of kernels and sampler.
    WarmUp,
    /// Graph captures.
    Capture,
}

impl PhaseKind {
    /// The part of the start-up that the phase counts to.
    #[must_use]
    pub fn part(self) -> StartupPart {
        match self {
            Self::MemoryProfiling | Self::GraphSamples | Self::KvSizing => StartupPart::MemoryProfiling,
            Self::Compilation => StartupPart::Compilation,
            Self::KernelWarmUp | Self::SamplerWarmUp => StartupPart::WarmUp,
            Self::Capture(_) | Self::CaptureOf(_) => StartupPart::Capture,
        }
    }
}

impl Startup {
    /// All phases together, in seconds.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        self.phases.iter().map(|phase| phase.seconds).sum()
    }

    /// The phases of one part together, in seconds.
    #[must_use]
    pub fn part_s(&self, part: StartupPart) -> f64 {
        self.phases.iter().filter(|phase| phase.kind.part() == part).map(|phase| phase.seconds).sum()
    }

    /// Each phase with the seconds that went before it.
    pub fn timeline(&self) -> impl Iterator<Item = (f64, &Phase)> {
        self.phases.iter().scan(0.0, |at_s, phase| {
            let start_s = *at_s;
            *at_s += phase.seconds;
            Some((start_s, phase))
        })
    }
}

/// Seconds of each capture, in the order of captures: its warm-up run included, and the first capture's extra.
#[must_use]
pub fn capture_seconds(profile: &Profile, captures: &[Descriptor]) -> Vec<f64> {
    let mut extra_s = profile.machine.capture.figures.first_extra_s;
    let seconds = |descriptor: &Descriptor| usual_s(profile, descriptor.mode) + std::mem::take(&mut extra_s);
    captures.iter().map(seconds).collect()
}

/// Seconds of a capture that is not the first: the profile's own, and what its engine half declares on top.
fn usual_s(profile: &Profile, mode: RuntimeMode) -> f64 {
    let figures = &profile.machine.capture.figures;
    let engine_s = profile.engine.startup.figures.per_capture_s.unwrap_or(0.0);
    match mode {
        RuntimeMode::Full => figures.full_s + engine_s,
        RuntimeMode::Piecewise => figures.piecewise_s + engine_s,
        RuntimeMode::None => 0.0,
    }
}

/// Seconds that capturing `descriptors` takes, the first capture's extra included.
#[must_use]
pub fn capture_s(profile: &Profile, descriptors: &[Descriptor]) -> f64 {
    let first_extra_s = if descriptors.is_empty() { 0.0 } else { profile.machine.capture.figures.first_extra_s };
    let of_mode = |mode| {
        let count = descriptors.iter().filter(|descriptor| descriptor.mode == mode).count();
        count as f64 * usual_s(profile, mode)
    };
    of_mode(RuntimeMode::Full) + of_mode(RuntimeMode::Piecewise) + first_extra_s
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor(mode: RuntimeMode) -> Descriptor {
        Descriptor {
            mode,
            tokens: 8,
            requests: None,
            uniform: None,
            max_query: None,
            loras: 0,
            ubatches: 1,
            prefix_chunks: None,
        }
    }

    #[test]
    fn captures_take_their_seconds() {
        let textbook = Profile::builtin("textbook").expect("built in");
        assert!((capture_s(&textbook, &[descriptor(RuntimeMode::Full); 5]) - 3.5).abs() < 1e-12, "0.7 s each");
        assert!(capture_s(&textbook, &[]).abs() < f64::EPSILON);
        assert_eq!(capture_seconds(&textbook, &[]), [0.0; 0]);
    }

    #[test]
    fn the_first_capture_takes_longer_and_all_of_them_make_up_the_sum() {
        let mut profile = Profile::builtin("textbook").expect("built in");
        let figures = &mut profile.machine.capture.figures;
        (figures.piecewise_s, figures.full_s, figures.first_extra_s) = (0.5, 0.25, 2.0);
        let captures = [RuntimeMode::Piecewise, RuntimeMode::Piecewise, RuntimeMode::Full].map(descriptor);
        assert_eq!(capture_seconds(&profile, &captures), [2.5, 0.5, 0.25]);
        assert!((capture_s(&profile, &captures) - 3.25).abs() < 1e-12);
        profile.engine.startup.figures.per_capture_s = Some(0.125);
        assert_eq!(capture_seconds(&profile, &captures), [2.625, 0.625, 0.375]);
        assert!((capture_s(&profile, &captures) - 3.625).abs() < 1e-12);
    }

    #[test]
    fn a_timeline_adds_up_and_every_phase_counts_to_one_part() {
        let kinds = [
            PhaseKind::MemoryProfiling,
            PhaseKind::Compilation,
            PhaseKind::GraphSamples,
            PhaseKind::KvSizing,
            PhaseKind::KernelWarmUp,
            PhaseKind::Capture(RuntimeMode::Piecewise),
            PhaseKind::Capture(RuntimeMode::Full),
            PhaseKind::SamplerWarmUp,
        ];
        let phase = |(place, kind): (usize, PhaseKind)| Phase { kind, count: 1, seconds: f64::from(1 << place) };
        let startup = Startup { phases: kinds.into_iter().enumerate().map(phase).collect() };
        let starts: Vec<f64> = startup.timeline().map(|(at_s, _)| at_s).collect();
        assert_eq!(starts, [0.0, 1.0, 3.0, 7.0, 15.0, 31.0, 63.0, 127.0]);
        let parts = [StartupPart::MemoryProfiling, StartupPart::Compilation, StartupPart::WarmUp, StartupPart::Capture];
        let sums: Vec<f64> = parts.into_iter().map(|part| startup.part_s(part)).chain([startup.total_s()]).collect();
        assert_eq!(sums, [1.0 + 4.0 + 8.0, 2.0, 16.0 + 128.0, 32.0 + 64.0, 255.0]);
    }
}
