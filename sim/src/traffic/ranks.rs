//! Data-parallel ranks with traffic of their own: one stream in order of arrival.

use super::random::Streams;
use super::stream::RequestStream;
use super::trace::SkippedRows;
use super::{Request, Traffic, TrafficError};

/// The streams of all ranks, merged; at equal times the lower rank goes first.
pub(super) struct RankStreams {
    ranks: Vec<RankStream>,
}

struct RankStream {
    stream: RequestStream,
    next: Option<Request>,
}

impl RankStreams {
    /// Opens the traffic of every rank. Each draws from streams of its own, so that one more rank moves no other.
    pub(super) fn open(ranks: &[Traffic], streams: Streams) -> Result<Self, TrafficError> {
        let open = |(number, traffic): (usize, &Traffic)| {
            let mut stream = RequestStream::open(traffic, streams.key(&format!("rank {number}")))?;
            let next = stream.next().transpose()?;
            Ok(RankStream { stream, next })
        };
        Ok(Self { ranks: ranks.iter().enumerate().map(open).collect::<Result<_, _>>()? })
    }

    /// The next request of all ranks, with its rank; `None` when every stream has ended.
    pub(super) fn next_request(&mut self) -> Result<Option<Request>, TrafficError> {
        let arrivals = self.ranks.iter().enumerate().filter_map(|(number, rank)| Some((rank.next.as_ref()?, number)));
        let Some((_, number)) = arrivals.min_by_key(|(request, _)| request.arrival) else { return Ok(None) };
        let rank = &mut self.ranks[number];
        let request = rank.next.take();
        rank.next = rank.stream.next().transpose()?;
        Ok(request.map(|request| Request { rank: Some(number as u32), ..request }))
    }

    pub(super) fn skipped_rows(&self) -> SkippedRows {
        let of_rank = |(number, rank): (usize, &RankStream)| {
            let rows = rank.stream.skipped_rows();
            SkippedRows { rank: rows.first_line.map(|_| number as u32), ..rows }
        };
        self.ranks.iter().enumerate().map(of_rank).fold(SkippedRows::default(), SkippedRows::and)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arrivals, LengthPair, Lengths, TrafficKind};
    use super::*;

    fn rank(rate: f64, prompt_tokens: u32, requests: u64) -> Traffic {
        let lengths = Lengths::Fixed(LengthPair { prompt_tokens, output_tokens: 1 });
        Traffic::plain(0, Some(requests), TrafficKind::Synthetic { arrivals: Arrivals::Poisson { rate }, lengths })
    }

    fn requests(ranks: &[Traffic], seed: u64) -> Vec<Request> {
        let traffic = Traffic::plain(seed, None, TrafficKind::Ranks(ranks.to_vec()));
        traffic.open(seed).expect("opens").collect::<Result<_, _>>().expect("draws")
    }

    #[test]
    fn ranks_are_merged_by_time_and_keep_their_own_traffic() {
        let (busy, quiet) = (rank(20.0, 7, 300), rank(2.0, 9, 30));
        let merged = requests(&[busy.clone(), quiet.clone()], 5);
        assert!(merged.is_sorted_by_key(|request| request.arrival) && merged.len() == 330);
        assert!(merged.iter().all(|request| request.prompt_tokens == if request.rank == Some(0) { 7 } else { 9 }));
        let of_first =
            |all: &[Request]| all.iter().filter(|request| request.rank == Some(0)).cloned().collect::<Vec<_>>();
        assert_eq!(of_first(&merged), requests(std::slice::from_ref(&busy), 5), "another rank moves nothing");
        assert_ne!(of_first(&merged), requests(&[busy], 6));
    }

    #[test]
    fn skipped_rows_name_the_first_rank_that_has_any() {
        let rows = |count, first_line, rank| SkippedRows { count, first_line, rank };
        let none = SkippedRows::default();
        let (first, second) = (rows(3, Some(9), Some(1)), rows(1, Some(2), Some(2)));
        assert_eq!(none.and(first).and(second), rows(4, Some(9), Some(1)));
        assert_eq!(first.and(none), first);
    }

    #[test]
    fn two_ranks_of_the_same_description_draw_apart() {
        let merged = requests(&[rank(5.0, 7, 50), rank(5.0, 7, 50)], 5);
        let times = |number| merged.iter().filter(|r| r.rank == Some(number)).map(|r| r.arrival).collect::<Vec<_>>();
        assert_ne!(times(0), times(1));
    }
}
