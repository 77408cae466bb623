//! What an operator reads when a GPU cannot be used: every cause planted in the driver double.

use crate::double::Double;

/// The message and the exit code of `--self-check`.
fn refusal(planted: &[(&str, &str)]) -> String {
    let run = Double::driver().calibrate(&["--self-check"], planted);
    // PTX that is too new can only be told by loading it.
    let complaints = run.complaints().into_iter().filter(|line| !line.contains("ptx-too-new"));
    assert_eq!(complaints.collect::<Vec<_>>(), [""; 0], "{planted:?}");
    format!("exit {}\n{}", run.code().unwrap_or(-1), run.stderr())
}

#[test]
fn a_driver_that_does_not_start_says_why() {
    insta::assert_snapshot!("stub", refusal(&[("RUNGWISE_DOUBLE_INIT_STATUS", "34")]));
    insta::assert_snapshot!("no_device", refusal(&[("RUNGWISE_DOUBLE_INIT_STATUS", "100")]));
    insta::assert_snapshot!("mismatch", refusal(&[("RUNGWISE_DOUBLE_INIT_STATUS", "803")]));
    insta::assert_snapshot!("not_ready", refusal(&[("RUNGWISE_DOUBLE_INIT_STATUS", "802")]));
    insta::assert_snapshot!("unknown", refusal(&[("RUNGWISE_DOUBLE_INIT_STATUS", "999")]));
    // A code of no driver that was there when this was written.
    insta::assert_snapshot!("from_the_future", refusal(&[("RUNGWISE_DOUBLE_INIT_STATUS", "65535")]));
}

#[test]
fn a_driver_or_gpu_that_is_too_old_says_what_is_needed() {
    insta::assert_snapshot!("old_driver", refusal(&[("RUNGWISE_DOUBLE_DRIVER_VERSION", "11080")]));
    insta::assert_snapshot!("old_gpu", refusal(&[("RUNGWISE_DOUBLE_CAPABILITY", "7.5")]));
    insta::assert_snapshot!("old_ptx", refusal(&[("RUNGWISE_DOUBLE_PTX_VERSION", "7.8")]));
}

#[test]
fn a_gpu_that_cannot_be_taken_says_who_has_it() {
    insta::assert_snapshot!("prohibited", refusal(&[("RUNGWISE_DOUBLE_COMPUTE_MODE", "2")]));
    insta::assert_snapshot!(
        "exclusive",
        refusal(&[("RUNGWISE_DOUBLE_COMPUTE_MODE", "3"), ("RUNGWISE_DOUBLE_BUSY", "1")])
    );
}
