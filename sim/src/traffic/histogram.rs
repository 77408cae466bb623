//! Histograms of step shapes: traffic that is priced without an event loop.

/// How often steps of each shape occur.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepHistogram {
    /// Shapes with their counts, in the order given; never empty.
    pub rows: Vec<StepRow>,
}

/// One shape and its count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRow {
    /// Scheduled tokens of the step.
    pub tokens: u32,
    /// Scheduled requests.
    pub requests: u32,
    /// Common query length of a uniform step, in tokens; `None` for a mixed one.
    pub query_len: Option<u32>,
    /// How many such steps.
    pub count: u64,
}
