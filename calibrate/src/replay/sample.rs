//! Which shapes of a log are run, and how many steps each stands for.
//!
//! A long run has about as many shapes as steps, for contexts grow. If they are more than can be run, every candidate gets
//! the same number of places, and every mode of it at least one. Within a mode places are evenly spaced over the steps in
//! the order of rows and predicted time, half of them by number and half by time, so that neither frequent nor long steps
//! are missed; each counts inversely to its chance (systematic sampling with unequal chances, Horvitz and Thompson 1952).
//! Predicted totals are known for all steps: totals are scaled to them, so that candidates are not ranked by the luck of
//! the draw.

use std::collections::BTreeMap;

use super::log::{Candidate, Group, StepLog};
use crate::probe::step_shape::ShapeKey;

/// The steps to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Every shape once.
    pub shapes: Vec<ShapeKey>,
    /// What each stands for.
    pub uses: Vec<Use>,
    /// Different shapes of the log.
    pub shapes_in_log: usize,
}

/// Steps of one candidate that a shape stands for.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// The candidate, by its place in the log.
    pub candidate: usize,
    /// The shape, by its place in [`Sample::shapes`].
    pub shape: usize,
    /// How many steps.
    pub steps: f64,
    /// How many for totals: such that the predicted time of the candidate's steps of this mode comes out whole.
    pub total_steps: f64,
    /// Index of the first step of this shape in its run.
    pub first_step: u64,
    /// Predicted device time of one, in microseconds.
    pub predicted_device_us: f64,
    /// Predicted host time of its launches, in microseconds.
    pub predicted_launch_us: f64,
}

impl Sample {
    /// At most about `limit` shapes of a log, and at least one for each candidate.
    pub fn of(log: &StepLog, limit: usize) -> Self {
        let mut places = BTreeMap::new();
        for group in log.candidates.iter().flat_map(|candidate| &candidate.groups) {
            places.insert(&group.shape, None);
        }
        let shapes_in_log = places.len();
        let share = (limit / log.candidates.len().max(1)).max(1);
        let mut sample = Self { shapes: Vec::new(), uses: Vec::new(), shapes_in_log };
        for (number, candidate) in log.candidates.iter().enumerate() {
            let chosen = if shapes_in_log <= limit { all(candidate) } else { evenly(candidate, share) };
            for Chosen { group, steps, total_steps } in chosen {
                let place = places.entry(&group.shape).or_default();
                let shape = *place.get_or_insert_with(|| {
                    sample.shapes.push(group.shape.clone());
                    sample.shapes.len() - 1
                });
                let each_us = |ns: u64| ns as f64 / 1e3 / group.steps as f64;
                sample.uses.push(Use {
                    candidate: number,
                    shape,
                    steps,
                    total_steps,
                    first_step: group.first_step,
                    predicted_device_us: each_us(group.predicted.device_ns),
                    predicted_launch_us: each_us(group.predicted.launch_ns),
                });
            }
        }
        sample
    }

    /// Without the shapes that are not `kept`: the rest, and the steps that went, by candidate.
    #[must_use]
    pub fn retain(self, kept: &[bool]) -> (Self, BTreeMap<usize, f64>) {
        let mut went = BTreeMap::new();
        let mut places = Vec::new();
        let mut shapes = Vec::new();
        for (shape, kept) in self.shapes.into_iter().zip(kept) {
            places.push(kept.then_some(shapes.len()));
            if *kept {
                shapes.push(shape);
            }
        }
        let mut uses = Vec::new();
        for used in self.uses {
            match places[used.shape] {
                Some(shape) => uses.push(Use { shape, ..used }),
                None => *went.entry(used.candidate).or_insert(0.0) += used.steps,
            }
        }
        (Self { shapes, uses, shapes_in_log: self.shapes_in_log }, went)
    }
}

/// A group that is run, and the steps that it stands for.
struct Chosen<'a> {
    group: &'a Group,
    steps: f64,
    total_steps: f64,
}

