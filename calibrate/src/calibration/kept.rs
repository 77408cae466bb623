//! What of a part is kept: its result, how its campaigns went, and what was amiss but could be lived with.

use std::collections::BTreeMap;

use miette::Diagnostic;
use serde::{Deserialize, Serialize};

use crate::findings::Found;
use crate::measure::{Campaign, Cause, TooNoisy};
use crate::plan::Part;
use crate::probe::Probed;
use crate::profile::KeptWarning;

/// An interval that is up to so many times as wide as its limit says itself how much it is worth, and is kept with a
/// warning. Whatever else is beyond its limit makes a result worthless.
const WIDE_MOST: f64 = 3.0;

const WIDE_ADVICE: &str = "its interval says so; measure again with more time (--time-limit) on a quieter machine";
const CLOCK_ADVICE: &str = "the part's own load may do that, as a server's does; compare with a second profile";

/// The result of a part.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Kept<R> {
    /// What was amiss.
    warnings: Vec<KeptWarning>,
    probed: Probed<R>,
}

/// What is known of the machine at both ends of a part: how it was another one there than in the beginning.
#[derive(Clone, Debug, Default)]
pub(super) struct Ends {
    pub(super) before: Option<TooNoisy>,
    pub(super) after: Option<TooNoisy>,
}

impl Ends {
    /// Judges what was measured between them. Changed at both ends it is of another machine. Changed at one end alone it is
    /// measured once more; and kept with a warning at the last try, for its own rounds say that the machine was the same while
    /// it was measured.
    ///
    /// # Errors
    /// The first disturbance that makes the result worthless.
    pub(super) fn judge<R>(self, part: Part, probed: Probed<R>, is_last_try: bool) -> Result<Kept<R>, TooNoisy> {
        let is_before = self.before.is_some();
        let at_one_end = match (self.before, self.after) {
            (Some(_), Some(changed)) => return Err(changed),
            (Some(changed), None) | (None, Some(changed)) if !is_last_try => return Err(changed),
            (before, after) => before.or(after),
        };
        // What a part itself does to the clock it does again, and not before it begins.
        let mut kept = Kept::of(probed, is_last_try && !is_before)?;
        let place = if is_before { "before" } else { "behind" };
        kept.warnings.extend(at_one_end.map(|changed| {
            let what = format!(
                "{}: {place} it, and not while it was measured, the machine was another one: {changed}",
                part.title()
            );
            moved(what, &changed)
        }));
        Ok(kept)
    }
}

impl<R> Kept<R> {
    /// Of a part that was measured; `is_own_clock` where a clock that fell is what the part itself does to the device.
    ///
    /// # Errors
    /// The first disturbance that makes the result worthless.
    fn of(mut probed: Probed<R>, is_own_clock: bool) -> Result<Self, TooNoisy> {
        let mut warnings = Vec::new();
        let mut remarks = std::mem::take(&mut probed.remarks);
        for (name, disturbance) in std::mem::take(&mut probed.disturbances) {
            if is_wide(&disturbance) {
                warnings.push(noise_floor(&name, &disturbance));
            } else if is_own_clock && matches!(disturbance.cause, Cause::LowerClock { .. }) {
                remarks.push((name, disturbance));
            } else {
                return Err(disturbance);
            }
        }
        let (wide, remarks): (Vec<_>, Vec<_>) =
            remarks.into_iter().partition(|(_, remark)| matches!(remark.cause, Cause::Wide { .. }));
        warnings.extend(wide.into_iter().map(|(name, remark)| noise_floor(&name, &remark)));
        let part_of_limit = |remark: &TooNoisy| remark.by.abs() / remark.limit;
        let worst = remarks.iter().max_by(|one, other| part_of_limit(&one.1).total_cmp(&part_of_limit(&other.1)));
        warnings.extend(worst.map(|(name, remark)| moved(format!("{name}: {remark}"), remark)));
        Ok(Self { warnings, probed })
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
        let noise = if self.warnings.is_empty() { "" } else { ", with a warning" };
        match rounds {
            Some(rounds) => format!("{rounds} rounds in {seconds:.1} s{noise}"),
            None => "done".to_owned(),
        }
    }

    /// What was amiss, for the profile.
    pub(super) fn warnings(&self) -> &[KeptWarning] {
        &self.warnings
    }
}

fn noise_floor(name: &str, by: &TooNoisy) -> KeptWarning {
    let advice = Some(WIDE_ADVICE.to_owned());
    KeptWarning { code: "noise_floor".to_owned(), what: format!("{name}: {by}"), advice }
}

/// That a part ran on a machine that was not quite what it was.
fn moved(what: String, by: &TooNoisy) -> KeptWarning {
    let is_clock = matches!(by.cause, Cause::LowerClock { .. } | Cause::OtherClock { .. });
    let advice =
        if is_clock { CLOCK_ADVICE.to_owned() } else { by.help().map(|help| help.to_string()).unwrap_or_default() };
    KeptWarning { code: "moved_pace".to_owned(), what, advice: Some(advice) }
}

