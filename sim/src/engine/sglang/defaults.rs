//! Defaults that follow from the device's memory (SGLang specification section 2).

/// What the engine takes where the user gives nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceDefaults {
    /// `chunked_prefill_size`, in tokens.
    pub chunked_prefill_size: i32,
    /// Largest decode graph, in requests.
    pub decode_max_bs: u32,
}

/// Rows of the table: memory strictly below so many GiB, chunk, decode maximum below 4 tensor-parallel ranks and from
/// 4 on. The row below 35 GiB was raised and stands above the next one: so it is in the engine.
const TABLE: [(u32, i32, u32, u32); 5] =
    [(20, 2048, 8, 8), (35, 4096, 48, 160), (60, 4096, 32, 160), (90, 8192, 256, 512), (160, 8192, 256, 512)];

impl DeviceDefaults {
    /// The defaults of a device with so many MiB (`None`: unknown) under `tp_size` ranks.
    #[must_use]
    pub fn of(gpu_mem_mib: Option<u32>, tp_size: u32) -> Self {
        let Some(mib) = gpu_mem_mib else {
            return Self { chunked_prefill_size: 4096, decode_max_bs: 160 };
        };
        let row = TABLE.iter().find(|row| mib < row.0 * 1024);
        let &(_, chunked_prefill_size, few_ranks, many_ranks) = row.unwrap_or(&(u32::MAX, 16_384, 512, 512));
        Self { chunked_prefill_size, decode_max_bs: if tp_size < 4 { few_ranks } else { many_ranks } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_strict_and_in_gib() {
        let of = |mib, tp| {
            let made = DeviceDefaults::of(Some(mib), tp);
            (made.chunked_prefill_size, made.decode_max_bs)
        };
        assert_eq!(of(20 * 1024 - 1, 8), (2048, 8));
        assert_eq!(of(20 * 1024, 1), (4096, 48));
        assert_eq!(of(35 * 1024, 1), (4096, 32));
        assert_eq!(of(35 * 1024, 4), (4096, 160));
        assert_eq!(of(81_559, 1), (8192, 256));
        assert_eq!(of(160 * 1024, 1), (16_384, 512));
        let unknown = DeviceDefaults { chunked_prefill_size: 4096, decode_max_bs: 160 };
        assert_eq!(DeviceDefaults::of(None, 8), unknown);
    }
}
