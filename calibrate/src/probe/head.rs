//! What follows the model: choice of the sampled rows, LM head and argmax, by the sequences that are sampled.
//!
//! The head is timed as launches, not as a graph: vLLM runs it eagerly behind either mode, with the gaps that launches have.

use kernels::step::Place;
use kernels::units::{Requests, Rows};

use super::bench::{Bench, Campaigns, Point, Probed};
use super::error::ProbeError;
use super::inputs::Inputs;
use super::result::{HeadPoint, HeadTable};
use crate::counted::counted;
use crate::model::Model;

/// Times the head for these numbers of sequences.
///
/// # Errors
/// No numbers, or one beyond the model's limits; not enough memory; or the device fails.
pub fn run(bench: &Bench<'_>, model: &mut Model, sequences: &[Rows]) -> Result<Probed<HeadTable>, ProbeError> {
    let mut rising = sequences.to_vec();
    rising.sort_unstable();
    rising.dedup();
    let Some(&largest) = rising.last() else { return Err(ProbeError::plan("sequences", 0, "at least one")) };
    let shape = model.decode_shape(largest);
    bench.require("running the head", model.pool_bytes(&shape)?)?;
    let mut heads = Vec::new();
    for &rows in &rising {
        let shape = model.decode_shape(rows);
        heads.push(bench.on(|session| model.plan(session, &shape))?.only(|place| place == Place::Head));
    }
    let inputs = Inputs::decodes(model, Requests(largest.0), 1)?;
    bench.on(|session| model.set_inputs(session, &inputs.batch, &shape))?;
    let points = rising.iter().zip(&heads).map(|(rows, head)| Point::new(counted(rows, "sequence"), head));
    let mut campaigns = Campaigns::default();
    let measured = bench.device("head, device", points.collect(), &mut campaigns)?;
    let points = rising.iter().zip(measured.times_us());
    let points = points.map(|(&sequences, device_us)| HeadPoint { sequences, device_us });
    Ok(campaigns.with(HeadTable { points: points.collect() }))
}
