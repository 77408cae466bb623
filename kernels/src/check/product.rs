//! Cases of the matrix product.

use super::compare::{close, equal};
use super::{Bench, CheckError, Tolerance};
use crate::bf16;
use crate::launch::{Address, Product, ProductPlan, Tile, Workspace};
use crate::machine::Machine;
use crate::random::Random;
use crate::reference;
use crate::units::Rows;

#[derive(Clone, Debug)]
pub(super) struct ProductCase {
    pub(super) tile: Tile,
    pub(super) rows: usize,
    pub(super) outputs: usize,
    pub(super) inputs: usize,
    pub(super) splits: u32,
    pub(super) bias: bool,
}

impl ProductCase {
    /// Twice on the same workspace with other inputs, as a graph is replayed: the counters must be zero again, and no sum
    /// of the first run may be left.
    pub(super) fn run<M: Machine>(
        &self,
        bench: &mut Bench<M>,
        random: &mut Random,
    ) -> Result<(), CheckError<M::Error>> {
        let &Self { tile, rows, outputs, inputs, splits, bias } = self;
        let (input, weight) = (random.bf16s(rows * inputs, 1.0), random.bf16s(outputs * inputs, 1.0));
        let bias = random.bf16s(if bias { outputs } else { 0 }, 2.0);
        let mut product = Product {
            out: bench.output("out", rows * outputs * 2)?,
            input: bench.input("input", &input)?,
            weight: bench.input("weight", &weight)?,
            bias: Address::NONE,
            rows: Rows(rows as u32),
            outputs: outputs as u32,
            inputs: inputs as u32,
        };
        if !bias.is_empty() {
            product.bias = bench.input("bias", &bias)?;
        }
        let plan = ProductPlan::exactly(&product, tile, splits);
        let mut workspace = Workspace::default();
        let counters = vec![0; plan.arrivals_bytes(&product) as usize];
        if plan.splits > 1 {
            workspace.partial = bench.output("partial", plan.partial_bytes(&product) as usize)?;
            workspace.arrivals = bench.words("arrivals", &counters)?;
        }
        let (weight, bias) = (bf16::to_f64s(&weight), bf16::to_f64s(&bias));
        for input in [input, random.bf16s(rows * inputs, 1.0)] {
            bench.rewrite(product.input, &bf16::to_bytes(&input))?;
            bench.rewrite(product.out, &vec![0xff; rows * outputs * 2])?;
            bench.launch(product.under(plan, workspace))?;
            let want = reference::product(&bf16::to_f64s(&input), &weight, &bias, inputs);
            let margin = close("out", &bench.numbers(product.out)?, &want, outputs, Tolerance::ROUNDED_ONCE)?;
            bench.passed(margin);
            if plan.splits > 1 {
                equal("arrivals", &bench.read(workspace.arrivals)?, &counters)?;
            }
        }
        Ok(())
    }
}
