//! The figures of a candidate as one table: what each is called, in which unit, and which side is better.
//!
//! Tables, CSV columns, intervals over seeds and paired differences all walk this table, so a figure added here shows
//! up everywhere at once and in one order.

use crate::{CandidateReport, Figure};

/// Which side of a figure an operator wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better (goodput).
    Higher,
    /// Less is better (latency, padding, memory).
    Lower,
    /// Neither by itself (steps, batch size).
    Neither,
}

/// How text shows a figure; JSON and CSV keep the figure's own unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// As it is.
    Plain,
    /// A share, shown in percent.
    Percent,
    /// Bytes, shown in GiB.
    Gib,
}

/// Groups of figures, in the order in which tables show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureGroup {
    /// Requests per second and service levels.
    Service,
    /// TTFT, TPOT, ITL and end-to-end latency.
    Latency,
    /// Hits, padding and fallbacks.
    Graphs,
    /// Speculative decoding.
    Drafts,
    /// Steps and where their time went.
    Steps,
    /// Memory and start-up: what a ladder costs before the first request.
    Price,
    /// Where the cost figures came from.
    Trust,
    /// The part before the warm-up cut.
    ColdStart,
}

/// One figure of a candidate.
#[derive(Clone, Copy, Debug)]
pub struct FigureSpec {
    /// Its path in the JSON of a candidate, and its CSV column.
    pub name: &'static str,
    /// Its label in text tables, with unit and weighting.
    pub label: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// The group of the table it belongs to.
    pub group: FigureGroup,
    /// How text shows it.
    pub scale: Scale,
    /// Which side is better.
    pub better: Better,
    /// Reads the figure.
    pub get: fn(&CandidateReport) -> &Figure,
    /// The figure, to be set.
    pub get_mut: fn(&mut CandidateReport) -> &mut Figure,
}

macro_rules! figures {
    ($($group:ident { $($($field:ident).+, $label:literal, $unit:literal, $scale:ident, $better:ident;)+ })+) => {
        /// Every scalar figure of a [`CandidateReport`], in the order of tables and CSV columns.
        pub const FIGURES: &[FigureSpec] = &[$($(FigureSpec {
            name: figures!(@path $($field).+),
            label: $label,
            unit: $unit,
            group: FigureGroup::$group,
            scale: Scale::$scale,
            better: Better::$better,
            get: |candidate| &candidate.$($field).+,
            get_mut: |candidate| &mut candidate.$($field).+,
        },)+)+];
    };
    (@path $first:ident $(. $rest:ident)*) => { concat!(stringify!($first) $(, ".", stringify!($rest))*) };
}

/// The figure of that name.
///
/// # Panics
/// If there is none: names are written in this crate, and tests look each of them up.
pub(crate) fn figure(name: &str) -> &'static FigureSpec {
    FIGURES.iter().find(|spec| spec.name == name).expect("a test looks up every name used here")
}

