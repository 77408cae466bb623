//! `calibrate --self-check` against the driver double.

use crate::double::Double;

#[test]
fn everything_works_on_the_double() {
    let Some(double) = Double::with_kernels() else { return };
    let run = double.calibrate(&["--self-check"], &[]);
    assert!(run.stdout().starts_with("driver   the tests' driver double, version "), "{}", run.stdout());
    assert_eq!((run.code(), run.stderr()), (Some(0), ""), "{}", run.stdout());
    assert_eq!(run.complaints(), [""; 0]);
    insta::with_settings!({ filters => [
        (r"\d\.\de-\d+ \(limit", "[figure] (limit"),
        (r"off by \d\.\de-\d+", "off by [figure]"),
        (r"an element by \d\.\de-\d+", "an element by [figure]"),
        (r"\d+\.\d us", "[figure] us"),
    ] }, {
        insta::assert_snapshot!(run.stdout());
    });
}

/// Kernels that compute nothing: whatever is compared with a reference must fail, and nothing must be taken for well.
#[test]
fn kernels_that_compute_nothing_are_found_out() {
    let run = Double::driver().calibrate(&["--self-check"], &[]);
    assert_eq!(run.code(), Some(1), "{}", run.stdout());
    let failed = |name: &str| {
        let line = run.stdout().lines().find(|line| line.contains(name));
        line.is_some_and(|line| line.starts_with("FAILED"))
    };
    for name in ["embed_bf16", "rms_norm_bf16", "gemm_tile64_bf16", "copy_kernel", "FULL replay = eager", "against f64"]
    {
        assert!(failed(name), "{name} passed:\n{}", run.stdout());
    }
    assert!(!failed("null_kernel"), "it has nothing to compute:\n{}", run.stdout());
    assert!(run.stdout().lines().last().is_some_and(|line| line.starts_with("FAILED: ")), "{}", run.stdout());
}

/// The context is lost in the middle: the checks behind are left out, the program ends in order.
#[test]
fn a_lost_context_ends_the_checks() {
    let run = Double::driver().calibrate(&["--self-check"], &[("RUNGWISE_DOUBLE_FAIL", "cuStreamSynchronize:20=700")]);
    assert_eq!(run.code(), Some(1), "{}", run.stdout());
    let lines: Vec<&str> = run.stdout().lines().collect();
    assert!(lines.iter().any(|line| line.contains("the GPU context is lost")), "{}", run.stdout());
    assert!(!run.stdout().contains("tiny model"), "{}", run.stdout());
}
