//! Launching kernels.
#![expect(unsafe_code, reason = "exported C functions under their own names")]

use std::sync::Arc;

use kernels::launch::Kernel;

use super::device::{BLOCK_MAX, BLOCK_THREADS, GRID_MAX};
use crate::driver::{Driver, OWN, enter};
use crate::driver_rules::Misuse;
use crate::modules::{Function, SHARED_DEFAULT};
use crate::operation::{KernelLaunch, Operation};
use crate::status::{Answer, Status};
use crate::time::argument;
use crate::timeline::{Gate, Work};

/// `CU_LAUNCH_PARAM_END`, `CU_LAUNCH_PARAM_BUFFER_POINTER` and `CU_LAUNCH_PARAM_BUFFER_SIZE`.
const END: usize = 0;
const BUFFER_POINTER: usize = 1;
const BUFFER_SIZE: usize = 2;

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuLaunchKernel(
    function: u64,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared_bytes: u32,
    stream: u64,
    parameters: *const *const u8,
    extra: *const usize,
) -> u32 {
    enter("cuLaunchKernel", OWN, |driver| {
        driver.ready()?;
        let stream = driver.stream(stream);
        let (grid, block) = ([grid_x, grid_y, grid_z], [block_x, block_y, block_z]);
        let loaded = driver.function(function);
        let (shared_max, is_resident, known) = (loaded.shared_max, loaded.is_resident, loaded.function.clone());
        check_geometry(driver, grid, block)?;
        check_shared(driver, shared_bytes, shared_max)?;
        let arguments = arguments(driver, &known, parameters, extra)?;
        if !is_resident {
            load_lazily(driver, function, stream)?;
        }
        submit(driver, stream, KernelLaunch { handle: function, function: known, grid, block, shared_bytes, arguments })
    })
}

fn check_geometry(driver: &mut Driver, grid: [u32; 3], block: [u32; 3]) -> Answer {
    if grid.iter().chain(&block).any(|extent| *extent == 0) {
        return Err(driver.breach(Misuse::EmptyGrid, &format!("grid {grid:?}, block {block:?}")));
    }
    let is_beyond = |extents: [u32; 3], most: [u32; 3]| extents.iter().zip(most).any(|(extent, most)| *extent > most);
    let threads = block.iter().map(|extent| u64::from(*extent)).product::<u64>();
    if is_beyond(block, BLOCK_MAX) || threads > u64::from(BLOCK_THREADS) {
        return Err(driver.breach(Misuse::BlockTooLarge, &format!("block {block:?}")));
    }
    if is_beyond(grid, GRID_MAX) {
        return Err(driver.violation(Status::INVALID_VALUE, &format!("grid {grid:?}, of at most {GRID_MAX:?}")));
    }
    Ok(())
}

fn check_shared(driver: &mut Driver, shared_bytes: u32, shared_max: u32) -> Answer {
    if shared_bytes <= shared_max {
        return Ok(());
    }
    let misuse =
        if shared_bytes > SHARED_DEFAULT { Misuse::SharedWithoutAttribute } else { Misuse::StaticAndDynamicShared };
    let text = format!("{shared_bytes} bytes of dynamic shared memory, of at most {shared_max} for this function");
    Err(driver.breach(misuse, &text))
}

/// The first launch of a function loads it where loading is lazy, and a capture does not allow that.
fn load_lazily(driver: &mut Driver, function: u64, stream: u64) -> Answer {
    if driver.captures.of(stream).is_some() {
        driver.unsafe_call(Misuse::LazyLoadInCapture)?;
    }
    driver.function(function).is_resident = true;
    Ok(())
}

/// The parameter buffer, from an array of pointers or from a buffer of the caller's.
fn arguments(
    driver: &mut Driver,
    function: &Function,
    parameters: *const *const u8,
    extra: *const usize,
) -> Answer<Vec<u8>> {
    let expected = function.entry.parameter_bytes();
    match (parameters.is_null(), extra.is_null()) {
        (false, false) => Err(driver.breach(Misuse::ParametersTwice, "kernelParams and extra are both given")),
        (true, true) if expected == 0 => Ok(Vec::new()),
        (true, true) => {
            let text = format!("{} takes {expected} bytes of parameters", function.entry.symbol);
            Err(driver.breach(Misuse::ParametersMissing, &text))
        }
        (false, true) => from_array(driver, function, parameters),
        (true, false) => from_buffer(driver, expected, extra),
    }
}

fn from_array(driver: &mut Driver, function: &Function, parameters: *const *const u8) -> Answer<Vec<u8>> {
    let mut buffer = vec![0; function.entry.parameter_bytes()];
    for (index, parameter) in function.entry.parameters.iter().enumerate() {
        // SAFETY: the array has as many elements as the function has parameters; a shorter one cannot be told.
        let from = unsafe { parameters.add(index).read() };
        if from.is_null() {
            return Err(driver.violation(Status::INVALID_VALUE, &format!("argument {index} is a null pointer")));
        }
        let to = &mut buffer[parameter.offset..parameter.offset + parameter.bytes];
        // SAFETY: each element leads to a value of its parameter's size.
        unsafe { from.copy_to_nonoverlapping(to.as_mut_ptr(), parameter.bytes) };
    }
    Ok(buffer)
}

fn from_buffer(driver: &mut Driver, expected: usize, extra: *const usize) -> Answer<Vec<u8>> {
    let (mut buffer, mut bytes) = (std::ptr::null::<u8>(), None);
    let mut at = extra;
    loop {
        // SAFETY: the list is made of a name and a value each, and ends with `END`.
        match unsafe { at.read() } {
            END => break,
            // SAFETY: as above.
            BUFFER_POINTER => buffer = unsafe { at.add(1).read() } as *const u8,
            // SAFETY: as above; the value leads to the size.
            BUFFER_SIZE => bytes = Some(unsafe { (at.add(1).read() as *const usize).read() }),
            other => return Err(driver.violation(Status::INVALID_VALUE, &format!("extra names {other}"))),
        }
        // SAFETY: the end was not reached yet.
        at = unsafe { at.add(2) };
    }
    let Some(bytes) = bytes.filter(|_| !buffer.is_null()) else {
        return Err(driver.violation(Status::INVALID_VALUE, "extra lacks a buffer or its size"));
    };
    if bytes != expected {
        let misuse = if bytes < expected { Misuse::ParameterBufferShort } else { Misuse::ParameterBufferLong };
        return Err(driver.breach(misuse, &format!("{bytes} bytes of parameters, of {expected}")));
    }
    let mut copy = vec![0; bytes];
    // SAFETY: the caller gives a buffer of that many bytes.
    unsafe { buffer.copy_to_nonoverlapping(copy.as_mut_ptr(), bytes) };
    Ok(copy)
}

fn submit(driver: &mut Driver, stream: u64, launch: KernelLaunch) -> Answer {
    let is_gate = launch.function.entry.symbol == Kernel::Gate.symbol();
    if !is_gate || driver.captures.of(stream).is_some() {
        return driver.submit(stream, Operation::Kernel(Arc::new(launch)));
    }
    let value = |name| argument(&launch, Kernel::Gate, name).unwrap_or(0);
    let gate = Gate { flag: value("flag"), outcome: value("outcome"), timeout_ns: value("timeout_ns") };
    driver.spend(driver.configuration.costs.launch_ns);
    driver.enqueue(stream, Work::Gate(gate))
}
