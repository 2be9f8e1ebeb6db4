//! Where launches that share a device lie in the height of its lane.

/// The part of each interval, and the number of parts, where it is drawn beside others. Intervals that overlap, directly or by others
/// between them, have the same number of parts, and each takes the first part that is free.
pub(super) fn parts(intervals: &[(u64, u64)]) -> Vec<(u16, u16)> {
    let mut order: Vec<usize> = (0..intervals.len()).collect();
    order.sort_by_key(|place| intervals[*place]);
    let mut parts = vec![(0, 1); intervals.len()];
    // The end of the last interval in each part, and the intervals that overlap so far.
    let (mut ends, mut together): (Vec<u64>, Vec<usize>) = (Vec::new(), Vec::new());
    for place in order {
        let (from, until) = intervals[place];
        if ends.iter().all(|end| *end <= from) {
            together.drain(..).for_each(|place| parts[place].1 = ends.len() as u16);
            ends.clear();
        }
        let free = ends.iter().position(|end| *end <= from).unwrap_or(ends.len());
        match ends.get_mut(free) {
            Some(end) => *end = until,
            None => ends.push(until),
        }
        parts[place].0 = free as u16;
        together.push(place);
    }
    together.into_iter().for_each(|place| parts[place].1 = ends.len() as u16);
    parts
}
