//! Memory: the share of the device for weights and KV pool, the pool's tokens, and the request pool's rows (SGLang
//! specification sections 4 and 9).

use kernels::units::Bytes;

use super::error::EngineError;
use super::options::{DisaggregationMode, GraphBackend, MoeA2aBackend, SglangOptions};
use super::settings::GraphSettings;

/// The share without a known device.
const UNKNOWN_DEVICE_FRACTION: f64 = 0.95;

/// Devices above this many MiB keep at least [`LARGE_DEVICE_RESERVE_MIB`] free.
const LARGE_DEVICE_MIB: f64 = 61_440.0;

/// The least reserve of a large device, in MiB.
const LARGE_DEVICE_RESERVE_MIB: f64 = 10_240.0;

/// Decode graphs beyond this many requests cost data-parallel attention more.
const WIDE_DECODE_REQUESTS: u32 = 300;

/// Bounds of the default of `max_running_requests`.
const DEFAULT_REQUESTS: (u64, u64) = (2048, 4096);

/// Requests per whole context that the pool holds, in the default of `max_running_requests`.
const REQUESTS_PER_CONTEXT: f64 = 512.0;

/// What the engine keeps free of the device for activations and graphs, in MiB; `None` without a known device.
#[must_use]
pub fn reserve_mib(options: &SglangOptions, settings: &GraphSettings) -> Option<f64> {
    let device = f64::from(options.kv.gpu_mem_mib?);
    let (role, parallel) = (options.kv.disaggregation_mode, &options.parallel);
    let (decode, prefill) = (&settings.decode, &settings.prefill);
    let rows = match role {
        DisaggregationMode::Decode => {
            let requests = options.scheduler.max_running_requests.unwrap_or(decode.max_bs);
            f64::from(requests) * f64::from(options.decode_width())
        }
        _ if settings.chunked_prefill_size > 0 => f64::from(settings.chunked_prefill_size),
        _ => f64::from(options.scheduler.max_prefill_tokens),
    };
    let ranks = f64::from(parallel.tp_size) * f64::from(parallel.pp_size);
    let mut reserve = 512.0 + 1.5 * rows.max(2048.0) + ranks / 8.0 * 1024.0;
    if decode.backend != GraphBackend::Disabled && role != DisaggregationMode::Prefill {
        reserve += 2.0 * f64::from(decode.max_bs);
    }
    if prefill.backend != GraphBackend::Disabled && role != DisaggregationMode::Decode {
        reserve += if options.model.mla { 1536.0 } else { 8.0 * prefill.bs.len() as f64 };
    }
    if parallel.enable_dp_attention {
        let padded = f64::from(decode.max_bs) * f64::from(parallel.dp_size);
        reserve += padded * if decode.max_bs > WIDE_DECODE_REQUESTS { 4.5 } else { 3.0 };
    }
    if device > LARGE_DEVICE_MIB {
        reserve = reserve.max(LARGE_DEVICE_RESERVE_MIB);
    }
    if parallel.moe_a2a_backend == MoeA2aBackend::Deepep {
        reserve += 2048.0;
        reserve += if prefill.backend == GraphBackend::Breakable { 1024.0 } else { 0.0 };
    }
    Some(reserve)
}

/// `mem_fraction_static`: as given, or what the reserve leaves, to three digits.
#[must_use]
pub fn mem_fraction_static(options: &SglangOptions, settings: &GraphSettings) -> f64 {
    if let Some(given) = options.kv.mem_fraction_static {
        return given;
    }
    match (options.kv.gpu_mem_mib, reserve_mib(options, settings)) {
        (Some(device), Some(reserve)) => rounded((f64::from(device) - reserve) / f64::from(device)),
        _ => UNKNOWN_DEVICE_FRACTION,
    }
}

/// Rounds to three decimal digits as Python does: to the nearest by the exact value.
fn rounded(fraction: f64) -> f64 {
    format!("{fraction:.3}").parse().expect("a printed float is one")
}

/// Whether the KV pool is made again from what the graphs leave: only without latent attention and context-parallel
/// decode.
#[must_use]
pub fn is_sized_after_capture(options: &SglangOptions) -> bool {
    options.kv.post_capture_kv_sizing && !options.model.mla && options.parallel.dcp_size <= 1
}

/// What a KV pool is made from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KvSizing {
    /// Memory of the device.
    pub device: Bytes,
    /// `mem_fraction_static`.
    pub fraction: f64,
    /// Model weights.
    pub weights: Bytes,
    /// Captured graphs.
    pub graphs: Bytes,
    /// Keys and values of one token.
    pub token: Bytes,
}

impl KvSizing {
    /// Tokens of the KV pool, in whole pages, at most `max_total_tokens`.
    ///
    /// Graphs are paid from the reserve and do not shrink the pool, unless the pool is sized after capture: then it is
    /// made from what weights, graphs and the reserve for activations (`activations`) leave of the whole device.
    ///
    /// # Errors
    /// [`EngineError::NoKvMemory`] if not a page is left.
    pub fn kv_tokens(&self, options: &SglangOptions, activations: Bytes) -> Result<u64, EngineError> {
        if is_sized_after_capture(options) {
            let taken = self.weights.0.saturating_add(self.graphs.0).saturating_add(activations.0);
            self.whole_pages(options, 1.0, Bytes(taken))
        } else {
            self.kv_tokens_before_capture(options)
        }
    }

