//! The whole pipeline on recorded traffic.

use std::fs;
use std::path::Path;

use calibrate::profile::Profile;

use crate::house::{House, Watched, require};
use crate::kv::Blocks;
use crate::ledger::Ledger;
use crate::sums::Count;
use crate::traces::{requests, shared_trace};

/// `scenarios/chunked.toml` with the trace that its traffic was fitted to in place of the fit.
fn scenario_on(trace: &Path) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scenarios");
    let text = fs::read_to_string(folder.join("chunked.toml")).expect("the scenario is part of the repository");
    let (server, rest) = text.split_once("[traffic]").expect("the scenario has traffic");
    let (_, rest) = rest.split_once("[slo]").expect("objectives follow the traffic");
    format!("{server}[traffic]\nseed = 7\n[traffic.arrivals.trace]\nfile = '{}'\n\n[slo]{rest}", trace.display())
}

/// Every request of the Azure conversation trace is served by every candidate of the scenario that speaks of it, with
/// the trace's own number of output tokens, and laws 1, 5 and 10 hold all the way.
#[test]
fn the_azure_conversation_trace_is_served_whole() {
    let Some(path) = shared_trace("azure2023_conv.csv") else { return };
    let rows = requests(&path);
    assert_eq!(rows.len(), 19_366);
    let asked: u64 = rows.iter().map(|row| u64::from(row.output_tokens)).sum();
    let profile = Profile::builtin("a100-llama-3-8b").expect("a built-in profile");
    let house = House::open(&scenario_on(&path), Path::new(""), profile).expect("a scenario");
    assert!(house.setups.len() >= 4, "the scenario compares several candidates");
    for candidate in 0..house.setups.len() {
        let name = &house.scenario.candidates[candidate].name;
        let served = serve(&house, candidate, asked, rows.len() as u64);
        served.unwrap_or_else(|fault| panic!("{name}: {fault}"));
    }
}

fn serve(house: &House, candidate: usize, asked: u64, count: u64) -> Result<(), String> {
    let setup = &house.setups[candidate];
    let mut laws = (
        Watched(Ledger::new(setup)),
        (Watched(Blocks::new(setup)), Watched(Count::new(setup, house.scenario.warm_up))),
    );
    let outcome = house.serve(candidate, &mut laws)?;
    let (Watched(ledger), (_, Watched(sums))) = laws;
    ledger.close(&outcome.end, Some(count))?;
    sums.check(&outcome, setup)?;
    let latency = &outcome.summary.latency;
    println!(
        "azure conversation, {}: {} steps, goodput {:.3}/s, throughput {:.3}/s, median TTFT {:.1} ms, \
         median TPOT {:.2} ms, \
         fallback rate {:.3}, preemptions {}",
        house.scenario.candidates[candidate].name,
        outcome.end.steps,
        latency.request_goodput().unwrap_or_default(),
        latency.request_throughput().unwrap_or_default(),
        latency.ttft.map_or(f64::NAN, |spread| spread.median_ms),
        latency.tpot.map_or(f64::NAN, |spread| spread.median_ms),
        outcome.summary.rungs.fallback_rate().unwrap_or_default(),
        outcome.end.preemptions
    );
    require(latency.completed + latency.refused == count, || format!("{} of {count} completed", latency.completed))?;
    require(latency.output_tokens == asked, || format!("{} tokens of {asked}", latency.output_tokens))
}
