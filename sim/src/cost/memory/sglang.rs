//! SGLang's KV pool: a share of the device, graphs being paid from the rest (SGLang specification section 9).

use calibrate::profile::Profile;
use kernels::units::Bytes;

use super::kv::{GraphReserve, KvBlocks, KvOrigin, KvPool, activation_bytes};
use crate::engine::sglang::error::EngineError;
use crate::engine::sglang::memory::{KvSizing, is_sized_after_capture, mem_fraction_static, reserve_mib};
use crate::engine::sglang::options::{GraphBackend, SglangOptions};
use crate::engine::sglang::settings::GraphSettings;

/// What an SGLang server's KV pool is made from on the device of one profile.
#[derive(Clone, Debug)]
pub struct StaticShare<'a> {
    options: &'a SglangOptions,
    sizing: KvSizing,
    /// The share if the engine kept nothing free for graphs.
    fraction_without_graphs: f64,
    activations: Bytes,
    reserve: GraphReserve,
    from_reserve: bool,
}

impl<'a> StaticShare<'a> {
    /// The share of the device that the engine takes. Memory of the device is as the flags give it, else the profile's.
    ///
    /// # Errors
    /// Graph flags with which the engine does not start.
    pub fn of(options: &'a SglangOptions, profile: &Profile) -> Result<Self, EngineError> {
        let settings = GraphSettings::resolve(options)?;
        let mut without_graphs = settings.clone();
        without_graphs.decode.backend = GraphBackend::Disabled;
        without_graphs.prefill.backend = GraphBackend::Disabled;
        let model = &profile.identity.model;
        let given = options.kv.mem_fraction_static.is_some();
        let reserve = reserve_mib(options, &settings);
        if let Some((reserve_mib, device_mib)) = reserve.zip(options.kv.gpu_mem_mib).filter(|_| !given)
            && reserve_mib >= f64::from(device_mib)
        {
            return Err(EngineError::ReserveAboveDevice { reserve_mib: reserve_mib.ceil() as u64, device_mib });
        }
        let for_graphs = reserve
            .zip(reserve_mib(options, &without_graphs))
            .map(|(with, without)| Bytes(((with - without) * f64::from(1 << 20)) as u64));
        Ok(Self {
            options,
            sizing: KvSizing {
                device: options.kv.device_memory().unwrap_or(profile.machine.memory.figures.total),
                fraction: mem_fraction_static(options, &settings),
                weights: model.weights_bytes(),
                graphs: Bytes(0),
                token: model.kv_bytes_per_token(),
            },
            fraction_without_graphs: mem_fraction_static(options, &without_graphs),
            activations: activation_bytes(profile, options.limits().step_tokens.value),
            reserve: GraphReserve {
                estimate: for_graphs,
                set_aside: for_graphs.filter(|_| !given && !is_sized_after_capture(options)).unwrap_or_default(),
            },
            from_reserve: !given && for_graphs.is_some(),
        })
    }