fn is_wide(disturbance: &TooNoisy) -> bool {
    matches!(disturbance.cause, Cause::NoiseFloor { .. }) && disturbance.by <= WIDE_MOST * disturbance.limit
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Gauge;

    fn noisy(cause: Cause, by: f64, limit: f64) -> TooNoisy {
        TooNoisy { cause, by, limit }
    }

    fn probed(disturbances: Vec<TooNoisy>, remarks: Vec<TooNoisy>) -> Probed<u32> {
        let [disturbances, remarks] = [disturbances, remarks]
            .map(|list| list.into_iter().map(|noisy| ("empty kernels, host".to_owned(), noisy)).collect());
        Probed { result: 7, campaigns: BTreeMap::new(), disturbances, remarks }
    }

    fn kept(disturbance: TooNoisy) -> Result<Kept<u32>, TooNoisy> {
        Ends::default().judge(Part::Launch, probed(vec![disturbance], vec![]), true)
    }

    fn codes(kept: &Kept<u32>) -> Vec<&str> {
        kept.warnings().iter().map(|warning| warning.code.as_str()).collect()
    }

    #[test]
    fn only_a_wide_interval_can_be_lived_with() {
        let floor = || Cause::NoiseFloor { point: "8 launches".to_owned() };
        let wide = kept(noisy(floor(), 0.08, 0.05)).unwrap();
        assert_eq!(codes(&wide), ["noise_floor"]);
        assert_eq!(
            wide.warnings()[0].what,
            "empty kernels, host: too noisy: the time of 8 launches is only known to ±8.0 %, the limit is ±5.0 %"
        );
        assert!(kept(noisy(floor(), 0.2, 0.05)).is_err());
        assert!(kept(noisy(Cause::Drift, 0.04, 0.03)).is_err());
        assert!(kept(noisy(Cause::MovedMemory, 1e9, 1e6)).is_err());
        assert!(kept(noisy(Cause::Pace { gauge: Gauge::Copy }, 0.4, 0.1)).is_err());
    }

    fn lower_clock() -> TooNoisy {
        noisy(Cause::LowerClock { from_mhz: 1_980.0, to_mhz: 1_500.0 }, 0.32, 0.1)
    }

    #[test]
    fn a_clock_that_a_part_lowers_itself_is_kept_with_a_warning_at_the_last_try() {
        let judge = |before: Option<TooNoisy>, is_last| {
            Ends { before, after: None }.judge(Part::Dense, probed(vec![lower_clock()], vec![]), is_last)
        };
        assert!(judge(None, false).is_err());
        assert!(judge(Some(lower_clock()), true).is_err(), "it was low before");
        let kept = judge(None, true).unwrap();
        assert_eq!(codes(&kept), ["moved_pace"]);
        assert!(kept.warnings()[0].what.contains("the clock fell from 1980 to 1500 MHz"));
    }

    #[test]
    fn what_one_end_alone_shows_is_measured_once_more_and_then_said() {
        let slower = || noisy(Cause::Pace { gauge: Gauge::Graph }, 0.2, 0.1);
        let judge = |before, after, is_last| Ends { before, after }.judge(Part::Head, probed(vec![], vec![]), is_last);
        assert!(judge(None, None, false).is_ok_and(|kept| kept.warnings().is_empty()));
        assert!(judge(Some(slower()), None, false).is_err() && judge(None, Some(slower()), false).is_err());
        assert!(judge(Some(slower()), Some(slower()), true).is_err(), "it was another machine all the time");
        for (before, after, place) in [(Some(slower()), None, "before"), (None, Some(slower()), "behind")] {
            let kept = judge(before, after, true).unwrap();
            assert_eq!(codes(&kept), ["moved_pace"]);
            let said = format!("LM head over sequences: {place} it, and not while it was measured, the machine was");
            assert!(kept.warnings()[0].what.starts_with(&said), "{}", kept.warnings()[0].what);
        }
    }

    #[test]
    fn of_what_moved_within_the_limits_the_worst_is_said() {
        let graph = noisy(Cause::Pace { gauge: Gauge::Graph }, 0.06, 0.1);
        let clock = noisy(Cause::OtherClock { from_mhz: 1_980.0, to_mhz: 1_700.0 }, -0.14, 0.05);
        let kept = Ends::default().judge(Part::Dense, probed(vec![], vec![graph, clock]), false).unwrap();
        assert_eq!(codes(&kept), ["moved_pace"]);
        assert!(kept.warnings()[0].what.starts_with("empty kernels, host: clock: 1700 MHz, and 1980 MHz in the"));
    }
}
