//! What a step is made of, and whoever performs it.

use crate::launch::{Address, Launch, Product, ShapeError};

/// Where in a step its parts lie: what is captured, and what is not.
///
/// FULL: one graph over all pieces and attentions. PIECEWISE: a graph for each of the N + 1 pieces, attention eagerly
/// between them. vLLM runs the head eagerly behind either; SGLang captures it with the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Between two attentions, or before the first, or behind the last; counted from 0.
    Piece(u32),
    /// Cache write and attention of one layer, counted from 0.
    Attention(u32),
    /// Choice of the sampled rows, LM head, sampling.
    Head,
}

/// One part of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepPart {
    /// What follows, allocations included, lies here.
    Enter(Place),
    /// A launch.
    Launch(Launch),
    /// A matrix product, by whichever backend the runner has: a launch under a [`ProductPlan`](crate::launch::ProductPlan),
    /// or cuBLASLt's.
    Product(Product),
}

/// When the model's output, the final norm's, is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Behind the head: eager steps, and graphs that hold the head.
    HeldThroughHead,
    /// At the end of the last piece: engines hold the output of a captured graph only weakly, so that the next rung uses
    /// its memory again (GPU specification section 4). What the head allocates must then come from another pool.
    HeldWeakly,
}

/// What a step leaves. Both are freed: their content is there until the next allocation is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepOutputs {
    /// bf16 `[rows, hidden]`, behind the final norm.
    pub hidden: Address,
    /// bf16 `[sampled, vocabulary]`.
    pub logits: Address,
}

/// Memory of the activations: a caching allocator's, with a pool per [`Place`] if the runner likes.
pub trait Activations {
    /// What can go wrong.
    type Error: From<ShapeError>;

    /// `bytes` bytes, aligned to 256 bytes at least, content undefined.
    ///
    /// # Errors
    /// There is not that much.
    fn allocate(&mut self, bytes: u64) -> Result<Address, Self::Error>;

    /// Gives an activation back. Launches so far may still use it: the next user comes behind them on the same stream.
    ///
    /// # Errors
    /// The address is no live activation.
    fn free(&mut self, activation: Address) -> Result<(), Self::Error>;
}

/// Whoever performs a step: captures, launches, counts.
pub trait StepRunner: Activations {
    /// Performs one part, behind those before it.
    ///
    /// # Errors
    /// A failure of the launch, or of an earlier one.
    fn perform(&mut self, part: StepPart) -> Result<(), Self::Error>;
}
