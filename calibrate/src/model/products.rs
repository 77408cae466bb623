//! What multiplies in a step, and the workspace that its products share.

use std::rc::Rc;

use kernels::geometry::ModelGeometry;
use kernels::launch::{Address, Product, ProductPlan, ShapeError, Workspace};
use kernels::units::Rows;

use super::StepError;
use super::call::Call;
use crate::device::{Arena, Blaslt, Capture, DeviceError, MatmulWorkspace, Session};
use crate::gemm_backend::GemmBackend;

/// One backend for all products of a model: never two in one run, for their steps lie at other row counts.
#[derive(Debug)]
pub(super) enum Products {
    /// The own GEMM, planned for this device.
    Own { workspace: Workspace, multiprocessors: u32 },
    /// cuBLASLt.
    Library { library: Blaslt, workspace: MatmulWorkspace },
}

impl Products {
    /// The library if there is one, else the own GEMM with a workspace that the largest product of any step of at most `rows`
    /// rows fits into, its counters zero.
    pub(super) fn new(
        session: &mut Session,
        memory: &Arena,
        geometry: &ModelGeometry,
        rows: Rows,
        multiprocessors: u32,
        library: Option<Blaslt>,
    ) -> Result<Rc<Self>, DeviceError> {
        if let Some(library) = library {
            let bytes = Blaslt::WORKSPACE_BYTES;
            let workspace = MatmulWorkspace { address: memory.allocate(bytes)?, bytes };
            return Ok(Rc::new(Self::Library { library, workspace }));
        }
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
        Ok(Rc::new(Self::Own { workspace, multiprocessors }))
    }

    /// What multiplies.
    pub(super) fn backend(&self) -> GemmBackend {
        match self {
            Self::Own { .. } => GemmBackend::Own,
            Self::Library { library, .. } => library.backend(),
        }
    }

    /// The call that computes a product.
    pub(super) fn call(&self, product: Product) -> Result<Call, ShapeError> {
        match self {
            Self::Own { workspace, multiprocessors } => {
                let plan = ProductPlan::choose(&product, *multiprocessors);
                Ok(Call::Launch(product.under(plan, *workspace)?))
            }
            Self::Library { .. } => Ok(Call::Product(product)),
        }
    }

    /// Makes a call after everything launched so far.
    pub(super) fn run(&self, session: &mut Session, call: &Call) -> Result<(), StepError> {
        match (call, self) {
            (Call::Launch(launch), _) => session.launch(launch)?,
            (Call::Product(product), Self::Library { library, workspace }) => {
                session.multiply(library, product, *workspace)?;
            }
            (Call::Product(product), Self::Own { .. }) => return self.run(session, &self.call(*product)?),
        }
        Ok(())
    }

    /// Records a call.
    pub(super) fn record(&self, capture: &mut Capture<'_>, call: &Call) -> Result<(), StepError> {
        match (call, self) {
            (Call::Launch(launch), _) => capture.launch(launch)?,
            (Call::Product(product), Self::Library { library, workspace }) => {
                capture.multiply(library, product, *workspace)?;
            }
            (Call::Product(product), Self::Own { .. }) => return self.record(capture, &self.call(*product)?),
        }
        Ok(())
    }
}

/// Outputs and inputs of every product of a step.
fn widths(geometry: &ModelGeometry) -> [(u32, u32); 5] {
    let (hidden, intermediate, query) = (geometry.hidden, geometry.intermediate, geometry.query_width() as u32);
    let qkv = query + 2 * geometry.kv_width() as u32;
    [(qkv, hidden), (hidden, query), (2 * intermediate, hidden), (hidden, intermediate), (geometry.vocabulary, hidden)]
}
