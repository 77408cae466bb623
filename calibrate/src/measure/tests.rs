//! Campaigns over made-up machines, whose times, noise and disturbances are known.

#![expect(clippy::float_cmp, reason = "what is planted without noise is read exactly")]

use std::convert::Infallible;
use std::time::Duration;

use kernels::random::Random;
use kernels::units::Bytes;
use miette::Diagnostic;

use super::made::{Made, State, normal, rounds};
use super::*;

fn disturbances(measured: &Measured<usize>) -> Vec<TooNoisy> {
    measured.disturbances(&Limits::default(), |point| format!("point {point}"))
}

#[test]
fn a_calm_machine_is_read_exactly() {
    let measured = Made::new(0).measure(&Protocol::full(1), &[1.0, 250.0, 7.5]);
    assert_eq!(measured.medians_us(), [1.0, 250.0, 7.5]);
    assert!(measured.iter().all(|(_, time)| [time.low, time.high] == [time.value; 2]));
    assert_eq!(measured.campaign.stopped_by, StoppedBy::Target);
    assert_eq!(measured.campaign.rounds, 12);
    assert_eq!(measured.campaign.outliers, 0);
    assert_eq!(disturbances(&measured), []);
}

#[test]
fn nothing_to_measure_is_nothing_measured() {
    let made = Made::new(0);
    let measured = made.measure(&Protocol::full(1), &[]);
    assert!(measured.times_us().is_empty() && made.state.borrow().visits.is_empty());
    assert_eq!(disturbances(&measured), []);
}

#[test]
fn every_round_visits_every_point_once_in_an_order_of_its_own() {
    let made = Made::new(0);
    let measured = made.measure(&rounds(20, 3), &[200.0; 8]);
    let visits = &made.state.borrow().visits;
    let warm_up = measured.campaign.warm_up_visits as usize;
    let counted: Vec<usize> = visits[warm_up + 5..visits.len() - 5].iter().map(|visit| visit.0).collect();
    assert_eq!(counted.len(), 160);
    let mut orders: Vec<Vec<usize>> = counted.chunks(8).map(<[usize]>::to_vec).collect();
    orders.dedup();
    assert_eq!(orders.len(), 20);
    for mut order in orders {
        order.sort_unstable();
        assert_eq!(order, (0..8).collect::<Vec<_>>());
    }
}

#[test]
fn short_points_are_repeated_until_a_clock_can_tell() {
    let made = Made::new(0);
    made.measure(&rounds(6, 3), &[3.0, 0.0, 500.0]);
    let mut seen: Vec<_> = made.state.borrow().visits.iter().rev().take(18).copied().collect();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen, [(0, 67), (1, 10_000), (2, 1)]);
}

#[test]
fn the_seed_and_the_times_decide_everything() {
    let once = |seed| {
        let made = Made { noise: 0.01, outliers: 0.03, ..Made::new(5) };
        let measured = made.measure(&rounds(12, seed), &[10.0, 20.0, 30.0, 40.0, 50.0]);
        (measured.times_us(), measured.campaign)
    };
    assert_eq!(once(1), once(1));
    assert_ne!(once(1).0, once(2).0);
}

/// How often the interval of a point holds what is planted, over campaigns of one kind.
fn coverage(campaigns: u64, count: u32, us: &[f64], made: impl Fn(u64) -> Made) -> f64 {
    let held = |seed| {
        let times = made(seed).measure(&rounds(count, seed), us).times_us();
        times.iter().zip(us).filter(|(time, us)| time.holds(**us)).count() as f64
    };
    (0..campaigns).map(held).sum::<f64>() / (campaigns as f64 * us.len() as f64)
}

#[test]
fn intervals_hold_the_planted_time_about_95_times_in_100() {
    let us: [f64; 8] = std::array::from_fn(|at| 200.0 + 10.0 * at as f64);
    let noisy = |seed| Made { noise: 0.004, outliers: 0.03, ..Made::new(seed) };
    // Each round is slower or faster as a whole, and by more than the noise.
    let uneven = |seed| {
        let slowness = move |state: &State| {
            let round = state.visits.len() as u64 / 8;
            1.0 + 0.01 * normal(&mut Random::named("round", 1_000 * seed + round))
        };
        Made { noise: 0.004, slowness: Box::new(slowness), ..Made::new(seed) }
    };
    let held = [
        coverage(150, 12, &us, noisy),
        coverage(150, 12, &us, uneven),
        coverage(500, 12, &us[..1], noisy),
        coverage(150, 6, &us, noisy),
    ];
    println!("held: {held:.3?}");
    assert!(held.iter().all(|held| (0.94..0.985).contains(held)), "{held:?}");
}

#[test]
fn what_rounds_share_does_not_widen_differences() {
    let slowness = |state: &State| 1.0 + 0.02 * normal(&mut Random::named("round", state.visits.len() as u64 / 5));
    let made = Made { noise: 0.001, slowness: Box::new(slowness), ..Made::new(4) };
    let measured = made.measure(&rounds(20, 4), &[400.0, 401.0, 402.0, 403.0, 404.0]);
    let difference = measured.derive(|us| us[4] - us[0]);
    assert!(difference.holds(4.0) && difference.high - difference.low < 2.0, "{difference:?}");
    assert!(measured.times_us().iter().all(|time| time.high - time.low > 2.0));
}

