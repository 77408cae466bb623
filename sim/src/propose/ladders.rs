//! The capture sizes that a proposal is about, as the engine reads them from its flags.

use std::collections::BTreeSet;

use crate::engine::options::EngineOptions;
use crate::engine::plan::{GraphPlan, LadderUnit};
use crate::engine::sglang::options::GraphBackend;
use crate::engine::vllm::options::{CudagraphMode, GraphOptions};

/// The lists of one server. An empty list is no graph of its kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ladders {
    /// One list for all steps, in tokens: vLLM's releases.
    Together(Vec<u32>),
    /// Lists of their own: vLLM main under runner V2, and SGLang.
    Apart {
        /// Batches in which everybody decodes, in requests.
        decode: Vec<u32>,
        /// All other steps, in tokens.
        prefill: Vec<u32>,
    },
}

/// One of the lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum List {
    /// The only one.
    All,
    /// Decode batches, in requests.
    Decode,
    /// Other steps, in tokens.
    Prefill,
}

impl List {
    /// The phase that reports name it by.
    #[must_use]
    pub fn phase(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Decode => "decode",
            Self::Prefill => "prefill",
        }
    }

    /// What its sizes count.
    #[must_use]
    pub fn unit(self) -> LadderUnit {
        match self {
            Self::Decode => LadderUnit::Requests,
            Self::All | Self::Prefill => LadderUnit::Tokens,
        }
    }
}

impl Ladders {
    /// The lists behind the graphs of a plan.
    #[must_use]
    pub fn of(plan: &GraphPlan) -> Self {
        if plan.has_one_ladder() {
            return Self::Together(plan.capture_sizes().to_vec());
        }
        let (mut decode, mut prefill) = (BTreeSet::new(), BTreeSet::new());
        for graph in plan.capture_order() {
            match graph.requests.filter(|_| graph.uniform.is_some()) {
                Some(requests) => decode.insert(requests),
                None => prefill.insert(graph.tokens),
            };
        }
        Self::Apart { decode: decode.into_iter().collect(), prefill: prefill.into_iter().collect() }
    }

    /// No graph at all, in the form of these.
    #[must_use]
    pub fn none(&self) -> Self {
        match self {
            Self::Together(_) => Self::Together(Vec::new()),
            Self::Apart { .. } => Self::Apart { decode: Vec::new(), prefill: Vec::new() },
        }
    }

    /// The lists with their kinds.
    #[must_use]
    pub fn lists(&self) -> Vec<(List, &[u32])> {
        match self {
            Self::Together(sizes) => vec![(List::All, sizes)],
            Self::Apart { decode, prefill } => vec![(List::Decode, decode), (List::Prefill, prefill)],
        }
    }

    /// One of the lists; empty if there is none of that kind.
    #[must_use]
    pub fn list(&self, kind: List) -> &[u32] {
        self.lists().into_iter().find_map(|(list, sizes)| (list == kind).then_some(sizes)).unwrap_or_default()
    }

    /// Every rung, list by list.
    #[must_use]
    pub fn rungs(&self) -> Vec<(List, u32)> {
        self.lists().into_iter().flat_map(|(list, sizes)| sizes.iter().map(move |&size| (list, size))).collect()
    }

    /// How many sizes all lists hold.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lists().iter().map(|(_, sizes)| sizes.len()).sum()
    }

    /// No size at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The same with a rung more, or less if it is there.
    #[must_use]
    pub fn toggled(&self, list: List, size: u32) -> Self {
        let mut changed = self.clone();
        if let Some(sizes) = changed.list_mut(list) {
            match sizes.binary_search(&size) {
                Ok(place) => {
                    sizes.remove(place);
                }
                Err(place) => sizes.insert(place, size),
            }
        }
        changed
    }

    fn list_mut(&mut self, kind: List) -> Option<&mut Vec<u32>> {
        match (self, kind) {
            (Self::Together(sizes), List::All)
            | (Self::Apart { decode: sizes, .. }, List::Decode)
            | (Self::Apart { prefill: sizes, .. }, List::Prefill) => Some(sizes),
            _ => None,
        }
    }

    /// The options of a server that is told to capture these. What else the user said about sizes gives way; modes,
    /// backends and all other flags stay. Without any size, graphs are off.
    #[must_use]
    pub fn applied(&self, options: &EngineOptions) -> EngineOptions {
        let mut options = options.clone();
        match &mut options {
            EngineOptions::Vllm(vllm) => self.apply_vllm(&mut vllm.graphs),
            EngineOptions::Sglang(sglang) => {
                let (decode, prefill) = (self.list(List::Decode), self.list(List::Prefill));
                let graphs = &mut sglang.graphs;
                (graphs.cuda_graph_max_bs_decode, graphs.cuda_graph_max_bs_prefill) = (None, None);
                let config = &mut graphs.cuda_graph_config;
                (config.decode.bs, config.decode.max_bs) = (None, None);
                (config.prefill.bs, config.prefill.max_bs) = (None, None);
                graphs.cuda_graph_bs_decode = (!decode.is_empty()).then(|| decode.to_vec());
                graphs.cuda_graph_bs_prefill = (!prefill.is_empty()).then(|| prefill.to_vec());
                if decode.is_empty() {
                    config.decode.backend = None;
                    graphs.cuda_graph_backend_decode = Some(GraphBackend::Disabled);
                }
                if prefill.is_empty() {
                    config.prefill.backend = None;
                    graphs.cuda_graph_backend_prefill = Some(GraphBackend::Disabled);
                }
            }
        }
        options
    }

    fn apply_vllm(&self, graphs: &mut GraphOptions) {
        (graphs.cudagraph_capture_sizes, graphs.max_cudagraph_capture_size) = (None, None);
        (graphs.prefill_cudagraph_capture_token_sizes, graphs.max_prefill_cudagraph_capture_tokens) = (None, None);
        (graphs.decode_cudagraph_capture_request_sizes, graphs.max_decode_cudagraph_capture_requests) = (None, None);
        graphs.max_decode_cudagraph_capture_tokens = None;
        if self.is_empty() {
            graphs.cudagraph_mode = Some(CudagraphMode::None);
            return;
        }
        match self {
            Self::Together(sizes) => graphs.cudagraph_capture_sizes = Some(sizes.clone()),
            Self::Apart { decode, prefill } => {
                graphs.decode_cudagraph_capture_request_sizes = Some(decode.clone());
                graphs.prefill_cudagraph_capture_token_sizes = Some(prefill.clone());
            }
        }
    }
}