fn all(candidate: &Candidate) -> Vec<Chosen<'_>> {
    let whole = |group: &'_ Group| group.steps as f64;
    candidate.groups.iter().map(|group| Chosen { group, steps: whole(group), total_steps: whole(group) }).collect()
}

/// Steps and predicted nanoseconds of groups, as shares of what they are together.
#[derive(Clone, Copy)]
struct Size {
    steps: f64,
    ns: f64,
}

impl Size {
    fn of<'a>(groups: impl IntoIterator<Item = &'a Group>) -> Self {
        let add = |Self { steps, ns }: Self, group: &Group| Self {
            steps: steps + group.steps as f64,
            ns: ns + group.predicted.device_ns as f64,
        };
        groups.into_iter().fold(Self { steps: 0.0, ns: 0.0 }, add)
    }

    /// The chance of a part of `self`.
    fn chance(self, part: Self) -> f64 {
        let steps = part.steps / self.steps;
        if self.ns > 0.0 { f64::midpoint(steps, part.ns / self.ns) } else { steps }
    }
}

/// About `places` groups.
fn evenly(candidate: &Candidate, places: usize) -> Vec<Chosen<'_>> {
    let mut modes: BTreeMap<&str, Vec<&Group>> = BTreeMap::new();
    for group in &candidate.groups {
        modes.entry(group.shape.mode_name()).or_default().push(group);
    }
    let size = Size::of(&candidate.groups);
    let places_of = |groups: &[&Group]| {
        let share = size.chance(Size::of(groups.iter().copied())) * places as f64;
        (share.round() as usize).max(1)
    };
    modes.into_values().flat_map(|groups| evenly_in_mode(places_of(&groups), groups)).collect()
}

