//! From a step to its graph: the rules of the decode and the prefill runner (SGLang specification section 5).

pub mod decode;
pub mod prefill;

/// The smallest size that holds `need`; `sizes` ascend.
fn padded(sizes: &[u32], need: u32) -> Option<u32> {
    sizes.get(sizes.partition_point(|&size| size < need)).copied()
}
