//! What a calibration measures, on which shapes, in which memory, and in which time: everything that is decided before the
//! first timing.

mod ladder;
mod memory;

use std::collections::BTreeSet;
use std::time::Duration;

use kernels::geometry::ModelGeometry;
use kernels::units::{Bytes, Rows};

pub use ladder::{Ladder, LadderEngine, LadderError};
pub use memory::{MemoryPlan, NoRoom};

use crate::graph_mode::Mode;
use crate::measure::{Gauge, Protocol};

/// Tokens of a cache block.
pub const BLOCK_SIZE: u32 = 16;
/// Seed of every order and resample.
const SEED: u64 = 5;
/// Tokens of context of a request while rungs are timed.
const RUNG_CONTEXT: u32 = 256;
/// For how long the work between parts is run before it is timed.
pub const PACE_WARM_UP: Duration = Duration::from_millis(50);
/// Time of a full calibration and of a quick one, from the start of the run.
const FULL_TIME: Duration = Duration::from_mins(3);
const QUICK_TIME: Duration = Duration::from_secs(40);

/// The device, as far as plans depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Device {
    /// Memory that nobody has taken.
    pub free: Bytes,
    /// All of its memory.
    pub total: Bytes,
    /// What other processes hold of it.
    pub others: Bytes,
    /// Its L2 cache.
    pub cache: Bytes,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct PlanRequest {
    /// The sizes; where none are given those of the engine.
    pub ladder: Option<Ladder>,
    /// The engine.
    pub engine: LadderEngine,
    /// Modes of capture.
    pub modes: Vec<Mode>,
    /// Whether fewer points are measured, for less time.
    pub is_quick: bool,
    /// For how long at most.
    pub time_limit: Option<Duration>,
    /// How much of the device's memory at most.
    pub memory_limit: Option<Bytes>,
}

/// A part of a calibration that gives one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Part {
    /// Ladders of empty kernels.
    Launch,
    /// Copies.
    Bandwidth,
    /// Everything but attention and head, over rows.
    Dense,
    /// LM head, over sequences.
    Head,
    /// Decode attention.
    Decode,
    /// Prefill attention.
    Prefill,
    /// Captures and replays.
    Rungs,
    /// Memory of executables.
    Executables,
    /// Updates of executables.
    Update,
}

impl Part {
    /// In the order in which they are measured: launches first, for attention needs the fixed cost of a graph; then what
    /// takes its time whatever is left of it, captures and executables, so that the tables behind can do with the rest.
    pub const ALL: [Self; 9] = [
        Self::Launch,
        Self::Bandwidth,
        Self::Rungs,
        Self::Executables,
        Self::Update,
        Self::Dense,
        Self::Head,
        Self::Decode,
        Self::Prefill,
    ];

    /// Its name in partial results.
    pub fn name(self) -> &'static str {
        match self {
            Self::Launch => "launch",
            Self::Bandwidth => "bandwidth",
            Self::Dense => "dense",
            Self::Head => "head",
            Self::Decode => "decode",
            Self::Prefill => "prefill",
            Self::Rungs => "rungs",
            Self::Executables => "executables",
            Self::Update => "update",
        }
    }

    /// What it measures, for whoever watches.
    pub fn title(self) -> &'static str {
        match self {
            Self::Launch => "launches and graph nodes",
            Self::Bandwidth => "copies within the device",
            Self::Dense => "matrix products over rows",
            Self::Head => "LM head over sequences",
            Self::Decode => "decode attention",
            Self::Prefill => "prefill attention",
            Self::Rungs => "captures and replays",
            Self::Executables => "memory of executables",
            Self::Update => "updates of executables",
        }
    }

    /// Its part of the time, in percent of all parts.
    fn share(self) -> u32 {
        match self {
            Self::Launch | Self::Head => 8,
            Self::Bandwidth | Self::Executables => 4,
            Self::Dense => 28,
            Self::Decode => 14,
            Self::Prefill => 12,
            Self::Rungs => 17,
            Self::Update => 5,
        }
    }

    /// By what of the machine's pace it is judged: that of the side whose times it takes. One that weighs memory does not care
    /// how fast the machine is, and must not be measured twice: a driver gives again what it took back.
    pub fn gauges(self) -> &'static [Gauge] {
        match self {
            Self::Launch | Self::Rungs => Gauge::ALL,
            Self::Update => Gauge::HOST,
            Self::Bandwidth | Self::Dense | Self::Head | Self::Decode | Self::Prefill => Gauge::DEVICE,
            Self::Executables => &[],
        }
    }

    /// Its campaigns, or series of executables, which share the time.
    pub fn campaigns(self) -> u32 {
        match self {
            Self::Launch | Self::Rungs => 2,
            Self::Executables => 4,
            _ => 1,
        }
    }
}

