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

/// A container that was given libcuda.so.1 and not its compiler; a shell that forbids compiling.
#[test]
fn a_driver_that_cannot_compile_says_what_it_lacks() {
    insta::assert_snapshot!("no_compiler", refusal(&[("RUNGWISE_DOUBLE_FAIL", "cuModuleLoadDataEx:1=221")]));
    insta::assert_snapshot!("compiler_disabled", refusal(&[("RUNGWISE_DOUBLE_FAIL", "cuModuleLoadDataEx:2=223")]));
}

/// What a call came to is not taken for something else that the same call can come to.
#[test]
fn a_failure_while_kernels_are_found_is_told_as_what_it_is() {
    let kernels_load = |failure: &str| {
        let run = Double::driver().calibrate(&["--self-check"], &[("RUNGWISE_DOUBLE_FAIL", failure)]);
        let line = run.stdout().lines().find(|line| line.contains("kernels load")).unwrap_or_default();
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    insta::assert_snapshot!(kernels_load("cuModuleGetFunction:1=500"), @"FAILED kernels load module decoder has no kernel embed_bf16");
    insta::assert_snapshot!(kernels_load("cuModuleGetFunction:1=700"), @"FAILED kernels load the GPU context is lost (cuModuleGetFunction: 700, CUDA_ERROR_ILLEGAL_ADDRESS)");
    insta::assert_snapshot!(kernels_load("cuFuncGetParamInfo:1=1"), @"FAILED kernels load kernel embed_bf16: parameter 0 (out) is missing in the module");
    insta::assert_snapshot!(kernels_load("cuFuncGetParamInfo:1=801"), @"FAILED kernels load the driver refused a call (cuFuncGetParamInfo: 801, CUDA_ERROR_NOT_SUPPORTED)");
}

#[test]
fn a_gpu_that_cannot_be_taken_says_who_has_it() {
    insta::assert_snapshot!("fabric", refusal(&[("RUNGWISE_DOUBLE_FAIL", "cuDevicePrimaryCtxRetain:1=802")]));
    insta::assert_snapshot!("mps", refusal(&[("RUNGWISE_DOUBLE_FAIL", "cuDevicePrimaryCtxRetain:1=807")]));
    insta::assert_snapshot!("prohibited", refusal(&[("RUNGWISE_DOUBLE_COMPUTE_MODE", "2")]));
    insta::assert_snapshot!(
        "exclusive",
        refusal(&[("RUNGWISE_DOUBLE_COMPUTE_MODE", "3"), ("RUNGWISE_DOUBLE_BUSY", "1")])
    );
}

#[test]
fn memory_that_does_not_suffice_is_told_with_what_was_asked_for() {
    // What a context takes, and hardly more.
    insta::assert_snapshot!("full", refusal(&[("RUNGWISE_DOUBLE_MEMORY_BYTES", "526385152")]));
    let no_room = [("RUNGWISE_DOUBLE_FAIL", "cuDevicePrimaryCtxRetain:1=2")];
    insta::assert_snapshot!("no_room_for_a_context", refusal(&no_room));
    let no_room = [("RUNGWISE_DOUBLE_FAIL", "cuGraphInstantiateWithParams:1=2")];
    insta::assert_snapshot!("no_room_for_a_graph", refusal(&no_room));
}

#[test]
fn no_device_at_all() {
    insta::assert_snapshot!("none_shown", refusal(&[("RUNGWISE_DOUBLE_DEVICES", "0")]));
    let hidden = [("RUNGWISE_DOUBLE_INIT_STATUS", "100"), ("CUDA_VISIBLE_DEVICES", "9")];
    insta::assert_snapshot!("hidden", refusal(&hidden));
}

/// A function that a driver has had since 12.3 or 12.4 costs a check, not the program.
#[test]
fn a_driver_of_12_0_has_everything_that_is_needed() {
    let run = Double::driver()
        .calibrate(&["--device", "0", "--memory-limit", "1MiB"], &[("RUNGWISE_DOUBLE_DRIVER_VERSION", "12000")]);
    assert!(run.stdout().contains("CUDA 12.0"), "{}", run.stdout());
    assert_eq!(run.complaints(), [""; 0]);
}

#[test]
fn a_function_that_the_driver_lacks_is_named() {
    let run = Double::driver().lacking("cuGraphUpload").calibrate(&["--device", "0"], &[]);
    assert_eq!((run.code(), run.stdout()), (Some(4), ""));
    insta::assert_snapshot!("missing_function", run.stderr());
    let run = Double::driver().lacking("cuFuncGetName").calibrate(&["--self-check"], &[]);
    let lost = "cuFuncGetName is missing: the kernels of a graph are counted, not named";
    assert!(run.stdout().contains(lost), "{}", run.stdout());
    assert!(run.stdout().contains("kernels load"), "nothing else is lost:\n{}", run.stdout());
}

/// Whatever fails half way, what was made before is given back: the double would report a leak.
#[test]
fn a_failure_half_way_gives_everything_back() {
    for (failure, code, message) in [
        ("cuStreamCreate:1=2", 6, "out of memory (cuStreamCreate: 2"),
        ("cuModuleLoadDataEx:2=218", 1, "the driver cannot load module attention (cuModuleLoadDataEx: 218"),
        ("cuModuleGetFunction:5=500", 1, "module decoder has no kernel kv_write_bf16"),
        ("cuMemHostAlloc:1=2", 6, "out of memory (cuMemHostAlloc: 2"),
        ("cuMemHostGetDevicePointer_v2:1=1", 1, "the driver refused a call (cuMemHostGetDevicePointer_v2: 1"),
        ("cuEventCreate:2=2", 6, "out of memory (cuEventCreate: 2"),
        ("cuGraphGetNodes:1=1", 1, "the driver refused a call (cuGraphGetNodes: 1"),
        ("cuGraphInstantiateWithParams:1=1", 1, "the graph cannot be made executable"),
        ("cuGraphExecUpdate_v2:1=910", 1, "the executable cannot take over the graph"),
        ("cuGraphUpload:5=2", 6, "out of memory (cuGraphUpload: 2"),
    ] {
        let run = Double::driver().calibrate(&["--self-check"], &[("RUNGWISE_DOUBLE_FAIL", failure)]);
        let said = [run.stdout(), run.stderr()].concat();
        assert!(said.contains(message), "{failure}: {said}");
        assert_eq!(run.code(), Some(code), "{failure}: {said}");
        assert_eq!(run.complaints(), [""; 0], "{failure}");
    }
}