    /// Tokens of the pool that is made before any graph is captured.
    ///
    /// # Errors
    /// [`EngineError::NoKvMemory`] if not a page is left.
    pub fn kv_tokens_before_capture(&self, options: &SglangOptions) -> Result<u64, EngineError> {
        self.whole_pages(options, self.fraction, self.weights)
    }

    /// Tokens that `fraction` of the device holds beside what is taken from it.
    fn whole_pages(&self, options: &SglangOptions, fraction: f64, taken: Bytes) -> Result<u64, EngineError> {
        let page_size = u64::from(options.scheduler.page_size);
        let usable = Bytes((self.device.0 as f64 * fraction) as u64);
        let fitting = usable.0.saturating_sub(taken.0) / self.token.0.max(1);
        let tokens = fitting.min(options.kv.max_total_tokens.map_or(u64::MAX, u64::from)) / page_size * page_size;
        if tokens == 0 {
            return Err(EngineError::NoKvMemory {
                fraction: format!("{fraction:.3}"),
                device: self.device,
                usable,
                taken,
            });
        }
        Ok(tokens)
    }
}

/// Rows of the request pool per attention rank: the resolved `max_running_requests`.
#[must_use]
pub fn request_rows(options: &SglangOptions, kv_tokens: u64) -> u32 {
    let most = kv_tokens / 2;
    let by_contexts = || {
        let contexts = kv_tokens as f64 / f64::from(options.scheduler.context_length);
        ((contexts * REQUESTS_PER_CONTEXT) as u64).clamp(DEFAULT_REQUESTS.0, DEFAULT_REQUESTS.1)
    };
    let per_rank = |asked| u64::from(asked / options.parallel.attention_dp());
    let rows = options.scheduler.max_running_requests.map_or_else(by_contexts, per_rank);
    u32::try_from(rows.min(most).max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::options::{KvOptions, ModelTraits};
    use super::*;

    fn h100() -> SglangOptions {
        let kv = KvOptions { gpu_mem_mib: Some(81_559), ..KvOptions::default() };
        SglangOptions { kv, ..SglangOptions::default() }
    }

    fn reserve(options: &SglangOptions) -> f64 {
        let settings = GraphSettings::resolve(options).expect("the engine starts");
        reserve_mib(options, &settings).expect("the device is known")
    }

    #[test]
    fn dropping_decode_sizes_frees_nothing_but_a_lower_maximum_does() {
        let mut options = h100();
        let all = reserve(&options);
        options.graphs.cuda_graph_bs_decode = Some(vec![1, 256]);
        assert!((reserve(&options) - all).abs() < 1e-9);
        options.graphs.cuda_graph_bs_decode = Some(vec![1, 128]);
        assert!((all - reserve(&options) - 256.0).abs() < 1e-9, "2 MiB a request");
        options.graphs.cuda_graph_bs_prefill = Some(vec![64]);
        assert!((all - reserve(&options) - 256.0 - 57.0 * 8.0).abs() < 1e-9, "8 MiB a prefill size");
        options.scheduler.chunked_prefill_size = Some(2048);
        assert!((reserve(&options) - LARGE_DEVICE_RESERVE_MIB).abs() < 1e-9, "never below the floor");
    }

    #[test]
    fn an_unknown_device_gives_95_percent_and_a_given_share_wins() {
        let mut options = SglangOptions::default();
        let settings = GraphSettings::resolve(&options).expect("the engine starts");
        assert!((mem_fraction_static(&options, &settings) - 0.95).abs() < 1e-12);
        options.kv.mem_fraction_static = Some(0.7);
        assert!((mem_fraction_static(&options, &settings) - 0.7).abs() < 1e-12);
    }

    #[test]
    fn graphs_shrink_the_pool_only_if_it_is_sized_after_capture() {
        let mut options = h100();
        options.scheduler.page_size = 64;
        let sizing = |graphs| KvSizing {
            device: Bytes(80 << 30),
            fraction: 0.8,
            weights: Bytes(16 << 30),
            graphs: Bytes(graphs),
            token: Bytes(131_072),
        };
        let tokens = |options: &SglangOptions, graphs| sizing(graphs).kv_tokens(options, Bytes(4 << 30)).expect("room");
        assert_eq!(tokens(&options, 0), 48 * 8192);
        assert_eq!(tokens(&options, 0), tokens(&options, 1 << 30));
        options.kv.post_capture_kv_sizing = true;
        assert_eq!((tokens(&options, 0), tokens(&options, 1 << 30)), (60 * 8192, 59 * 8192));
        options.model = ModelTraits { mla: true, ..ModelTraits::default() };
        assert_eq!(tokens(&options, 1 << 30), 48 * 8192);
        options.kv.max_total_tokens = Some(1000);
        assert_eq!(tokens(&options, 0), 960, "whole pages");
        let full = KvSizing { weights: Bytes(70 << 30), ..sizing(0) };
        assert!(matches!(full.kv_tokens(&options, Bytes(0)), Err(EngineError::NoKvMemory { .. })));
    }

    #[test]
    fn rows_of_the_request_pool() {
        let mut options = h100();
        assert_eq!(request_rows(&options, 400_000), 4096);
        assert_eq!(request_rows(&options, 20_000), 2048);
        assert_eq!(request_rows(&options, 3000), 1500, "no more than half the tokens");
        options.scheduler.max_running_requests = Some(100);
        assert_eq!(request_rows(&options, 400_000), 100);
        options.parallel.enable_dp_attention = true;
        options.parallel.dp_size = 4;
        assert_eq!(request_rows(&options, 400_000), 25);
    }
}
