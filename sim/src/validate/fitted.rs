//! Costs out of a run's own series, for a run without kernel tables: they say nothing of how fast a server is, for that is
//! where they come from. What they leave to check is who runs and who waits.

use calibrate::profile::{Axis, Curve, Group, Kind, Profile, Provenance, Table};

use super::costs::Costs;
use super::outcome::Outcome;
use super::run::Meta;
use super::step_times::{by_running, unpriced};

/// Running requests of one bin.
const BIN: u32 = 8;

impl Costs {
    /// The time of a decode step by running requests, from ticks without prompts, and of a prompt token, from the others;
    /// `None` where the series has no such ticks.
    #[must_use]
    pub fn fitted(run: &str, meta: &Meta, measured: &Outcome) -> Option<Self> {
        let points = by_running(measured, BIN, &unpriced)
            .into_iter()
            .filter_map(|bin| Some((bin.mean_running()?, bin.ms()? * 1e3)));
        let (mut rows, mut us): (Vec<f64>, Vec<f64>) = points.unzip();
        let kwargs = &meta.engine_kwargs;
        let decode_most = f64::from(kwargs.max_num_seqs.min(kwargs.max_num_batched_tokens));
        let (&first_us, &last_us) = (us.first()?, us.last()?);
        for (row, at, value) in [(1.0, 0, first_us), (decode_most, rows.len() + 1, last_us)] {
            if !rows.iter().any(|&known| (known - row).abs() < 0.5) {
                rows.insert(at.min(rows.len()), row);
                us.insert(at.min(us.len()), value);
            }
        }
        let decode = Curve::Table(Table::new(Axis::new(rows.clone())?, us.clone())?);
        let token_us = prompt_token_us(measured, &decode);
        let last = f64::from(kwargs.max_num_batched_tokens).max(decode_most + 1.0);
        rows.push(last);
        us.push(decode.at(decode_most).value + token_us * (last - decode_most));
        let dense = Curve::Table(Table::new(Axis::new(rows)?, us)?);
        let mut profile = Profile::builtin("textbook").ok()?;
        profile.name = format!("fitted_{run}");
        profile.overlap = calibrate::profile::Overlap::Pipelined;
        profile.machine.dense = group(dense);
        profile.machine.head = group(Curve::Constant(0.0));
        profile.engine.host.figures.step_overhead_us = 0.0;
        profile.engine.host.figures.per_request_us = 0.0;
        profile.engine.ops.figures.eager = 0;
        profile.engine.ops.figures.compiled = 0;
        profile.engine.attention = None;
        profile.machine.attention = None;
        let words = format!(
            "fitted: ms per step by running requests in ticks without prompts, {token_us:.1} us a prompt token in the others"
        );
        Some(Self { profile, parts: vec![("whole steps", words)], lender: None })
    }
}

/// What is left of the ticks with prompts when their decode steps are taken off, for each prompt token.
fn prompt_token_us(measured: &Outcome, decode: &Curve) -> f64 {
    let (mut us, mut tokens) = (0.0, 0.0);
    let mut before_running = 0.0;
    for tick in &measured.ticks {
        let running = f64::midpoint(before_running, tick.running);
        before_running = tick.running;
        if tick.prompt_tokens > 0.0 && running > 0.0 {
            us += tick.seconds * 1e6 - tick.output_tokens / running * decode.at(running).value;
            tokens += tick.prompt_tokens;
        }
    }
    if tokens > 0.0 { (us / tokens).max(0.0) } else { 0.0 }
}

fn group(figures: Curve) -> Group<Curve> {
    Group {
        figures,
        provenance: Provenance {
            kind: Kind::Derived,
            source: "the series of the run that is validated".to_owned(),
            licence: None,
            method: Some("tokens over running requests per tick".to_owned()),
            valid: None,
            range: None,
        },
        measured: None,
    }
}
