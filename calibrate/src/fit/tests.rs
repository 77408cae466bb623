//! Fits of what is planted: medians of simulated campaigns, and plain ways to the same answers.

use kernels::random::Random;

use super::segmentation::{CUT_PARAMETERS, POINTS_LEAST, Point, segments};
use super::*;
use crate::measure::made::{Made, normal, rounds, unit};
use crate::measure::{Estimate, median};

/// Every division of `count` points into segments of at least three, or fewer at a border, as the ends of segments.
fn divisions(count: usize) -> Vec<Vec<usize>> {
    let inner = count.saturating_sub(1);
    let ends = |cuts: usize| -> Vec<usize> {
        (0..inner).filter(|cut| cuts >> cut & 1 == 1).map(|cut| cut + 1).chain([count]).collect()
    };
    let is_allowed = |ends: &Vec<usize>| {
        let mut first = 0;
        ends.iter().all(|&end| {
            let is_long = end - std::mem::replace(&mut first, end) >= POINTS_LEAST;
            is_long || end == count || Some(&end) == ends.first()
        })
    };
    (0..1_usize << inner).map(ends).filter(is_allowed).collect()
}

/// The BIC of a division, each line by the textbook's normal equations.
fn bic(points: &[Point], ends: &[usize]) -> f64 {
    let price = (points.len() as f64).ln();
    let mut first = 0;
    let one = |&end: &usize| {
        let own = &points[std::mem::replace(&mut first, end)..end];
        let sum = |of: fn(&Point) -> f64| own.iter().map(|point| of(point) / point.error.powi(2)).sum::<f64>();
        let (w, x, y) = (sum(|_| 1.0), sum(|p| p.x), sum(|p| p.y));
        let (xx, xy) = (sum(|p| p.x * p.x), sum(|p| p.x * p.y));
        let misfit = |intercept: f64, slope: f64| -> f64 {
            own.iter().map(|p| ((p.y - intercept - slope * p.x) / p.error).powi(2)).sum()
        };
        let flat = misfit(y / w, 0.0) + price;
        if own.len() < POINTS_LEAST {
            return flat;
        }
        let slope = (w * xy - x * y) / (w * xx - x * x);
        flat.min(misfit((y - slope * x) / w, slope) + 2.0 * price)
    };
    ends.iter().map(one).sum::<f64>() + CUT_PARAMETERS * price * (ends.len() - 1) as f64
}

#[test]
fn no_division_is_better_than_the_one_found() {
    let mut random = Random::named("divisions", 0);
    for count in 1..=12 {
        for _ in 0..12 {
            let step_at = random.below(count);
            let point = |at: u32, random: &mut Random| Point {
                x: f64::from(at) * 8.0,
                y: 100.0 + 0.4 * f64::from(at) + if at >= step_at { 9.0 } else { 0.0 } + 2.0 * normal(random),
                error: 0.5 + unit(random),
            };
            let points: Vec<Point> = (0..count).map(|at| point(at, &mut random)).collect();
            let found: Vec<usize> = segments(&points).iter().map(|segment| segment.end).collect();
            let least = divisions(points.len()).iter().map(|ends| bic(&points, ends)).fold(f64::INFINITY, f64::min);
            assert!((bic(&points, &found) - least).abs() < 1e-6, "{found:?} of {points:?}");
        }
    }
}

#[test]
fn stairs_that_fall_are_found_as_they_are() {
    // Design.md section 5: 18.06 ms at 136 rows, 16.77 at 192.
    let x: Vec<f64> = (1..=30).map(|at| f64::from(at) * 8.0).collect();
    let y: Vec<f64> = x.iter().map(|&rows| if rows <= 136.0 { 18_060.0 } else { 16_770.0 } + 0.5 * rows).collect();
    let stairs = Staircase::of(&x, &y, &[20.0; 30]);
    assert_eq!(stairs.edges.len(), 1);
    let edge = stairs.edges[0];
    assert!((edge.below, edge.above) == (136.0, 144.0) && (edge.jump + 1_290.0).abs() < 30.0, "{edge:?}");
    assert!(!edge.is_exact());
}

#[test]
fn an_edge_between_neighbouring_sizes_is_exact() {
    let x = [8.0, 16.0, 32.0, 48.0, 64.0, 65.0, 80.0, 96.0, 112.0];
    let y = x.map(|rows| if rows <= 64.0 { 100.0 } else { 120.0 });
    let stairs = Staircase::of(&x, &y, &[0.1; 9]);
    assert!(stairs.edges.len() == 1 && stairs.edges[0].is_exact(), "{stairs:?}");
    assert_eq!(stairs.treads.iter().map(|tread| tread.range).collect::<Vec<_>>(), [[8.0, 64.0], [65.0, 112.0]]);
}

