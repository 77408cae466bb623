//! Runner V1's `CudagraphDispatcher` (specification section 3).

use super::explain::{Rule, RuleTrace};
use super::lora::LoraSlots;
use super::rungs::RungIndex;
use crate::engine::shape::{Descriptor, RuntimeMode};
use crate::engine::vllm::error::{DispatchFault, EngineError};
use crate::engine::vllm::ladder::Ladder;
use crate::engine::vllm::options::CudagraphMode;

/// The key of a graph, or of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// Tokens, padded.
    pub tokens: u32,
    /// Requests of a full graph.
    pub requests: Option<u32>,
    /// The graph holds uniform decode batches only.
    pub uniform: bool,
    /// The batch has adapters.
    pub has_lora: bool,
    /// Active adapters, rounded to a captured count.
    pub loras: u32,
}

/// A set of runtime modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModeSet(u8);

impl ModeSet {
    /// NONE, PIECEWISE and FULL.
    pub const ALL: Self = Self(0b111);
    /// NONE alone.
    pub const NONE: Self = Self::of(RuntimeMode::None);
    /// No mode at all.
    pub const EMPTY: Self = Self(0);

    /// The set of one mode.
    #[must_use]
    pub const fn of(mode: RuntimeMode) -> Self {
        Self(1 << mode as u8)
    }

    /// Whether the set holds the mode.
    #[must_use]
    pub const fn contains(self, mode: RuntimeMode) -> bool {
        self.0 & Self::of(mode).0 != 0
    }

    /// The modes of this set that are not in the other.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

impl FromIterator<RuntimeMode> for ModeSet {
    fn from_iter<I: IntoIterator<Item = RuntimeMode>>(modes: I) -> Self {
        modes.into_iter().fold(Self::EMPTY, |set, mode| Self(set.0 | Self::of(mode).0))
    }
}

/// A step as runner V1 hands it to its dispatcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// Scheduled tokens.
    pub tokens: u32,
    /// Every request runs exactly the uniform query length.
    pub uniform: bool,
    /// The batch has adapters.
    pub has_lora: bool,
    /// Active adapters.
    pub active_loras: u32,
    /// Modes that may run: [`ModeSet::ALL`] unless eager is forced.
    pub allowed: ModeSet,
}

/// What the dispatcher is built from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DispatcherOptions {
    /// Most running requests.
    pub max_num_seqs: u32,
    /// Tokens per request of a decode step: drafts plus one.
    pub query_len: u32,
    /// LoRA.
    pub lora: LoraSlots,
    /// Sizes compiled statically, in tokens.
    pub compile_sizes: Vec<u32>,
}

/// The keys of all graphs and the look-up among them.
#[derive(Clone, Debug)]
pub struct CudagraphDispatcher {
    mode: CudagraphMode,
    options: DispatcherOptions,
    /// `None` until the keys are made; stays so under mode NONE.
    keys: Option<KeyTable>,
}

/// Which keys exist, by rung and LoRA case.
#[derive(Clone, Debug)]
struct KeyTable {
    /// The largest capture size, in tokens; the last rung unless the configuration says more.
    ceiling: u32,
    rungs: RungIndex,
    lora_cases: Vec<u32>,
    lora_counts: Vec<u32>,
    /// One entry per rung and case, cases running fastest.
    held: Vec<HeldKeys>,
}

/// The graphs captured for one rung and LoRA case.
#[derive(Clone, Copy, Debug, Default)]
struct HeldKeys {
    piecewise: bool,
    full_general: bool,
    full_uniform: bool,
}

impl CudagraphDispatcher {
    /// A dispatcher without keys, as the engine has it before its attention backend is known. `mode` is the configured
    /// one at that time.
    ///
    /// # Errors
    /// [`EngineError::PiecewiseNotCompiled`] if the mode has piecewise graphs and the model is not cut at attention.
    pub fn new(
        mode: CudagraphMode,
        attention_compiled_piecewise: bool,
        options: DispatcherOptions,
    ) -> Result<Self, EngineError> {
        if mode.has_piecewise() && !attention_compiled_piecewise {
            return Err(EngineError::PiecewiseNotCompiled { mode });
        }
        Ok(Self { mode, options, keys: None })
    }