    /// The server's options.
    #[must_use]
    pub fn options(&self) -> &'a SglangOptions {
        self.options
    }

    /// Tokens of the pool before any graph is captured: the rows of the request pool follow from them.
    ///
    /// # Errors
    /// If not a page is left.
    pub fn tokens_before_capture(&self) -> Result<u64, EngineError> {
        self.sizing.kv_tokens_before_capture(self.options)
    }

    /// What the engine keeps free for graphs; with a given `mem_fraction_static`, or a pool sized after capture, only what
    /// it would have kept.
    #[must_use]
    pub fn reserve(&self) -> GraphReserve {
        self.reserve
    }

    /// The pool that serves requests, `graphs` being captured.
    ///
    /// # Errors
    /// If not a page is left.
    pub fn pool(&self, graphs: Bytes) -> Result<KvPool, EngineError> {
        let tokens = KvSizing { graphs, ..self.sizing }.kv_tokens(self.options, self.activations)?;
        let origin = if is_sized_after_capture(self.options) {
            KvOrigin::AfterCapture
        } else {
            KvOrigin::Fraction { from_reserve: self.from_reserve }
        };
        let (num_gpu_blocks, block_size) = (self.pages(tokens), self.options.scheduler.page_size);
        Ok(KvPool { num_gpu_blocks, null_blocks: 0, block_size, origin })
    }

    /// The pool's pages if graphs took other memory out of it than they do; none of it where the share is given.
    #[must_use]
    pub fn pages_by_graphs(&self, graphs: Bytes) -> KvBlocks {
        let pages = |tokens: Result<u64, EngineError>| Some(tokens.map_or(0, |tokens| self.pages(tokens)));
        if is_sized_after_capture(self.options) {
            let after = |graphs| KvSizing { graphs, ..self.sizing }.kv_tokens(self.options, self.activations);
            return KvBlocks {
                without_graphs: pages(after(Bytes(0))),
                less_estimate: None,
                less_actual: pages(after(graphs)),
            };
        }
        if !self.from_reserve {
            return KvBlocks::default();
        }
        let without = KvSizing { fraction: self.fraction_without_graphs, ..self.sizing };
        let weights_and_graphs = Bytes(self.sizing.weights.0.saturating_add(graphs.0));
        let less_actual = KvSizing { weights: weights_and_graphs, ..without };
        KvBlocks {
            without_graphs: pages(without.kv_tokens_before_capture(self.options)),
            less_estimate: pages(self.tokens_before_capture()),
            less_actual: pages(less_actual.kv_tokens_before_capture(self.options)),
        }
    }

    /// What the device holds beside the share: activations and graphs are paid from it.
    #[must_use]
    pub fn slack(&self) -> Bytes {
        Bytes((self.sizing.device.0 as f64 * (1.0 - self.sizing.fraction)) as u64)
    }

    fn pages(&self, tokens: u64) -> u32 {
        u32::try_from(tokens / u64::from(self.options.scheduler.page_size)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::sglang::options::KvOptions;

    const MIB: u64 = 1 << 20;

    fn profile() -> Profile {
        Profile::builtin("a100-llama-3-8b").expect("built in")
    }

    /// A device whose reserve is above the floor of large ones: 2 MiB a decode row, 8 MiB a prefill size.
    fn options() -> SglangOptions {
        let kv = KvOptions { gpu_mem_mib: Some(40 << 10), ..KvOptions::default() };
        let mut options = SglangOptions { kv, ..SglangOptions::default() };
        options.graphs.cuda_graph_max_bs_decode = Some(128);
        options.graphs.cuda_graph_bs_prefill = Some(vec![64, 128, 256, 512]);
        options
    }

    #[test]
    fn the_reserve_for_graphs_is_the_formulas_and_costs_kv_tokens() {
        let (profile, options) = (profile(), options());
        let share = StaticShare::of(&options, &profile).expect("starts");
        let for_graphs = Bytes((2 * 128 + 8 * 4) * MIB);
        assert_eq!(share.reserve(), GraphReserve { estimate: Some(for_graphs), set_aside: for_graphs });
        let pool = share.pool(Bytes(1 << 30)).expect("room");
        assert_eq!(
            pool.tokens(),
            share.tokens_before_capture().expect("room"),
            "what graphs hold is paid from the slack"
        );
        let blocks = share.pages_by_graphs(Bytes(1 << 30));
        let token = profile.identity.model.kv_bytes_per_token().0;
        let without = blocks.without_graphs.expect("the share follows from the reserve");
        let lost = u64::from(without - pool.num_gpu_blocks) * token;
        assert!(lost.abs_diff(for_graphs.0) < 41 * MIB, "the share has three digits: {lost}");
        assert!(u64::from(without - blocks.less_actual.expect("as above")).abs_diff((1 << 30) / token) <= 1);
        assert_eq!(blocks.less_estimate, Some(pool.num_gpu_blocks));
    }

    #[test]
    fn a_given_share_keeps_nothing_for_graphs() {
        let mut options = options();
        options.kv.mem_fraction_static = Some(0.8);
        let profile = profile();
        let share = StaticShare::of(&options, &profile).expect("starts");
        assert_eq!(share.reserve().set_aside, Bytes(0));
        assert!(share.reserve().estimate.is_some());
        assert_eq!(share.pages_by_graphs(Bytes(1 << 30)), KvBlocks::default());
        assert_eq!(share.slack().0 / MIB, 8191, "a fifth of 40 GiB");
    }

    #[test]
    fn a_reserve_above_the_device_names_its_memory() {
        let mut options = options();
        options.kv.gpu_mem_mib = Some(2000);
        let error = StaticShare::of(&options, &profile()).expect_err("5 GiB of 2");
        assert!(error.to_string().contains("gpu_mem_mib = 2000"), "{error}");
        options.kv.mem_fraction_static = Some(0.5);
        assert!(StaticShare::of(&options, &profile()).is_ok(), "a given share asks for no reserve");
    }

    #[test]
    fn a_pool_sized_after_capture_is_what_the_graphs_leave() {
        let mut options = options();
        options.kv.post_capture_kv_sizing = true;
        let profile = profile();
        let share = StaticShare::of(&options, &profile).expect("starts");
        let (none, gib) = (share.pool(Bytes(0)).expect("room"), share.pool(Bytes(1 << 30)).expect("room"));
        let token = profile.identity.model.kv_bytes_per_token().0;
        assert!((none.tokens() - gib.tokens()).abs_diff((1 << 30) / token) <= 1);
        assert_eq!(gib.origin, KvOrigin::AfterCapture);
        assert_eq!(share.reserve().set_aside, Bytes(0), "the reserve is given back");
        let blocks = share.pages_by_graphs(Bytes(1 << 30));
        assert_eq!((blocks.without_graphs, blocks.less_actual), (Some(none.num_gpu_blocks), Some(gib.num_gpu_blocks)));
    }
}
