//! `calibrate --self-check` against the driver double.

use crate::double::Double;

/// Products too: cuBLASLt's double launches the own kernel by itself, eagerly, captured and replayed.
#[test]
fn everything_works_on_the_double() {
    let Some(double) = Double::with_kernels() else { return };
    let (double, blaslt) = double.with_blaslt();
    let run = double.calibrate(&["--self-check"], &[("RUNGWISE_CUBLASLT", &blaslt)]);
    assert!(run.stdout().starts_with("driver   the tests' driver double, version "), "{}", run.stdout());
    assert_eq!((run.code(), run.stderr()), (Some(0), ""), "{}", run.stdout());
    assert_eq!(run.complaints(), [""; 0]);
    insta::with_settings!({ filters => [
        (r"\(\d+ cases?\) +", "([number] cases) "),
        (r"\d\.\de-\d+ \(limit \d\.\de-\d+\)", "[figure] (limit [figure])"),
        (r"off by \d\.\de-\d+", "off by [figure]"),
        (r"an element by \d\.\de-\d+", "an element by [figure]"),
        (r"\d+\.\d us", "[figure] us"),
    ] }, {
        insta::assert_snapshot!(run.stdout().replace(&blaslt, "[path]"));
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
    for name in [
        "embed_bf16",
        "rms_norm_bf16",
        "gemm_tile64_bf16",
        "copy_kernel",
        "takes over another graph",
        "FULL replay = eager",
        "PIECEWISE replay = eager",
        "FULL = PIECEWISE",
        "padded rows change nothing",
        "against f64",
    ] {
        assert!(failed(name), "{name} passed:\n{}", run.stdout());
    }
    assert!(!failed("null_kernel"), "it has nothing to compute:\n{}", run.stdout());
    assert!(run.stdout().lines().last().is_some_and(|line| line.starts_with("FAILED: ")), "{}", run.stdout());
}

/// Compute capability 8.6, 8.9 and 12.0 give a block 99 KiB of shared memory: no launch may ask for more.
#[test]
fn small_gpus_take_every_launch() {
    for (capability, sms) in [("8.0", "108"), ("8.9", "58"), ("12.0", "170")] {
        let planted = [("RUNGWISE_DOUBLE_CAPABILITY", capability), ("RUNGWISE_DOUBLE_SMS", sms)];
        let run = Double::driver().calibrate(&["--self-check"], &planted);
        assert!(run.stdout().contains("ok             kernels load"), "{capability}:\n{}", run.stdout());
        assert_eq!(run.complaints(), [""; 0], "{capability}");
    }
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

#[test]
fn a_library_that_makes_no_handle_is_not_used() {
    let (double, path) = Double::driver().with_blaslt();
    let line = |variables: &[(&str, &str)]| {
        let run = double.calibrate(&["--self-check"], variables);
        let line = run.stdout().lines().find(|line| line.contains("against cuBLASLt")).unwrap_or_default();
        line.replace(&path, "[path]")
    };
    let refused = [("RUNGWISE_CUBLASLT", path.as_str()), ("RUNGWISE_DOUBLE_BLASLT_STATUS", "1")];
    insta::assert_snapshot!(line(&refused), @"not available  own matrix products against cuBLASLt                 no usable cuBLASLt was found: [path]: cublasLtCreate: 1, CUBLAS_STATUS_NOT_INITIALIZED (no driver that is new enough for it, or no memory for its handle)");
    insta::assert_snapshot!(line(&[("RUNGWISE_CUBLASLT", "none")]), @"not available  own matrix products against cuBLASLt                 cuBLASLt is not used: RUNGWISE_CUBLASLT is `none`");
    insta::assert_snapshot!(line(&[("RUNGWISE_CUBLASLT", "/no/such/file")]), @"not available  own matrix products against cuBLASLt                 no usable cuBLASLt was found: /no/such/file: cannot open shared object file: No such file or directory");
}