    /// Makes the keys for the resolved mode and the final ladder.
    ///
    /// # Errors
    /// [`EngineError::CompileSizePadded`], or [`EngineError::OffStride`] for a rung that a uniform batch could reach and
    /// that does not hold whole requests.
    pub fn initialize(mut self, mode: CudagraphMode, ladder: &Ladder) -> Result<Self, EngineError> {
        self.mode = mode;
        if mode == CudagraphMode::None {
            return Ok(self);
        }
        let mut table = KeyTable {
            ceiling: ladder.ceiling,
            rungs: RungIndex::new(ladder.sizes.clone()),
            lora_cases: self.options.lora.cases_v1(),
            lora_counts: self.options.lora.counts(),
            held: Vec::new(),
        };
        for &size in self.options.compile_sizes.iter().filter(|&&size| size <= ladder.ceiling) {
            let (_, padded) = table.padded(size);
            if padded != size {
                return Err(EngineError::CompileSizePadded { size, padded });
            }
        }
        for &size in &ladder.sizes {
            let keys = self.keys_of(size)?;
            table.held.extend(std::iter::repeat_n(keys, table.lora_cases.len()));
        }
        self.keys = Some(table);
        Ok(self)
    }

    fn keys_of(&self, size: u32) -> Result<HeldKeys, EngineError> {
        let query_len = self.options.query_len;
        let widest = u64::from(query_len) * u64::from(self.options.max_num_seqs);
        let full_uniform =
            self.mode.separate_routine() && self.mode.has_full() && size >= query_len && u64::from(size) <= widest;
        if full_uniform && !size.is_multiple_of(query_len) {
            return Err(EngineError::OffStride { size, query_len });
        }
        Ok(HeldKeys {
            piecewise: self.mode.mixed_mode() == RuntimeMode::Piecewise,
            full_general: self.mode.mixed_mode() == RuntimeMode::Full,
            full_uniform,
        })
    }

    /// The graph for a step.
    ///
    /// # Errors
    /// The step on which the engine's own assertions stop it.
    #[inline]
    pub fn dispatch<T: RuleTrace>(&self, query: &Query, trace: &mut T) -> Result<(RuntimeMode, Key), DispatchFault> {
        let tokens = query.tokens;
        let eager = (RuntimeMode::None, Key::unpadded(tokens));
        if query.allowed == ModeSet::EMPTY {
            return Err(DispatchFault::NoAllowedMode);
        }
        let no_keys = self.keys.is_none();
        if trace.guard(Rule::Keys, no_keys, || self.keys_in_words()) {
            return Ok(eager);
        }
        let Some(table) = &self.keys else { return Ok(eager) };
        let ceiling = table.ceiling;
        if trace.guard(Rule::Ceiling, tokens > ceiling, || format!("{tokens} tokens; the largest size is {ceiling}")) {
            return Ok(eager);
        }
        let only_none = query.allowed == ModeSet::NONE;
        if trace.guard(Rule::AllowedModes, only_none, || {
            if only_none { "eager is forced" } else { "eager is not forced" }.to_owned()
        }) {
            return Ok(eager);
        }
        let loras = self.captured_loras(table, query, trace)?;
        let (position, key) = self.padded_key(table, query, loras, trace)?;
        let held = position.and_then(|position| table.held(position, &key)).unwrap_or_default();
        if query.allowed.contains(RuntimeMode::Full) {
            let hit = if key.uniform { held.full_uniform } else { held.full_general };
            if trace.guard(Rule::FullKey, hit, || format!("a FULL graph of {}", key.words())) {
                return Ok((RuntimeMode::Full, key));
            }
        }
        if query.allowed.contains(RuntimeMode::Piecewise) {
            let relaxed = Key { requests: None, uniform: false, ..key };
            let hit = held.piecewise;
            if trace.guard(Rule::PiecewiseKey, hit, || format!("a PIECEWISE graph of {}", relaxed.words())) {
                return Ok((RuntimeMode::Piecewise, relaxed));
            }
        }
        trace.guard(Rule::NoneLeft, true, || "no other kind of graph is left".to_owned());
        if query.allowed.contains(RuntimeMode::None) { Ok(eager) } else { Err(DispatchFault::NoneNotAllowed) }
    }

    fn keys_in_words(&self) -> String {
        match (self.mode, &self.keys) {
            (CudagraphMode::None, _) => "cudagraph_mode is NONE".to_owned(),
            (mode, None) => format!("cudagraph_mode is {mode}, nothing is captured"),
            (mode, Some(_)) => format!("cudagraph_mode is {mode}, graphs are captured"),
        }
    }

