//! The requests of a step, padded, as the static buffers hold them.

use kernels::launch::{Address, DecodeSplits};
use kernels::machine::Machine;
use kernels::random::Random;
use kernels::reference::Row;
use kernels::step::{AttentionShape, StaticBuffers, StepShape};
use kernels::units::{Requests, Rows};

use super::tiny::{BLOCK_SIZE, BLOCKS_PER_REQUEST};

/// New tokens of one request behind its context.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub(super) context: usize,
    pub(super) tokens: Vec<i32>,
    pub(super) blocks: Vec<i32>,
}

impl Request {
    /// `chunk` tokens that `name` decides, behind `context` ones.
    pub(super) fn new(name: &str, context: usize, chunk: usize, blocks: &[i32]) -> Self {
        let mut random = Random::named(name, context as u64);
        let tokens = (0..chunk).map(|_| int(random.below(264) as usize)).collect();
        Self { context, tokens, blocks: blocks.to_vec() }
    }

    fn end(&self) -> usize {
        self.context + self.tokens.len()
    }

    fn rows(&self) -> impl Iterator<Item = Row> {
        self.tokens.iter().zip(self.context..).map(|(id, position)| {
            let block = self.blocks[position / BLOCK_SIZE];
            let slot = block * int(BLOCK_SIZE) + int(position % BLOCK_SIZE);
            Row { id: *id, position: int(position), slot, blocks: self.blocks.clone() }
        })
    }
}

/// A step: its requests, and what pads them.
#[derive(Clone, Debug)]
pub(super) struct Batch {
    pub(super) requests: Vec<Request>,
    /// Rows with padding.
    pub(super) rows: usize,
    /// Requests with padding; none if the step decodes, one a row.
    pub(super) padded_requests: Option<usize>,
    /// Ranges of decode attention.
    pub(super) splits: u32,
    /// What padded rows hold where nothing is prescribed: ids, positions, block tables.
    pub(super) garbage: u64,
}

impl Batch {
    /// Decodes, one token each, padded to `rows`.
    pub(super) fn decode(requests: &[Request], rows: usize) -> Self {
        Self { requests: requests.to_vec(), rows, padded_requests: None, splits: 2, garbage: 0 }
    }

    /// Chunks of any length.
    pub(super) fn mixed(requests: &[Request], rows: usize, padded_requests: usize) -> Self {
        Self { padded_requests: Some(padded_requests), ..Self::decode(requests, rows) }
    }

    /// The rows of the requests.
    pub(super) fn real_rows(&self) -> Vec<Row> {
        self.requests.iter().flat_map(Request::rows).collect()
    }

    /// The row of each request's last token.
    pub(super) fn last_rows(&self) -> Vec<usize> {
        let mut end = 0;
        let mut last = |request: &Request| {
            end += request.tokens.len();
            end - 1
        };
        self.requests.iter().map(&mut last).collect()
    }

    pub(super) fn shape(&self) -> StepShape {
        let (attention, sampled) = match self.padded_requests {
            None => (AttentionShape::Decode { splits: DecodeSplits::exactly(self.splits) }, self.rows),
            Some(requests) => {
                let longest_chunk = Rows(self.rows as u32);
                (AttentionShape::Mixed { requests: Requests(requests as u32), longest_chunk }, requests)
            }
        };
        StepShape {
            rows: Rows(self.rows as u32),
            attention,
            sampled: Rows(sampled as u32),
            block_size: BLOCK_SIZE as u32,
            blocks_per_request: BLOCKS_PER_REQUEST as u32,
        }
    }

    /// Writes the static buffers. Padded rows have slot -1, padded requests no rows and context 0; their ids, positions and
    /// block tables are garbage that a machine could read.
    pub(super) fn write<M: Machine>(&self, machine: &mut M, buffers: &StaticBuffers) {
        let mut random = Random::named("garbage", self.garbage);
        let requests = self.padded_requests.unwrap_or(self.rows);
        let rows = self.real_rows();
        let mut padded = |values: Vec<i32>, count: usize, below: u32| -> Vec<i32> {
            let missing = count - values.len();
            values.into_iter().chain((0..missing).map(|_| int(random.below(below) as usize))).collect()
        };
        let ids = padded(rows.iter().map(|row| row.id).collect(), self.rows, 264);
        let positions = padded(rows.iter().map(|row| row.position).collect(), self.rows, 5_000);
        let mut slots: Vec<i32> = rows.iter().map(|row| row.slot).collect();
        slots.resize(self.rows, -1);
        let mut block_table = Vec::new();
        for request in &self.requests {
            block_table.extend(padded(request.blocks.clone(), BLOCKS_PER_REQUEST, 8));
        }
        let block_table = padded(block_table, requests * BLOCKS_PER_REQUEST, 8);
        let mut context_lens: Vec<i32> = self.requests.iter().map(|request| int(request.end())).collect();
        context_lens.resize(requests, 0);
        let mut query_starts = vec![0];
        query_starts.extend(self.last_rows().iter().map(|last| int(*last + 1)));
        query_starts.resize(requests + 1, int(rows.len()));
        let mut sampled: Vec<i32> = self.last_rows().iter().map(|last| int(*last)).collect();
        sampled.resize(self.shape().sampled.0 as usize, 0);
        let StaticBuffers { ids: ids_at, positions: positions_at, slots: slots_at, .. } = *buffers;
        let writes: [(Address, Vec<i32>); 7] = [
            (ids_at, ids),
            (positions_at, positions),
            (slots_at, slots),
            (buffers.block_table, block_table),
            (buffers.context_lens, context_lens),
            (buffers.query_starts, query_starts),
            (buffers.sampled_rows, sampled),
        ];
        for (address, values) in writes {
            let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            machine.write(address, &bytes).unwrap();
        }
    }
}

/// A count as the device takes it.
fn int(count: usize) -> i32 {
    i32::try_from(count).unwrap()
}
