//! Law 1.

use crate::house::{Watched, for_all};
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
