//! What makes times differ from what is planted: noise on the device and on the host; on the device drift, a dip of the
//! clock and a noisy neighbour; on the host a span in which it is slower.
//!
//! Everything follows from the planted seed and from virtual time, in whole numbers: two runs are disturbed in the same way.

/// A span in which the device is slower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// When it begins; for one that comes back, how long from one beginning to the next.
    pub(crate) from_ns: u64,
    pub(crate) for_ns: u64,
    /// How much longer everything takes, in thousandths.
    pub(crate) permille: u64,
}

impl Span {
    /// How much longer things take at an instant, where it does not come back.
    fn permille_at(&self, at_ns: u64) -> u64 {
        let is_in = (self.from_ns..self.from_ns.saturating_add(self.for_ns)).contains(&at_ns);
        if is_in { self.permille } else { 0 }
    }
}

/// All that is planted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Disturbance {
    pub(crate) seed: u64,
    /// Largest deviation to either side, in thousandths.
    pub(crate) noise_permille: u64,
    /// The same of what the host does.
    pub(crate) host_noise_permille: u64,
    /// How much longer everything takes after each second, in thousandths.
    pub(crate) drift_permille_per_s: u64,
    pub(crate) dip: Option<Span>,
    /// The same of what the host does, whose clock nobody asks for.
    pub(crate) host_dip: Option<Span>,
    pub(crate) neighbour: Option<Span>,
}

impl Disturbance {
    /// The clock at an instant, of one that is `mhz` otherwise: in a dip everything takes longer because of it.
    pub(crate) fn clock_mhz(&self, mhz: u64, at_ns: u64) -> u64 {
        (mhz * 1_000 / (1_000 + self.dip_permille(at_ns))).max(1)
    }

    fn dip_permille(&self, at_ns: u64) -> u64 {
        self.dip.map_or(0, |span| span.permille_at(at_ns))
    }

    /// What a duration becomes that begins at `start_ns` as the `number`th of the process.
    pub(crate) fn apply(&self, duration_ns: u64, start_ns: u64, number: u64) -> u64 {
        let is_beside = |span: &Span| span.from_ns > 0 && start_ns % span.from_ns < span.for_ns;
        let dip = self.dip_permille(start_ns);
        let neighbour = self.neighbour.filter(is_beside).map_or(0, |span| span.permille);
        // In millionths, so that drift within a second counts.
        let drift = u128::from(self.drift_permille_per_s) * u128::from(start_ns) / 1_000_000;
        let slower = u128::from(dip + neighbour) * 1_000 + drift;
        scaled(duration_ns, slower, self.noise_permille, scrambled(self.seed) ^ number)
    }

    /// What a duration of the host becomes that begins at `start_ns` as its `number`th.
    pub(crate) fn apply_on_host(&self, duration_ns: u64, start_ns: u64, number: u64) -> u64 {
        let slower = u128::from(self.host_dip.map_or(0, |span| span.permille_at(start_ns))) * 1_000;
        // Of another stream of numbers than the device's.
        scaled(duration_ns, slower, self.host_noise_permille, scrambled(!self.seed) ^ number)
    }
}

/// A duration that takes so many millionths longer, with noise that a number decides.
fn scaled(duration_ns: u64, slower: u128, noise_permille: u64, number: u64) -> u64 {
    let swing = u128::from(2 * noise_permille * 1_000);
    let noise = if swing == 0 { 0 } else { u128::from(scrambled(number)) % (swing + 1) };
    let scale = (1_000_000 + slower + noise).saturating_sub(swing / 2);
    // To the nearest: short durations would all become shorter otherwise.
    ((u128::from(duration_ns) * scale + 500_000) / 1_000_000) as u64
}

/// The finalizer of SplitMix64 (Steele, Lea and Flood 2014): neighbouring numbers become unrelated ones.
fn scrambled(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MICROSECOND: u64 = 1_000;
    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn without_anything_planted_nothing_changes() {
        let none = Disturbance::default();
        assert_eq!([0, 1, 12_345].map(|ns| none.apply(ns, 7 * SECOND, 3)), [0, 1, 12_345]);
    }

    #[test]
    fn noise_has_its_bounds_no_bias_and_repeats() {
        let noisy = Disturbance { seed: 5, noise_permille: 20, ..Disturbance::default() };
        let draw = || (0..10_000).map(|number| noisy.apply(MICROSECOND, 0, number)).collect::<Vec<_>>();
        let drawn = draw();
        assert!(drawn.iter().all(|ns| (980..=1_020).contains(ns)));
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!((mean - 1_000.0).abs() < 1.0, "{mean}");
        assert_eq!(drawn, draw());
        assert_ne!(
            drawn,
            (0..10_000)
                .map(|number| Disturbance { seed: 6, ..noisy.clone() }.apply(MICROSECOND, 0, number))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_host_has_noise_of_its_own_and_short_calls_no_bias() {
        let noisy = Disturbance { seed: 5, noise_permille: 20, host_noise_permille: 20, ..Disturbance::default() };
        let drawn: Vec<u64> = (0..10_000).map(|number| noisy.apply_on_host(130, 0, number)).collect();
        let mean = drawn.iter().sum::<u64>() as f64 / drawn.len() as f64;
        assert!(drawn.iter().all(|ns| (127..=133).contains(ns)) && (mean - 130.0).abs() < 0.1, "{mean}");
        let of_device: Vec<u64> = (0..10_000).map(|number| noisy.apply(130, 0, number)).collect();
        let alike = drawn.iter().zip(&of_device).filter(|(host, device)| host == device).count();
        assert!(alike < 2_500, "{alike}");
        let quiet = Disturbance { host_noise_permille: 0, ..noisy };
        assert_eq!([7, 130, 9_999].map(|ns| quiet.apply_on_host(ns, 0, 3)), [7, 130, 9_999]);
    }

    #[test]
    fn time_changes_what_is_planted_to_change_with_it() {
        let drifting = Disturbance { drift_permille_per_s: 10, ..Disturbance::default() };
        assert_eq!([0, SECOND / 2, 3 * SECOND].map(|at| drifting.apply(100_000, at, 0)), [100_000, 100_500, 103_000]);
        let span = Span { from_ns: 1_000, for_ns: 100, permille: 500 };
        let dipped = Disturbance { dip: Some(span), ..Disturbance::default() };
        assert_eq!([999, 1_000, 1_099, 1_100, 2_050].map(|at| dipped.apply(10, at, 0)), [10, 15, 15, 10, 10]);
        assert_eq!([999, 1_050, 1_100].map(|at| dipped.clock_mhz(1_980, at)), [1_980, 1_320, 1_980]);
        let of_host = Disturbance { host_dip: Some(span), ..Disturbance::default() };
        assert_eq!([999, 1_000, 1_100].map(|at| of_host.apply_on_host(10, at, 0)), [10, 15, 10]);
        assert_eq!(of_host.apply(10, 1_000, 0), 10, "the device does not know");
        let beside = Disturbance { neighbour: Some(span), ..Disturbance::default() };
        assert_eq!([99, 100, 1_000, 1_099, 1_100, 2_050].map(|at| beside.apply(10, at, 0)), [15, 10, 15, 15, 10, 15]);
    }
}