#[test]
fn a_bend_is_no_edge_and_neither_is_a_lone_point_at_the_border() {
    let x: Vec<f64> = (1..=40).map(f64::from).collect();
    let bend: Vec<f64> = x.iter().map(|&x| 100.0 + if x > 20.0 { 3.0 * (x - 20.0) } else { 0.0 }).collect();
    let stairs = Staircase::of(&x, &bend, &[0.5; 40]);
    assert!(stairs.edges.is_empty() && stairs.doubtful.iter().all(|(_, doubt)| *doubt == Doubt::Small), "{stairs:?}");
    let mut lone = vec![100.0; 40];
    lone[39] = 150.0;
    let stairs = Staircase::of(&x, &lone, &[0.5; 40]);
    assert!(stairs.edges.is_empty());
    assert!(matches!(stairs.doubtful[..], [(Edge { below: 39.0, above: 40.0, .. }, Doubt::Border)]), "{stairs:?}");
}

#[test]
fn few_points_and_odd_ones_make_no_stairs() {
    assert!(Staircase::of(&[], &[], &[]).treads.is_empty());
    assert_eq!(Staircase::of(&[1.0], &[5.0], &[0.1]).treads.len(), 1);
    assert_eq!(Staircase::of(&[1.0, 2.0], &[0.0, 0.0], &[0.0, 0.0]).treads.len(), 1);
    for bad in [[1.0, 1.0], [2.0, 1.0], [1.0, f64::NAN], [1.0, f64::INFINITY]] {
        assert!(Staircase::of(&bad, &[5.0, 5.0], &[0.1, 0.1]).treads.is_empty());
    }
    assert!(Staircase::of(&[1.0, 2.0], &[5.0], &[0.1, 0.1]).treads.is_empty());
}

#[test]
fn a_tenth_of_wild_points_leaves_the_line_where_it_is() {
    let points: Vec<(f64, f64)> =
        (0..20).map(|at| (f64::from(at), if at % 10 == 3 { 1e4 } else { 5.0 + 2.0 * f64::from(at) })).collect();
    let line = Line::theil_sen(&points).expect("a line");
    assert!((line.slope - 2.0).abs() < 0.05 && (line.at(10.0) - 25.0).abs() < 0.5, "{line:?}");
    let squares = Line::least_squares(&points).expect("a line");
    assert!((squares.at(10.0) - 25.0).abs() > 100.0, "{squares:?}");
}

#[test]
fn lines_need_two_different_places() {
    for points in [&[][..], &[(1.0, 2.0)], &[(1.0, 2.0), (1.0, 3.0)]] {
        assert_eq!((Line::theil_sen(points), Line::least_squares(points)), (None, None));
    }
    let line = Line::theil_sen(&[(1.0, 2.0), (3.0, 6.0)]).expect("a line");
    assert!((line.slope - 2.0).abs() < 1e-12 && line.intercept.abs() < 1e-12);
}

#[test]
fn growth_is_read_through_granules() {
    let granule = FREE_MEMORY_GRANULE.0 as f64;
    let mut random = Random::named("growth", 0);
    for _ in 0..500 {
        let (each, fixed) = (unit(&mut random) * 1e6, unit(&mut random) * 1e7);
        // Of memory that was reserved before some is left.
        let left = unit(&mut random) * granule;
        let gone = |count: u32| ((fixed + each * f64::from(count) - left) / granule).ceil() * granule;
        let found = each_bytes(&[16, 32, 64].map(|count| (count, gone(count))), FREE_MEMORY_GRANULE).expect("three");
        assert!(found.holds(each), "{each} {found:?}");
        assert!(found.high - found.value < granule / 20.0, "{found:?}");
    }
    assert_eq!(each_bytes(&[(16, 1e6), (16, 1e6)], FREE_MEMORY_GRANULE), None);
    assert_eq!(each_bytes(&[], FREE_MEMORY_GRANULE), None);
}