/// What is measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Captured sizes.
    pub ladder: Ladder,
    /// Modes of capture.
    pub modes: Vec<Mode>,
    /// Tokens of context of each request while rungs are timed.
    pub rung_context: u32,
    /// Rows of the staircase beyond the ladder, up to the tokens of a step.
    pub rows_beyond: Vec<u32>,
    /// Sequences of the LM head.
    pub head_sequences: Vec<u32>,
    /// Requests of decode attention, and tokens of context of each.
    pub decode: [Vec<u32>; 2],
    /// Tokens of a prefill chunk, and tokens in the cache before it.
    pub prefill: [Vec<u32>; 2],
    /// The memory.
    pub memory: MemoryPlan,
    /// Fewer points, less time.
    pub is_quick: bool,
    time: Duration,
}

impl Plan {
    /// Decides what is measured on a device.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn of(request: &PlanRequest, model: &ModelGeometry, ranks: u32, device: &Device) -> Result<Self, NoRoom> {
        let given = request.ladder.clone();
        let engines = || {
            let ladder = Ladder::of_engine(request.engine, device.total, ranks);
            if request.is_quick { ladder.thinned() } else { ladder }
        };
        let ladder = given.unwrap_or_else(engines);
        let grids = Grids::of(&ladder, device, request.is_quick);
        let wanted = grids.wanted(&ladder, request.modes.len() as u32, model, device);
        let memory = MemoryPlan::of(model, &wanted, device, request.memory_limit)?;
        let usual = if request.is_quick { QUICK_TIME } else { FULL_TIME };
        Ok(Self {
            ladder,
            modes: request.modes.clone(),
            rung_context: RUNG_CONTEXT,
            rows_beyond: grids.rows_beyond,
            head_sequences: grids.head_sequences,
            decode: grids.decode,
            prefill: grids.prefill,
            memory,
            is_quick: request.is_quick,
            time: request.time_limit.unwrap_or(usual),
        })
    }

    /// Rows of the largest step; requests of the largest decode step too, for the staircase is measured on those.
    pub fn rows(&self) -> Rows {
        let lists = [&self.rows_beyond[..], &self.prefill[0], &self.decode[0], &self.head_sequences];
        Rows(largest(&lists.concat()).max(self.ladder.largest()))
    }

    /// The longest context of a request, its chunk included.
    pub fn longest_context(&self) -> u32 {
        let prefill = largest(&self.prefill[0]) + largest(&self.prefill[1]);
        prefill.max(largest(&self.decode[1])).max(self.rung_context)
    }

    /// Blocks of a request.
    pub fn blocks_per_request(&self) -> u32 {
        self.longest_context().div_ceil(BLOCK_SIZE)
    }

    /// Blocks of each layer's cache.
    pub fn cache_blocks(&self) -> u32 {
        (self.memory.cache_tokens / u64::from(BLOCK_SIZE)) as u32
    }

    /// How campaigns are run, their time apart.
    pub fn protocol(&self) -> Protocol {
        if self.is_quick { Protocol::quick(SEED) } else { Protocol::full(SEED) }
    }

    /// What a part may take, captures and everything else included, when the run has taken `elapsed` so far: its share of the
    /// time that is left among the parts `ahead`, of which it is one. What one part takes too long, the others have less.
    pub fn time_of(&self, part: Part, ahead: &[Part], elapsed: Duration) -> Duration {
        let shares: u32 = ahead.iter().map(|part| part.share()).sum();
        self.time.saturating_sub(elapsed) * part.share() / shares.max(part.share())
    }

    /// For how long the work between parts, which shows whether the machine is still the same, runs before it is timed: of a
    /// short run a small share too.
    pub fn pace_warm_up(&self) -> Duration {
        PACE_WARM_UP.min(self.time / 200)
    }

    /// What the whole run may take, from its start.
    pub fn time(&self) -> Duration {
        self.time
    }
}

/// The points of every table.
struct Grids {
    rows_beyond: Vec<u32>,
    head_sequences: Vec<u32>,
    decode: [Vec<u32>; 2],
    prefill: [Vec<u32>; 2],
}

impl Grids {
    fn of(ladder: &Ladder, device: &Device, is_quick: bool) -> Self {
        // A step of more tokens takes gigabytes of logits and activations.
        const LARGE: u64 = 40 << 30;
        let rows_most = if is_quick || device.total.0 < LARGE { 2_048 } else { 8_192 };
        let (requests, contexts): (&[u32], &[u32]) = if is_quick {
            (&[1, 16, 64, 256], &[128, 1024, 4096])
        } else {
            (&[1, 4, 16, 32, 64, 128, 256, 512], &[128, 512, 1024, 2048, 4096, 8192])
        };
        let (chunks, before): (&[u32], &[u32]) = if is_quick {
            (&[64, 512, 2048], &[0, 2048])
        } else {
            (&[16, 128, 512, 2048, 8192], &[0, 1024, 4096, 8192])
        };
        let sequences: &[u32] = if is_quick {
            &[1, 8, 64, 128, 256]
        } else {
            &[1, 2, 4, 8, 16, 17, 32, 64, 65, 96, 128, 129, 192, 256, 257, 320, 384, 385, 448, 512]
        };
        let sequences: BTreeSet<u32> = sequences.iter().copied().chain([ladder.largest()]).collect();
        Self {
            rows_beyond: rows_beyond(ladder, rows_most, is_quick),
            head_sequences: sequences.into_iter().collect(),
            decode: [requests.to_vec(), contexts.to_vec()],
            prefill: [chunks.iter().copied().filter(|&chunk| chunk <= rows_most).collect(), before.to_vec()],
        }
    }

