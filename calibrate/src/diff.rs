//! Two profiles side by side: what differs, by how much, and whether what is not known about the figures explains it.

mod text;

pub(crate) use text::write;

use crate::profile::{AnyGroup, Figure, Measured, Profile};

/// How two profiles differ.
#[derive(Debug)]
pub(crate) struct Difference {
    /// What they are about, where it differs: the key, and what each says.
    pub(crate) identity: Vec<(&'static str, [String; 2])>,
    /// Groups of the first, then those of the second alone, in file order.
    pub(crate) groups: Vec<GroupDifference>,
}

/// How many figures, every knot of a table one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Judgement {
    /// Those whose intervals do not overlap.
    pub(crate) apart: usize,
    /// Those that have an interval in both.
    pub(crate) judged: usize,
    /// Those that could not be judged: no interval in one of them, other knots, or only in one.
    pub(crate) left_out: usize,
}

/// How one group differs.
#[derive(Debug)]
pub(crate) struct GroupDifference {
    /// The name of its table.
    pub(crate) name: &'static str,
    /// The kinds of origin; `None` where a profile lacks the group.
    pub(crate) kinds: [Option<&'static str>; 2],
    /// Figures of either, in file order.
    pub(crate) figures: Vec<FigureDifference>,
}

/// How one figure differs.
#[derive(Debug)]
pub(crate) struct FigureDifference {
    /// Its key in the file.
    pub(crate) name: &'static str,
    /// By how much.
    pub(crate) compared: Compared,
}

/// Two figures of the same name.
#[derive(Debug)]
pub(crate) enum Compared {
    /// Single ones.
    Single {
        /// Both values.
        values: [f64; 2],
        /// Whether their intervals overlap, where both have one.
        overlap: Option<bool>,
    },
    /// Tables, on the knots that both have.
    Tables {
        /// Knots of each.
        knots: [usize; 2],
        /// At every common knot.
        common: Vec<KnotDifference>,
    },
    /// One of them is missing, or a table beside a single figure.
    Apart {
        /// What each is, in words.
        shapes: [&'static str; 2],
    },
}

/// Two tables at one knot.
#[derive(Clone, Debug)]
pub(crate) struct KnotDifference {
    /// The coordinates of the knot.
    pub(crate) at: Vec<f64>,
    /// The second value less the first, percent of the first.
    pub(crate) percent: f64,
    /// Whether the intervals overlap, where both have one.
    pub(crate) overlap: Option<bool>,
}

impl Difference {
    /// Figures that differ by more than their intervals.
    pub(crate) fn judgement(&self) -> Judgement {
        let mut all = Judgement { apart: 0, judged: 0, left_out: 0 };
        for figure in self.groups.iter().flat_map(|group| &group.figures) {
            let overlaps = match &figure.compared {
                Compared::Single { overlap, .. } => vec![*overlap],
                Compared::Tables { knots, common } => {
                    all.left_out += knots.iter().map(|knots| knots.saturating_sub(common.len())).sum::<usize>();
                    common.iter().map(|knot| knot.overlap).collect()
                }
                Compared::Apart { .. } => vec![None],
            };
            for overlap in overlaps {
                match overlap {
                    Some(overlap) => {
                        all.judged += 1;
                        all.apart += usize::from(!overlap);
                    }
                    None => all.left_out += 1,
                }
            }
        }
        all
    }
}

impl FigureDifference {
    /// Whether there is nothing to say about it.
    pub(crate) fn is_none(&self) -> bool {
        match &self.compared {
            Compared::Single { values: [a, b], .. } => a.to_bits() == b.to_bits(),
            Compared::Tables { knots: [a, b], common } => {
                a == b && common.len() == *a && common.iter().all(|knot| knot.percent == 0.0)
            }
            Compared::Apart { .. } => false,
        }
    }
}

impl GroupDifference {
    /// Whether there is nothing to say about it.
    pub(crate) fn is_none(&self) -> bool {
        self.kinds[0] == self.kinds[1] && self.figures.iter().all(FigureDifference::is_none)
    }
}

/// Compares two profiles.
pub(crate) fn of(a: &Profile, b: &Profile) -> Difference {
    let (of_a, of_b) = (a.each_group(), b.each_group());
    let find = |groups: &[AnyGroup<'_>], name: &str| groups.iter().position(|group| group.name == name);
    let both = of_a.iter().map(|group| group_difference(Some(group), find(&of_b, group.name).map(|at| &of_b[at])));
    let second_alone = of_b.iter().filter(|group| find(&of_a, group.name).is_none());
    let groups = both.chain(second_alone.map(|group| group_difference(None, Some(group)))).collect();
    Difference { identity: identity(a, b), groups }
}

/// Group of `a` and of `b`, at least one of them there.
fn group_difference(a: Option<&AnyGroup<'_>>, b: Option<&AnyGroup<'_>>) -> GroupDifference {
    let figures = |group: Option<&AnyGroup<'_>>| group.map_or_else(Vec::new, |group| group.figures.figures());
    let (of_a, of_b) = (figures(a), figures(b));
    let of_both = of_a.iter().map(|figure| (figure.name, Some(figure), of_b.iter().find(|b| b.name == figure.name)));
    let second_alone = of_b.iter().filter(|figure| of_a.iter().all(|a| a.name != figure.name));
    let measured = [a.and_then(|group| group.measured), b.and_then(|group| group.measured)];
    let pairs = of_both.chain(second_alone.map(|figure| (figure.name, None, Some(figure))));
    GroupDifference {
        name: a.or(b).map_or("", |group| group.name),
        kinds: [a, b].map(|group| group.map(|group| group.provenance.kind.as_str())),
        figures: pairs.map(|(name, a, b)| FigureDifference { name, compared: compare(a, b, measured) }).collect(),
    }
}

fn compare(a: Option<&Figure>, b: Option<&Figure>, measured: [Option<&Measured>; 2]) -> Compared {
    let shape = |figure: Option<&Figure>| match figure {
        None => "nothing",
        Some(figure) if figure.knots.is_empty() => "a single figure",
        Some(_) => "a table",
    };
    let (Some(first), Some(second)) = (a, b) else { return Compared::Apart { shapes: [shape(a), shape(b)] } };
    let name = first.name;
    let [of_first, of_second] = measured.map(|measured| measured.map_or(&[][..], |measured| measured.of(name)));
    let overlap = |i: usize, j: usize| Some(of_first.get(i)?.overlaps(of_second.get(j)?));
    match (first.knots.is_empty(), second.knots.is_empty()) {
        (true, true) => Compared::Single { values: [first.values[0], second.values[0]], overlap: overlap(0, 0) },
        (false, false) => {
            let place = |at: &Vec<f64>| second.knots.iter().position(|other| other == at);
            let common = first.knots.iter().enumerate().filter_map(|(i, at)| {
                let j = place(at)?;
                let percent = percent(first.values[i], second.values[j]);
                Some(KnotDifference { at: at.clone(), percent, overlap: overlap(i, j) })
            });
            Compared::Tables { knots: [first.knots.len(), second.knots.len()], common: common.collect() }
        }
        _ => Compared::Apart { shapes: [shape(a), shape(b)] },
    }
}

/// The second less the first in percent of the first; infinite where only the first is zero.
pub(crate) fn percent(first: f64, second: f64) -> f64 {
    if first.to_bits() == second.to_bits() { 0.0 } else { 100.0 * (second - first) / first.abs() }
}

/// The median of the absolute differences, and the knot with the largest.
pub(crate) fn summary(common: &[KnotDifference]) -> Option<(f64, &KnotDifference)> {
    let mut sizes: Vec<f64> = common.iter().map(|knot| knot.percent.abs()).collect();
    sizes.sort_by(f64::total_cmp);
    let middle = sizes.len() / 2;
    let median = if sizes.len().is_multiple_of(2) {
        (sizes.get(middle.wrapping_sub(1))? + sizes[middle]) / 2.0
    } else {
        sizes[middle]
    };
    let largest = common.iter().max_by(|a, b| a.percent.abs().total_cmp(&b.percent.abs()))?;
    Some((median, largest))
}

fn identity(a: &Profile, b: &Profile) -> Vec<(&'static str, [String; 2])> {
    let (of_a, of_b) = (facts(a), facts(b));
    let differing = of_a.into_iter().zip(of_b).filter(|(a, b)| a.1 != b.1);
    differing.map(|((name, first), (_, second))| (name, [first, second])).collect()
}

/// What a profile is about, fact by fact, the same facts of every profile.
fn facts(profile: &Profile) -> Vec<(&'static str, String)> {
    let (identity, model) = (&profile.identity, &profile.identity.model);
    let optional = |text: Option<&String>| text.cloned().unwrap_or_else(|| "not stated".to_owned());
    let mut facts = vec![
        ("device", identity.device.clone()),
        ("driver", optional(identity.driver.as_ref())),
        ("host CPU", optional(identity.host_cpu.as_ref())),
        ("engine", identity.engine.clone()),
        ("engine version", optional(identity.engine_version.as_ref())),
        ("overlap", profile.overlap.as_str().to_owned()),
        ("model", identity.model_name.clone()),
    ];
    facts.extend(model.named());
    let measurement = profile.measurement.as_ref();
    let stated = |fact: Option<String>| fact.unwrap_or_else(|| "not stated".to_owned());
    facts.extend([
        ("measured", stated(measurement.map(|run| run.date.clone()))),
        ("calibrate", stated(measurement.map(|run| run.calibrate_version.clone()))),
        ("options", stated(measurement.map(|run| run.options.clone()))),
        ("CUDA", stated(measurement.and_then(|run| run.cuda_version.clone()))),
        ("compute capability", stated(measurement.and_then(|run| run.compute_capability.clone()))),
        ("GEMM backend", stated(measurement.map(|run| run.gemm_backend.clone()))),
        ("tensor-parallel ranks", stated(measurement.map(|run| run.tensor_parallel.to_string()))),
        ("layers with weights", stated(measurement.and_then(|run| run.weight_layers).map(|layers| layers.to_string()))),
        (
            "SM clock MHz",
            stated(measurement.and_then(|run| run.sm_clock_mhz).map(|[low, high]| format!("{low} to {high}"))),
        ),
        ("warnings", stated(measurement.map(|run| list(run.warnings.iter().map(|warning| warning.code.as_str()))))),
    ]);
    facts
}

fn list<'a>(words: impl Iterator<Item = &'a str>) -> String {
    let words: Vec<_> = words.collect();
    if words.is_empty() { "none".to_owned() } else { words.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Curve, Interval};

    fn double() -> Profile {
        Profile::from_toml(include_str!("../../tests/calibrate/double.toml"), "double.toml").unwrap()
    }

    fn text(a: &Profile, b: &Profile) -> String {
        let mut out = Vec::new();
        write(&of(a, b), ["a.toml", "b.toml"], &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_profile_differs_from_itself_in_nothing() {
        for name in crate::profile::BUILTIN {
            let profile = Profile::builtin(name).unwrap();
            let difference = of(&profile, &profile);
            assert!(difference.identity.is_empty() && difference.groups.iter().all(GroupDifference::is_none), "{name}");
        }
        let double = double();
        assert!(of(&double, &double).groups.iter().all(GroupDifference::is_none));
    }

    #[test]
    fn two_runs_on_one_machine() {
        let (a, mut b) = (double(), double());
        b.measurement.as_mut().unwrap().date = "2026-01-31T09:32:00Z".into();
        b.machine.launch.figures.launch_us = 2.32;
        b.machine.launch.measured.as_mut().unwrap().intervals[0].1[0] = Interval { low: 2.3, high: 2.35, samples: 24 };
        b.machine.replay.figures.fixed_us = 11.0;
        b.machine.replay.measured.as_mut().unwrap().intervals[0].1[0] = Interval { low: 10.8, high: 11.2, samples: 24 };
        insta::assert_snapshot!(text(&a, &b));
    }

    #[test]
    fn knots_are_compared_where_both_have_them() {
        let (a, b) = (Profile::builtin("a100-llama-3-8b").unwrap(), Profile::builtin("h200-llama-3.1-8b").unwrap());
        insta::assert_snapshot!(text(&a, &b));
    }

    #[test]
    fn what_only_one_has_is_named() {
        insta::assert_snapshot!(text(&Profile::builtin("textbook").unwrap(), &double()));
    }

    /// Launches overlap with themselves only, replays not.
    #[test]
    fn the_last_line_counts_what_is_apart() {
        let (a, mut b) = (double(), double());
        let whole = of(&a, &b).judgement();
        assert_eq!(whole.apart, 0);
        let Curve::Table(table) = &a.machine.dense.figures else { panic!("a table") };
        let knots = table.x().len();
        assert!(whole.judged > knots, "every knot is one: {whole:?}");
        b.machine.replay.measured.as_mut().unwrap().intervals[0].1[0] = Interval { low: 90.0, high: 91.0, samples: 24 };
        b.machine.launch.measured = None;
        let changed = of(&a, &b).judgement();
        assert_eq!((changed.apart, changed.judged), (1, whole.judged - 1));
        assert_eq!(changed.left_out, whole.left_out + 1);
        let end = format!("\n1 of {} figures differ by more than their intervals", changed.judged);
        assert!(text(&a, &b).contains(&end), "{}", text(&a, &b));
    }

    #[test]
    fn differences_are_of_the_first() {
        assert!((percent(2.0, 3.0) - 50.0).abs() < 1e-12 && (percent(-2.0, -3.0) + 50.0).abs() < 1e-12);
        assert!(percent(0.0, 0.0) == 0.0 && percent(0.0, 1.0) == f64::INFINITY);
        let knot = |percent| KnotDifference { at: vec![1.0], percent, overlap: None };
        assert!(summary(&[]).is_none());
        let even = [knot(1.0), knot(-4.0), knot(2.0), knot(0.0)];
        let (median, largest) = summary(&even).unwrap();
        assert!((median - 1.5).abs() < 1e-12 && (largest.percent + 4.0).abs() < 1e-12);
        assert!((summary(&[knot(1.0), knot(-4.0), knot(2.0)]).unwrap().0 - 2.0).abs() < 1e-12);
    }
}
