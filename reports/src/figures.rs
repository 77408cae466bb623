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

/// Groups of figures, in the order in which tables show them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FigureGroup {
    /// Requests per second and service levels.
    Service,
    /// TTFT, TPOT, ITL and end-to-end latency.
    Latency,
    /// Hits, padding and fallbacks.
    Graphs,
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
    /// Which side is better.
    pub better: Better,
    /// Reads the figure.
    pub get: fn(&CandidateReport) -> &Figure,
    /// The figure, to be set.
    pub get_mut: fn(&mut CandidateReport) -> &mut Figure,
}

macro_rules! figures {
    ($($group:ident { $($($field:ident).+, $label:literal, $unit:literal, $better:ident;)+ })+) => {
        /// Every scalar figure of a [`CandidateReport`], in the order of tables and CSV columns.
        pub const FIGURES: &[FigureSpec] = &[$($(FigureSpec {
            name: figures!(@path $($field).+),
            label: $label,
            unit: $unit,
            group: FigureGroup::$group,
            better: Better::$better,
            get: |candidate| &candidate.$($field).+,
            get_mut: |candidate| &mut candidate.$($field).+,
        },)+)+];
    };
    (@path $first:ident $(. $rest:ident)*) => { concat!(stringify!($first) $(, ".", stringify!($rest))*) };
}

figures! {
    Service {
        request_goodput, "goodput, requests/s", "requests/s", Higher;
        request_throughput, "throughput, requests/s", "requests/s", Higher;
        output_throughput, "output, tokens/s", "tokens/s", Higher;
        slo_attainment.ttft, "within TTFT SLO, % of requests", "share of completed requests", Higher;
        slo_attainment.tpot, "within TPOT SLO, % of requests", "share of completed requests", Higher;
        slo_attainment.e2el, "within E2EL SLO, % of requests", "share of completed requests", Higher;
        completed, "requests completed", "requests", Higher;
        refused, "requests refused", "requests", Lower;
        duration_s, "duration, s", "s", Lower;
    }
    Latency {
        mean_ttft_ms, "TTFT mean, ms", "ms", Lower;
        median_ttft_ms, "TTFT median, ms", "ms", Lower;
        p99_ttft_ms, "TTFT p99, ms", "ms", Lower;
        mean_tpot_ms, "TPOT mean, ms", "ms", Lower;
        median_tpot_ms, "TPOT median, ms", "ms", Lower;
        p99_tpot_ms, "TPOT p99, ms", "ms", Lower;
        mean_itl_ms, "ITL mean, ms", "ms", Lower;
        median_itl_ms, "ITL median, ms", "ms", Lower;
        p99_itl_ms, "ITL p99, ms", "ms", Lower;
        mean_e2el_ms, "E2EL mean, ms", "ms", Lower;
        median_e2el_ms, "E2EL median, ms", "ms", Lower;
        p99_e2el_ms, "E2EL p99, ms", "ms", Lower;
    }
    Graphs {
        exact_hit_rate, "exact hits, % of graph steps", "share of graph steps", Higher;
        padding_ratio, "padded / real rows, %", "padded rows / real rows, graph steps", Lower;
        waste_share, "padded / rows run, %", "padded rows / rows run, graph steps", Lower;
        fallback_rate, "no graph, % of steps", "share of steps", Lower;
        fallbacks.above_ceiling, "  above the ceiling, steps", "steps", Lower;
        fallbacks.no_key, "  no key, steps", "steps", Lower;
        fallbacks.mode_excluded, "  mode excluded, steps", "steps", Lower;
        fallbacks.graphs_off, "  graphs off, steps", "steps", Neither;
        relaxed_steps, "FULL relaxed to PIECEWISE, steps", "steps", Lower;
        saved_ms, "saved by replay, ms in all", "ms", Higher;
    }
    Steps {
        steps, "steps", "steps", Neither;
        mean_batch_rows, "real rows per step, mean", "rows", Neither;
        mean_step_ms, "step, mean, ms", "ms", Lower;
        host_ms_per_step, "host per step, ms", "ms", Lower;
        device_idle_ms_per_step, "device idle per step, ms", "ms", Lower;
        preemptions, "preemptions", "preemptions", Lower;
        cost.dense_ms, "device: dense per step, ms", "ms a step", Lower;
        cost.head_ms, "device: head per step, ms", "ms a step", Lower;
        cost.attention_ms, "device: attention per step, ms", "ms a step", Lower;
        cost.step_overhead_ms, "host: step overhead, ms", "ms a step", Lower;
        cost.request_overhead_ms, "host: request overhead, ms", "ms a step", Lower;
        cost.launch_ms, "host: launch per step, ms", "ms a step", Lower;
        cost.bookkeeping_ms, "host: bookkeeping per step, ms", "ms a step", Lower;
        cost.update_ms, "host: graph updates per step, ms", "ms a step", Lower;
    }
    Price {
        descriptors_captured, "descriptors captured", "descriptors", Lower;
        cuda_graphs, "CUDA graphs", "graphs", Lower;
        graph_memory_bytes, "graph memory, GiB", "bytes", Lower;
        graph_memory_estimate_bytes, "  as the engine estimates, GiB", "bytes", Neither;
        kv_tokens, "KV pool, tokens", "tokens", Higher;
        kv_tokens_lost, "KV lost to graphs, tokens", "tokens", Lower;
        peak_kv_usage, "KV in use at the peak, %", "share of blocks", Lower;
        startup_s, "start-up, s", "s", Lower;
        startup.compile_s, "  compile, s", "s", Lower;
        startup.warm_up_s, "  warm-up, s", "s", Lower;
        startup.capture_s, "  capture, s", "s", Lower;
    }
    Trust {
        steps_outside_range, "priced outside the range, steps", "steps", Lower;
        steps_from_derived, "priced from derived figures, steps", "steps", Neither;
    }
    ColdStart {
        cold_start.steps, "before the cut: steps", "steps", Neither;
        cold_start.completed, "before the cut: requests", "requests", Neither;
        cold_start.mean_ttft_ms, "before the cut: TTFT mean, ms", "ms", Lower;
        cold_start.p99_ttft_ms, "before the cut: TTFT p99, ms", "ms", Lower;
        cold_start.mean_step_ms, "before the cut: step, ms", "ms", Lower;
    }
}
