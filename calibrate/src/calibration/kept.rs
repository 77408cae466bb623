//! What of a part is kept: its result, how its campaigns went, and what was amiss but could be lived with.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::findings::Found;
use crate::measure::{Campaign, Cause, TooNoisy};
use crate::probe::Probed;
use crate::profile::KeptWarning;

/// An interval that is up to so many times as wide as its limit says itself how much it is worth, and is kept with a
/// warning. Whatever else is beyond its limit makes a result worthless.
const WIDE_MOST: f64 = 3.0;

/// The result of a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept<R> {
    /// What was amiss, in words.
    noise: Vec<String>,
    probed: Probed<R>,
}

impl<R> Kept<R> {
    /// Of a part that was measured.
    ///
    /// # Errors
    /// The first disturbance that makes the result worthless.
    pub(super) fn of(mut probed: Probed<R>) -> Result<Self, TooNoisy> {
        let mut noise = Vec::new();
        for (name, disturbance) in std::mem::take(&mut probed.disturbances) {
            if !is_bearable(&disturbance) {
                return Err(disturbance);
            }
            noise.push(format!("{name}: {disturbance}"));
        }
        Ok(Self { noise, probed })
    }

    pub(super) fn result(&self) -> &R {
        &self.probed.result
    }

    pub(super) fn found(&self) -> Found<'_, R> {
        Found { result: &self.probed.result, campaigns: &self.probed.campaigns }
    }

    pub(super) fn campaigns(&self) -> &BTreeMap<String, Campaign> {
        &self.probed.campaigns
    }

    /// How it was measured, in a few words.
    pub(super) fn summary(&self) -> String {
        let campaigns = self.probed.campaigns.values();
        let rounds = campaigns.clone().map(|campaign| campaign.rounds).min();
        let seconds: f64 = campaigns.map(|campaign| campaign.seconds).sum();
        let noise = if self.noise.is_empty() { "" } else { ", with a warning" };
        match rounds {
            Some(rounds) => format!("{rounds} rounds in {seconds:.1} s{noise}"),
            None => "done".to_owned(),
        }
    }

    /// What was amiss, for the profile.
    pub(super) fn warnings(&self) -> Vec<KeptWarning> {
        let warning = |what: &String| KeptWarning {
            code: "noise_floor".to_owned(),
            what: what.clone(),
            advice: Some(
                "its interval says so; measure again with more time (--time-limit) on a quieter machine".to_owned(),
            ),
        };
        self.noise.iter().map(warning).collect()
    }
}

fn is_bearable(disturbance: &TooNoisy) -> bool {
    matches!(disturbance.cause, Cause::NoiseFloor { .. }) && disturbance.by <= WIDE_MOST * disturbance.limit
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(cause: Cause, by: f64, limit: f64) -> Result<Kept<u32>, TooNoisy> {
        let disturbances = vec![("empty kernels, host".to_owned(), TooNoisy { cause, by, limit })];
        Kept::of(Probed { result: 7, campaigns: BTreeMap::new(), disturbances })
    }

    #[test]
    fn only_a_wide_interval_can_be_lived_with() {
        let floor = || Cause::NoiseFloor { point: "8 launches".to_owned() };
        let warnings = kept(floor(), 0.08, 0.05).unwrap().warnings();
        assert_eq!(
            warnings[0].what,
            "empty kernels, host: too noisy: the time of 8 launches is only known to ±8.0 %, the limit is ±5.0 %"
        );
        assert!(kept(floor(), 0.2, 0.05).is_err());
        assert!(kept(Cause::Drift, 0.04, 0.03).is_err());
        assert!(kept(Cause::MovedMemory, 1e9, 1e6).is_err());
    }
}
