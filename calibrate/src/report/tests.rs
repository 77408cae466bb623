//! Whole reports, and what no report may do.

use super::*;
use crate::profile::{BUILTIN, Curve};

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

#[test]
#[expect(clippy::float_cmp, reason = "rows are whole")]
fn edges_are_jumps_that_intervals_leave_no_doubt_of() {
    let mut profile = double();
    let rows = |profile: &Profile| edges::of(profile).iter().map(|edge| edge.rows).collect::<Vec<_>>();
    assert_eq!(rows(&profile), [64.0, 128.0, 256.0]);
    let edge = edges::of(&profile)[0];
    assert!((edge.jump_us - 421.6).abs() < 2.0 && (edge.percent - 9.6).abs() < 0.1, "{edge:?}");
    // Wide intervals around the first one: no longer certain.
    let Curve::Table(table) = &profile.machine.dense.figures else { panic!("a table") };
    let after = table.x().iter().position(|&rows| rows == 65.0).unwrap();
    let measured = profile.machine.dense.measured.as_mut().unwrap();
    measured.intervals[0].1[after].low = 4000.0;
    assert_eq!(rows(&profile), [128.0, 256.0]);
    profile.machine.dense.measured = None;
    assert_eq!(rows(&profile), [64.0, 128.0, 256.0], "by their share");
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
