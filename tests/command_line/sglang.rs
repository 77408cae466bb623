//! What is said about an SGLang server before it runs.

use std::fs;

use super::sim_in;

/// Warnings of a command on an SGLang server, on one line.
fn warned(command: &str, profile: &str, server: &str, traffic: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let text = format!(
        "schema = 1\nname = \"warnings\"\n[server.sglang]\ncontext_length = 8192\n{server}\n[profile]\n\
         builtin = \"{profile}\"\n[traffic]\n{traffic}"
    );
    fs::write(folder.path().join("scenario.toml"), text).expect("a new file");
    let answer = sim_in(folder.path(), &[command, "scenario.toml"]);
    assert_eq!(answer.code, Some(0), "{}", answer.stderr);
    answer.stderr.split_whitespace().collect::<Vec<_>>().join(" ")
}

const STEPS: &str = "[[traffic.steps]]\ntokens = 515\nrequests = 4\nquery_len = 512\ncount = 10\n";

#[test]
fn memory_that_is_not_the_profiles_is_said_and_judges_the_pool() {
    let warnings = |mib: u32| warned("check", "a100-llama-3-8b", &format!("gpu_mem_mib = {mib}"), STEPS);
    let larger = warnings(183_359);
    assert!(larger.contains("gpu_mem_mib gives the device 179.06 GiB"), "{larger}");
    assert!(!larger.contains("capture_out_of_memory"), "{larger}");
    assert!(!warnings(81_559).contains("gpu_mem_mib"), "drivers count a little more than allocators");
    let smaller = warned("check", "a100-llama-3-8b", "gpu_mem_mib = 24000\nmem_fraction_static = 0.98", STEPS);
    assert!(smaller.contains("capture_out_of_memory") && smaller.contains("of the device's 23.4"), "{smaller}");
}

#[test]
fn ranks_bear_the_engines_own_names() {
    let warnings = warned("check", "a100-llama-3-8b", "tp_size = 2", STEPS);
    assert!(warnings.contains("tp_size = 2, dp_size = 1: costs"), "{warnings}");
}

#[test]
fn llama_2_is_not_guessed_from_the_profile() {
    let warnings = |server: &str| warned("check", "h100-llama-2-7b", server, STEPS);
    let unnamed = warnings("");
    assert!(unnamed.contains("SGLang ends prefill graphs at 4096 tokens"), "{unnamed}");
    assert!(!warnings("llama_2 = true").contains("ends prefill graphs"));
}

#[test]
fn lengths_that_a_histogram_leaves_open_are_said() {
    let warnings = |server: &str| warned("price", "a100-llama-3-8b", server, STEPS);
    let limited = warnings("cuda_graph_max_seq_len_prefill = 4096");
    assert!(limited.contains("warning[lengths_unknown]") && limited.contains("priced as not used"), "{limited}");
    assert!(!warnings("").contains("lengths_unknown"));
}
