//! The requests of a step, and the input buffers that they make.

use kernels::step::{AttentionShape, StepShape};

/// One request in a step.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Its new tokens.
    pub tokens: Vec<i32>,
    /// Tokens that are in the cache already.
    pub context: u32,
    /// Its cache blocks, enough for context and new tokens.
    pub blocks: Vec<i32>,
}

/// The requests of a step; none at all is a step of padding.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Batch {
    /// In the order of their rows.
    pub requests: Vec<Request>,
}

/// Requests that a shape does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("batch: {what} = {given}: expected {expected}")]
pub struct BatchError {
    /// What is wrong.
    what: &'static str,
    /// Its value.
    given: i64,
    /// What it may be.
    expected: String,
}

/// The content of the static buffers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Inputs {
    pub(super) ids: Vec<i32>,
    pub(super) positions: Vec<i32>,
    pub(super) slots: Vec<i32>,
    pub(super) block_table: Vec<i32>,
    pub(super) context_lens: Vec<i32>,
    pub(super) query_starts: Vec<i32>,
    pub(super) sampled_rows: Vec<i32>,
}

/// Slot of a row that writes nothing into the cache.
const PADDED_SLOT: i32 = -1;

impl Batch {
    /// Refuses blocks and tokens that the model does not have: a kernel would read or write beyond its memory.
    pub(super) fn within(&self, cache_blocks: u32, vocabulary: u32) -> Result<(), BatchError> {
        let blocks =
            self.requests.iter().flat_map(|request| &request.blocks).map(|&block| ("block", block, cache_blocks));
        let tokens =
            self.requests.iter().flat_map(|request| &request.tokens).map(|&token| ("token", token, vocabulary));
        match blocks.chain(tokens).find(|&(_, value, count)| !(0..i64::from(count)).contains(&value.into())) {
            None => Ok(()),
            Some((what, value, count)) => {
                Err(BatchError { what, given: value.into(), expected: format!("0 to {}", count.saturating_sub(1)) })
            }
        }
    }

    /// What the buffers hold for these requests. Padded rows: token 0 at position 0, no slot; padded requests: no rows, no
    /// context (GPU specification section 4).
    ///
    /// # Errors
    /// More rows, requests or blocks than the shape has, fewer blocks than tokens need, or no single token where the shape
    /// decodes.
    pub(super) fn inputs(&self, shape: &StepShape) -> Result<Inputs, BatchError> {
        let (table, size) = (shape.blocks_per_request as usize, shape.block_size as usize);
        let rows = shape.rows.0 as usize;
        let requests = shape.attention.requests(shape.rows).0 as usize;
        let decodes = match shape.attention {
            AttentionShape::Decode { .. } => rows,
            AttentionShape::Mixed { .. } => 0,
            AttentionShape::Separate { decodes, .. } => decodes.0 as usize,
        };
        let refuse = |what, given: usize, expected| Err(BatchError { what, given: word(given).into(), expected });
        if self.requests.len() > requests {
            return refuse("requests", self.requests.len(), format!("at most {requests}"));
        }
        let tokens: usize = self.requests.iter().map(|request| request.tokens.len()).sum();
        if tokens > rows {
            return refuse("tokens", tokens, format!("at most {rows}"));
        }
        let mut inputs = Inputs {
            ids: vec![0; rows],
            positions: vec![0; rows],
            slots: vec![PADDED_SLOT; rows],
            block_table: vec![0; requests * table],
            context_lens: vec![0; requests],
            query_starts: vec![word(tokens); requests + 1],
            sampled_rows: vec![0; shape.sampled.0 as usize],
        };
        let mut row = 0;
        for (number, request) in self.requests.iter().enumerate() {
            let chunk = request.tokens.len();
            if number < decodes && chunk != 1 {
                return refuse("new tokens in a request", chunk, "1, for the step decodes".into());
            }
            let end = request.context as usize + chunk;
            let blocks = &request.blocks;
            if blocks.len() > table || blocks.len() * size < end {
                let expected = format!("{} to {table}, for {end} tokens", end.div_ceil(size));
                return refuse("blocks in a request", blocks.len(), expected);
            }
            inputs.block_table[number * table..][..blocks.len()].copy_from_slice(blocks);
            inputs.context_lens[number] = word(end);
            inputs.query_starts[number] = word(row);
            for (&token, position) in request.tokens.iter().zip(request.context as usize..) {
                inputs.ids[row] = token;
                inputs.positions[row] = word(position);
                inputs.slots[row] = blocks[position / size] * word(size) + word(position % size);
                row += 1;
            }
            if let Some(sampled) = inputs.sampled_rows.get_mut(number) {
                *sampled = word(row.saturating_sub(1));
            }
        }
        Ok(inputs)
    }
}

