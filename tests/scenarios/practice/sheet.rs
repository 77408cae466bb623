//! A scenario written for one calculation.

use std::fmt::Write as _;
use std::fs;

use serde_json::Value;

use crate::binary::json;

/// Steps and ladders for `sim price`.
pub(super) struct Sheet {
    server: String,
    steps: String,
    candidates: Vec<String>,
}

impl Sheet {
    /// Steps of `batch` decoding requests, with their counts, on a server for 32 that captures decode steps only.
    pub(super) fn decodes(batches: &[(u32, u64)]) -> Self {
        let steps = batches.iter().fold(String::new(), |mut steps, (batch, count)| {
            writeln!(steps, "{{ tokens = {batch}, requests = {batch}, count = {count} }},").expect("a string");
            steps
        });
        let server = "max_num_seqs = 32\nmax_num_batched_tokens = 8192\ncudagraph_mode = \"FULL_DECODE_ONLY\"\n";
        Self { server: server.to_owned(), steps, candidates: Vec::new() }
    }

    /// One step that holds a prefill for each number of tokens.
    pub(super) fn prefills(tokens: impl Iterator<Item = u32>) -> Self {
        let steps = tokens.fold(String::new(), |mut steps, tokens| {
            // Two requests of different lengths; below three tokens there is only one request.
            let (requests, query_len) = if tokens < 3 { (1, tokens) } else { (2, tokens - 1) };
            writeln!(steps, "{{ tokens = {tokens}, requests = {requests}, query_len = {query_len}, count = 1 }},")
                .expect("a string");
            steps
        });
        Self { server: String::new(), steps, candidates: Vec::new() }
    }

    /// The same steps on a server of 256 requests and 8,192 tokens with the engine's own ladder and mode.
    pub(super) fn on_the_specimen(mut self) -> Self {
        "max_num_seqs = 256\nmax_num_batched_tokens = 8192\n".clone_into(&mut self.server);
        self.candidates = vec!["name = \"engine default\"".to_owned()];
        self
    }

    /// Adds a candidate with these rungs.
    pub(super) fn ladder(mut self, rungs: &[u32]) -> Self {
        let number = self.candidates.len();
        self.candidates.push(format!("name = \"ladder {number}\"\ncudagraph_capture_sizes = {rungs:?}"));
        self
    }

    /// The text of the scenario.
    fn text(&self) -> String {
        let Self { server, steps, candidates } = self;
        let candidates = candidates.join("\n[[candidate]]\n");
        format!(
            "schema = 1\nname = \"sheet\"\n[server.vllm]\nenable_prefix_caching = false\n{server}\
             [profile]\nbuiltin = \"textbook\"\n[traffic]\nsteps = [\n{steps}]\n[[candidate]]\n{candidates}\n"
        )
    }

    /// What `sim price` says of each candidate.
    pub(super) fn price(&self, profile: &str) -> Vec<Value> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sheet.toml");
        fs::write(&path, self.text()).expect("written");
        let answer = json(["price".as_ref(), path.as_os_str(), "--profile".as_ref(), profile.as_ref()]);
        answer["candidates"].as_array().expect("a list").clone()
    }
}
