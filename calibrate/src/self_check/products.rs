//! The own matrix products against cuBLASLt, where it can be loaded.

use kernels::bf16;
use kernels::launch::{Address, Product, ProductPlan, ShapeError, Workspace};
use kernels::random::Random;
use kernels::units::Rows;

use super::Stopped;
use super::finding::{Cause, Finding, Report};
use crate::device::{Attribute, Blaslt, BlasltError, DeviceError, MatmulWorkspace, Session};

/// How far both results may lie from each other, relative to their norm. The own kernel adds in f32 and rounds once, by
/// 1.7e-3 (the root mean square of 2^-9 at most); cuBLASLt may add parts of the inner dimension in bf16, as it does in
/// engines: some ten such roundings, added up as they come, and as much again.
const LIMIT: f64 = 1e-2;

/// Rows on both sides of tiles' edges, and outputs and inputs: a square, a long inner dimension, one that no tile divides.
const FULL: (&[u32], &[(u32, u32)]) = (&[1, 7, 16, 65, 128, 200, 512], &[(1_024, 1_024), (128, 8_192), (264, 520)]);
/// As many as an executor on the CPU can do.
const QUICK: (&[u32], &[(u32, u32)]) = (&[1, 17], &[(64, 128), (72, 264)]);

/// Why a comparison failed.
#[derive(Debug, thiserror::Error)]
enum Failed {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Blaslt(#[from] BlasltError),
    #[error(transparent)]
    Shape(#[from] ShapeError),
    #[error("{shape}: cuBLASLt and the own kernel differ by {off_by:.1e} of the norm: expected at most {LIMIT:.1e}")]
    Differs { shape: String, off_by: f64 },
    #[error("{shape}: the replayed product differs from the eager one from byte {byte} on")]
    Replay { shape: String, byte: usize },
}

impl Cause for Failed {
    fn device(&self) -> Option<&DeviceError> {
        match self {
            Self::Device(error) => Some(error),
            _ => None,
        }
    }
}

/// Runs the comparison; true if the context is lost.
pub(super) fn run(session: &mut Session, report: &mut Report<'_>) -> Result<bool, Stopped> {
    let blaslt = match Blaslt::open(session) {
        Ok(blaslt) => blaslt,
        Err(why) => {
            report.add(Finding::not_available("own matrix products against cuBLASLt", why.to_string()))?;
            return Ok(false);
        }
    };
    let is_double = session.card().library().double_version().is_some();
    let compared = compare(session, &blaslt, if is_double { QUICK } else { FULL });
    report.conclude("own matrix products against cuBLASLt", compared)
}

fn compare(
    session: &mut Session,
    blaslt: &Blaslt,
    (all_rows, widths): (&[u32], &[(u32, u32)]),
) -> Result<String, Failed> {
    let mut random = Random::named("products", 0);
    let (mut products, mut worst) = (0, 0.0_f64);
    for &(outputs, inputs) in widths {
        for &rows in all_rows {
            for has_bias in [false, true] {
                let off_by = one(session, blaslt, &mut random, (rows, outputs, inputs), has_bias)?;
                worst = worst.max(off_by);
                products += 1;
            }
        }
    }
    Ok(format!("{products} products off by {worst:.1e} of the norm (limit {LIMIT:.1e}), {}", blaslt.backend()))
}

/// One product by both, and by cuBLASLt once more from a graph; how far they lie from each other.
fn one(
    session: &mut Session,
    blaslt: &Blaslt,
    random: &mut Random,
    (rows, outputs, inputs): (u32, u32, u32),
    has_bias: bool,
) -> Result<f64, Failed> {
    let shape = format!("{rows} rows, {outputs} outputs, {inputs} inputs{}", if has_bias { ", bias" } else { "" });
    let memory = session.arena();
    let mut operand = |session: &mut Session, count: u32| {
        let bytes = bf16::to_bytes(&random.bf16s(count as usize, 1.0));
        let address = memory.allocate(bytes.len() as u64)?;
        session.write(address, &bytes)?;
        Ok::<_, DeviceError>(address)
    };
    let mut product = Product {
        out: memory.allocate(u64::from(rows * outputs) * 2)?,
        input: operand(session, rows * inputs)?,
        weight: operand(session, outputs * inputs)?,
        bias: Address::NONE,
        rows: Rows(rows),
        outputs,
        inputs,
    };
    if has_bias {
        product.bias = operand(session, outputs)?;
    }
    let workspace =
        MatmulWorkspace { address: memory.allocate(Blaslt::WORKSPACE_BYTES)?, bytes: Blaslt::WORKSPACE_BYTES };

    let sm_count = session.card().attribute(Attribute::Multiprocessors)?.unsigned_abs();
    let plan = ProductPlan::choose(&product, sm_count);
    let arrivals_bytes = plan.arrivals_bytes(&product);
    let own_workspace = Workspace {
        partial: memory.allocate(plan.partial_bytes(&product))?,
        arrivals: memory.allocate(arrivals_bytes)?,
    };
    session.fill(own_workspace.arrivals, 0, arrivals_bytes.max(1))?;
    session.launch(&product.under(plan, own_workspace)?)?;
    let own = result(session, &product)?;

    session.multiply(blaslt, &product, workspace)?;
    let theirs = result(session, &product)?;

    let mut capture = session.capture([memory.clone()])?;
    capture.multiply(blaslt, &product, workspace)?;
    let (session, graph) = capture.end();
    let executable = session.instantiate(&graph?)?;
    session.replay(&executable)?;
    let replayed = result(session, &product)?;
    if let Some(byte) = theirs.iter().zip(&replayed).position(|(eager, replayed)| eager != replayed) {
        return Err(Failed::Replay { shape, byte });
    }
    let off_by = distance(&own, &theirs);
    // NaN is within no limit.
    if off_by <= LIMIT { Ok(off_by) } else { Err(Failed::Differs { shape, off_by }) }
}

/// What the product left in `out`, which is all NaN afterwards: what a later one does not write is seen.
fn result(session: &mut Session, product: &Product) -> Result<Vec<u8>, DeviceError> {
    let mut bytes = vec![0; (product.rows.0 * product.outputs) as usize * 2];
    session.read(product.out, &mut bytes)?;
    session.fill(product.out, 0xff, bytes.len() as u64)?;
    Ok(bytes)
}

/// Norm of the difference of two bf16 results, relative to the norm of the first.
fn distance(one: &[u8], other: &[u8]) -> f64 {
    let [one, other] = [one, other].map(|bytes| bf16::to_f64s(&bf16::from_bytes(bytes)));
    let norm = |values: &mut dyn Iterator<Item = f64>| values.map(|value| value * value).sum::<f64>().sqrt();
    norm(&mut one.iter().zip(&other).map(|(one, other)| one - other)) / norm(&mut one.iter().copied())
}

#[cfg(test)]
mod tests {
    use kernels::bf16::Bf16;

    use super::*;

    #[test]
    fn distances_are_relative_and_nan_is_far() {
        let bytes =
            |values: &[f64]| bf16::to_bytes(&values.iter().map(|value| Bf16::from_f64(*value)).collect::<Vec<_>>());
        let close = distance(&bytes(&[3.0, 4.0]), &bytes(&[3.0, 4.5]));
        assert!((close - 0.1).abs() < 1e-12, "{close}");
        assert!(distance(&bytes(&[1.0]), &[0xff, 0xff]).is_nan());
    }
}