/// A count as the kernels take it.
fn word(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernels::launch::DecodeSplits;
    use kernels::units::{Requests, Rows};

    fn shape(rows: u32, attention: AttentionShape, sampled: u32) -> StepShape {
        StepShape { rows: Rows(rows), attention, sampled: Rows(sampled), block_size: 4, blocks_per_request: 3 }
    }

    fn mixed(rows: u32, requests: u32) -> StepShape {
        let attention = AttentionShape::Mixed { requests: Requests(requests), longest_chunk: Rows(rows) };
        shape(rows, attention, requests)
    }

    fn decode(rows: u32) -> StepShape {
        shape(rows, AttentionShape::Decode { splits: DecodeSplits::WHOLE }, rows)
    }

    fn batch() -> Batch {
        let requests = vec![
            Request { tokens: vec![11, 12, 13], context: 6, blocks: vec![9, 2, 5] },
            Request { tokens: vec![21], context: 0, blocks: vec![7] },
        ];
        Batch { requests }
    }

    #[test]
    fn chunks_lie_behind_one_another_and_the_rest_is_padding() {
        let inputs = batch().inputs(&mixed(6, 3)).unwrap();
        assert_eq!(inputs.ids, [11, 12, 13, 21, 0, 0]);
        assert_eq!(inputs.positions, [6, 7, 8, 0, 0, 0]);
        // Token 6 of the first request is the third of its block 2, token 8 the first of its block 5.
        assert_eq!(inputs.slots, [10, 11, 20, 28, -1, -1]);
        assert_eq!(inputs.block_table, [9, 2, 5, 7, 0, 0, 0, 0, 0]);
        assert_eq!(inputs.context_lens, [9, 1, 0]);
        assert_eq!(inputs.query_starts, [0, 3, 4, 4]);
        assert_eq!(inputs.sampled_rows, [2, 3, 0]);
    }

    #[test]
    fn decodes_come_before_chunks_that_have_a_kernel_of_their_own() {
        let separate = |decodes| AttentionShape::Separate {
            decodes: Requests(decodes),
            splits: DecodeSplits::WHOLE,
            prefills: Requests(1),
            longest_chunk: Rows(3),
        };
        let mut turned = batch();
        turned.requests.reverse();
        let inputs = turned.inputs(&shape(6, separate(1), 2)).unwrap();
        assert_eq!((inputs.query_starts, inputs.context_lens), (vec![0, 1, 4], vec![1, 9]));
        assert_eq!(
            batch().inputs(&shape(6, separate(1), 2)).unwrap_err().to_string(),
            "batch: new tokens in a request = 3: expected 1, for the step decodes"
        );
    }

    #[test]
    fn nobody_is_a_step_of_padding() {
        let inputs = Batch::default().inputs(&decode(2)).unwrap();
        assert_eq!((inputs.slots, inputs.context_lens), (vec![-1, -1], vec![0, 0]));
        assert_eq!(inputs.query_starts, [0, 0, 0]);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let refused = |batch: &Batch, shape| batch.inputs(&shape).unwrap_err().to_string();
        assert_eq!(refused(&batch(), mixed(3, 3)), "batch: tokens = 4: expected at most 3");
        assert_eq!(refused(&batch(), mixed(6, 1)), "batch: requests = 2: expected at most 1");
        assert_eq!(
            refused(&batch(), decode(6)),
            "batch: new tokens in a request = 3: expected 1, for the step decodes"
        );
        let outside = batch().within(9, 22).unwrap_err();
        assert_eq!(outside.to_string(), "batch: block = 9: expected 0 to 8");
        assert_eq!(batch().within(10, 21).unwrap_err().to_string(), "batch: token = 21: expected 0 to 20");
        assert_eq!(batch().within(10, 22), Ok(()));
        let mut short = batch();
        short.requests[0].blocks.pop();
        assert_eq!(refused(&short, mixed(6, 3)), "batch: blocks in a request = 2: expected 3 to 3, for 9 tokens");
    }
}