figures! {
    Service {
        request_goodput, "goodput, requests/s", "requests/s", Plain, Higher;
        request_rate, "offered, requests/s", "requests/s", Plain, Neither;
        request_throughput, "throughput, requests/s", "requests/s", Plain, Higher;
        output_throughput, "output, tokens/s", "tokens/s", Plain, Higher;
        slo_attainment.ttft, "within TTFT SLO, % of requests", "share of completed requests", Percent, Higher;
        slo_attainment.tpot, "within TPOT SLO, % of requests", "share of completed requests", Percent, Higher;
        slo_attainment.e2el, "within E2EL SLO, % of requests", "share of completed requests", Percent, Higher;
        completed, "requests completed", "requests", Plain, Higher;
        refused, "requests refused", "requests", Plain, Lower;
        mean_prompt_tokens, "prompt, tokens, mean", "tokens", Plain, Neither;
        mean_output_tokens, "output, tokens, mean", "tokens", Plain, Neither;
        duration_s, "duration, s", "s", Plain, Lower;
    }
    Latency {
        mean_ttft_ms, "TTFT mean, ms", "ms", Plain, Lower;
        median_ttft_ms, "TTFT median, ms", "ms", Plain, Lower;
        p99_ttft_ms, "TTFT p99, ms", "ms", Plain, Lower;
        mean_tpot_ms, "TPOT mean, ms", "ms", Plain, Lower;
        median_tpot_ms, "TPOT median, ms", "ms", Plain, Lower;
        p99_tpot_ms, "TPOT p99, ms", "ms", Plain, Lower;
        mean_itl_ms, "ITL mean, ms", "ms", Plain, Lower;
        median_itl_ms, "ITL median, ms", "ms", Plain, Lower;
        p99_itl_ms, "ITL p99, ms", "ms", Plain, Lower;
        mean_e2el_ms, "E2EL mean, ms", "ms", Plain, Lower;
        median_e2el_ms, "E2EL median, ms", "ms", Plain, Lower;
        p99_e2el_ms, "E2EL p99, ms", "ms", Plain, Lower;
    }
    Graphs {
        exact_hit_rate, "exact hits, % of graph steps", "share of graph steps", Percent, Higher;
        padding_ratio, "padded / real rows, %", "padded rows / real rows, graph steps", Percent, Lower;
        waste_share, "padded / rows run, %", "padded rows / rows run, graph steps", Percent, Lower;
        padded_rows_without_graph, "padded without a graph, rows", "rows", Plain, Lower;
        fallback_rate, "no graph, % of steps", "share of steps", Percent, Lower;
        fallbacks.above_ceiling, "  above the ceiling, steps", "steps", Plain, Lower;
        fallbacks.no_key, "  no key, steps", "steps", Plain, Lower;
        fallbacks.mode_excluded, "  mode excluded, steps", "steps", Plain, Lower;
        fallbacks.encoder_inputs, "  encoder inputs, steps", "steps", Plain, Lower;
        fallbacks.other_rank, "  another rank's step, steps", "steps", Plain, Lower;
        fallbacks.graphs_off, "  graphs off, steps", "steps", Plain, Neither;
        relaxed_steps, "FULL relaxed to PIECEWISE, steps", "steps", Plain, Lower;
        saved_ms, "saved by replay, ms in all", "ms", Plain, Higher;
    }
    Drafts {
        spec_decode.acceptance_rate, "accepted, % of drafts", "accepted / drafts", Percent, Higher;
        spec_decode.acceptance_length, "tokens per verification, mean", "tokens", Plain, Higher;
        spec_decode.num_drafts, "verifications", "requests in steps", Plain, Neither;
        spec_decode.draft_tokens, "drafts verified", "tokens", Plain, Neither;
        spec_decode.accepted_tokens, "drafts accepted", "tokens", Plain, Neither;
        spec_decode.draft_throughput, "drafts verified, tokens/s", "tokens/s", Plain, Neither;
        spec_decode.late_requests, "scheduled after their end, requests", "requests in steps", Plain, Lower;
    }
    Steps {
        steps, "steps", "steps", Plain, Neither;
        mean_batch_rows, "real rows per step, mean", "rows", Plain, Neither;
        decode_step_share, "steps without prefill, % of steps", "share of steps", Percent, Neither;
        median_decode_rows, "rows without prefill, median", "rows", Plain, Neither;
        p99_decode_rows, "rows without prefill, p99", "rows", Plain, Neither;
        max_decode_rows, "rows without prefill, most", "rows", Plain, Neither;
        running_at_last_sent, "running at the last arrival", "requests", Plain, Neither;
        dummy_steps, "dummy steps of idle ranks", "steps", Plain, Lower;
        peak_waiting, "requests waiting, most", "requests", Plain, Lower;
        preemptions, "preemptions", "preemptions", Plain, Lower;
        prefix_cache.hit_rate, "  prompt in prefix cache, %", "share of prompt tokens", Percent, Higher;
        prefix_cache.hit_tokens, "  prompt in prefix cache, tokens", "tokens", Plain, Higher;
        prefix_cache.preempted_hit_tokens, "  found after preemption, tokens", "tokens", Plain, Higher;
        mean_step_ms, "step, mean, ms", "ms", Plain, Lower;
        host_ms_per_step, "host per step, ms", "ms", Plain, Lower;
        device_idle_ms_per_step, "device idle per step, ms", "ms", Plain, Lower;
        cost.dense_ms, "  device: dense, ms", "ms a step", Plain, Lower;
        cost.head_ms, "  device: head, ms", "ms a step", Plain, Lower;
        cost.attention_ms, "  device: attention, ms", "ms a step", Plain, Lower;
        cost.drafting_ms, "  device: drafting, ms", "ms a step", Plain, Lower;
        cost.gap_ms, "  device: gaps, ms", "ms a step", Plain, Lower;
        cost.step_overhead_ms, "  host: step overhead, ms", "ms a step", Plain, Lower;
        cost.request_overhead_ms, "  host: request overhead, ms", "ms a step", Plain, Lower;
        cost.launch_ms, "  host: launch, ms", "ms a step", Plain, Lower;
        cost.update_ms, "  host: updates, ms", "ms a step", Plain, Lower;
        executable_updates, "  shared executables updated, in all", "updates", Plain, Lower;
        cost.bookkeeping_ms, "  host: bookkeeping, ms", "ms a step", Plain, Lower;
    }
    Price {
        descriptors_captured, "descriptors captured", "descriptors", Plain, Lower;
        cuda_graphs, "CUDA graphs", "graphs", Plain, Lower;
        graph_memory_bytes, "graph memory, GiB", "bytes", Gib, Lower;
        graph_memory_spared_bytes, "  spared by shared executables, GiB", "bytes", Gib, Higher;
        graph_estimate_bytes, "  as the engine estimates it, GiB", "bytes", Gib, Neither;
        kv_blocks.in_force, "KV pool, blocks", "blocks", Plain, Higher;
        kv_blocks.without_graphs, "  without graphs", "blocks", Plain, Neither;
        kv_blocks.less_estimate, "  less the engine's estimate", "blocks", Plain, Higher;
        kv_blocks.less_actual, "  less the graph memory above", "blocks", Plain, Higher;
        kv_tokens, "KV pool, tokens", "tokens", Plain, Higher;
        kv_tokens_lost, "KV lost to graphs, tokens", "tokens", Plain, Lower;
        peak_kv_usage, "KV in use at the peak, %", "share of blocks", Percent, Lower;
        startup_s, "start-up, s", "s", Plain, Lower;
        startup.memory_profiling_s, "  memory profiling, s", "s", Plain, Lower;
        startup.compile_s, "  compile, s", "s", Plain, Lower;
        startup.warm_up_s, "  warm-up, s", "s", Plain, Lower;
        startup.capture_s, "  capture, s", "s", Plain, Lower;
    }
    Trust {
        steps_outside_range, "priced outside the range, steps", "steps", Plain, Lower;
        steps_from_derived, "priced from derived figures, steps", "steps", Plain, Neither;
    }
    ColdStart {
        cold_start.until_s, "cut at, s", "s", Plain, Neither;
        cold_start.requests, "requests sent", "requests", Plain, Neither;
        cold_start.steps, "steps", "steps", Plain, Neither;
        cold_start.completed, "requests completed", "requests", Plain, Neither;
        cold_start.mean_ttft_ms, "TTFT mean, ms", "ms", Plain, Lower;
        cold_start.p99_ttft_ms, "TTFT p99, ms", "ms", Plain, Lower;
        cold_start.mean_step_ms, "step, ms", "ms", Plain, Lower;
    }
}