#[test]
fn few_readings_have_wide_intervals_and_none_have_none() {
    assert_eq!(Estimate::of(&[], 0), None);
    assert_eq!(Estimate::of(&[1.0, f64::NAN], 0), None);
    let one = Estimate::of(&[3.0], 0).expect("one");
    assert!(one == Estimate::exact(3.0) && one.relative_half_width() == f64::INFINITY);
    // Student's t of one degree of freedom: 12.706 standard errors.
    let two = Estimate::of(&[9.0, 11.0], 0).expect("two");
    assert!((two.value, two.samples) == (10.0, 2) && (two.high - 22.706).abs() < 1e-9, "{two:?}");
    assert_eq!(Estimate::of(&[0.0; 9], 0).map(|none| none.relative_half_width()), Some(0.0));
    let halved = two.scaled(-0.5);
    assert!(halved.value == -5.0 && halved.low < halved.value && halved.value < halved.high);
    for count in [2, 3, 5, 6, 12] {
        let mut random = Random::named("few", count);
        let held = (0..400).filter(|&seed| {
            let readings: Vec<f64> = (0..count).map(|_| 50.0 + normal(&mut random)).collect();
            Estimate::of(&readings, seed).expect("finite").holds(50.0)
        });
        let held = held.count();
        println!("of {count} readings: {held} of 400");
        assert!((366..=398).contains(&held), "{held} for {count} readings");
    }
}

#[test]
fn readings_of_one_kind_share_what_is_known_of_their_spread() {
    assert_eq!(Estimate::of_each(&[vec![1.0, 2.0], vec![]], 0), None);
    assert_eq!(Estimate::of_each(&[vec![3.0]], 0), Some(vec![Estimate::exact(3.0)]));
    // By hand: deviations of 10 % and none, two degrees of freedom; 1.2533 * 0.1 * 4.303 / root of 2.
    let both = Estimate::of_each(&[vec![9.0, 11.0], vec![100.0, 100.0]], 0).expect("finite");
    assert_eq!(both[0], Estimate::of(&[9.0, 11.0], 0).expect("finite"));
    assert!((both[1].high - 138.134).abs() < 1e-2 && (both[1].low - 61.866).abs() < 1e-2, "{both:?}");
    let mut random = Random::named("kind", 1);
    let (mut alone, mut together, mut far) = (0, 0, [0; 2]);
    for seed in 0..400 {
        let readings = || (0..3).map(|_| 50.0 + normal(&mut random)).collect::<Vec<f64>>();
        let groups: Vec<Vec<f64>> = std::iter::repeat_with(readings).take(6).collect();
        let pooled = Estimate::of_each(&groups, seed).expect("finite");
        let off = |one: &Estimate| (one.value - 50.0).abs() > 3.0 * (one.high - one.low) / 2.0;
        for (readings, pooled) in groups.iter().zip(&pooled) {
            let own = Estimate::of(readings, seed).expect("finite");
            alone += u32::from(own.holds(50.0));
            together += u32::from(pooled.holds(50.0));
            far[0] += u32::from(off(&own));
            far[1] += u32::from(off(pooled));
        }
    }
    println!("held of 2400: {alone} alone, {together} together; three half-widths off: {far:?}");
    assert!(together >= alone && together > 2_280 && far[1] == 0 && far[0] > 0, "{alone} {together} {far:?}");
}

#[test]
fn whatever_ends_a_campaign_is_recorded() {
    let noisy = || Made { noise: 0.01, ..Made::new(2) };
    let us = [1_000.0; 10];
    let protocol =
        Protocol { warm_up: Duration::ZERO, half_width_target: 0.006, rounds_most: 200, ..Protocol::full(2) };
    let target = noisy().measure(&protocol, &us);
    assert_eq!(target.campaign.stopped_by, StoppedBy::Target);
    assert!(target.iter().all(|(_, time)| time.relative_half_width() <= 0.006));
    assert!((13..200).contains(&target.campaign.rounds), "{}", target.campaign.rounds);
    let limited = noisy().measure(&Protocol { rounds_most: 14, ..protocol.clone() }, &us);
    assert_eq!((limited.campaign.stopped_by, limited.campaign.rounds), (StoppedBy::RoundLimit, 14));
    // A round takes 10 ms, and the warm-up and the first point take 25.
    let late = noisy().measure(&Protocol { time_limit: Duration::from_millis(130), ..protocol.clone() }, &us);
    assert_eq!(late.campaign.stopped_by, StoppedBy::TimeLimit);
    assert!((9..=10).contains(&late.campaign.rounds) && late.campaign.seconds < 0.136, "{:?}", late.campaign);
    let hurried = noisy().measure(&Protocol { time_limit: Duration::ZERO, ..protocol }, &us);
    assert_eq!((hurried.campaign.stopped_by, hurried.campaign.rounds), (StoppedBy::TimeLimit, ROUNDS_LEAST));
}

