//! Matrix products: what is multiplied, and how the own GEMM cuts it into blocks.

use super::Launch;
use super::argument::Address;
use super::kernel::{GemmTile16, GemmTile64, GemmTile128, Kernel};
use super::shape::{ShapeError, launch, size_of};
use crate::units::Rows;

/// Threads of a GEMM block: 4 warps.
const GEMM_THREADS: u32 = 128;
/// Inner elements that a stage holds: rows of 128 bytes.
const TILE_INPUTS: u32 = 64;
/// Blocks per multiprocessor that splitting the inner dimension aims at (GPU specification section 3c).
const BLOCKS_PER_SM: u64 = 2;

/// `out = input x weight^T (+ bias)`, whoever computes it: cuBLASLt, or the own kernel under a [`ProductPlan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Product {
    /// bf16 `[rows, outputs]`, written.
    pub out: Address,
    /// bf16 `[rows, inputs]`.
    pub input: Address,
    /// bf16 `[outputs, inputs]`.
    pub weight: Address,
    /// bf16 `[outputs]`, or none.
    pub bias: Address,
    /// Rows of the input.
    pub rows: Rows,
    /// Rows of the weight.
    pub outputs: u32,
    /// Columns of both, a multiple of 8.
    pub inputs: u32,
}

/// Output tile of the own GEMM, by its rows; the table at the top of `gemm.cu`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tile {
    /// 16 rows: decode at small batches, where the weights' bytes are all that counts.
    Rows16,
    /// 64 rows.
    Rows64,
    /// 128 rows: prefill and large batches.
    Rows128,
}

impl Tile {
    /// Every tile, smallest first.
    pub const ALL: [Self; 3] = [Self::Rows16, Self::Rows64, Self::Rows128];

    /// The smallest tile that holds `rows`, else the largest.
    pub fn holding(rows: Rows) -> Self {
        Self::ALL.into_iter().find(|tile| tile.rows() >= rows.0).unwrap_or(Self::Rows128)
    }

    /// Rows of the tile.
    pub const fn rows(self) -> u32 {
        match self {
            Self::Rows16 => 16,
            Self::Rows64 => 64,
            Self::Rows128 => 128,
        }
    }

    /// Outputs of the tile.
    pub const fn outputs(self) -> u32 {
        match self {
            Self::Rows16 | Self::Rows64 => 64,
            Self::Rows128 => 128,
        }
    }

    /// Stages of the pipeline: so many that enough bytes are under way to hide the memory's latency (GPU specification
    /// section 3c), and that the large tile still fits a device that gives a block 99 KiB.
    const fn stages(self) -> u32 {
        match self {
            Self::Rows16 | Self::Rows64 => 4,
            Self::Rows128 => 3,
        }
    }

    /// The kernel that computes it.
    pub const fn kernel(self) -> Kernel {
        match self {
            Self::Rows16 => Kernel::GemmTile16,
            Self::Rows64 => Kernel::GemmTile64,
            Self::Rows128 => Kernel::GemmTile128,
        }
    }

    /// Dynamic shared memory of a block: all stages of both operands' tiles.
    pub const fn shared_bytes(self) -> u32 {
        self.stages() * (self.rows() + self.outputs()) * TILE_INPUTS * 2
    }
}

/// How the own GEMM cuts one product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProductPlan {
    /// The output tile.
    pub tile: Tile,
    /// Ranges that the inner dimension is cut into, at least 1.
    pub splits: u32,
}

impl ProductPlan {
    /// The smallest tile that holds the rows, and the inner dimension cut until each of `sm_count` multiprocessors has
    /// two blocks, but never into ranges shorter than the pipeline.
    pub fn choose(product: &Product, sm_count: u32) -> Self {
        let tile = Tile::holding(product.rows);
        let tiles: u64 = output_tiles(product, tile).into_iter().product();
        let wanted = (BLOCKS_PER_SM * u64::from(sm_count)).div_ceil(tiles.max(1));
        let most = product.inputs.div_ceil(TILE_INPUTS) / tile.stages();
        Self::exactly(product, tile, wanted.min(most.into()) as u32)
    }

    /// A given tile, and so many ranges as nearly `splits` as leaves none of them empty.
    pub fn exactly(product: &Product, tile: Tile, splits: u32) -> Self {
        let steps = product.inputs.div_ceil(TILE_INPUTS).max(1);
        let per_range = steps.div_ceil(splits.clamp(1, steps));
        Self { tile, splits: steps.div_ceil(per_range) }
    }