impl FigureGroup {
    /// The group's heading in text tables.
    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::Latency => "Latency",
            Self::Graphs => "Graphs",
            Self::Drafts => "Drafts",
            Self::Steps => "Steps (times are means per step)",
            Self::Price => "Memory and start-up",
            Self::Trust => "Trust",
            Self::ColdStart => "Before the warm-up cut",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_reads_and_sets_its_own_field() {
        for (index, spec) in FIGURES.iter().enumerate() {
            let mut candidate = CandidateReport::default();
            *(spec.get_mut)(&mut candidate) = Figure::from(index + 1);
            let json = serde_json::to_value(&candidate).expect("plain data");
            let found = spec.name.split('.').try_fold(&json, |node, key| node.get(key));
            assert_eq!(found, Some(&serde_json::json!(index + 1)), "{}", spec.name);
            assert_eq!(*(spec.get)(&candidate), Figure::from(index + 1), "{}", spec.name);
        }
    }

    #[test]
    fn no_figure_of_a_candidate_is_missing_from_the_table() {
        let json = serde_json::to_value(CandidateReport::default()).expect("plain data");
        let mut names = Vec::new();
        for (key, value) in json.as_object().expect("a record") {
            match value {
                serde_json::Value::Null => names.push(key.clone()),
                serde_json::Value::Object(inner) => names.extend(inner.keys().map(|part| format!("{key}.{part}"))),
                _ => {}
            }
        }
        let mut table: Vec<String> = FIGURES.iter().map(|spec| spec.name.to_owned()).collect();
        names.sort();
        table.sort();
        assert_eq!(names, table);
    }
}
