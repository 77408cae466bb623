//! Bandwidth of device memory: a copy within it, of several sizes well beyond the cache.

use kernels::bf16;
use kernels::launch::Copy;
use kernels::random::Random;
use kernels::units::Bytes;

use super::bench::{Bench, Campaigns, Point, Probed};
use super::copy_sizes;
use super::error::ProbeError;
use super::line::relative_line;
use super::result::{Bandwidth, CopyTime};
use super::work::Launches;
use crate::device::Attribute;

/// Blocks of a copy, per multiprocessor.
const BLOCKS_PER_SM: u32 = 8;
/// Random bytes that the source repeats; a zero costs less power than a one, and so is copied at a higher clock.
const DRAWN_BYTES: u64 = copy_sizes::GRANULE_BYTES;
/// Bytes of a vector.
const VECTOR_BYTES: u64 = 16;

/// Times copies of 2 to 16 times the cache. The figure is the slope of time over bytes, so that what a launch costs beside
/// the copy is not in it.
///
/// # Errors
/// There is no memory for the smallest sizes, or the device fails.
pub fn run(bench: &Bench<'_>) -> Result<Probed<Bandwidth>, ProbeError> {
    let card = bench.on(|session| *session.card());
    let cache = u64::try_from(card.attribute(Attribute::CacheBytes)?).unwrap_or(0);
    let blocks = card.attribute(Attribute::Multiprocessors)?.unsigned_abs() * BLOCKS_PER_SM;
    let free = bench.free()?;
    let sizes = copy_sizes::measured(cache, free.0).unwrap_or_default();
    let Some(&largest) = sizes.last() else {
        let needs = Bytes(copy_sizes::least_bytes(cache));
        return Err(ProbeError::Memory { what: "copying within the device", needs, free });
    };
    let memory = bench.on(|session| session.arena());
    let (from, to) = (memory.allocate(largest)?, memory.allocate(largest)?);
    bench.on(|session| {
        let drawn = Random::named("copied", 0).bf16s((DRAWN_BYTES / 2) as usize, 1.0);
        session.write(from, &bf16::to_bytes(&drawn))?;
        let mut filled = DRAWN_BYTES;
        while filled < largest {
            let bytes = filled.min(largest - filled);
            let copy = Copy { to: from.offset(filled), from, vectors: bytes / VECTOR_BYTES };
            session.launch(&copy.by(blocks)?)?;
            filled += bytes;
        }
        session.synchronize()?;
        Ok::<_, ProbeError>(())
    })?;
    let mut points = Vec::new();
    for &bytes in &sizes {
        let launch = Copy { to, from, vectors: bytes / VECTOR_BYTES }.by(blocks)?;
        points.push(Point::new(format!("copy of {}", Bytes(bytes)), Launches { launch, count: 1 }));
    }
    let mut campaigns = Campaigns::default();
    let measured = bench.device("copies, device", points, &mut campaigns)?;
    let moved: Vec<f64> = sizes.iter().map(|&bytes| 2.0 * bytes as f64).collect();
    // Bytes per microsecond are 10^6 bytes per second.
    let copy_gb_per_s = measured.derive(|medians_us| 1e-3 / relative_line(&moved, medians_us)[1]);
    let copies =
        sizes.iter().zip(measured.times_us()).map(|(&bytes, copy_us)| CopyTime { bytes: Bytes(bytes), copy_us });
    Ok(campaigns.with(Bandwidth { copy_gb_per_s, copies: copies.collect() }))
}
