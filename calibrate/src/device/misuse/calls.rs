//! Misuses outside captures and graphs: devices, modules, memory, launches, events.

use std::ptr;

use super::Tried;
use super::stage::{Given, NotTried, Shape, Stage, WITHOUT_TIMING, must};
use crate::driver_rules::{CaptureAfter, Misuse};

/// An address and a handle that never were: the first page is never mapped.
const NEVER: usize = 0x100;

/// Performs a misuse of this group; `None` for those of others.
pub(super) fn attempt(stage: &Stage, misuse: Misuse) -> Option<Tried> {
    let status = match misuse {
        Misuse::DeviceOutOfRange => stage.device_count().map(|count| stage.get_device(count)),
        Misuse::NoCurrentContext => without_context(stage),
        Misuse::PtxTooNew => Ok(stage.load(&empty_module("99.0", 80)).0),
        Misuse::PtxForNewerDevice => for_newer_device(stage),
        Misuse::PtxBroken => Ok(stage.load("this is no PTX").0),
        Misuse::FunctionMissing => Ok(stage.get_function(c"no_such_kernel").0),
        Misuse::AllocateNothing => Ok(stage.allocate(0).0),
        Misuse::AllocateTooMuch => Ok(stage.allocate(1 << 50).0),
        Misuse::FreeTwice => free_twice(stage),
        Misuse::FreeInterior => Ok(stage.free(stage.memory + 256)),
        Misuse::CopyPastEnd => Ok(stage.copy_now(stage.memory, &vec![0; 64 << 20])),
        Misuse::SetPastEnd => Ok(stage.set(stage.memory, 64 << 20, stage.stream)),
        Misuse::EmptyGrid => Ok(launch(stage, Shape { blocks: 0, ..Shape::PLAIN }, Given::Buffer)),
        Misuse::BlockTooLarge => Ok(launch(stage, Shape { threads: 2_048, ..Shape::PLAIN }, Given::Buffer)),
        Misuse::SharedWithoutAttribute => {
            Ok(launch(stage, Shape { shared_bytes: 64 << 10, ..Shape::PLAIN }, Given::Buffer))
        }
        Misuse::SharedBeyondDevice => Ok(stage.ask_shared(stage.store_word, 1 << 30)),
        Misuse::StaticAndDynamicShared => {
            let shape = Shape { shared_bytes: 16 << 10, ..Shape::PLAIN };
            Ok(stage.launch_shaped(stage.hold_shared, shape, Given::Buffer, stage.memory, stage.stream))
        }
        Misuse::ParametersMissing => Ok(launch(stage, Shape::PLAIN, Given::Nothing)),
        Misuse::ParametersTwice => Ok(launch(stage, Shape::PLAIN, Given::Twice)),
        Misuse::ParameterBufferShort => Ok(launch(stage, Shape::PLAIN, Given::ShortBuffer)),
        Misuse::ParameterBufferLong => Ok(launch(stage, Shape::PLAIN, Given::LongBuffer)),
        Misuse::ElapsedWithoutTiming => elapsed_without_timing(stage),
        Misuse::ElapsedUnrecorded => elapsed_unrecorded(stage),
        Misuse::LaunchOnFreedMemory => launch_on_freed(stage),
        Misuse::CallAfterFault => launch_on_freed(stage).map(|_| stage.allocate(1 << 20).0),
        Misuse::UnknownStream => Ok(stage.launch(ptr::without_provenance_mut(NEVER))),
        Misuse::UnknownEvent => Ok(stage.record(ptr::without_provenance_mut(NEVER), stage.stream)),
        Misuse::UnknownFunction => {
            let function = ptr::without_provenance_mut(NEVER);
            Ok(stage.launch_shaped(function, Shape::PLAIN, Given::Buffer, stage.memory, stage.stream))
        }
        _ => return None,
    };
    Some(status.map(|status| (status, CaptureAfter::None)))
}

fn launch(stage: &Stage, shape: Shape, given: Given) -> u32 {
    stage.launch_shaped(stage.store_word, shape, given, stage.memory, stage.stream)
}

fn without_context(stage: &Stage) -> Result<u32, NotTried> {
    stage.set_current(false)?;
    let (status, _) = stage.allocate(1 << 20);
    stage.set_current(true)?;
    Ok(status)
}

/// PTX of one empty kernel.
pub(super) fn empty_module(version: &str, target: i32) -> String {
    format!(".version {version}\n.target sm_{target}\n.address_size 64\n.visible .entry nothing()\n{{\n\tret;\n}}\n")
}

/// The target must be one that the driver's compiler knows, else it is not the target that is refused. sm_90 came with
/// PTX 7.8, sm_120 with PTX 8.7, which drivers take since CUDA 12.8 (PTX ISA, release notes).
fn for_newer_device(stage: &Stage) -> Result<u32, NotTried> {
    let text = match stage.versions()? {
        (_, capability) if capability < 90 => empty_module("8.0", 90),
        (driver, capability) if capability < 120 && driver >= 12_080 => empty_module("8.7", 120),
        _ => return Err(NotTried::NoCase("this driver knows no newer device than this one")),
    };
    Ok(stage.load(&text).0)
}

fn free_twice(stage: &Stage) -> Result<u32, NotTried> {
    let address = stage.allocated(4 << 20)?;
    must("cuMemFree_v2", stage.free(address))?;
    Ok(stage.free(address))
}

fn elapsed_without_timing(stage: &Stage) -> Result<u32, NotTried> {
    let (start, end) = (stage.new_event(WITHOUT_TIMING)?, stage.new_event(WITHOUT_TIMING)?);
    for event in [start, end] {
        must("cuEventRecord", stage.record(event, stage.stream))?;
    }
    must("cuStreamSynchronize", stage.synchronize(stage.stream))?;
    Ok(stage.elapsed(start, end))
}

fn elapsed_unrecorded(stage: &Stage) -> Result<u32, NotTried> {
    let (start, end) = (stage.recorded(stage.stream)?, stage.new_event(0)?);
    must("cuStreamSynchronize", stage.synchronize(stage.stream))?;
    Ok(stage.elapsed(start, end))
}

/// The fault shows when the kernel has run. Memory of many granules is unmapped when it is freed.
fn launch_on_freed(stage: &Stage) -> Result<u32, NotTried> {
    let address = stage.allocated(64 << 20)?;
    must("cuMemFree_v2", stage.free(address))?;
    let launched = stage.launch_at(address, stage.stream);
    Ok(if launched == 0 { stage.synchronize(stage.stream) } else { launched })
}
