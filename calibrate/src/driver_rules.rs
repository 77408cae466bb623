//! What the CUDA driver does with misuse, as far as documents and reports tell: one table.
//!
//! The tests' driver double answers from this table, and `calibrate --probe-rules` performs every misuse on a real driver
//! and compares. Until a driver has confirmed a rule, its `confirmed_on` is empty; what fills it is the file of
//! `calibrate --probe-rules --out FILE` of a real driver, where `double` is false and the rule's `agrees` is true. A rule that
//! a driver does not keep is changed here, and the double with it. GPU specification sections 1 and 3.
//!
//! This file depends on nothing, so that the double can include it as well.

/// What a misuse comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The call returns this `CUresult`. 0 marks a legal neighbour of a misuse: what must go on working.
    Returns(u32),
    /// The process dies of a signal.
    Crashes,
}

/// What has become of the capture during which a rule was broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CaptureAfter {
    /// None was under way, or the call ended it.
    None,
    /// It goes on, and ends with a graph.
    Intact,
    /// It ends with `CUDA_ERROR_STREAM_CAPTURE_INVALIDATED` and without a graph.
    Invalidated,
}

impl CaptureAfter {
    /// One word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Intact => "intact",
            Self::Invalidated => "invalidated",
        }
    }

    /// The state that [`CaptureAfter::word`] names.
    pub fn from_word(word: &str) -> Option<Self> {
        [Self::None, Self::Intact, Self::Invalidated].into_iter().find(|state| state.word() == word)
    }
}

/// Where an expectation comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// The CUDA driver API's documentation: the page or function.
    Documentation(&'static str),
    /// A public report of what a real driver did.
    Issue(&'static str),
    /// Somebody's recollection: the weakest.
    Memory,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Short name, as `--probe-rules` prints it.
    pub name: &'static str,
    /// The misuse in words.
    pub misuse: &'static str,
    /// What it comes to.
    pub outcome: Outcome,
    /// What becomes of the capture.
    pub capture: CaptureAfter,
    /// Whether the context still works afterwards.
    pub context_survives: bool,
    /// Who says so.
    pub source: Source,
    /// Device and driver on which a run of `--probe-rules` has confirmed it.
    pub confirmed_on: Option<&'static str>,
}

impl Rule {
    /// Whether performing the misuse may wreck more than its own call: only tried when asked for.
    pub const fn is_faulting(&self) -> bool {
        matches!(self.outcome, Outcome::Crashes) || !self.context_survives
    }
}

macro_rules! rules {
    ($($misuse:ident, $name:literal: $text:literal => $outcome:ident $(($status:literal))?, $capture:ident, $context:ident, $source:ident $(($where:literal))?;)*) => {
        /// Each misuse of the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Misuse {
            $(#[doc = $text] $misuse,)*
        }

        impl Misuse {
            /// Every misuse, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$misuse,)*];

            /// Its row of the table.
            pub const fn rule(self) -> &'static Rule {
                match self {
                    $(Self::$misuse => &Rule {
                        name: $name,
                        misuse: $text,
                        outcome: Outcome::$outcome$(($status))?,
                        capture: CaptureAfter::$capture,
                        context_survives: rules!(@$context),
                        source: Source::$source$(($where))?,
                        confirmed_on: None,
                    },)*
                }
            }
        }
    };
    (@survives) => { true };
    (@dies) => { false };
}

impl Misuse {
    /// The misuse of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|misuse| misuse.rule().name == name)
    }

    /// Whether a driver that lets the misuse through would reach memory that is nobody's, and fault.
    pub const fn may_fault(self) -> bool {
        matches!(self, Self::CopyPastEnd | Self::SetPastEnd | Self::ParametersMissing)
    }

    /// The `CUresult` that the misuse returns; none where the process dies.
    pub const fn status(self) -> Option<u32> {
        match self.rule().outcome {
            Outcome::Returns(status) => Some(status),
            Outcome::Crashes => None,
        }
    }
}