#[test]
fn inner_points_are_read_from_their_neighbours() {
    let held_out = HeldOut::of(&[(2.0, 10.0), (4.0, 10.0), (8.0, 20.0), (10.0, 20.0)]).expect("two inner points");
    assert_eq!(held_out.points, 2);
    // At 4 between (2, 10) and (8, 20): 13.33. At 8 between (4, 10) and (10, 20): 16.67.
    let near = |one: f64, other: f64| (one - other).abs() < 1e-12;
    assert!(near(held_out.max, 1.0 / 3.0) && near(held_out.median, 0.25), "{held_out:?}");
    assert!(near(held_out.max_at, 4.0), "{held_out:?}");
    for none in [
        &[][..],
        &[(1.0, 1.0), (2.0, 1.0)],
        &[(1.0, 1.0), (2.0, 0.0), (3.0, 1.0)],
        &[(1.0, 1.0), (1.0, 1.0), (2.0, 1.0)],
    ] {
        assert_eq!(HeldOut::of(none), None);
    }
}

#[test]
fn both_sides_of_an_edge_stay_where_they_are() {
    let with_edge = [(1.0, 100.0), (4.0, 101.0), (8.0, 102.0), (9.0, 142.0), (16.0, 143.0)];
    let held_out = HeldOut::of(&with_edge).expect("one");
    // Only 4 rows are read from their neighbours: 100.86 for 101.
    assert_eq!(held_out.points, 1);
    assert!(held_out.max < 0.002, "{held_out:?}");
    assert_eq!(HeldOut::of(&[(1.0, 1.0), (2.0, 1.0), (3.0, 1.0)]), None);
}

/// The step of GPU specification section 4 in microseconds: a floor of weights, then tiles of 64 rows, and 0.11 a row.
fn planted_us(rows: f64) -> f64 {
    f64::max(480.0, 2.3 * (rows / 64.0).ceil() * 64.0) + 0.11 * rows
}

