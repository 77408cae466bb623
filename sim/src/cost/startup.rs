//! Seconds that compilation, warm-up and captures add to a start-up; process start and weight loading are the same for
//! every candidate and left out.

use calibrate::profile::Profile;

use crate::engine::shape::{Descriptor, RuntimeMode};

/// The parts of a start-up, in seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Startup {
    /// Compilation, cold cache; zero without compilation.
    pub compile_s: f64,
    /// Warm-up and memory profiling runs.
    pub warmup_s: f64,
    /// Graph captures.
    pub capture_s: f64,
}

impl Startup {
    /// The start-up of an engine that captures `descriptors`, compiled or not.
    #[must_use]
    pub fn of(profile: &Profile, descriptors: &[Descriptor], compiled: bool) -> Self {
        let startup = &profile.engine.startup.figures;
        Self {
            compile_s: if compiled { startup.compile_cold_s } else { 0.0 },
            warmup_s: startup.warmup_s,
            capture_s: capture_s(profile, descriptors),
        }
    }

    /// All parts together.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        self.compile_s + self.warmup_s + self.capture_s
    }
}

/// Seconds that capturing `descriptors` takes, the first capture's extra included.
#[must_use]
pub fn capture_s(profile: &Profile, descriptors: &[Descriptor]) -> f64 {
    let capture = &profile.machine.capture.figures;
    let count = |mode| descriptors.iter().filter(|descriptor| descriptor.mode == mode).count() as f64;
    let first_extra_s = if descriptors.is_empty() { 0.0 } else { capture.first_extra_s };
    count(RuntimeMode::Full) * capture.full_s + count(RuntimeMode::Piecewise) * capture.piecewise_s + first_extra_s
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_take_their_seconds_and_eager_engines_do_not_compile() {
        let profile = Profile::builtin("textbook").expect("built in");
        let descriptor = |mode| Descriptor {
            mode,
            tokens: 8,
            requests: None,
            uniform: None,
            max_query: None,
            loras: 0,
            ubatches: 1,
        };
        let five = [descriptor(RuntimeMode::Full); 5];
        assert!((capture_s(&profile, &five) - 3.5).abs() < 1e-12, "0.7 s each");
        assert!(capture_s(&profile, &[]).abs() < f64::EPSILON);
        let a100 = Profile::builtin("a100-llama-3-8b").expect("built in");
        let (compiled, eager) = (Startup::of(&a100, &five, true), Startup::of(&a100, &five, false));
        assert!(compiled.total_s() > eager.total_s() && eager.compile_s.abs() < f64::EPSILON);
    }
}
