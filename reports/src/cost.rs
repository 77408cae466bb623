//! The cost of one step, term by term.

use serde::{Deserialize, Serialize};

/// Predicted cost of one step, nanoseconds. The device terms sum to `device_ns`, the host terms to `host_ns`;
/// `step_ns` is what the profile's `overlap` makes of the two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CostTerms {
    /// Device: non-attention work of the model for the rows run (padded rows under a graph), ns.
    pub dense_ns: u64,
    /// Device: the output head for every scheduled request and every draft, ns.
    pub head_ns: u64,
    /// Device: attention of prefills and decodes, ns.
    pub attention_ns: u64,
    /// Device: making the next drafts, ns; 0 without a drafter, or where its cost is not given.
    #[serde(default)]
    pub drafting_ns: u64,
    /// Device: what the step takes longer than as one graph, launched one by one or in pieces, ns; 0 under FULL, and where the
    /// profile does not have it.
    #[serde(default)]
    pub gap_ns: u64,
    /// Device: sum of the five terms above, ns.
    pub device_ns: u64,
    /// Host: the engine's fixed work per step, ns.
    pub step_overhead_ns: u64,
    /// Host: the engine's work per scheduled request, all requests together, ns.
    pub request_overhead_ns: u64,
    /// Host: launching the kernels, or replaying the graph and launching what stays outside it, ns.
    pub launch_ns: u64,
    /// Host: updates of executables that graphs share, ns.
    #[serde(default)]
    pub update_ns: u64,
    /// Host: dispatch and padding bookkeeping that only a graph step pays, ns.
    pub bookkeeping_ns: u64,
    /// Host: sum of the five terms above, ns.
    pub host_ns: u64,
    /// The step's duration as predicted, ns.
    pub step_ns: u64,
}

impl CostTerms {
    /// The terms with their names, in the order of the fields.
    #[must_use]
    pub fn named(&self) -> [(&'static str, u64); 13] {
        [
            ("dense_ns", self.dense_ns),
            ("head_ns", self.head_ns),
            ("attention_ns", self.attention_ns),
            ("drafting_ns", self.drafting_ns),
            ("gap_ns", self.gap_ns),
            ("device_ns", self.device_ns),
            ("step_overhead_ns", self.step_overhead_ns),
            ("request_overhead_ns", self.request_overhead_ns),
            ("launch_ns", self.launch_ns),
            ("update_ns", self.update_ns),
            ("bookkeeping_ns", self.bookkeeping_ns),
            ("host_ns", self.host_ns),
            ("step_ns", self.step_ns),
        ]
    }
}
