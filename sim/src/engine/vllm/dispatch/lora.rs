//! For how many active adapters graphs are captured (specification sections 3 and 6).

/// The LoRA options that reach the graphs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoraSlots {
    /// Adapter slots; `None` without LoRA.
    pub max_loras: Option<u32>,
    /// Adapter kernels specialise on the number of active adapters.
    pub specialize_active_lora: bool,
    /// Graphs are captured per number of active adapters.
    pub cudagraph_specialize_lora: bool,
}

impl LoraSlots {
    /// The captured adapter counts, ascending: powers of two and one more than the slots if both specialisations are on,
    /// else that last one alone. Empty without LoRA.
    #[must_use]
    pub fn counts(&self) -> Vec<u32> {
        let Some(max_loras) = self.max_loras else { return Vec::new() };
        let mut counts = Vec::new();
        if self.specialize_active_lora && self.cudagraph_specialize_lora {
            counts.extend((0..u32::BITS).map(|bit| 1 << bit).take_while(|&count| count <= max_loras));
        }
        counts.push(max_loras.saturating_add(1));
        counts
    }

    /// Runner V1's cases, ascending; 0 is a batch without adapters, which V1 leaves out if it does not specialise.
    #[must_use]
    pub fn cases_v1(&self) -> Vec<u32> {
        match self.max_loras {
            None => vec![0],
            Some(_) if self.cudagraph_specialize_lora => self.cases_v2(),
            Some(max_loras) => vec![max_loras.saturating_add(1)],
        }
    }

    /// Runner V2's cases, ascending, always with 0.
    #[must_use]
    pub fn cases_v2(&self) -> Vec<u32> {
        let mut cases = vec![0];
        cases.extend(self.counts());
        cases
    }
}
