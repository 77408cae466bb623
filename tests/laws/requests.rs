//! Law 1.

use std::path::Path;

use calibrate::profile::Profile;
use reports::{RequestLog, RequestRecord};
use sim::record::RequestLogger;
use sim::scenario::Slo;

use crate::house::{House, Watched, for_all};
use crate::ledger::Ledger;

/// Every request offered is running, waiting, finished or refused at every step, none is served twice, and each
/// finished one received exactly the tokens it asked for.
#[test]
fn law_1_no_request_is_lost_or_served_twice() {
    let needed = ["preemptions", "refused", "cut by max_model_len"];
    for_all("law 1", 256, &needed, |case, seen| {
        let house = case.open()?;
        for candidate in 0..house.setups.len() {
            let mut ledger = Watched(Ledger::new(&house.setups[candidate]));
            let outcome = house.serve(candidate, &mut ledger)?;
            let ledger = ledger.0;
            ledger.close(&outcome.end, house.scenario.traffic.requests)?;
            seen.add_run(&outcome);
            seen.add("preemptions", ledger.preemptions);
            seen.add("refused", u64::from(ledger.refused));
            seen.add("cut by max_model_len", u64::from(ledger.cut));
        }
        Ok(())
    });
}

/// The older of two requests takes the younger one's last block in a schedule that hands out no tokens.
const PREEMPTED_WITHOUT_A_STEP: &str = r#"
schema = 1
name = "preempted without a step"
[profile]
builtin = "textbook"
[server.vllm]
runner = "v1"
max_num_seqs = 2
max_num_batched_tokens = 8
max_model_len = 8
enable_prefix_caching = false
block_size = 1
async_scheduling = true
scheduler_reserve_full_isl = false
num_gpu_blocks_override = 9
[traffic]
seed = 21
requests = 3
[traffic.arrivals.poisson]
rate = 7.809
[traffic.lengths.uniform]
prompt = [1, 4]
output = [1, 20]
"#;

/// Preemptions are counted wherever they happen: in the report and in the request log as in the scheduler.
#[test]
fn preemptions_in_schedules_without_tokens_are_counted() {
    let profile = Profile::builtin("textbook").expect("a built-in profile");
    let house = House::open(PREEMPTED_WITHOUT_A_STEP, Path::new(""), profile).expect("a scenario");
    let mut observers = (
        Watched(Ledger::new(&house.setups[0])),
        RequestLogger::new(RequestLog::new(Vec::new()).expect("a log"), "", 0, Slo::default()),
    );
    let outcome = house.serve(0, &mut observers).expect("served");
    assert!(outcome.end.preemptions > 0);
    assert_eq!(outcome.summary.steps.preemptions, outcome.end.preemptions);
    let rows = observers.1.into_log().finish().expect("a log in memory");
    let preemptions = csv::Reader::from_reader(rows.as_slice())
        .into_deserialize()
        .map(|row: csv::Result<RequestRecord>| u64::from(row.expect("a row").preemptions))
        .sum::<u64>();
    assert_eq!(preemptions, outcome.end.preemptions);
}