// Statuses: 1 INVALID_VALUE, 2 OUT_OF_MEMORY, 3 NOT_INITIALIZED, 101 INVALID_DEVICE, 201 INVALID_CONTEXT, 218 INVALID_PTX,
// 222 UNSUPPORTED_PTX_VERSION, 400 INVALID_HANDLE, 401 ILLEGAL_STATE, 500 NOT_FOUND, 600 NOT_READY, 700 ILLEGAL_ADDRESS,
// 701 LAUNCH_OUT_OF_RESOURCES, 801 NOT_SUPPORTED, 900 to 908 STREAM_CAPTURE_... and CAPTURED_EVENT, 910 GRAPH_EXEC_UPDATE_FAILURE.
rules! {
    CallBeforeInit, "call-before-init": "counting devices before cuInit"
        => Returns(3), None, survives, Documentation("cuInit");
    DeviceOutOfRange, "device-out-of-range": "a device ordinal beyond the last"
        => Returns(101), None, survives, Documentation("cuDeviceGet");
    NoCurrentContext, "no-current-context": "allocating on a thread without a current context"
        => Returns(201), None, survives, Documentation("cuMemAlloc");

    PtxTooNew, "ptx-too-new": "loading PTX of a version that the driver does not know"
        => Returns(222), None, survives, Documentation("CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
    PtxForNewerDevice, "ptx-for-newer-device": "loading PTX whose target is newer than the device"
        => Returns(218), None, survives, Issue("LuxCoreRender/LuxCore#492");
    PtxBroken, "ptx-broken": "loading text that is not PTX"
        => Returns(218), None, survives, Documentation("CUDA_ERROR_INVALID_PTX");
    FunctionMissing, "function-missing": "asking a module for a function that it lacks"
        => Returns(500), None, survives, Documentation("cuModuleGetFunction");
    LoadInCapture, "load-in-capture": "loading a module during a GLOBAL capture"
        => Returns(900), Invalidated, survives, Issue("newton-physics/newton#357");
    LazyLoadInCapture, "lazy-load-in-capture": "first launch of a lazily loaded function inside a GLOBAL capture"
        => Returns(900), Invalidated, survives, Memory;

    AllocateNothing, "allocate-nothing": "allocating zero bytes"
        => Returns(1), None, survives, Documentation("cuMemAlloc");
    AllocateTooMuch, "allocate-too-much": "allocating more than the device has"
        => Returns(2), None, survives, Documentation("cuMemAlloc");
    FreeTwice, "free-twice": "freeing memory a second time"
        => Returns(1), None, survives, Documentation("cuMemFree");
    FreeInterior, "free-interior": "freeing an address inside an allocation"
        => Returns(1), None, survives, Documentation("cuMemFree");
    CopyPastEnd, "copy-past-end": "copying past the end of an allocation"
        => Returns(1), None, survives, Memory;
    SetPastEnd, "set-past-end": "setting memory past the end of an allocation"
        => Returns(1), None, survives, Memory;

    EmptyGrid, "empty-grid": "launching a grid without blocks"
        => Returns(1), None, survives, Documentation("cuLaunchKernel");
    BlockTooLarge, "block-too-large": "launching blocks of more threads than the device allows"
        => Returns(1), None, survives, Documentation("cuLaunchKernel");
    SharedWithoutAttribute, "shared-without-attribute": "more than 48 KiB of dynamic shared memory without the attribute"
        => Returns(1), None, survives, Documentation("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES");
    SharedBeyondDevice, "shared-beyond-device": "asking for more dynamic shared memory than the device can give"
        => Returns(1), None, survives, Documentation("cuFuncSetAttribute");
    StaticAndDynamicShared, "static-and-dynamic-shared": "static and dynamic shared memory together beyond the limit"
        => Returns(1), None, survives, Documentation("CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES");
    ParametersMissing, "parameters-missing": "launching a function that has parameters without any"
        => Returns(1), None, survives, Memory;
    ParametersTwice, "parameters-twice": "giving both an array and a buffer of parameters"
        => Returns(1), None, survives, Documentation("cuLaunchKernel");
    ParameterBufferShort, "parameter-buffer-short": "a parameter buffer shorter than the function's parameters"
        => Returns(701), None, survives, Documentation("CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES");
    ParameterBufferLong, "parameter-buffer-long": "a parameter buffer longer than the function's parameters, as padded"
        => Returns(701), None, survives, Issue("llvm/llvm-project#156229");

    BeginOnLegacyStream, "begin-on-legacy-stream": "beginning a capture on the legacy stream"
        => Returns(900), None, survives, Documentation("cuStreamBeginCapture");
    BeginTwice, "begin-twice": "beginning a capture on a stream that captures"
        => Returns(401), Invalidated, survives, Memory;
    EndWithoutBegin, "end-without-begin": "ending a capture on a stream that does not capture"
        => Returns(401), None, survives, Issue("ROCm/hip-tests hipStreamEndCapture.cc, on NVIDIA");
    EndTwice, "end-twice": "ending the same capture twice"
        => Returns(401), None, survives, Memory;
    EndOnOtherThread, "end-on-other-thread": "ending a GLOBAL capture on a thread that did not begin it"
        => Returns(908), Invalidated, survives, Issue("ROCm/hip-tests hipStreamEndCapture.cc, on NVIDIA");
    EndOnJoinedStream, "end-on-joined-stream": "ending a capture on a stream that only joined it"
        => Returns(903), Invalidated, survives, Documentation("CUDA_ERROR_STREAM_CAPTURE_UNMATCHED");
    EndUnjoined, "end-unjoined": "ending a capture whose forked stream was not joined again"
        => Returns(904), None, survives, Documentation("CUDA_ERROR_STREAM_CAPTURE_UNJOINED");
    AllocateInCapture, "allocate-in-capture": "cuMemAlloc during a GLOBAL capture"
        => Returns(900), Invalidated, survives, Documentation("cuThreadExchangeStreamCaptureMode");
    AllocateRelaxed, "allocate-relaxed": "legal: cuMemAlloc during a GLOBAL capture, in RELAXED mode"
        => Returns(0), Intact, survives, Documentation("cuThreadExchangeStreamCaptureMode");
    AllocateOnOtherThread, "allocate-on-other-thread": "cuMemAlloc on another thread during a GLOBAL capture"
        => Returns(900), Invalidated, survives, Documentation("cuThreadExchangeStreamCaptureMode");
    AllocateBesideThreadLocal, "allocate-beside-thread-local":
        "legal: cuMemAlloc on another thread during a THREAD_LOCAL capture"
        => Returns(0), Intact, survives, Documentation("cuThreadExchangeStreamCaptureMode");
    AllocateInRelaxedCapture, "allocate-in-relaxed-capture": "legal: cuMemAlloc during a RELAXED capture"
        => Returns(0), Intact, survives, Documentation("cuThreadExchangeStreamCaptureMode");
    AllocateAsyncInCapture, "allocate-async-in-capture": "legal: cuMemAllocAsync on a stream that captures: a memory node"
        => Returns(0), Intact, survives, Documentation("cuMemAllocAsync");
    FreeInCapture, "free-in-capture": "cuMemFree during a GLOBAL capture"
        => Returns(900), Invalidated, survives, Documentation("cuThreadExchangeStreamCaptureMode");
    FreeForeignInCapture, "free-foreign-in-capture": "cuMemFreeAsync, on a stream that captures, of memory from before"
        => Returns(1), Invalidated, survives, Documentation("cuMemFreeAsync");
    SynchronizeInCapture, "synchronize-in-capture": "synchronizing the stream that captures"
        => Returns(900), Invalidated, survives, Documentation("cuStreamBeginCapture");
    SynchronizeContextInCapture, "synchronize-context-in-capture": "synchronizing the context during a RELAXED capture"
        => Returns(900), Invalidated, survives, Issue("NVIDIA/TensorRT#2888");
    QueryStreamInCapture, "query-stream-in-capture": "querying the stream that captures"
        => Returns(900), Invalidated, survives, Issue("NVIDIA/raft#3121");
    QueryEventInCapture, "query-event-in-capture": "querying an event recorded on a stream that captures"
        => Returns(907), Invalidated, survives, Documentation("CUDA_ERROR_CAPTURED_EVENT");
    SynchronizeEventInCapture, "synchronize-event-in-capture": "synchronizing on an event recorded on a stream that captures"
        => Returns(907), Invalidated, survives, Documentation("CUDA_ERROR_CAPTURED_EVENT");
    QueryOldEventInCapture, "query-old-event-in-capture": "querying, during a GLOBAL capture, an event recorded before it"
        => Returns(900), Invalidated, survives, Issue("pytorch/pytorch#104487");
    LaunchAfterInvalidation, "launch-after-invalidation": "launching on a stream whose capture is invalid"
        => Returns(901), Invalidated, survives, Documentation("CUDA_ERROR_STREAM_CAPTURE_INVALIDATED");
    EndAfterInvalidation, "end-after-invalidation": "ending a capture that is invalid"
        => Returns(901), None, survives, Documentation("cuStreamEndCapture");
    LegacyBesideCapture, "legacy-beside-capture": "launching on the legacy stream while a blocking stream captures"
        => Returns(906), Invalidated, survives, Documentation("CUDA_ERROR_STREAM_CAPTURE_IMPLICIT");
    WaitForUncapturedEvent, "wait-for-uncaptured-event": "a stream that captures waits for an event recorded before the capture"
        => Returns(905), Invalidated, survives, Documentation("CUDA_ERROR_STREAM_CAPTURE_ISOLATION");
    MergeCaptures, "merge-captures": "a stream that captures waits for an event of another capture"
        => Returns(902), Invalidated, survives, Documentation("CUDA_ERROR_STREAM_CAPTURE_MERGE");
    CopyInCapture, "copy-in-capture": "a synchronous copy during a GLOBAL capture"
        => Returns(900), Invalidated, survives, Documentation("cuThreadExchangeStreamCaptureMode");

    ElapsedWithoutTiming, "elapsed-without-timing": "time between events that do not record time"
        => Returns(400), None, survives, Documentation("cuEventElapsedTime");
    ElapsedUnrecorded, "elapsed-unrecorded": "time between events of which one was never recorded"
        => Returns(400), None, survives, Documentation("cuEventElapsedTime");

    UpdateOtherTopology, "update-other-topology": "updating an executable graph with one of more nodes"
        => Returns(910), None, survives, Documentation("cuGraphExecUpdate");
    UpdateOtherNodeType, "update-other-node-type": "updating an executable graph with one whose node is of another type"
        => Returns(910), None, survives, Documentation("cuGraphExecUpdate");
    InstantiateAllocationsTwice, "instantiate-allocations-twice":
        "instantiating a graph with memory nodes while an executable of it exists"
        => Returns(801), None, survives, Memory;
    RelaunchWithLiveAllocation, "relaunch-with-live-allocation": "launching a graph again whose allocation is still live"
        => Returns(1), None, survives, Documentation("CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH");

    LaunchOnFreedMemory, "launch-on-freed-memory": "a kernel that writes memory which was freed"
        => Returns(700), None, dies, Documentation("CUDA_ERROR_ILLEGAL_ADDRESS");
    ReplayOnFreedMemory, "replay-on-freed-memory": "replaying a graph whose memory was freed"
        => Returns(700), None, dies, Documentation("CUDA_ERROR_ILLEGAL_ADDRESS");
    CallAfterFault, "call-after-fault": "allocating after a kernel faulted"
        => Returns(700), None, dies, Documentation("CUDA_ERROR_ILLEGAL_ADDRESS");
    UnknownStream, "unknown-stream": "launching on a stream that never was"
        => Crashes, None, survives, Issue("lupinemachines/lupine#441");
    UnknownGraph, "unknown-graph": "launching an executable graph that never was"
        => Crashes, None, survives, Memory;
    UnknownEvent, "unknown-event": "recording an event that never was"
        => Crashes, None, survives, Memory;
    UnknownFunction, "unknown-function": "launching a function that never was"
        => Crashes, None, survives, Memory;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_different_and_lead_back_to_their_misuse() {
        for misuse in Misuse::ALL {
            assert_eq!(Misuse::named(misuse.rule().name), Some(*misuse));
        }
        assert_eq!(Misuse::named("kindness"), None);
    }

    #[test]
    fn nothing_is_confirmed_until_a_driver_was_asked() {
        assert!(Misuse::ALL.iter().all(|misuse| misuse.rule().confirmed_on.is_none()));
    }

    #[test]
    fn what_goes_well_leaves_everything_intact() {
        for rule in Misuse::ALL.iter().map(|misuse| misuse.rule()) {
            let is_legal = rule.outcome == Outcome::Returns(0);
            assert_eq!(rule.misuse.starts_with("legal: "), is_legal, "{}", rule.name);
            assert!(!is_legal || (rule.context_survives && rule.capture != CaptureAfter::Invalidated), "{}", rule.name);
        }
    }

    #[test]
    fn states_of_a_capture_are_told_apart_by_their_words() {
        for state in [CaptureAfter::None, CaptureAfter::Intact, CaptureAfter::Invalidated] {
            assert_eq!(CaptureAfter::from_word(state.word()), Some(state));
        }
    }
}
