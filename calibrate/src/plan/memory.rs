//! What a calibration takes of the device's memory, counted before anything is allocated: weights, cache, activations,
//! graphs. Where the weights of all layers do not fit, layers share them.

use std::fmt;

use kernels::geometry::ModelGeometry;
use kernels::units::Bytes;
use kernels::work::step_operations;
use miette::Diagnostic;

use super::Device;
use crate::exit::Exit;
use crate::probe::copy_sizes;

/// Device memory of a node of an executable: three times what public reports give (GPU specification section 4,
/// "magnitudes"), as the probes ask for it.
const NODE_BYTES: u64 = 32 << 10;
/// Executables that are held at a time while one is weighed, and while the staircase is measured, at least.
const EXECUTABLES_LEAST: u64 = 192;
/// Work space of matrix products, input buffers, rounding of allocations.
const SUNDRY_BYTES: u64 = 256 << 20;
/// What is left to the driver and to copies: this, or this share where that is more, or what the copies take.
const SPARE_BYTES: u64 = 512 << 20;
const SPARE_SHARE: u64 = 50;
/// Weights of their own must outgrow the cache this many times, or a step would find them there, which no server does.
const CACHE_TIMES: u64 = 4;

/// What is wanted of the device's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Rows of the largest step, each a request of its own that is sampled.
    pub(super) rows: u32,
    /// Descriptors that are captured.
    pub(super) descriptors: u32,
    /// Tokens of cache that are wanted; fewer are shared among requests.
    pub(super) cache_tokens: u64,
    /// Tokens of cache without which nothing can be measured.
    pub(super) cache_tokens_least: u64,
}

/// How the memory is shared out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryPlan {
    /// What may be used.
    pub available: Bytes,
    /// Weights outside the layers.
    pub outer_weights: Bytes,
    /// Weights of the layers that have their own.
    pub layer_weights: Bytes,
    /// Layers with weights of their own.
    pub weight_layers: u32,
    /// The KV cache of all layers.
    pub cache: Bytes,
    /// Tokens that it holds.
    pub cache_tokens: u64,
    /// Activations and logits, in the graphs' pool and in the eager one.
    pub activations: Bytes,
    /// Executable graphs.
    pub graphs: Bytes,
    /// Everything else, and what is left alone.
    pub spare: Bytes,
}

impl fmt::Display for MemoryPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { available, outer_weights, layer_weights, cache, activations, graphs, .. } = self;
        let weights = Bytes(outer_weights.0 + layer_weights.0);
        write!(f, "weights {weights}, cache {cache}, activations {activations}, graphs {graphs}; of {available}")
    }
}

/// The device has not enough memory, even with weights shared by layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("measuring this model takes {needs} of GPU memory at least, and {}", self.available())]
pub struct NoRoom {
    /// What is needed at least.
    pub needs: Bytes,
    /// What is free.
    pub free: Bytes,
    /// All memory of the device.
    pub total: Bytes,
    /// What others hold of it; the rest of what is taken is this program's own context.
    pub others: Bytes,
    /// What `--memory-limit` allows.
    pub limit: Option<Bytes>,
}

impl NoRoom {
    fn available(&self) -> String {
        match self.limit {
            Some(limit) if limit < self.free => format!("--memory-limit allows {limit}"),
            _ => format!("{} of {} are free", self.free, self.total),
        }
    }

    /// How the program ends with it: somebody else's memory is another matter than a card that is too small.
    pub fn exit(&self) -> Exit {
        let fits_without_others = self.needs.0 <= self.free.0.saturating_add(self.others.0);
        let is_allowed = self.limit.is_none_or(|limit| self.needs <= limit);
        if fits_without_others && is_allowed { Exit::TooNoisy } else { Exit::BadInput }
    }
}

impl Diagnostic for NoRoom {
    fn help<'a>(&'a self) -> Option<Box<dyn fmt::Display + 'a>> {
        Some(Box::new(match self.exit() {
            Exit::TooNoisy => "end what else uses this GPU (`nvidia-smi` shows it)",
            _ => "measure a smaller model, one rank of it (--tp-shard), or a shorter ladder (--ladder)",
        }))
    }
}

impl MemoryPlan {
    /// Shares out what is free and allowed.
    ///
    /// # Errors
    /// [`NoRoom`] where the least does not fit.
    pub(super) fn of(
        model: &ModelGeometry,
        wanted: &Wanted,
        device: &Device,
        limit: Option<Bytes>,
    ) -> Result<Self, NoRoom> {
        let available = limit.map_or(device.free, |limit| limit.min(device.free)).0;
        let layer = 2 * model.layer_parameters();
        let outer = 2 * (model.parameters() - u64::from(model.layers) * model.layer_parameters());
        let token = model.kv_bytes_per_token().0;
        let (activations, graphs) = (activations(model, wanted), graphs(model, wanted));
        // When bandwidth is measured, neither activations nor graphs are there.
        let copies = copy_sizes::least_bytes(device.cache.0).saturating_sub(activations + graphs);
        let copies = copies + copy_sizes::pace_bytes(device.cache.0);
        let spare = SUNDRY_BYTES + SPARE_BYTES.max(available / SPARE_SHARE).max(copies);
        let fixed = outer + activations + graphs + spare;
        let least_cache = wanted.cache_tokens_least * token;
        let least_layers = (CACHE_TIMES * device.cache.0).div_ceil(layer.max(1)).clamp(1, model.layers.into());
        let needs = fixed + least_cache + least_layers * layer;
        if needs > available {
            let Device { free, total, others, .. } = *device;
            return Err(NoRoom { needs: Bytes(needs), free, total, others, limit });
        }
        let for_layers = available - fixed - least_cache;
        let weight_layers = (for_layers / layer.max(1)).min(model.layers.into());
        let for_cache = available - fixed - weight_layers * layer;
        let cache_tokens = (for_cache / token.max(1)).min(wanted.cache_tokens);
        Ok(Self {
            available: Bytes(available),
            outer_weights: Bytes(outer),
            layer_weights: Bytes(weight_layers * layer),
            weight_layers: weight_layers as u32,
            cache: Bytes(cache_tokens * token),
            cache_tokens,
            activations: Bytes(activations),
            graphs: Bytes(graphs),
            spare: Bytes(spare),
        })
    }
}

