//! TensorRT-LLM's `cuda_graph_config`, from the decode sizes of another engine's options.
//!
//! Its rules are the published ones: the LLM API reference (`CudaGraphConfig`, in later releases `DecodeCudaGraphConfig`)
//! says that `batch_sizes` count requests, that `max_batch_size` is their largest and must not be given another value,
//! and that `enable_padding` rounds batches up; the PyTorch back end (`_torch/pyexecutor/model_engine.py`) drops sizes above
//! the largest decode batch of the server and, with padding, puts that batch in their place. TensorRT-LLM itself is not
//! simulated: its scheduler, its graphs of prefill steps and its costs are its own.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::rebuilt::listed;
use super::{Advice, ConfigFile, Difference, Fault, GraphKind, Rebuilt, Target, shell};
use crate::engine::options::EngineOptions;
use crate::engine::plan::{GraphPlan, Ladder, LadderUnit};
use crate::engine::shape::Descriptor;

/// The name of the file that the flag refers to.
const FILE: &str = "llm_api_options.yaml";

/// The configuration for the decode graphs of `options`.
pub(super) fn advise(options: &EngineOptions, kv_tokens: Option<u64>) -> Result<Advice, Fault> {
    let refused = |error| Fault::Refused { engine: Target::of(options), error };
    let plan = GraphPlan::build(options, kv_tokens).map_err(refused)?;
    let width = options.decode_tokens();
    let limits = options.limits();
    let advised = decode_sizes(&plan, width, limits.requests.value);
    let most = limits.requests.value.min(limits.step_tokens.value / width.max(1));
    let captured = captured(&advised, most);
    let mut notes = vec![
        "TensorRT-LLM is not simulated: the sizes are those of the decode graphs above, and only its rules for this list \
         were applied"
            .to_owned(),
        format!(
            "the server's max_batch_size is taken to be {} and its max_num_tokens {}, as {} and {} here",
            limits.requests.value, limits.step_tokens.value, limits.requests.flag, limits.step_tokens.flag
        ),
        "graphs for steps that compute prompts are other options there, and are not carried over".to_owned(),
        "earlier releases name the flag --extra_llm_api_options".to_owned(),
    ];
    let (config, text) = if advised.is_empty() {
        notes.push("cuda_graph_config: null turns decode graphs off".to_owned());
        (Value::Null, "cuda_graph_config: null\n".to_owned())
    } else {
        let list = advised.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let text = format!("cuda_graph_config:\n  batch_sizes: [{list}]\n  enable_padding: true\n");
        (json!({"batch_sizes": advised, "enable_padding": true}), text)
    };
    let missing: Vec<u32> = advised.iter().copied().filter(|size| !captured.contains(size)).collect();
    let added: Vec<u32> = captured.iter().copied().filter(|size| !advised.contains(size)).collect();
    let mut differences = Vec::new();
    if !missing.is_empty() {
        notes.push(format!(
            "no decode batch is above {most} requests: {} dropped{}",
            listed(missing.iter().map(u32::to_string)),
            added.first().map_or_else(String::new, |size| format!(", and {size} captured instead"))
        ));
        differences.push(Difference::Sizes { unit: LadderUnit::Requests, missing, added });
    }
    let sizes = Ladder { phase: "decode", unit: LadderUnit::Requests, sizes: captured };
    let command = vec!["--config".to_owned(), FILE.to_owned()];
    Ok(Advice {
        target: Target::TensorRtLlm,
        environment: Vec::new(),
        shell: shell::line(&command),
        command,
        json: json!({"cuda_graph_config": config}),
        file: Some(ConfigFile { name: FILE.to_owned(), text }),
        notes,
        checked: Rebuilt::ListOnly { sizes, differences },
    })
}

/// The decode batches that the plan's graphs hold, in requests, ascending and at most `requests_max`: those of decode
/// graphs, or in vLLM's modes without such the widest decode batch of each size.
fn decode_sizes(plan: &GraphPlan, width: u32, requests_max: u32) -> Vec<u32> {
    let is_decode = |graph: &&Descriptor| GraphKind::of(graph).decode;
    let graphs = plan.capture_order();
    let own = graphs.iter().filter(is_decode).filter_map(|graph| graph.requests);
    let any_batch = || graphs.iter().map(|graph| graph.tokens / width.max(1));
    let sizes: BTreeSet<u32> = match plan {
        GraphPlan::Vllm(_) if !graphs.iter().any(|graph| is_decode(&graph)) => any_batch().collect(),
        GraphPlan::Vllm(_) | GraphPlan::Sglang(_) => own.collect(),
    };
    let capped: BTreeSet<u32> = sizes.into_iter().map(|size| size.min(requests_max)).filter(|&size| size > 0).collect();
    capped.into_iter().collect()
}

/// What a server whose largest decode batch has `most` requests captures of an ascending list, with padding.
fn captured(listed: &[u32], most: u32) -> Vec<u32> {
    let mut sizes: Vec<u32> = listed.iter().copied().filter(|&size| size <= most).collect();
    if sizes.len() < listed.len() && most > 0 && sizes.last() != Some(&most) {
        sizes.push(most);
    }
    sizes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_above_the_largest_batch_give_way_to_it() {
        assert_eq!(captured(&[1, 2, 4], 8), [1, 2, 4]);
        assert_eq!(captured(&[1, 2, 16, 32], 8), [1, 2, 8]);
        assert_eq!(captured(&[1, 8, 16], 8), [1, 8]);
        assert_eq!(captured(&[16], 8), [8]);
        assert_eq!(captured(&[1, 2], 0), [] as [u32; 0]);
    }
}
