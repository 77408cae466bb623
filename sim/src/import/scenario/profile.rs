//! The profile that a scenario names where the user names none: the nearest of the built-in ones.

use calibrate::profile::{BUILTIN, Profile};

/// What is known of the device.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct KnownDevice {
    /// Its memory, GiB.
    pub gib: Option<f64>,
    /// FlashAttention's version: 3 runs on Hopper, 2 before it.
    pub flash_attn_version: Option<u64>,
}

/// The built-in profile of a real device that is nearest: of the same generation where FlashAttention tells it, then by
/// memory.
#[must_use]
pub fn nearest(device: &KnownDevice) -> &'static str {
    let is_hopper = |name: &str| name.starts_with("h100") || name.starts_with("h200");
    let fits = |name: &str| match device.flash_attn_version {
        Some(3) => is_hopper(name),
        Some(2) => !is_hopper(name),
        _ => true,
    };
    let distance = |name: &str| {
        let total = Profile::builtin(name).ok()?.machine.memory.figures.total.0 as f64 / f64::from(1 << 30);
        Some(device.gib.map_or(0.0, |gib| (total / gib).ln().abs()))
    };
    let real = BUILTIN.iter().copied().filter(|name| !name.starts_with("textbook") && fits(name));
    let measured = real.filter_map(|name| Some((name, distance(name)?)));
    measured.min_by(|a, b| a.1.total_cmp(&b.1)).map_or(BUILTIN[0], |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generation_goes_before_memory() {
        for (gib, version, name) in [
            (None, None, "a100-llama-3-8b"),
            (Some(79.15), Some(3), "h100-llama-2-7b"),
            (Some(79.15), Some(2), "a100-llama-3-8b"),
            (Some(139.81), Some(3), "h200-llama-3.1-8b"),
            (Some(23.5), Some(2), "rtx4090-llama-3.1-8b"),
            (Some(23.5), None, "rtx4090-llama-3.1-8b"),
        ] {
            assert_eq!(nearest(&KnownDevice { gib, flash_attn_version: version }), name, "{gib:?} {version:?}");
        }
    }
}
