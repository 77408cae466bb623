//! `calibrate probe NAME`: one probe alone, on a small model.

use std::io::{self, Write};
use std::ops::ControlFlow;

use kernels::geometry::{ModelGeometry, ModelShape};
use kernels::step::Constants;
use kernels::units::{Requests, Rows};
use serde::Serialize;

use super::Failure;
use super::found::Found;
use crate::command_line::{ProbeName, ProbeOptions};
use crate::device::{self, Blaslt, Card, Images, Session};
use crate::exit::Exit;
use crate::measure::{Limits, Progress, Protocol};
use crate::model::{self, Mode, Model};
use crate::padding;
use crate::plan::PACE_WARM_UP;
use crate::probe::{self, Bench, PaceWork, ProbeError, Probed, RungPlan};
use crate::stderr;

/// Rungs of the small model's ladder.
const LADDER: [u32; 6] = [1, 8, 16, 64, 128, 256];
const QUICK_LADDER: [u32; 3] = [1, 16, 64];
/// Tokens of context of a decoding request.
const CONTEXT: u32 = 128;

pub(super) fn run(options: &ProbeOptions, out: &mut impl Write) -> Result<Exit, Failure> {
    device::load_modules_eagerly();
    let found = Found::look()?;
    let device = found.choose(options.device.as_ref())?;
    let card = Card::at(found.library, device.index)?;
    let mut session = Session::open(card, |module| Images::Embedded.of(module))?;
    let found = perform(options, &mut session);
    // The probe's failure says more than that of the end after it.
    let printed = match found {
        Ok(printed) => {
            session.close()?;
            printed
        }
        Err(error) => return Err(error),
    };
    out.write_all(printed.toml.as_bytes())?;
    Ok(printed.exit)
}

/// A result as it is printed.
struct Printed {
    toml: String,
    exit: Exit,
}

impl Printed {
    fn of<R: Serialize>(probed: Result<Probed<R>, ProbeError>) -> Result<Self, Failure> {
        let probed = probed?;
        for (what, disturbance) in &probed.disturbances {
            stderr::line(format_args!("{what}: {disturbance}"));
        }
        let exit = if probed.disturbances.is_empty() { Exit::Ok } else { Exit::TooNoisy };
        let toml = toml::to_string(&probed).map_err(io::Error::other)?;
        Ok(Self { toml, exit })
    }
}

fn perform(options: &ProbeOptions, session: &mut Session) -> Result<Printed, Failure> {
    let seed = u64::from(options.seed);
    let protocol = if options.quick { Protocol::quick(seed) } else { Protocol::full(seed) };
    let ladder: &[u32] = if options.quick { &QUICK_LADDER } else { &LADDER };
    let ladder: Vec<Rows> = ladder.iter().copied().map(Rows).collect();
    let largest = *ladder.last().unwrap_or(&Rows(1));
    let mut model = small_model(session, largest, options.layers)?;
    let mut heard = |_: &Progress| ControlFlow::Continue(());
    let pace_work = PaceWork::new(session)?;
    let bench = Bench::new(session, protocol, Limits::default(), &mut heard)?;
    let now = bench.pace(&pace_work, PACE_WARM_UP)?;
    let bench = &bench.paced_by(&pace_work, now);
    let model = &mut model;
    let counts: &[u32] = if options.quick { &probe::launch::QUICK_COUNTS } else { &probe::launch::COUNTS };
    let frame_us = || Ok::<_, ProbeError>(probe::launch::run(bench, counts)?.result.graph_device.fixed_us);
    let requests: Vec<Requests> = ladder.iter().map(|rows| Requests(rows.0)).collect();
    match options.probe {
        ProbeName::Launch => Printed::of(probe::launch::run(bench, counts)),
        ProbeName::Bandwidth => Printed::of(probe::bandwidth::run(bench)),
        ProbeName::Rungs => {
            let plan = RungPlan {
                ladder,
                modes: vec![Mode::Piecewise, Mode::Full],
                context: CONTEXT,
                ascending: true,
                repeats: if options.quick { 3 } else { 6 },
            };
            Printed::of(probe::rungs::run(bench, model, &plan))
        }
        ProbeName::Executables => {
            Printed::of(probe::executables::run(bench, model, largest, &[Mode::Piecewise, Mode::Full]))
        }
        ProbeName::Update => Printed::of(probe::update::run(bench, model, [ladder[0], ladder[1]])),
        ProbeName::Dense => {
            let sizes = probe::dense::grid(&ladder, &model.gemm_backend(), options.quick);
            Printed::of(probe::dense::run(bench, model, &sizes, Rows(padding::rows_most(largest.0))))
        }
        ProbeName::Decode => {
            Printed::of(probe::attention::decode(bench, model, &requests, &[1, CONTEXT, 2 * CONTEXT], frame_us()?))
        }
        ProbeName::Prefill => {
            let chunks = [Rows(16), largest];
            Printed::of(probe::attention::prefill(bench, model, &chunks, &[0, CONTEXT], frame_us()?))
        }
        ProbeName::Head => Printed::of(probe::head::run(bench, model, &ladder)),
    }
}

/// Llama's shape, small in every width.
fn small_model(session: &mut Session, rows: Rows, layers: u32) -> Result<Model, ProbeError> {
    let shape = ModelShape {
        layers,
        hidden: 512,
        intermediate: 1_536,
        query_heads: 8,
        kv_heads: 2,
        head_size: 64,
        vocabulary: 4_096,
        weight_bits: 16,
        kv_bits: 16,
        tied_embeddings: false,
        qkv_bias: false,
        qk_norm: false,
    };
    let geometry = ModelGeometry::new(shape).map_err(|error| ProbeError::Plan {
        what: error.key,
        given: error.value.to_string(),
        expected: error.expected,
    })?;
    let limits =
        model::Limits { rows, requests: Requests(rows.0), block_size: 16, blocks_per_request: 64, cache_blocks: 2_048 };
    let library = Blaslt::open(session).ok();
    Ok(Model::load(session, geometry, Constants::default(), limits, library)?)
}
