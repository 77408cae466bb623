//! Measured profiles as the binary reads them. `double.toml` has the form of what calibrate writes; its figures are made up.

use crate::{calibrate, text};

const DOUBLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/calibrate/double.toml");

/// Standard output, with the folder of the repository left out.
fn printed(arguments: &[&str]) -> String {
    let output = calibrate(arguments);
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""), "{arguments:?}");
    text(&output.stdout).replace(DOUBLE, "double.toml")
}

#[test]
fn show_states_intervals_protocol_and_warnings() {
    insta::assert_snapshot!(printed(&["show", DOUBLE]));
}

#[test]
fn show_toml_gives_a_measured_profile_back_byte_for_byte() {
    assert_eq!(printed(&["show", "--toml", DOUBLE]), std::fs::read_to_string(DOUBLE).expect("it is there"));
}

#[test]
fn diff_names_both_and_ends_well() {
    let lines = printed(&["diff", "h200-llama-3.1-8b", DOUBLE]);
    assert!(lines.starts_with("A  h200-llama-3.1-8b\nB  double.toml\n\nabout"), "{lines}");
    assert!(
        lines.contains("\nmachine.launch.launch_us                                3         2.31   -23.0 %  -\n"),
        "{lines}"
    );
    let same = printed(&["diff", "textbook", "textbook"]);
    assert!(same.starts_with("A  textbook\nB  textbook\n\nthe same in both: machine.memory, machine.dense,"), "{same}");
    let missing = calibrate(&["diff", "textbook", "no/such/file.toml"]);
    assert_eq!((missing.status.code(), text(&missing.stdout)), (Some(3), ""));
}