fn evenly_in_mode(places: usize, mut groups: Vec<&Group>) -> Vec<Chosen<'_>> {
    groups.sort_by_cached_key(|group| {
        (group.shape.rows, group.predicted.device_ns / group.steps.max(1), group.shape.clone())
    });
    let size = Size::of(groups.iter().copied());
    let (mut place, mut passed) = (0, 0.0);
    let mut chosen: Vec<Chosen<'_>> = Vec::new();
    for (number, group) in groups.iter().copied().enumerate() {
        let chance = size.chance(Size::of([group]));
        passed += chance;
        let is_last = number + 1 == groups.len();
        let mut fallen = 0;
        // The last takes what rounding leaves.
        while place < places && (is_last || (place as f64 + 0.5) / (places as f64) < passed) {
            place += 1;
            fallen += 1;
        }
        if fallen > 0 {
            let steps = group.steps as f64 * f64::from(fallen) / (places as f64 * chance);
            chosen.push(Chosen { group, steps, total_steps: steps });
        }
    }
    let each_ns = |group: &Group| group.predicted.device_ns as f64 / group.steps as f64;
    let steps: f64 = chosen.iter().map(|chosen| chosen.steps).sum();
    let ns: f64 = chosen.iter().map(|chosen| chosen.steps * each_ns(chosen.group)).sum();
    let (of_steps, of_time) = (size.steps / steps, if ns > 0.0 { size.ns / ns } else { size.steps / steps });
    for chosen in &mut chosen {
        (chosen.steps, chosen.total_steps) = (chosen.steps * of_steps, chosen.steps * of_time);
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replay::log::Predicted;
    use kernels::units::Rows;

    fn group(rows: u32, context: u64, steps: u64) -> Group {
        let shape = ShapeKey {
            graph: None,
            rows: Rows(rows),
            prefills: vec![],
            decode_requests: rows,
            decode_context: context,
            drafts: 0,
        };
        let device_ns = steps * (1_000_000 * u64::from(rows) + context);
        Group { shape, steps, first_step: context, predicted: Predicted { device_ns, launch_ns: steps * 2_000 } }
    }

    fn log(candidates: Vec<Vec<Group>>) -> StepLog {
        let candidate = |(number, groups)| Candidate {
            name: format!("candidate {number}"),
            seeds: vec![0],
            groups,
            left_out: BTreeMap::new(),
        };
        let candidates = candidates.into_iter().enumerate().map(candidate).collect();
        StepLog { scenario: "S".into(), profile: "p".into(), candidates }
    }

    fn total_us(sample: &Sample) -> f64 {
        sample.uses.iter().map(|used| used.total_steps * used.predicted_device_us).sum()
    }

    #[test]
    fn few_shapes_are_all_run_and_shared_ones_once() {
        let both = log(vec![vec![group(1, 10, 3), group(2, 20, 1)], vec![group(2, 20, 5)]]);
        let sample = Sample::of(&both, 2);
        assert_eq!((sample.shapes.len(), sample.uses.len(), sample.shapes_in_log), (2, 3, 2));
        let steps: Vec<_> = sample.uses.iter().map(|used| (used.candidate, used.shape, used.steps)).collect();
        assert_eq!(steps, [(0, 0, 3.0), (0, 1, 1.0), (1, 1, 5.0)]);
        assert!((sample.uses[0].predicted_device_us - 1_000.01).abs() < 1e-9);
        assert!((sample.uses[2].predicted_launch_us - 2.0).abs() < 1e-9);
    }

    #[test]
    fn of_many_shapes_a_few_stand_for_all_steps() {
        let groups: Vec<Group> = (0..1_000).map(|step| group(1 + step / 250, u64::from(step) * 90, 1)).collect();
        let all = Sample::of(&log(vec![groups.clone()]), 1_000);
        let some = Sample::of(&log(vec![groups]), 20);
        assert_eq!((some.shapes.len(), some.shapes_in_log), (20, 1_000));
        let mean_us = |sample: &Sample| {
            sample.uses.iter().map(|used| used.steps * used.predicted_device_us).sum::<f64>() / 1_000.0
        };
        assert!((mean_us(&some) / mean_us(&all) - 1.0).abs() < 0.03, "{} {}", mean_us(&some), mean_us(&all));
        assert!((some.uses.iter().map(|used| used.steps).sum::<f64>() - 1_000.0).abs() < 1e-9);
        assert!((total_us(&some) / total_us(&all) - 1.0).abs() < 1e-9, "{} {}", total_us(&some), total_us(&all));
        let of_rows = |rows| some.shapes.iter().filter(|shape| shape.rows == Rows(rows)).count();
        // Longer steps take more places: by number 5 each, by time 2 to 8.
        assert_eq!([1, 2, 3, 4].map(of_rows), [3, 5, 5, 7]);
    }

    #[test]
    fn a_frequent_shape_takes_the_places_that_fall_on_it() {
        let sample = Sample::of(&log(vec![vec![group(1, 10, 90), group(2, 20, 5), group(3, 30, 5)]]), 2);
        assert_eq!(sample.uses.iter().map(|used| used.steps).collect::<Vec<_>>(), [100.0]);
    }

    #[test]
    fn rare_long_steps_are_found_and_do_not_weigh_as_much_as_the_others() {
        let mut groups: Vec<Group> = (0..990).map(|step| group(1, step, 1)).collect();
        groups.extend((0..10).map(|step| group(200, step, 1)));
        let sample = Sample::of(&log(vec![groups]), 20);
        let long: Vec<f64> =
            sample.uses.iter().filter(|used| used.predicted_device_us > 1e5).map(|used| used.steps).collect();
        assert!((5..=9).contains(&long.len()), "{long:?}");
        assert!((long.iter().sum::<f64>() - 10.0).abs() < 2.0, "{long:?}");
    }

    #[test]
    fn shapes_that_are_not_run_take_their_steps_with_them() {
        let both = log(vec![vec![group(1, 10, 3), group(2, 20, 1)], vec![group(2, 20, 5)]]);
        let (rest, went) = Sample::of(&both, 10).retain(&[false, true]);
        assert_eq!(went.into_iter().collect::<Vec<_>>(), [(0, 3.0)]);
        assert_eq!(rest.uses.iter().map(|used| (used.shape, used.steps)).collect::<Vec<_>>(), [(0, 1.0), (0, 5.0)]);
        assert_eq!(rest.shapes[0].rows, Rows(2));
    }
}
