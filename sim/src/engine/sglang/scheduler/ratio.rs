//! How much of their longest output is reserved for running requests.

/// The share at the start, at conservativeness 1.
const INITIAL: f64 = 0.7;

/// The least share, of the initial one.
const LEAST: f64 = 0.14;

/// Decode steps from the initial to the least share.
const DECAY_STEPS: f64 = 600.0;

/// Tokens per request by which a retraction looks ahead.
const LOOK_AHEAD_TOKENS: u64 = 20;

/// The share of `max_new_tokens` that is reserved for requests which may end before: it falls with every decode step and
/// jumps up at a retraction (SGLang specification section 10).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NewTokenRatio {
    initial: f64,
    least: f64,
    decay: f64,
    current: f64,
}

impl NewTokenRatio {
    /// The ratio of a fresh server.
    #[must_use]
    pub fn new(schedule_conservativeness: f64) -> Self {
        let initial = (INITIAL * schedule_conservativeness).min(1.0);
        let least = (initial * LEAST).min(1.0);
        Self { initial, least, decay: (initial - least) / DECAY_STEPS, current: initial }
    }

    /// A decode step ran.
    pub fn step(&mut self) {
        self.current = (self.current - self.decay).max(self.least);
    }

    /// The server had nothing to run.
    pub fn reset(&mut self) {
        self.current = self.initial;
    }

    /// Requests were retracted; `left` are the tokens produced and the most asked for of each that still runs.
    pub fn retracted(&mut self, left: impl IntoIterator<Item = (u32, u32)>) {
        let (mut ahead, mut asked) = (0, 1);
        for (produced, max_new) in left {
            ahead += u64::from(produced) + LOOK_AHEAD_TOKENS;
            asked += u64::from(max_new);
        }
        self.current = (ahead as f64 / asked as f64).min(1.0);
    }

    /// The share now.
    #[must_use]
    pub fn current(&self) -> f64 {
        self.current
    }

    /// The share of a fresh server.
    #[must_use]
    pub fn initial(&self) -> f64 {
        self.initial
    }

    /// The least share.
    #[must_use]
    pub fn least(&self) -> f64 {
        self.least
    }

    /// What a decode step takes off.
    #[must_use]
    pub fn decay(&self) -> f64 {
        self.decay
    }
}
