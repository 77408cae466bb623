//! Launches: which kernel, over which grid, with which arguments. The device layer and the tests run the same ones.

mod argument;
mod attention;
mod decoder;
mod kernel;
mod measure;
mod product;
mod shape;
mod shared;

pub use argument::{Address, Arguments, Parameter, ParameterType, Value};
pub use attention::DecodeSplits;
pub use kernel::{
    Argmax, Clocks, Copy, DecodeAttention, DecodeAttentionMerge, Embed, Gate, GemmTile16, GemmTile64, GemmTile128,
    HeadNorm, Kernel, KvWrite, Module, Null, PrefillAttention, RmsNorm, Rotary, SiluMul,
};
pub use product::{Product, ProductPlan, Tile, Workspace};
pub use shape::ShapeError;

/// One kernel launch, complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// Which kernel.
    pub kernel: Kernel,
    /// Blocks along x, y and z, each at least 1.
    pub grid: [u32; 3],
    /// Threads of a block along x, y and z.
    pub block: [u32; 3],
    /// Dynamic shared memory of a block.
    pub shared_bytes: u32,
    /// What it is called with.
    pub arguments: Arguments,
}
