//! Graph flags of older releases that 0.5.23 no longer takes, and what to write instead (SGLang specification section 0).

/// A flag that the engine's command line refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemovedFlag {
    /// The old name, as a key.
    pub name: &'static str,
    /// What to write instead.
    pub instead: &'static str,
}

/// All removed graph flags.
pub const REMOVED_FLAGS: &[RemovedFlag] = &[
    RemovedFlag {
        name: "cuda_graph_max_bs",
        instead: "write cuda_graph_max_bs_decode (requests) or cuda_graph_max_bs_prefill (tokens)",
    },
    RemovedFlag {
        name: "cuda_graph_bs",
        instead: "write cuda_graph_bs_decode (requests) or cuda_graph_bs_prefill (tokens)",
    },
    RemovedFlag {
        name: "enable_piecewise_cuda_graph",
        instead: "leave it out: prefill graphs are on by default, as cuda_graph_backend_prefill = \"breakable\"",
    },
    RemovedFlag { name: "disable_piecewise_cuda_graph", instead: "write disable_prefill_cuda_graph = true" },
    RemovedFlag { name: "enforce_piecewise_cuda_graph", instead: "write cuda_graph_backend_prefill = \"breakable\"" },
    RemovedFlag { name: "piecewise_cuda_graph_max_tokens", instead: "write cuda_graph_max_bs_prefill" },
    RemovedFlag { name: "piecewise_cuda_graph_tokens", instead: "write cuda_graph_bs_prefill" },
    RemovedFlag {
        name: "piecewise_cuda_graph_compiler",
        instead: "leave it out: prefill graphs are captured without torch.compile",
    },
];

/// The removed flag of this name, written with dashes or underscores.
#[must_use]
pub fn removed_flag(name: &str) -> Option<RemovedFlag> {
    let key = name.trim_start_matches('-').replace('-', "_");
    REMOVED_FLAGS.iter().find(|flag| flag.name == key).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_names_are_found_in_either_spelling_and_new_ones_are_not() {
        assert_eq!(removed_flag("--cuda-graph-max-bs").map(|flag| flag.name), Some("cuda_graph_max_bs"));
        assert_eq!(removed_flag("cuda_graph_bs").map(|flag| flag.name), Some("cuda_graph_bs"));
        for current in ["cuda_graph_max_bs_decode", "--cuda-graph-bs-prefill", "disable_cuda_graph"] {
            assert_eq!(removed_flag(current), None, "{current}");
        }
    }
}