/// Activations and logits of the largest step, once for graphs and once for eager steps: the residual stream, and the widest
/// product's input and outputs.
fn activations(model: &ModelGeometry, wanted: &Wanted) -> u64 {
    let (hidden, intermediate) = (u64::from(model.hidden), u64::from(model.intermediate));
    let qkv = model.query_width() + 2 * model.kv_width();
    let widest = (3 * intermediate).max(qkv + model.query_width()) + 3 * hidden;
    let logits = u64::from(model.vocabulary) + hidden;
    2 * 2 * u64::from(wanted.rows) * (widest + logits)
}

/// Two executables of every descriptor, of which one is replayed for the first time.
fn graphs(model: &ModelGeometry, wanted: &Wanted) -> u64 {
    let nodes = u64::from(step_operations(model) + model.layers);
    (2 * u64::from(wanted.descriptors)).max(EXECUTABLES_LEAST) * nodes * NODE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted = Wanted { rows: 8192, descriptors: 102, cache_tokens: 1 << 20, cache_tokens_least: 8 << 10 };

    fn device(gib: u64) -> Device {
        Device { free: Bytes(gib << 30), total: Bytes(gib << 30), others: Bytes(0), cache: Bytes(50 << 20) }
    }

    fn plan(model: &str, gib: u64, limit: Option<u64>) -> Result<MemoryPlan, NoRoom> {
        let model = ModelGeometry::preset(model).unwrap();
        MemoryPlan::of(&model, &WANTED, &device(gib), limit.map(|gib| Bytes(gib << 30)))
    }

    #[test]
    fn a_large_card_holds_everything() {
        let plan = plan("llama-3.1-8b", 140, None).unwrap();
        assert_eq!(plan.weight_layers, 32);
        // 140 GiB less weights of 15 GiB and the rest: most of what is wanted fits, at 128 KiB a token.
        assert!((900_000..=WANTED.cache_tokens).contains(&plan.cache_tokens), "{plan:?}");
    }

    #[test]
    fn layers_share_weights_where_not_all_fit() {
        let whole = ModelGeometry::preset("llama-3-70b").unwrap();
        let plan = plan("llama-3-70b", 80, None).unwrap();
        assert!((1..80).contains(&plan.weight_layers), "{plan:?}");
        assert!(plan.layer_weights.0 < 2 * whole.parameters());
        let limited = self::plan("llama-3.1-8b", 140, Some(16)).unwrap();
        assert!((1..32).contains(&limited.weight_layers), "{limited:?}");
    }

    /// Whatever fits: the parts never come to more than there is, and neither to fewer layers nor to a smaller cache than
    /// on a smaller card.
    #[test]
    fn parts_add_up_on_every_card() {
        for model in kernels::geometry::PRESETS {
            let mut before: Option<MemoryPlan> = None;
            for gib in 1..160 {
                let Ok(plan) = plan(model, gib, None) else {
                    assert!(before.is_none(), "{model}: fits below {gib} GiB, and not there");
                    continue;
                };
                assert!(plan.used_but_cache() + plan.cache.0 <= plan.available.0, "{model} {gib}: {plan:?}");
                assert!(plan.cache_tokens >= WANTED.cache_tokens_least, "{model} {gib}: {plan:?}");
                if let Some(before) = before {
                    assert!(plan.weight_layers >= before.weight_layers, "{model} {gib}");
                }
                before = Some(plan);
            }
            assert!(before.is_some(), "{model} fits nowhere");
        }
    }

    #[test]
    fn what_does_not_fit_says_why() {
        let model = ModelGeometry::preset("llama-3.1-8b").unwrap();
        let limited = plan("llama-3.1-8b", 140, Some(2)).unwrap_err();
        assert_eq!(limited.exit(), Exit::BadInput);
        assert!(limited.to_string().ends_with("and --memory-limit allows 2.00 GiB"), "{limited}");
        let taken = Device { free: Bytes(1 << 30), others: Bytes(138 << 30), ..device(140) };
        let taken = |limit| MemoryPlan::of(&model, &WANTED, &taken, limit).unwrap_err();
        assert_eq!(taken(None).exit(), Exit::TooNoisy);
        assert!(taken(None).to_string().ends_with("and 1.00 GiB of 140.00 GiB are free"), "{}", taken(None));
        assert_eq!(taken(Some(Bytes(100 << 30))).exit(), Exit::TooNoisy, "the limit is not what stands in the way");
        // All that is taken is the own context: nobody can be ended.
        let own = Device { free: Bytes((taken(None).needs.0) - 1), ..device(140) };
        assert_eq!(MemoryPlan::of(&model, &WANTED, &own, None).unwrap_err().exit(), Exit::BadInput);
        let small = plan("llama-3.1-8b", 4, None).unwrap_err();
        assert_eq!(small.exit(), Exit::BadInput);
    }

    impl MemoryPlan {
        fn used_but_cache(&self) -> u64 {
            [self.outer_weights, self.layer_weights, self.activations, self.graphs, self.spare]
                .iter()
                .map(|b| b.0)
                .sum()
        }
    }
}
