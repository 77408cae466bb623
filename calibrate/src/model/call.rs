//! What is called of the device in a part of a step that no graph holds.

use kernels::launch::{Launch, Product};

/// One call of an eager part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A launch, the own products among them.
    Launch(Launch),
    /// A product of cuBLASLt's.
    Product(Product),
}
