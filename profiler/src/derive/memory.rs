//! Host memory of all processes of a job together.

use std::collections::BTreeMap;

use record::{
    launch_end::{LaunchEnd, RankEnd},
    rows::HostSample,
};

/// The largest resident memory in one reading, over all processes of all ranks. It is at least the peak of the largest single
/// process, which the kernel knows exactly.
///
/// A page that processes of one rank share counts once. A process that lived only between two readings counts only through its
/// own peak. The peak is not known if a reading lacks processes.
pub(super) fn rss_peak_bytes(readings: &[HostSample], end: &LaunchEnd) -> Option<u64> {
    let mut of_rank = BTreeMap::new();
    let until_the_end = readings.iter().filter(|row| row.mono_ns <= end.mono_ns);
    let sum_of_ranks = |row: &HostSample| {
        of_rank.insert(row.rank, row.rss_bytes?);
        Some(of_rank.values().copied().fold(0, u64::saturating_add))
    };
    let read: Option<Vec<u64>> = until_the_end.map(sum_of_ranks).collect();
    let of_largest = end.ranks.iter().filter_map(|rank: &RankEnd| rank.rss_peak_bytes).max();
    read?.into_iter().max().max(of_largest)
}

#[cfg(test)]
mod tests {
    use schema::{FORMAT, units::Nanos};

    use super::*;

    /// A reading of a rank: when, which, and how much.
    fn reading((mono_ns, rank, rss_bytes): (u64, u32, Option<u64>)) -> HostSample {
        let rss_bytes = rss_bytes.map_or("null".into(), |bytes| bytes.to_string());
        let json = format!(
            r#"{{"mono_ns": {mono_ns}, "end_mono_ns": {mono_ns}, "launch": "a", "rank": {rank}, "rss_bytes": {rss_bytes}}}"#
        );
        record::rows::from_json(&json).unwrap()
    }

    #[test]
    fn ranks_add_up_at_one_time_and_the_largest_process_is_the_least() {
        for (readings, of_largest, expected) in [
            // The peaks of two ranks at different times are no peak of the job.
            (
                &[(1, 0, Some(50)), (1, 1, Some(10)), (2, 0, Some(10)), (2, 1, Some(45))][..],
                [None; 2],
                Some(60),
            ),
            (&[(1, 0, Some(50)), (2, 0, Some(10)), (2, 1, Some(45))], [None; 2], Some(55)),
            // Children are in the reading of their rank.
            (&[(1, 0, Some(90))], [Some(30), Some(20)], Some(90)),
            // A peak between two readings.
            (&[(1, 0, Some(5)), (2, 0, Some(6))], [Some(30), Some(20)], Some(30)),
            // A reading that lacks processes may be the largest, unless it is from after the end.
            (&[(1, 0, Some(90)), (2, 0, None)], [Some(30), Some(20)], None),
            (&[(1, 0, Some(90)), (11, 0, None)], [Some(30), Some(20)], Some(90)),
            (&[(11, 0, Some(90))], [None; 2], None),
            (&[], [None; 2], None),
        ] {
            let rank_end = |rss_peak_bytes| RankEnd { rss_peak_bytes, ..RankEnd::default() };
            let end = LaunchEnd {
                format: FORMAT,
                mono_ns: Nanos(10),
                enough_mono_ns: None,
                err: None,
                err_detail: None,
                killed_after: None,
                notes: Default::default(),
                ranks: of_largest.map(rank_end).into(),
            };
            let readings: Vec<HostSample> = readings.iter().copied().map(reading).collect();
            assert_eq!(rss_peak_bytes(&readings, &end), expected, "{readings:?}");
        }
    }
}