/// The mean and the standard deviation.
fn spread(values: &[f64]) -> (f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    (mean, (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt())
}

#[test]
fn drift_becomes_no_slope_when_rounds_are_interleaved() {
    let sizes =
        [1, 2, 4, 8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512].map(f64::from);
    let us = sizes.map(planted_us);
    // The part that weights bound: its slope is 0.11.
    let bound = |x: f64| Some(x).filter(|x| *x <= 192.0);
    let visits = 30 * sizes.len();
    let interleaved = |seed| {
        let measured = Made::drifting(seed, 2 * sizes.len() + 5, visits).measure(&rounds(30, seed), &us);
        let points: Vec<_> = sizes
            .iter()
            .copied()
            .zip(measured.medians_us().iter().copied())
            .filter(|point| bound(point.0).is_some())
            .collect();
        Line::theil_sen(&points).expect("many points").slope
    };
    let one_by_one = |seed| {
        let made = Made::drifting(seed, 0, visits);
        let time = |size: usize| {
            let readings: Vec<f64> = (0..30).map(|_| made.run(size, us[size], 1).us()).collect();
            (sizes[size], median(&readings))
        };
        let points: Vec<_> = (0..sizes.len()).rev().map(time).filter(|point| bound(point.0).is_some()).collect();
        Line::theil_sen(&points).expect("many points").slope
    };
    let (mean, deviation) = spread(&(0..300).map(interleaved).collect::<Vec<_>>());
    let (biased, _) = spread(&(0..300).map(one_by_one).collect::<Vec<_>>());
    println!("interleaved {mean:.4} ± {deviation:.4}, one by one {biased:.4}");
    assert!((mean - 0.11).abs() < 0.001 && (0.001..0.0035).contains(&deviation), "{mean} ± {deviation}");
    assert!((0.115..0.123).contains(&biased), "{biased}");
}

#[test]
fn tile_edges_are_found_and_nothing_else() {
    let sizes: Vec<f64> = (1..=65).map(|at| f64::from(at) * 8.0).collect();
    let us: Vec<f64> = sizes.iter().map(|&rows| planted_us(rows)).collect();
    let mut all_found = 0;
    for seed in 0..20 {
        let made = Made::drifting(seed, 2 * sizes.len() + 5, 12 * sizes.len());
        let measured = made.measure(&rounds(12, seed), &us);
        let points: Vec<(f64, Estimate)> = sizes.iter().copied().zip(measured.times_us()).collect();
        let stairs = Staircase::of_estimates(&points);
        let edges: Vec<f64> = stairs.edges.iter().map(|edge| edge.below).collect();
        assert!(edges.iter().all(|edge| [192.0, 256.0, 320.0, 384.0, 448.0].contains(edge)), "seed {seed}: {edges:?}");
        all_found += u32::from(edges.len() == 5);
        // At 520 rows a tread begins of which there is one point: no evidence of an edge.
        let border = |(edge, doubt): &(Edge, Doubt)| (edge.below - 512.0).abs() < 0.5 && *doubt == Doubt::Border;
        assert!(stairs.doubtful.iter().any(border), "seed {seed}: {:?}", stairs.doubtful);
        let slope = measured.derive(|medians_us| stairs.slope(&sizes, medians_us).expect("treads of many points"));
        assert!((slope.value - 0.11).abs() < 0.03 && slope.low < slope.value && slope.value < slope.high, "{slope:?}");
    }
    println!("all five edges in {all_found} of 20");
    assert!(all_found >= 19, "{all_found}");
}

#[test]
fn one_point_that_seems_exact_makes_no_edge() {
    // Few rounds may agree by chance: such a point is as uncertain as its like, or it would bend the stairs to itself.
    let points: Vec<(f64, Estimate)> = (0..20)
        .map(|at| {
            let half_width = if at == 10 { 0.0 } else { 1.0 };
            let value = 100.0 + f64::from(at % 3) * 0.4;
            (f64::from(at), Estimate { value, low: value - half_width, high: value + half_width, samples: 6 })
        })
        .collect();
    let stairs = Staircase::of_estimates(&points);
    assert_eq!((stairs.treads.len(), stairs.edges.len(), stairs.doubtful.len()), (1, 0, 0), "{stairs:?}");
}

#[test]
fn scatter_is_the_deviation_that_was_planted_with_edges_or_without() {
    let mut random = Random::named("scatter", 0);
    for (edge_us, expected) in [(0.0, 0.01), (60.0, 0.01)] {
        let shares: Vec<f64> = (0..40)
            .map(|_| {
                let level = |at: u32| 200.0 + 0.5 * f64::from(at) + if at > 30 { edge_us } else { 0.0 };
                let point = |at: u32| (8.0 * f64::from(at), level(at) * (1.0 + 0.01 * normal(&mut random)));
                scatter(&(1..=60).map(point).collect::<Vec<_>>()).expect("many points")
            })
            .collect();
        let (mean, _) = spread(&shares);
        assert!((mean / expected - 1.0).abs() < 0.1, "{mean}");
    }
    for none in [&[][..], &[(1.0, 5.0), (2.0, 5.0)], &[(1.0, 0.0), (2.0, 5.0), (3.0, 5.0)]] {
        assert_eq!(scatter(none), None);
    }
    assert_eq!(scatter(&[(1.0, 5.0), (2.0, 6.0), (4.0, 8.0)]), Some(0.0), "on a line");
}

#[test]
fn values_without_errors_have_edges_that_stand_out_of_their_scatter() {
    let mut random = Random::named("values", 0);
    let mut found = 0;
    for _ in 0..50 {
        let level = |at: u32| if at > 20 { 230.0 } else { 200.0 };
        let points: Vec<(f64, f64)> =
            (1..=40).map(|at| (8.0 * f64::from(at), level(at) * (1.0 + 0.01 * normal(&mut random)))).collect();
        let stairs = Staircase::of_values(&points, scatter(&points).expect("many points"));
        let edges: Vec<f64> = stairs.edges.iter().map(|edge| edge.below).collect();
        found += u32::from(edges == [160.0]);
    }
    println!("the edge alone in {found} of 50");
    assert!(found >= 47, "{found}");
}

#[test]
fn the_slope_between_edges_knows_nothing_of_edges() {
    let x: Vec<f64> = (1..=40).map(|at| f64::from(at) * 8.0).collect();
    let y: Vec<f64> = x.iter().map(|&x| 100.0 + 0.25 * x + if x > 160.0 { 500.0 } else { 0.0 }).collect();
    let stairs = Staircase::of(&x, &y, &[0.5; 40]);
    assert_eq!(stairs.edges.len(), 1);
    assert!((stairs.slope(&x, &y).expect("two treads") - 0.25).abs() < 1e-9);
    assert_eq!(Staircase::of(&[1.0], &[5.0], &[0.1]).slope(&[1.0], &[5.0]), None);
}

#[test]
fn two_treads_that_pass_for_one_prove_nothing() {
    // 32 and 64 alone are no tread, so the fit takes 16 with them: a line that no point lies on, beside an edge of its own.
    let x = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 65.0, 96.0, 128.0];
    let y = x.map(|rows| {
        if rows <= 16.0 {
            9.7
        } else if rows <= 64.0 {
            12.7
        } else {
            17.7
        }
    });
    let stairs = Staircase::of(&x, &y, &[0.01; 10]);
    let proven: Vec<f64> = stairs.edges.iter().map(|edge| edge.below).collect();
    assert!(proven.iter().all(|below| [16.0, 64.0].contains(below)), "{stairs:?}");
    assert!(stairs.doubtful.iter().any(|(edge, _)| edge.below < 16.0), "{stairs:?}");
}
