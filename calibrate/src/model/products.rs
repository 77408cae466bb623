//! Which kernel multiplies, and the workspace that split products share.

use kernels::geometry::ModelGeometry;
use kernels::launch::{Address, Launch, Product, ProductPlan, ShapeError, Workspace};
use kernels::units::Rows;

use crate::device::{Arena, DeviceError, Session};

/// The own GEMM, planned for this device.
#[derive(Debug)]
pub(super) struct Products {
    workspace: Workspace,
    multiprocessors: u32,
}

impl Products {
    /// Allocates a workspace that the largest product of any step of at most `rows` rows fits into, its counters zero.
    pub(super) fn new(
        session: &mut Session,
        memory: &Arena,
        geometry: &ModelGeometry,
        rows: Rows,
        multiprocessors: u32,
    ) -> Result<Self, DeviceError> {
        let (mut partial_bytes, mut arrivals_bytes) = (0, 0);
        for (outputs, inputs) in widths(geometry) {
            for rows in (1..=rows.0).map(Rows) {
                let none = Address::NONE;
                let product = Product { out: none, input: none, weight: none, bias: none, rows, outputs, inputs };
                let plan = ProductPlan::choose(&product, multiprocessors);
                partial_bytes = plan.partial_bytes(&product).max(partial_bytes);
                arrivals_bytes = plan.arrivals_bytes(&product).max(arrivals_bytes);
            }
        }
        let workspace =
            Workspace { partial: memory.allocate(partial_bytes)?, arrivals: memory.allocate(arrivals_bytes)? };
        session.fill(workspace.arrivals, 0, arrivals_bytes.max(1))?;
        Ok(Self { workspace, multiprocessors })
    }

    /// The launch of a product.
    pub(super) fn launch(&self, product: &Product) -> Result<Launch, ShapeError> {
        product.under(ProductPlan::choose(product, self.multiprocessors), self.workspace)
    }
}

/// Outputs and inputs of every product of a step.
fn widths(geometry: &ModelGeometry) -> [(u32, u32); 5] {
    let (hidden, intermediate, query) = (geometry.hidden, geometry.intermediate, geometry.query_width() as u32);
    let qkv = query + 2 * geometry.kv_width() as u32;
    [(qkv, hidden), (hidden, query), (2 * intermediate, hidden), (hidden, intermediate), (geometry.vocabulary, hidden)]
}
