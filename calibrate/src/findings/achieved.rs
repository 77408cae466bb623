//! How much of a card the dense kernels get out: bytes at one end of the staircase, arithmetic at the other.

use kernels::geometry::ModelGeometry;
use kernels::work::dense_work;

use crate::counted::counted;
use crate::layout::number;
use crate::probe::result::{Bandwidth, DenseTable};
use crate::profile::KeptWarning;

/// Share of the copy bandwidth below which kernels that only stream weights are suspect (GPU specification section 3c).
const SHARE_LEAST: f64 = 0.5;

/// Bytes of weights that no cache of a card holds: smaller models say nothing about bandwidth.
const STREAMED_LEAST: f64 = 1e9;

/// What the dense part of a step achieves.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Achieved {
    /// At so many rows weights are streamed: the smallest size.
    pub rows_least: u32,
    /// What is read and written there at least, bytes.
    pub bytes: f64,
    /// Those bytes by the time of the step, as a share of the copy bandwidth (bytes read plus bytes written).
    pub bandwidth_share: f64,
    /// At so many rows products compute: the largest size.
    pub rows_most: u32,
    /// Arithmetic of that step by its time, 10^12 operations per second, a multiply-add counted as two.
    pub tflop_per_s: f64,
}

impl Achieved {
    /// Of these tables; `None` of an empty one.
    pub fn of(dense: &DenseTable, bandwidth: &Bandwidth, model: &ModelGeometry) -> Option<Self> {
        let (first, last) = (dense.points.first()?, dense.points.last()?);
        let bytes = dense_work(model, first.rows.0).bytes;
        let gb_per_s = bytes / first.device_us.value / 1e3;
        Some(Self {
            rows_least: first.rows.0,
            bytes,
            bandwidth_share: gb_per_s / bandwidth.copy_gb_per_s.value,
            rows_most: last.rows.0,
            tflop_per_s: dense_work(model, last.rows.0).flops / last.device_us.value / 1e6,
        })
    }

    /// In words.
    pub fn words(&self) -> String {
        format!(
            "{:.0} % of the copy bandwidth at {}, {} TFLOP/s at {}",
            self.bandwidth_share * 100.0,
            counted(self.rows_least, "row"),
            number(self.tflop_per_s),
            self.rows_most
        )
    }

    /// What to keep with the figures: that another kernel than an engine's multiplied, or that weights came slowly.
    pub fn warnings(&self, is_own_kernel: bool) -> Vec<KeptWarning> {
        let own = is_own_kernel.then(|| KeptWarning {
            code: "own_gemm".to_owned(),
            what: format!(
                "matrices were multiplied by the own kernel, not by cuBLASLt ({}): tile edges lie at other rows than the \
                 engine's",
                self.words()
            ),
            advice: Some("install cuBLASLt, or name it in RUNGWISE_CUBLASLT, and measure again".to_owned()),
        });
        let is_slow = self.bytes > STREAMED_LEAST && self.bandwidth_share < SHARE_LEAST;
        let slow = is_slow.then(|| KeptWarning {
            code: "slow_weights".to_owned(),
            what: format!(
                "at {} the dense part streams its weights with {:.0} % of the copy bandwidth: small steps may look slower \
                 than an engine's",
                counted(self.rows_least, "row"),
                self.bandwidth_share * 100.0
            ),
            advice: None,
        });
        own.into_iter().chain(slow).collect()
    }
}
