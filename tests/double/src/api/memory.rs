//! Memory: amounts, allocations, copies.
#![expect(unsafe_code, reason = "exported C functions under their own names")]

use super::device::default_pool;
use super::{put, put_if_asked};
use crate::driver::{CALL, Cost, Driver, LEGACY, OWN, enter};
use crate::driver_rules::Misuse;
use crate::memory::{Memory, Owner};
use crate::operation::Operation;
use crate::status::{Answer, Status};

/// Host time of calls that change what is allocated.
const ALLOCATE: Cost = |costs| costs.allocate_ns;

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) -> u32 {
    enter("cuMemGetInfo_v2", CALL, |driver| {
        let context = driver.ready()?;
        let now_ns = driver.timeline.host_ns;
        let moved = driver.configuration.others_move.filter(|(every_ns, _)| now_ns / every_ns % 2 == 1);
        let free_bytes = driver.memory.free_bytes(context.device).saturating_sub(moved.map_or(0, |(_, bytes)| bytes));
        put_if_asked(driver, free, free_bytes as usize)?;
        put_if_asked(driver, total, driver.configuration.memory_bytes as usize)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemAlloc_v2(address: *mut u64, bytes: usize) -> u32 {
    enter("cuMemAlloc_v2", ALLOCATE, |driver| {
        let context = driver.ready()?;
        let is_elsewhere = driver.captures.is_only_of_other_threads();
        let misuse = if is_elsewhere { Misuse::AllocateOnOtherThread } else { Misuse::AllocateInCapture };
        driver.unsafe_call(misuse)?;
        if bytes == 0 {
            return Err(driver.breach(Misuse::AllocateNothing, "zero bytes"));
        }
        let given = driver.memory.allocate(context.device, bytes as u64, Owner::Device)?;
        put(driver, address, given)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    enter("cuMemFree_v2", ALLOCATE, |driver| {
        driver.ready()?;
        driver.unsafe_call(Misuse::FreeInCapture)?;
        // A null pointer is freed without effect.
        if address == 0 {
            return Ok(());
        }
        let owner = freeable(driver, address)?;
        // The documentation promises no wait, yet whoever relied on none would free memory under a kernel.
        driver.wait_all()?;
        release(driver, address, owner)
    })
}

/// The owner of an allocation that may be freed by its first address.
fn freeable(driver: &mut Driver, address: u64) -> Answer<Owner> {
    match driver.memory.at(address) {
        Some((start, allocation)) if start == address && allocation.owner != Owner::Host => Ok(allocation.owner),
        Some((start, _)) if start != address => {
            let text = format!("{address:#x} is inside the allocation at {start:#x}");
            Err(driver.breach(Misuse::FreeInterior, &text))
        }
        Some(_) => Err(driver.violation(Status::INVALID_VALUE, "this is host memory")),
        None => {
            let why = driver.memory.outside(address, 1).unwrap_or_default();
            Err(driver.breach(Misuse::FreeTwice, &why))
        }
    }
}

fn release(driver: &mut Driver, address: u64, owner: Owner) -> Answer {
    match owner {
        // The node still owns the address, for the next launch.
        Owner::Graph { is_made: true } => driver.memory.make_graph_allocation(address, false),
        Owner::Graph { is_made: false } => Err(driver.violation(Status::INVALID_VALUE, "no launch has made it yet")),
        _ => {
            driver.memory.free(address);
            Ok(())
        }
    }
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: u64) -> u32 {
    enter("cuMemAllocAsync", CALL, |driver| {
        let context = driver.ready()?;
        let stream = driver.stream(stream);
        if bytes == 0 {
            return Err(driver.breach(Misuse::AllocateNothing, "zero bytes"));
        }
        if driver.capture_of(stream)?.is_some() {
            let owner = Owner::Graph { is_made: false };
            let given = driver.memory.allocate(context.device, bytes as u64, owner)?;
            driver.submit(stream, Operation::Allocate { address: given })?;
            return put(driver, address, given);
        }
        driver.check_legacy(stream)?;
        let given = driver.memory.allocate(context.device, bytes as u64, Owner::Pool)?;
        put(driver, address, given)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemFreeAsync(address: u64, stream: u64) -> u32 {
    enter("cuMemFreeAsync", CALL, |driver| {
        driver.ready()?;
        let stream = driver.stream(stream);
        let owner = freeable(driver, address)?;
        if let Some(capture) = driver.capture_of(stream)? {
            if !matches!(owner, Owner::Graph { .. }) {
                let text = "the memory was not allocated by this graph; was a buffer dropped during a capture?";
                return Err(driver.breach_in_capture(Misuse::FreeForeignInCapture, capture, text));
            }
            return driver.submit(stream, Operation::Free { address });
        }
        driver.check_legacy(stream)?;
        // In the stream's order: what it holds so far still sees the memory, work of other streams does not.
        let before_ns = driver.timeline.host_ns;
        driver.on_timeline(|timeline, flags| timeline.wait_stream(stream, flags));
        driver.timeline.host_ns = before_ns;
        driver.perform();
        release(driver, address, owner)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemHostAlloc(pointer: *mut u64, bytes: usize, _flags: u32) -> u32 {
    enter("cuMemHostAlloc", ALLOCATE, |driver| allocate_host(driver, pointer, bytes))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemAllocHost_v2(pointer: *mut u64, bytes: usize) -> u32 {
    enter("cuMemAllocHost_v2", ALLOCATE, |driver| allocate_host(driver, pointer, bytes))
}

fn allocate_host(driver: &mut Driver, pointer: *mut u64, bytes: usize) -> Answer {
    let context = driver.ready()?;
    driver.unsafe_call(Misuse::AllocateInCapture)?;
    if bytes == 0 {
        return Err(driver.breach(Misuse::AllocateNothing, "zero bytes"));
    }
    let given = driver.memory.allocate(context.device, bytes as u64, Owner::Host)?;
    put(driver, pointer, given)
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemFreeHost(pointer: u64) -> u32 {
    enter("cuMemFreeHost", ALLOCATE, |driver| {
        driver.ready()?;
        driver.unsafe_call(Misuse::FreeInCapture)?;
        if !driver.timeline.busy().is_empty() {
            let text = "work is under way that may still use it, and nothing says that a driver waits";
            driver.violation(Status::INVALID_VALUE, text);
        }
        driver.wait_all()?;
        match driver.memory.at(pointer) {
            Some((start, allocation)) if start == pointer && allocation.owner == Owner::Host => {
                driver.memory.free(pointer);
                Ok(())
            }
            _ => Err(driver.violation(Status::INVALID_VALUE, "this is not pinned host memory")),
        }
    })
}

/// One address space: the device sees pinned memory under the host's own address.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemHostGetDevicePointer_v2(address: *mut u64, pointer: u64, flags: u32) -> u32 {
    enter("cuMemHostGetDevicePointer_v2", CALL, |driver| {
        driver.ready()?;
        let is_pinned = driver.memory.at(pointer).is_some_and(|(_, allocation)| allocation.owner == Owner::Host);
        if flags != 0 || !is_pinned {
            return Err(driver.violation(Status::INVALID_VALUE, "this is not pinned host memory"));
        }
        put(driver, address, pointer)
    })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemGetAddressRange_v2(start: *mut u64, bytes: *mut usize, address: u64) -> u32 {
    enter("cuMemGetAddressRange_v2", CALL, |driver| {
        driver.ready()?;
        let found = driver.memory.at(address).map(|(start, allocation)| (start, allocation.bytes as usize));
        let (found_start, found_bytes) = found.ok_or(Status::NOT_FOUND)?;
        put_if_asked(driver, start, found_start)?;
        put_if_asked(driver, bytes, found_bytes)
    })
}

/// A range of device memory; pinned host memory is one too.
fn device_range(driver: &mut Driver, misuse: Misuse, address: u64, bytes: usize) -> Answer {
    match driver.memory.outside(address, bytes as u64) {
        Some(why) => Err(driver.breach(misuse, &why)),
        None => Ok(()),
    }
}

/// The host's side of a copy. Whether it is pinned memory of this driver.
fn host_range(driver: &mut Driver, pointer: u64, bytes: usize) -> Answer<bool> {
    if pointer == 0 {
        return Err(driver.violation(Status::INVALID_VALUE, "a null host pointer"));
    }
    let owner = driver.memory.at(pointer).map(|(_, allocation)| allocation.owner);
    match owner {
        None => Ok(false),
        Some(Owner::Host) => device_range(driver, Misuse::CopyPastEnd, pointer, bytes).map(|()| true),
        Some(_) => Err(driver.violation(Status::INVALID_VALUE, "a device address where host memory is asked for")),
    }
}

/// Copies that return when they are done use the legacy stream.
fn copy_now(driver: &mut Driver, copy: impl FnOnce(&mut Driver) -> Answer) -> Answer {
    driver.ready()?;
    driver.check_legacy(LEGACY)?;
    driver.unsafe_call(Misuse::CopyInCapture)?;
    copy(driver)?;
    driver.wait_stream(LEGACY)
}

fn copy_to_device(driver: &mut Driver, to: u64, from: u64, bytes: usize, stream: u64) -> Answer {
    driver.ready()?;
    let stream = driver.stream(stream);
    device_range(driver, Misuse::CopyPastEnd, to, bytes)?;
    let is_pinned = host_range(driver, from, bytes)?;
    let bytes = bytes as u64;
    if is_pinned {
        return driver.submit(stream, Operation::Copy { to, from, bytes });
    }
    if driver.captures.of(stream).is_some() {
        let text = "a copy from pageable host memory is captured: its address is read again at every replay";
        driver.violation(Status::INVALID_VALUE, text);
        return driver.submit(stream, Operation::Copy { to, from, bytes });
    }
    // Pageable memory is staged before the call returns.
    let staged = Memory::read(from, bytes).into();
    driver.submit(stream, Operation::Write { to, bytes: staged })
}

fn copy_to_host(driver: &mut Driver, to: u64, from: u64, bytes: usize, stream: u64) -> Answer {
    driver.ready()?;
    let stream = driver.stream(stream);
    device_range(driver, Misuse::CopyPastEnd, from, bytes)?;
    let is_pinned = host_range(driver, to, bytes)?;
    let is_captured = driver.captures.of(stream).is_some();
    if is_captured && !is_pinned {
        let text = "a copy to pageable host memory is captured: its address is written again at every replay";
        driver.violation(Status::INVALID_VALUE, text);
    }
    driver.submit(stream, Operation::Copy { to, from, bytes: bytes as u64 })?;
    // The documentation: to pageable memory the call returns when the copy is done.
    if is_pinned || is_captured { Ok(()) } else { driver.wait_stream(stream) }
}

fn copy_on_device(driver: &mut Driver, to: u64, from: u64, bytes: usize, stream: u64) -> Answer {
    driver.ready()?;
    let stream = driver.stream(stream);
    device_range(driver, Misuse::CopyPastEnd, to, bytes)?;
    device_range(driver, Misuse::CopyPastEnd, from, bytes)?;
    driver.submit(stream, Operation::Copy { to, from, bytes: bytes as u64 })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemcpyHtoD_v2(to: u64, from: u64, bytes: usize) -> u32 {
    enter("cuMemcpyHtoD_v2", OWN, |driver| copy_now(driver, |driver| copy_to_device(driver, to, from, bytes, 0)))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemcpyDtoH_v2(to: u64, from: u64, bytes: usize) -> u32 {
    enter("cuMemcpyDtoH_v2", OWN, |driver| copy_now(driver, |driver| copy_to_host(driver, to, from, bytes, 0)))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) -> u32 {
    enter("cuMemcpyDtoD_v2", OWN, |driver| copy_now(driver, |driver| copy_on_device(driver, to, from, bytes, 0)))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemcpyHtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) -> u32 {
    enter("cuMemcpyHtoDAsync_v2", OWN, |driver| copy_to_device(driver, to, from, bytes, stream))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemcpyDtoHAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) -> u32 {
    enter("cuMemcpyDtoHAsync_v2", OWN, |driver| copy_to_host(driver, to, from, bytes, stream))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: u64) -> u32 {
    enter("cuMemcpyDtoDAsync_v2", OWN, |driver| copy_on_device(driver, to, from, bytes, stream))
}

fn set(driver: &mut Driver, at: u64, element: [u8; 4], width: u8, count: usize, stream: u64) -> Answer {
    driver.ready()?;
    let stream = driver.stream(stream);
    let bytes = count.saturating_mul(usize::from(width));
    device_range(driver, Misuse::SetPastEnd, at, bytes)?;
    if !at.is_multiple_of(u64::from(width)) {
        return Err(driver.violation(Status::INVALID_VALUE, "an address that is no multiple of the element"));
    }
    driver.submit(stream, Operation::Set { at, element, width, count: count as u64 })
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemsetD8_v2(at: u64, value: u8, count: usize) -> u32 {
    enter("cuMemsetD8_v2", OWN, |driver| copy_now(driver, |driver| set(driver, at, [value, 0, 0, 0], 1, count, 0)))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemsetD8Async(at: u64, value: u8, count: usize, stream: u64) -> u32 {
    enter("cuMemsetD8Async", OWN, |driver| set(driver, at, [value, 0, 0, 0], 1, count, stream))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemsetD16Async(at: u64, value: u16, count: usize, stream: u64) -> u32 {
    let [low, high] = value.to_le_bytes();
    enter("cuMemsetD16Async", OWN, |driver| set(driver, at, [low, high, 0, 0], 2, count, stream))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemsetD32Async(at: u64, value: u32, count: usize, stream: u64) -> u32 {
    enter("cuMemsetD32Async", OWN, |driver| set(driver, at, value.to_le_bytes(), 4, count, stream))
}

/// `CUmemPool_attribute`: 5 and 6 reserved, now and at most; 7 and 8 used. The double keeps no highest values.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemPoolGetAttribute(pool: u64, attribute: u32, value: *mut u64) -> u32 {
    enter("cuMemPoolGetAttribute", CALL, |driver| {
        let device = pool_device(driver, pool)?;
        let (used, reserved) = driver.memory.pool(device);
        match attribute {
            5 | 6 => put(driver, value, reserved),
            7 | 8 => put(driver, value, used),
            _ => put(driver, value, 0),
        }
    })
}

/// Taken and without effect: the double's pool never gives memory back by itself.
#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemPoolSetAttribute(pool: u64, _attribute: u32, _value: *const u64) -> u32 {
    enter("cuMemPoolSetAttribute", CALL, |driver| pool_device(driver, pool).map(|_| ()))
}

#[unsafe(no_mangle)]
pub(super) extern "C" fn cuMemPoolTrimTo(pool: u64, keep_bytes: usize) -> u32 {
    enter("cuMemPoolTrimTo", CALL, |driver| {
        let device = pool_device(driver, pool)?;
        driver.memory.trim(device, keep_bytes as u64);
        Ok(())
    })
}

fn pool_device(driver: &mut Driver, pool: u64) -> Answer<usize> {
    let device = (0..driver.configuration.devices as usize).find(|device| default_pool(*device) == pool);
    device.ok_or_else(|| driver.violation(Status::INVALID_VALUE, "no such pool"))
}
