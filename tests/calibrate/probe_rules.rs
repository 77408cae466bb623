//! `calibrate --probe-rules` against the driver double: the double keeps its rules, and catches whoever breaks them.

use calibrate::driver_rules::{Misuse, Outcome};

use crate::double::{Double, Run};

/// One misuse, performed as a child of `--probe-rules` performs it.
fn performed(misuse: Misuse) -> Run {
    Double::driver().calibrate(&["perform-misuse", misuse.rule().name, "0"], &[])
}

/// The double answers as the table says, and reports the misuse by the name of its rule.
#[track_caller]
fn caught(misuse: Misuse) {
    let rule = misuse.rule();
    let run = performed(misuse);
    let said = match rule.outcome {
        Outcome::Returns(status) => format!("returned {status} {} {}\n", rule.capture.word(), rule.context_survives),
        Outcome::Crashes => String::new(),
    };
    assert_eq!(run.stdout(), said, "{}{}", run.stderr(), run.report);
    assert_eq!(run.code().is_none(), rule.outcome == Outcome::Crashes, "{}", run.report);
    let named = |name: &str| run.complaints().iter().any(|line| line.starts_with("violation:") && line.contains(name));
    let name = match misuse {
        // Whoever ends an invalid capture cleans up: what was wrong is the call that made it invalid.
        Misuse::EndAfterInvalidation => Misuse::AllocateInCapture.rule().name,
        // The double cannot tell whether there was a capture before.
        Misuse::EndTwice => Misuse::EndWithoutBegin.rule().name,
        // The fault before it is what is reported; every call after it fails.
        Misuse::CallAfterFault => Misuse::LaunchOnFreedMemory.rule().name,
        _ => rule.name,
    };
    // To ask for more memory than there is, is answered and no breach.
    let is_breach = rule.outcome != Outcome::Returns(0) && misuse != Misuse::AllocateTooMuch;
    assert_eq!(named(&format!(": {name}: ")), is_breach, "{}", run.report);
    assert_eq!(named(""), is_breach, "{}", run.report);
}

/// A test for each misuse.
macro_rules! each_is_caught {
    ($($test:ident: $misuse:ident,)*) => {
        $(
            #[test]
            fn $test() {
                caught(Misuse::$misuse);
            }
        )*

        #[test]
        fn every_rule_of_the_table_has_its_test() {
            assert_eq!([$(Misuse::$misuse,)*], *Misuse::ALL);
        }
    };
}