    fn wanted(&self, ladder: &Ladder, modes: u32, model: &ModelGeometry, device: &Device) -> memory::Wanted {
        /// The cache of a layer outgrows that of the device so many times: requests that share blocks still find them in
        /// memory only.
        const CACHE_TIMES: u64 = 8;
        let (requests, context) = (largest(&self.decode[0]), largest(&self.decode[1]));
        let rows = largest(&[&self.rows_beyond[..], &self.prefill[0], &self.head_sequences].concat());
        let rows = rows.max(ladder.largest()).max(requests);
        let longest = largest(&self.prefill[0]) + largest(&self.prefill[1]);
        let layer_token = model.kv_bytes_per_token().0 / u64::from(model.layers);
        let enough = CACHE_TIMES * device.cache.0 / layer_token.max(1);
        let least = u64::from(longest.max(context).max(RUNG_CONTEXT)) + u64::from(BLOCK_SIZE);
        memory::Wanted {
            rows,
            descriptors: ladder.sizes().len() as u32 * modes,
            cache_tokens: (u64::from(requests) * u64::from(context)).min(enough).max(least),
            cache_tokens_least: least,
        }
    }
}

fn largest(values: &[u32]) -> u32 {
    values.iter().copied().max().unwrap_or(0)
}

/// Rows beyond a ladder that steps with prefills visit.
fn rows_beyond(ladder: &Ladder, most: u32, is_quick: bool) -> Vec<u32> {
    let all: &[u32] = if is_quick { &[1024, 2048] } else { &[768, 1024, 1536, 2048, 3072, 4096, 6144, 8192] };
    all.iter().copied().filter(|&rows| rows > ladder.largest() && rows <= most).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: Device =
        Device { free: Bytes(139 << 30), total: Bytes(140 << 30), others: Bytes(0), cache: Bytes(50 << 20) };

    fn request(is_quick: bool) -> PlanRequest {
        let modes = vec![Mode::Piecewise, Mode::Full];
        PlanRequest { ladder: None, engine: LadderEngine::Vllm, modes, is_quick, time_limit: None, memory_limit: None }
    }

    fn plan(request: &PlanRequest) -> Plan {
        let model = ModelGeometry::preset("llama-3.1-8b").unwrap();
        Plan::of(request, &model, 1, &DEVICE).unwrap()
    }

    #[test]
    fn the_largest_step_holds_every_grid() {
        for is_quick in [false, true] {
            let plan = plan(&request(is_quick));
            assert!(plan.rows().0 >= plan.ladder.largest());
            assert_eq!(plan.rows_beyond.last(), Some(&plan.rows().0));
            assert!(u64::from(plan.cache_blocks()) * u64::from(BLOCK_SIZE) >= u64::from(plan.longest_context()));
            assert_eq!(plan.memory.weight_layers, 32);
        }
        let given = PlanRequest { ladder: Some("1,7,3000".parse().unwrap()), ..request(true) };
        let plan = plan(&given);
        assert_eq!((plan.ladder.to_string().as_str(), plan.rows()), ("1,7,3000", Rows(3000)));
        assert!(plan.rows_beyond.is_empty() && plan.head_sequences.contains(&3000));
    }

    #[test]
    fn shares_come_to_the_whole_time() {
        assert_eq!(Part::ALL.iter().map(|part| part.share()).sum::<u32>(), 100);
        let plan = plan(&PlanRequest { time_limit: Some(Duration::from_mins(1)), ..request(false) });
        // Each part takes what it may, or a quarter more, or half of it: the last takes what is left in any case.
        for (numerator, denominator) in [(1, 1), (5, 4), (1, 2)] {
            let mut elapsed = Duration::ZERO;
            for first in 0..Part::ALL.len() {
                let time = plan.time_of(Part::ALL[first], &Part::ALL[first..], elapsed);
                let is_last = first + 1 == Part::ALL.len();
                elapsed += if is_last { time } else { time * numerator / denominator };
            }
            assert!(elapsed.abs_diff(plan.time()) < Duration::from_millis(1), "{elapsed:?}");
        }
        assert_eq!(plan.time_of(Part::Launch, &Part::ALL, Duration::from_mins(2)), Duration::ZERO);
        assert!(self::plan(&request(true)).time() < Duration::from_mins(1));
    }
}
