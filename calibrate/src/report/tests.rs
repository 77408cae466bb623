//! Whole reports, and what no report may do.

use super::*;
use crate::layout::{self, WIDTH};
use crate::profile::{BUILTIN, Curve, Interval};

fn report(profile: &Profile) -> String {
    let mut out = Vec::new();
    write(profile, "its-file.toml", &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn double() -> Profile {
    Profile::from_toml(include_str!("../../../tests/calibrate/double.toml"), "double.toml").unwrap()
}

#[test]
fn a_measured_profile() {
    insta::assert_snapshot!(report(&double()));
}

#[test]
fn a_derived_profile() {
    insta::assert_snapshot!(report(&Profile::builtin("a100-llama-3-8b").unwrap()));
}

#[test]
fn a_declared_profile() {
    insta::assert_snapshot!(report(&Profile::builtin("textbook").unwrap()));
}

#[test]
fn every_report_fits_eighty_columns_without_colour() {
    let builtins = BUILTIN.iter().map(|name| Profile::builtin(name).unwrap());
    for profile in builtins.chain([double()]) {
        let text = report(&profile);
        for line in text.lines() {
            let words = line.split_whitespace().count();
            assert!(line.chars().count() <= WIDTH || words == 1, "{}: {line}", profile.name);
            assert!(line.chars().all(|c| !c.is_control()) && line == line.trim_end(), "{line}");
        }
    }
}

/// Nothing is drawn where nothing differs, no share is given of what may be nothing, and no worst size where all are exact.
#[test]
fn what_is_level_exact_or_nothing_is_said_so() {
    let mut profile = double();
    if let Curve::Table(dense) = &mut profile.machine.dense.figures {
        dense.y = vec![4300.0; dense.y.len()];
    }
    let dense = profile.machine.dense.measured.as_mut().unwrap();
    dense.intervals = vec![("us", vec![Interval { low: 4300.0, high: 4300.0, samples: 24 }; 22])];
    let held_out = dense.held_out.as_mut().unwrap();
    (held_out.median_percent, held_out.worst_percent) = (0.0, 0.0);
    let attention = profile.machine.attention.as_mut().unwrap();
    attention.figures.padded_request_us = 0.0035;
    let intervals = &mut attention.measured.as_mut().unwrap().intervals;
    intervals[0] = ("padded_request_us", vec![Interval { low: 0.0, high: 0.04, samples: 24 }]);
    let text = report(&profile);
    for expected in [
        "\n  4.30 ms from 1 to 512 rows\n",
        "machine.dense: +-0.0 %, 24 rounds; left-out sizes exact\n",
        "machine.attention: +-1.0 %, 24 rounds; not told from nothing:\n      padded_request_us\n",
    ] {
        assert!(text.contains(expected), "{expected:?} is not in\n{text}");
    }
}

#[test]
fn edges_are_jumps_that_stand_out_of_the_intervals() {
    let mut profile = double();
    let lines = |profile: &Profile, mark: &str| {
        let lines = report(profile);
        lines.lines().filter(|line| line.ends_with(mark)).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(
        lines(&profile, "exactly here"),
        [
            "        1 to 64     4.30      1.60  +420 us +-31.0 (+9.5 %), exactly here",
            "      65 to 128     4.82      1.60  +600 us +-40.9 (+12.2 %), exactly here",
            "     129 to 256     5.53      1.60  +900 us +-48.3 (+15.7 %), exactly here",
        ]
    );
    // The wider the intervals, the fewer edges stand out of them.
    for (wider_us, rows) in [(400.0, &["1 to 256"][..]), (2_000.0, &[])] {
        for interval in profile.machine.dense.measured.as_mut().unwrap().intervals.iter_mut().flat_map(|(_, all)| all) {
            *interval = Interval { low: interval.low - wider_us, high: interval.high + wider_us, ..*interval };
        }
        let found = lines(&profile, "exactly here");
        assert!(
            found.len() == rows.len() && found.iter().zip(rows).all(|(line, rows)| line.contains(rows)),
            "{found:?}"
        );
    }
    let words = report(&profile).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("no edge is proven"), "{words}");
    // Of a profile that states none: by how its knots scatter, and with nothing to tell of the slope's interval.
    profile.machine.dense.measured = None;
    assert_eq!(lines(&profile, "exactly here").len(), 3);
    assert!(report(&profile).contains("the profile states no errors of these times"));
}

/// From 129 rows on everything takes a millisecond less than at 128.
#[test]
fn an_edge_below_zero_has_a_footnote() {
    let words = |profile: &Profile| report(profile).split_whitespace().collect::<Vec<_>>().join(" ");
    let mut profile = double();
    assert!(!words(&profile).contains("an edge below zero"));
    let Curve::Table(table) = &mut profile.machine.dense.figures else { panic!("a table") };
    let from = table.x().partition_point(|rows| *rows < 129.0);
    for us in &mut table.y[from..] {
        *us -= 1_600.0;
    }
    let intervals = &mut profile.machine.dense.measured.as_mut().unwrap().intervals[0].1;
    for interval in &mut intervals[from..] {
        *interval = Interval { low: interval.low - 1_600.0, high: interval.high - 1_600.0, ..*interval };
    }
    let report = words(&profile);
    assert!(report.contains("exactly here 129 to 256") && report.contains("an edge below zero: more rows"), "{report}");
}

#[test]
fn numbers_have_three_digits() {
    for (value, text) in [
        (0.0, "0"),
        (0.0055, "0.0055"),
        (0.58, "0.580"),
        (2.31, "2.31"),
        (12.1, "12.1"),
        (99.96, "100"),
        (4404.0, "4404"),
    ] {
        assert_eq!(layout::number(value), text);
    }
}