each_is_caught! {
    call_before_init: CallBeforeInit,
    device_out_of_range: DeviceOutOfRange,
    no_current_context: NoCurrentContext,
    ptx_too_new: PtxTooNew,
    ptx_for_newer_device: PtxForNewerDevice,
    ptx_broken: PtxBroken,
    function_missing: FunctionMissing,
    load_in_capture: LoadInCapture,
    lazy_load_in_capture: LazyLoadInCapture,
    allocate_nothing: AllocateNothing,
    allocate_too_much: AllocateTooMuch,
    free_twice: FreeTwice,
    free_interior: FreeInterior,
    copy_past_end: CopyPastEnd,
    set_past_end: SetPastEnd,
    empty_grid: EmptyGrid,
    block_too_large: BlockTooLarge,
    shared_without_attribute: SharedWithoutAttribute,
    shared_beyond_device: SharedBeyondDevice,
    static_and_dynamic_shared: StaticAndDynamicShared,
    parameters_missing: ParametersMissing,
    parameters_twice: ParametersTwice,
    parameter_buffer_short: ParameterBufferShort,
    parameter_buffer_long: ParameterBufferLong,
    begin_on_legacy_stream: BeginOnLegacyStream,
    begin_twice: BeginTwice,
    end_without_begin: EndWithoutBegin,
    end_twice: EndTwice,
    end_on_other_thread: EndOnOtherThread,
    end_on_joined_stream: EndOnJoinedStream,
    end_unjoined: EndUnjoined,
    allocate_in_capture: AllocateInCapture,
    allocate_relaxed: AllocateRelaxed,
    allocate_on_other_thread: AllocateOnOtherThread,
    allocate_beside_thread_local: AllocateBesideThreadLocal,
    allocate_in_relaxed_capture: AllocateInRelaxedCapture,
    allocate_async_in_capture: AllocateAsyncInCapture,
    free_in_capture: FreeInCapture,
    free_foreign_in_capture: FreeForeignInCapture,
    synchronize_in_capture: SynchronizeInCapture,
    synchronize_context_in_capture: SynchronizeContextInCapture,
    query_stream_in_capture: QueryStreamInCapture,
    query_event_in_capture: QueryEventInCapture,
    synchronize_event_in_capture: SynchronizeEventInCapture,
    query_old_event_in_capture: QueryOldEventInCapture,
    launch_after_invalidation: LaunchAfterInvalidation,
    end_after_invalidation: EndAfterInvalidation,
    legacy_beside_capture: LegacyBesideCapture,
    wait_for_uncaptured_event: WaitForUncapturedEvent,
    merge_captures: MergeCaptures,
    copy_in_capture: CopyInCapture,
    elapsed_without_timing: ElapsedWithoutTiming,
    elapsed_unrecorded: ElapsedUnrecorded,
    update_other_topology: UpdateOtherTopology,
    update_other_node_type: UpdateOtherNodeType,
    instantiate_allocations_twice: InstantiateAllocationsTwice,
    relaunch_with_live_allocation: RelaunchWithLiveAllocation,
    launch_on_freed_memory: LaunchOnFreedMemory,
    replay_on_freed_memory: ReplayOnFreedMemory,
    call_after_fault: CallAfterFault,
    unknown_stream: UnknownStream,
    unknown_graph: UnknownGraph,
    unknown_event: UnknownEvent,
    unknown_function: UnknownFunction,
}

#[test]
fn the_table_says_what_was_expected_and_what_came() {
    let run = Double::driver_and_nvml().calibrate(&["--probe-rules=faulting"], &[]);
    assert_eq!((run.code(), run.stderr()), (Some(0), ""));
    insta::assert_snapshot!(run.stdout());
}

#[test]
fn by_default_only_rules_that_return_are_tried() {
    let run = Double::driver().calibrate(&["--probe-rules"], &[]);
    assert_eq!((run.code(), run.stderr()), (Some(0), ""));
    let tried = |misuse: &Misuse| run.stdout().lines().any(|line| line.split(' ').next() == Some(misuse.rule().name));
    let (faulting, returning): (Vec<_>, Vec<_>) = Misuse::ALL.iter().partition(|misuse| misuse.rule().is_faulting());
    assert!(returning.into_iter().all(tried), "{}", run.stdout());
    assert!(!faulting.into_iter().any(tried), "{}", run.stdout());
}