    /// Bytes of [`Workspace::partial`] that the product needs under this plan: f32 `[splits, rows, outputs]`.
    pub fn partial_bytes(self, product: &Product) -> u64 {
        if self.splits == 1 {
            return 0;
        }
        size_of([self.splits, product.rows.0, product.outputs, 4])
    }

    /// Bytes of [`Workspace::arrivals`] that the product needs under this plan: a u32 per output tile.
    pub fn arrivals_bytes(self, product: &Product) -> u64 {
        if self.splits == 1 {
            return 0;
        }
        output_tiles(product, self.tile).into_iter().product::<u64>() * 4
    }
}

/// Tiles along outputs and rows.
fn output_tiles(product: &Product, tile: Tile) -> [u64; 2] {
    [product.outputs.div_ceil(tile.outputs()).into(), product.rows.0.div_ceil(tile.rows()).into()]
}

/// Device memory that products with a split inner dimension share, one after the other on one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workspace {
    /// Sums of the ranges; its content does not matter.
    pub partial: Address,
    /// Counters, zero before the first product; each product leaves them zero.
    pub arrivals: Address,
}

impl Product {
    /// The own GEMM's launch.
    ///
    /// # Errors
    /// No rows or outputs, an inner dimension that is no multiple of 8, no ranges, a missing operand, or a missing
    /// workspace where the plan needs one.
    pub fn under(&self, plan: ProductPlan, workspace: Workspace) -> Result<Launch, ShapeError> {
        let kernel = plan.tile.kernel();
        kernel.vectors([("out", self.out), ("input", self.input), ("weight", self.weight)])?;
        if self.bias != Address::NONE {
            kernel.vectors([("bias", self.bias)])?;
        }
        let [rows, outputs] =
            [kernel.positive("rows", self.rows.0)? as i32, kernel.positive("outputs", self.outputs)? as i32];
        let inputs = kernel.vector_width("inputs", self.inputs)?;
        let splits = kernel.within("splits", plan.splits, 1..=inputs.div_ceil(TILE_INPUTS.into()).cast_signed())?;
        if splits > 1 {
            kernel.vectors([("partial", workspace.partial)])?;
            kernel.words([("arrivals", workspace.arrivals)])?;
        }
        let [tiles_of_outputs, tiles_of_rows] = output_tiles(self, plan.tile);
        let grid = [tiles_of_outputs, tiles_of_rows, splits];
        let (inputs, splits) = (inputs as i32, splits as i32);
        let (&Self { out, input, weight, bias, .. }, Workspace { partial, arrivals }) = (self, workspace);
        let shared_bytes = plan.tile.shared_bytes();
        match plan.tile {
            Tile::Rows16 => {
                let gemm = GemmTile16 { out, input, weight, bias, partial, arrivals, rows, outputs, inputs, splits };
                launch(gemm, grid, GEMM_THREADS, shared_bytes)
            }
            Tile::Rows64 => {
                let gemm = GemmTile64 { out, input, weight, bias, partial, arrivals, rows, outputs, inputs, splits };
                launch(gemm, grid, GEMM_THREADS, shared_bytes)
            }
            Tile::Rows128 => {
                let gemm = GemmTile128 { out, input, weight, bias, partial, arrivals, rows, outputs, inputs, splits };
                launch(gemm, grid, GEMM_THREADS, shared_bytes)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const AT: Address = Address(0x1000);
    const WORKSPACE: Workspace = Workspace { partial: AT, arrivals: AT };

    fn product(rows: u32, outputs: u32, inputs: u32) -> Product {
        Product { out: AT, input: AT, weight: AT, bias: Address::NONE, rows: Rows(rows), outputs, inputs }
    }

    #[test]
    fn tiles_follow_the_rows() {
        let tiles = [1, 16, 17, 64, 65, 128, 129, 8_192].map(|rows| Tile::holding(Rows(rows)).rows());
        assert_eq!(tiles, [16, 16, 64, 64, 128, 128, 128, 128]);
    }

    #[test]
    fn shared_memory_fits_every_supported_device() {
        // 4 stages of 16 + 64 and 64 + 64, 3 of 128 + 128 lines of 128 bytes; 99 KiB is what a block of compute capability 8.6, 8.9 and
        // 12.0 can have.
        assert_eq!(Tile::ALL.map(Tile::shared_bytes), [40_960, 65_536, 98_304]);
        assert!(Tile::ALL.iter().all(|tile| tile.shared_bytes() <= 99 << 10));
    }

    #[test]
    fn splits_give_every_multiprocessor_two_blocks() {
        let choose = |rows, outputs, inputs| ProductPlan::choose(&product(rows, outputs, inputs), 132);
        // Llama-3-8B's output projection at 1 row: 64 tiles, 264 blocks wanted, so 5 ranges of 13 of the 64 steps.
        assert_eq!(choose(1, 4096, 4096), ProductPlan { tile: Tile::Rows16, splits: 5 });
        // Its gate and up projection has 448 tiles: enough.
        assert_eq!(choose(1, 28_672, 4096), ProductPlan { tile: Tile::Rows16, splits: 1 });
        // 128 rows of its output projection: 32 tiles of 128 by 128, 9 ranges of 8 of the 64 steps make 8; 256 rows: 64
        // tiles, 5 ranges of 13.
        assert_eq!(choose(128, 4096, 4096), ProductPlan { tile: Tile::Rows128, splits: 8 });
        assert_eq!(choose(256, 4096, 4096), ProductPlan { tile: Tile::Rows128, splits: 5 });
        // One tile of 16 steps: 264 ranges wanted, 4 of 4 steps are what the inner dimension has.
        assert_eq!(choose(1, 64, 1024).splits, 4);
        assert_eq!(choose(1, 64, 64).splits, 1);
    }

    #[test]
    fn no_range_is_empty() {
        for inputs in (8..2_000).step_by(8) {
            for splits in 0..40 {
                let plan = ProductPlan::exactly(&product(1, 64, inputs), Tile::Rows16, splits);
                let steps = inputs.div_ceil(TILE_INPUTS);
                let per_range = steps.div_ceil(plan.splits);
                assert!(plan.splits >= 1 && (plan.splits - 1) * per_range < steps, "{inputs} {splits} {plan:?}");
                assert!(plan.splits <= splits.max(1));
            }
        }
    }

    #[test]
    fn workspace_by_hand() {
        let product = product(33, 200, 320);
        let plan = ProductPlan::exactly(&product, Tile::Rows16, 3);
        // 5 steps in ranges of 2, 2 and 1; 4 x 3 output tiles.
        assert_eq!(plan.splits, 3);
        assert_eq!(plan.partial_bytes(&product), 3 * 33 * 200 * 4);
        assert_eq!(plan.arrivals_bytes(&product), 4 * 3 * 4);
        let whole = ProductPlan::exactly(&product, Tile::Rows16, 1);
        assert_eq!((whole.partial_bytes(&product), whole.arrivals_bytes(&product)), (0, 0));
    }

    #[test]
    fn launches_by_hand() {
        let launch = product(33, 200, 320).under(ProductPlan { tile: Tile::Rows16, splits: 3 }, WORKSPACE).unwrap();
        assert_eq!((launch.kernel, launch.grid, launch.block), (Kernel::GemmTile16, [4, 3, 3], [128, 1, 1]));
        assert_eq!((launch.shared_bytes, launch.arguments.bytes().len()), (40_960, 6 * 8 + 4 * 4));
        let launch = product(129, 64, 8).under(ProductPlan { tile: Tile::Rows128, splits: 1 }, WORKSPACE).unwrap();
        assert_eq!((launch.kernel, launch.grid), (Kernel::GemmTile128, [1, 2, 1]));
        let launch = product(64, 65, 8).under(ProductPlan { tile: Tile::Rows64, splits: 1 }, WORKSPACE).unwrap();
        assert_eq!((launch.kernel, launch.grid), (Kernel::GemmTile64, [2, 1, 1]));
    }

    #[test]
    fn what_products_do_not_take_is_refused_by_name() {
        let refused = |product: Product, splits, workspace| {
            product.under(ProductPlan { tile: Tile::Rows16, splits }, workspace).unwrap_err().to_string()
        };
        assert_eq!(refused(product(0, 64, 64), 1, WORKSPACE), "gemm_tile16_bf16: rows = 0: expected 1 to 2147483647");
        assert_eq!(
            refused(product(1, 64, 60), 1, WORKSPACE),
            "gemm_tile16_bf16: inputs = 60: expected a multiple of 8"
        );
        assert_eq!(refused(product(1, 64, 128), 3, WORKSPACE), "gemm_tile16_bf16: splits = 3: expected 1 to 2");
        assert_eq!(
            refused(product(1, 64, 128), 2, Workspace { arrivals: Address::NONE, ..WORKSPACE }),
            "gemm_tile16_bf16: arrivals = 0x0: expected an address, a multiple of 4"
        );
        assert_eq!(
            refused(product(2_000_000, 64, 64), 1, WORKSPACE),
            "gemm_tile16_bf16: grid.y = 125000: expected 1 to 65535 blocks"
        );
        // Without ranges no workspace is needed.
        let plan = ProductPlan { tile: Tile::Rows16, splits: 1 };
        assert!(product(1, 64, 64).under(plan, Workspace::default()).is_ok());
    }
}