#[test]
fn who_watches_hears_how_far_it_is() {
    let made = Made { noise: 0.01, ..Made::new(2) };
    made.measure(&Protocol { warm_up: Duration::from_millis(100), ..rounds(9, 2) }, &[1_000.0; 10]);
    let progress = &made.state.borrow().progress;
    let warm_up = progress.iter().take_while(|at| at.phase == Phase::WarmUp).count();
    assert!((9..=11).contains(&warm_up), "{warm_up}");
    let counted: Vec<u32> = progress[warm_up..].iter().map(|at| at.rounds).collect();
    assert_eq!(counted, (1..=9).collect::<Vec<_>>());
    let left = |at: usize| progress[warm_up + at].left.as_secs_f64() * 1e3;
    assert!((left(0) - 80.0).abs() < 4.0 && (left(4) - 40.0).abs() < 4.0, "{} {}", left(0), left(4));
}

#[test]
fn every_disturbance_is_named_with_its_way_out() {
    const SECOND: Duration = Duration::from_secs(1);
    let us = [1_000.0, 1_100.0, 1_200.0, 1_300.0, 1_400.0];
    let calm = || Made { noise: 0.002, ..Made::new(3) };
    // 100 rounds take 0.6 s.
    let all = [
        ("noise", Made { noise: 0.5, ..calm() }),
        ("drift", Made { slowness: Box::new(|state| 1.0 + 0.2 * state.now.as_secs_f64()), ..calm() }),
        (
            "dip",
            Made {
                clock_mhz: |now| {
                    Some(if (0.1..0.3).contains(&now.div_duration_f64(SECOND)) { 1_410.0 } else { 1_980.0 })
                },
                slowness: Box::new(|state| if (0.1..0.3).contains(&state.now.as_secs_f64()) { 1.4 } else { 1.0 }),
                ..calm()
            },
        ),
        (
            "slowed",
            Made {
                slowness: Box::new(|state| if (0.2..0.35).contains(&state.now.as_secs_f64()) { 1.3 } else { 1.0 }),
                ..calm()
            },
        ),
        ("neighbour", Made { outliers: 0.25, ..calm() }),
        ("memory", Made { free: |now| Some(Bytes(if now > SECOND / 4 { 70 << 30 } else { 71 << 30 })), ..calm() }),
    ];
    let told: Vec<String> = (all.iter())
        .map(|(what, made)| {
            let measured = made.measure(&rounds(100, 3), &us);
            let disturbances = disturbances(&measured);
            let line = |found: &TooNoisy| format!("  {found}\n    {}\n", found.help().expect("a way out"));
            format!("{what}\n{}", disturbances.iter().map(line).collect::<String>())
        })
        .collect();
    insta::assert_snapshot!(told.concat());
    assert_eq!(disturbances(&calm().measure(&rounds(100, 3), &us)), []);
}

#[test]
fn times_that_are_none_are_counted_and_refused() {
    let mut odd =
        |&point: &usize, _: u32| Ok::<_, Infallible>(Nanoseconds([f64::NAN, -1.0, f64::INFINITY, 1e6][point]));
    let made = Made::new(0);
    let Ok(measured) = rounds(6, 0).measure(vec![0, 1, 2, 3], &mut odd, &mut &made);
    assert_eq!(measured.campaign.unreadable, 3 * 6 + 10);
    assert_eq!(disturbances(&measured)[0].cause, Cause::Unreadable);
}

#[test]
fn the_first_failure_ends_a_campaign() {
    let mut left = 20;
    let mut failing = |_: &usize, _: u32| {
        left -= 1;
        if left > 0 { Ok(Nanoseconds(1e6)) } else { Err("lost") }
    };
    let made = Made::new(0);
    assert_eq!(rounds(6, 0).measure(vec![0, 1], &mut failing, &mut &made).err(), Some("lost"));
}

#[test]
fn memory_that_stands_still_within_a_granule_is_still() {
    let granule = Bytes(2 << 20);
    assert_eq!(still_memory(&[], granule), Ok(()));
    assert_eq!(still_memory(&[Bytes(10 << 20), Bytes(12 << 20), Bytes(10 << 20)], granule), Ok(()));
    let moved = still_memory(&[Bytes(10 << 20), Bytes(15 << 20)], granule).expect_err("5 MiB");
    assert_eq!((moved.cause, moved.by), (Cause::MovedMemory, 5.0 * 1_048_576.0));
}

#[test]
fn a_campaign_is_written_and_read() {
    let made = Made { clock_mhz: |_| Some(1_980.0), noise: 0.01, ..Made::new(1) };
    let campaign = made.measure(&rounds(6, 1), &[1_000.0; 5]).campaign;
    let text = toml::to_string(&campaign).expect("plain figures");
    assert_eq!(toml::from_str::<Campaign>(&text).expect("as written"), campaign);
}