/// A driver that does not keep a rule is not passed over; one that cannot perform a misuse is no breach.
#[test]
fn a_driver_that_differs_is_told_with_exit_code_1() {
    let double = Double::driver();
    let file = double.folder().join("rules.toml");
    let arguments = ["--probe-rules", "--out", file.to_str().expect("the path is text")];
    let planted = [("RUNGWISE_DOUBLE_FAIL", "cuGraphExecUpdate_v2:1=801,cuStreamQuery:1=0,cuEventElapsedTime:1=0")];
    let run = double.calibrate(&arguments, &planted);
    assert_eq!((run.code(), run.stderr()), (Some(1), ""));
    let differing: Vec<_> = run.stdout().lines().filter(|line| line.ends_with("NO")).collect();
    insta::assert_snapshot!(differing.join("\n"), @r"
    query-stream-in-capture         900, capture invalid          0, capture goes on            NO
    elapsed-without-timing          400                           0                             NO
    elapsed-unrecorded              400                           0                             NO
    update-other-topology           910                           801                           NO
    update-other-node-type          910                           801                           NO
    ");
    let sentence = "query-stream-in-capture: querying the stream that captures; expected by issue: NVIDIA/raft#3121";
    assert!(run.stdout().lines().any(|line| line.trim() == sentence), "{}", run.stdout());
    let written = std::fs::read_to_string(&file).expect("the file was written");
    let written: toml::Table = written.parse().expect("it is TOML");
    assert_eq!(written["double"].as_bool(), Some(true));
    let rules = written["rule"].as_array().expect("a table for each rule");
    let differ: Vec<_> = rules.iter().filter(|rule| rule["agrees"].as_bool() == Some(false)).collect();
    assert_eq!(differ.len(), differing.len());
    insta::assert_snapshot!(toml::to_string(differ[0]).expect("it was TOML"), @r#"
    agrees = false
    expected = ["900", "capture invalid"]
    got = ["0", "capture goes on"]
    misuse = "querying the stream that captures"
    name = "query-stream-in-capture"
    source = "issue: NVIDIA/raft#3121"
    "#);
}

#[test]
fn what_cannot_be_performed_is_not_tried() {
    let run = Double::driver().calibrate(&["--probe-rules"], &[("RUNGWISE_DOUBLE_CAPABILITY", "12.0")]);
    assert_eq!((run.code(), run.stderr()), (Some(0), ""));
    let line = run.stdout().lines().find(|line| line.starts_with("ptx-for-newer-device"));
    insta::assert_snapshot!(line.unwrap_or_default(), @r"ptx-for-newer-device            218                           this driver knows no newer device than this one  ?");
}

/// A device that cannot be used would answer every misuse with that: it is told instead, before any of them.
#[test]
fn a_device_that_cannot_be_used_is_no_driver_that_differs() {
    for (planted, code, message) in [
        (("RUNGWISE_DOUBLE_COMPUTE_MODE", "2"), 4, "Driver double is in compute mode PROHIBITED"),
        (("RUNGWISE_DOUBLE_CAPABILITY", "7.5"), 4, "the kernels need 8.0 or higher"),
        // A context, and hardly more.
        (("RUNGWISE_DOUBLE_MEMORY_BYTES", "526385152"), 6, "out of GPU memory: 16.00 MiB asked for"),
    ] {
        let run = Double::driver().calibrate(&["--probe-rules"], &[planted]);
        assert_eq!((run.code(), run.stdout(), run.complaints()), (Some(code), "", vec![]), "{planted:?}");
        assert!(run.stderr().contains(message), "{planted:?}: {}", run.stderr());
    }
    // What the kernels' PTX would tell: the children cannot even load theirs.
    let run = Double::driver().calibrate(&["--probe-rules"], &[("RUNGWISE_DOUBLE_PTX_VERSION", "7.8")]);
    assert_eq!((run.code(), run.stdout().contains(" 0 agree, 0 differ, ")), (Some(4), true), "{}", run.stdout());
    assert_eq!(run.stderr(), "error: no rule could be tried\n  help: the table says why, rule by rule\n");
}

/// Where nothing can be written is known before the misuses, and a device is not replaced by a file.
#[test]
fn a_file_that_cannot_be_written_is_told_at_once() {
    let double = Double::driver();
    let refused = |path: &str| {
        let run = double.calibrate(&["--probe-rules", "--out", path], &[]);
        assert_eq!((run.code(), run.stdout()), (Some(1), ""), "{}", run.stderr());
        run.stderr().to_owned()
    };
    insta::assert_snapshot!(refused("/dev/null"), @"error: cannot write /dev/null: it is no file, and would be replaced by one");
    insta::assert_snapshot!(refused("/"), @"error: cannot write /: it is a folder");
    assert!(
        refused("/no/such/folder/rules.toml").starts_with("error: cannot write /no/such/folder/rules.toml: No such")
    );
}

/// Misuses that wreck contexts are refused wherever somebody else could be hit.
#[test]
fn faulting_rules_are_refused_beside_others() {
    let refused = |double: Double, planted: &[(&str, &str)]| {
        let run = double.calibrate(&["--probe-rules=faulting"], planted);
        assert_eq!((run.code(), run.stdout(), run.complaints()), (Some(6), "", vec![]), "{planted:?}");
        run.stderr().to_owned()
    };
    let whole = Double::driver_and_nvml;
    insta::assert_snapshot!(refused(whole(), &[("RUNGWISE_DOUBLE_NVML_PROCESSES", "4242:1073741824,77:5")]), @r"
    × rules that can wreck a context are not tried here: other processes use the card (77, 4242)
    help: end them, choose another GPU (`--device`), or try only the rules that return a code
          (`--probe-rules`)
    ");
    insta::assert_snapshot!(refused(whole(), &[("RUNGWISE_DOUBLE_NVML_PROCESSES", "denied")]), @r"
    × rules that can wreck a context are not tried here: whether others use the card cannot be seen
    │ (not available (no permission))
    help: use a whole GPU that nobody else has, or try only the rules that return a code
          (`--probe-rules`)
    ");
    insta::assert_snapshot!(refused(whole(), &[("RUNGWISE_DOUBLE_NVML_VIRTUALIZATION", "2")]), @r"
    × rules that can wreck a context are not tried here: this is a virtual GPU, whose card others
    │ share
    help: use a whole GPU that nobody else has, or try only the rules that return a code
          (`--probe-rules`)
    ");
    insta::assert_snapshot!(refused(whole(), &[("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")]), @r"
    × rules that can wreck a context are not tried here: CUDA's multi-process service is there, and
    │ shares one context
    help: use a whole GPU that nobody else has, or try only the rules that return a code
          (`--probe-rules`)
    ");
    insta::assert_snapshot!(refused(whole(), &[("RUNGWISE_DOUBLE_NVML_INIT", "9")]), @r"
    × rules that can wreck a context are not tried here: whether others use the card cannot be seen
    │ (not available (the kernel driver is not loaded))
    help: use a whole GPU that nobody else has, or try only the rules that return a code
          (`--probe-rules`)
    ");
}

/// Under MPS a fault of one process is one of all: what a driver might let through is not even tried.
#[test]
fn what_could_fault_is_not_tried_under_mps() {
    let run = Double::driver().calibrate(&["--probe-rules"], &[("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50")]);
    assert_eq!((run.code(), run.stderr()), (Some(0), ""));
    let left_out: Vec<_> = run.stdout().lines().filter(|line| line.ends_with('?')).collect();
    insta::assert_snapshot!(left_out.join("\n"), @r"
    copy-past-end                   1                             it could fault, and MPS shares that  ?
    set-past-end                    1                             it could fault, and MPS shares that  ?
    parameters-missing              1                             it could fault, and MPS shares that  ?
    ");
    let rules = left_out.iter().filter_map(|line| Misuse::named(line.split(' ').next()?));
    assert!(rules.eq(Misuse::ALL.iter().copied().filter(|misuse| misuse.may_fault())));
}

#[test]
fn two_runs_take_the_same_virtual_time() {
    let clock = |run: &Run| run.report.lines().find(|line| line.starts_with("clock: ")).map(str::to_owned);
    for misuse in [Misuse::EndUnjoined, Misuse::ReplayOnFreedMemory, Misuse::UpdateOtherTopology] {
        let [first, second] = [performed(misuse), performed(misuse)];
        assert!(clock(&first).is_some());
        assert_eq!(clock(&first), clock(&second));
    }
}

/// The double is for tests: no program that is built without them holds anything of it.
#[test]
fn the_double_is_in_no_binary() {
    let binary = std::fs::read(env!("CARGO_BIN_EXE_calibrate")).expect("the binary was built");
    let planted = b"RUNGWISE_DOUBLE_";
    assert!(!binary.windows(planted.len()).any(|window| window == planted));
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")).expect("it was built");
    let manifest: toml::Table = manifest.parse().expect("cargo could read it");
    assert!(!manifest["dependencies"].as_table().expect("a table").contains_key("driver-double"));
    assert!(manifest["dev-dependencies"].as_table().expect("a table").contains_key("driver-double"));
}