    #[inline]
    fn captured_loras<T: RuleTrace>(
        &self,
        table: &KeyTable,
        query: &Query,
        trace: &mut T,
    ) -> Result<u32, DispatchFault> {
        let active = query.active_loras;
        if !query.has_lora || active == 0 {
            return Ok(active);
        }
        let captured = if self.options.lora.specialize_active_lora {
            table.lora_counts.iter().copied().find(|&count| count >= active).unwrap_or(active)
        } else {
            self.options.lora.max_loras.ok_or(DispatchFault::LoraNotConfigured)?.saturating_add(1)
        };
        trace.guard(Rule::LoraCase, false, || format!("{active} active adapters use graphs for {captured}"));
        Ok(captured)
    }

    #[inline]
    fn padded_key<T: RuleTrace>(
        &self,
        table: &KeyTable,
        query: &Query,
        loras: u32,
        trace: &mut T,
    ) -> Result<(Option<usize>, Key), DispatchFault> {
        let (position, padded) = table.padded(query.tokens);
        trace.guard(Rule::PaddedSize, false, || format!("{} tokens pad to size {padded}", query.tokens));
        let uniform = query.uniform && self.mode.separate_routine();
        let query_len = self.options.query_len;
        if uniform && !padded.is_multiple_of(query_len) {
            return Err(DispatchFault::OffStride { padded, query_len });
        }
        let requests = if uniform { padded / query_len } else { padded };
        let requests = Some(requests.min(self.options.max_num_seqs));
        Ok((position, Key { tokens: padded, requests, uniform, has_lora: query.has_lora, loras }))
    }

    /// The captured adapter counts; `None` while there are no keys.
    #[must_use]
    pub fn lora_counts(&self) -> Option<&[u32]> {
        self.keys.as_ref().map(|table| table.lora_counts.as_slice())
    }

    /// The keys of one mode in the order in which they are captured: tokens, then adapters, largest first.
    #[must_use]
    pub fn capture_order(&self, mode: RuntimeMode) -> Vec<Key> {
        let Some(table) = &self.keys else { return Vec::new() };
        let mut keys = Vec::new();
        for (position, &tokens) in table.rungs.sizes().iter().enumerate().rev() {
            for (case, &loras) in table.lora_cases.iter().enumerate().rev() {
                let held = table.held[position * table.lora_cases.len() + case];
                let key = Key { tokens, requests: None, uniform: false, has_lora: loras > 0, loras };
                let requests_max = self.options.max_num_seqs;
                match mode {
                    RuntimeMode::Piecewise if held.piecewise => keys.push(key),
                    RuntimeMode::Full if held.full_general => {
                        keys.push(Key { requests: Some(tokens.min(requests_max)), ..key });
                    }
                    RuntimeMode::Full if held.full_uniform => {
                        let requests = (tokens / self.options.query_len).min(requests_max);
                        keys.push(Key { requests: Some(requests), uniform: true, ..key });
                    }
                    _ => {}
                }
            }
        }
        keys
    }

    /// A key in the words that both runners share.
    #[must_use]
    pub fn descriptor(&self, mode: RuntimeMode, key: &Key) -> Descriptor {
        Descriptor {
            mode,
            tokens: key.tokens,
            requests: key.requests,
            uniform: key.uniform.then_some(self.options.query_len),
            max_query: None,
            loras: key.loras,
            ubatches: 1,
            prefix_chunks: None,
        }
    }
}

impl KeyTable {
    /// The rung that holds the tokens, if one does, and the padded size. Nothing pads to nothing; between the last rung
    /// and a higher ceiling the engine pads to a size that no key has.
    #[inline]
    fn padded(&self, tokens: u32) -> (Option<usize>, u32) {
        match self.rungs.position(tokens) {
            Some(position) if tokens > 0 || self.rungs.size(position) == 0 => {
                (Some(position), self.rungs.size(position))
            }
            Some(_) => (None, 0),
            None => (None, if tokens == 0 { 0 } else { self.ceiling.saturating_add(1) }),
        }
    }

    #[inline]
    fn held(&self, position: usize, key: &Key) -> Option<HeldKeys> {
        let case = self.lora_cases.iter().position(|&case| case == key.loras && (case > 0) == key.has_lora)?;
        Some(self.held[position * self.lora_cases.len() + case])
    }
}

impl Key {
    /// The key of a step that runs without a graph.
    #[must_use]
    pub const fn unpadded(tokens: u32) -> Self {
        Self { tokens, requests: None, uniform: false, has_lora: false, loras: 0 }
    }

    fn words(&self) -> String {
        let requests = self.requests.map_or_else(String::new, |requests| format!(", {requests} requests"));
        let uniform = if self.uniform { ", decode only" } else { "" };
        let loras = if self.has_lora { format!(", {} adapters", self.loras) } else { String::new() };
        format!("{} tokens{requests}{uniform}{loras}", self.tokens)
    }
}
