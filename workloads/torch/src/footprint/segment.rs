//! A part of a step, and its correspondence to the same part at a larger micro-batch.

use std::mem;

use crate::shim::memory_trace::Event;

/// A part of a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Segment {
    /// Bytes that were allocated when it began.
    pub(super) before: u64,
    /// The events of the part. Each operation ends in the part that it begins in.
    pub(super) events: Vec<Event>,
}

impl Segment {
    /// The memory at each moment of this segment, and at the same moment of `large`, at the larger
    /// micro-batch.
    ///
    /// A step makes the same operations at every micro-batch, but a library may take another path for more
    /// samples within an operation. On a CPU, oneDNN computes a product of bf16 matrices from some
    /// thousands of multiplications on, and uses temporary memory. Moments therefore correspond one by one
    /// if both segments allocate and release in the same order. Otherwise operations correspond, and within
    /// each of them its moments or its inner operations. For segments with different operations, only the
    /// two peaks are known.
    pub(super) fn lines(&self, large: &Segment) -> Vec<[u64; 2]> {
        self.partners(large).unwrap_or_else(|| vec![[self.peak(), large.peak()]])
    }

    /// `None` if neither moments nor operations correspond.
    fn partners(&self, large: &Segment) -> Option<Vec<[u64; 2]>> {
        if self.is_like(large) {
            return Some(self.levels().zip(large.levels()).map(|(small, large)| [small, large]).collect());
        }
        let (small, large) = (self.parts(), large.parts());
        let of_parts = |(small, large): (&Segment, &Segment)| {
            small.partners(large).unwrap_or_else(|| small.two_ways(large).into())
        };
        (small.len() > 1 && small.len() == large.len())
            .then(|| small.iter().zip(&large).flat_map(of_parts).collect())
    }

    /// The lines of an operation with two paths: the larger of its memory before and after, and the
    /// temporary memory above that. For more samples the temporary memory is taken to be that of the larger
    /// micro-batch, because libraries work through blocks of numbers and hold memory for one block. For
    /// fewer samples it is at least what makes the peak of the smaller one.
    fn two_ways(&self, large: &Segment) -> [[u64; 2]; 2] {
        let around = [self, large].map(|segment| segment.before.max(segment.end()));
        let peaks = [self.peak(), large.peak()];
        let [own_small, own_large] = [0, 1].map(|index| peaks[index] - around[index]);
        [around.map(|bytes| bytes + own_large), [peaks[0], around[1] + own_small.min(own_large)]]
    }

    pub(super) fn end(&self) -> u64 {
        self.levels().last().unwrap_or(self.before)
    }

    fn peak(&self) -> u64 {
        self.levels().max().unwrap_or(self.before)
    }

    /// Allocated bytes at the beginning and after each change.
    fn levels(&self) -> impl Iterator<Item = u64> {
        let after = self.changes().scan(self.before, |level, bytes| {
            *level = level.saturating_add_signed(bytes);
            Some(*level)
        });
        std::iter::once(self.before).chain(after)
    }

    fn changes(&self) -> impl Iterator<Item = i64> {
        self.events.iter().filter_map(|event| match event {
            Event::Bytes(bytes) => Some(*bytes),
            Event::Begin | Event::End => None,
        })
    }

    /// Whether the other one allocates and releases in the same order, with any sizes.
    fn is_like(&self, other: &Segment) -> bool {
        self.changes().map(i64::signum).eq(other.changes().map(i64::signum))
    }

    /// Cuts it at the begin and end of the outermost operations: the part before the first one, the first
    /// one, the part between it and the second, and so on. Without an operation it is one part.
    fn parts(&self) -> Vec<Segment> {
        let mut parts = Vec::new();
        let mut part = Segment { before: self.before, events: Vec::new() };
        let mut depth = 0;
        for event in &self.events {
            let outside = depth == 0;
            depth += match event {
                Event::Bytes(_) => 0,
                Event::Begin => 1,
                Event::End => -1,
            };
            if outside == (depth == 0) {
                part.events.push(*event);
            } else {
                let next = Segment { before: part.end(), events: Vec::new() };
                parts.push(mem::replace(&mut part, next));
            }
        }
        parts.push(part);
        parts
    }

    /// A segment without operations.
    #[cfg(test)]
    pub(super) fn of_bytes(before: u64, bytes: &[i64]) -> Segment {
        Segment { before, events: bytes.iter().copied().map(Event::Bytes).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Events in the order of their words: `+` or `-` and bytes, operations in parentheses.
    fn segment(words: &str) -> Segment {
        let event = |word: &str| match word {
            "(" => Event::Begin,
            ")" => Event::End,
            bytes => Event::Bytes(bytes.parse().expect("a number of bytes")),
        };
        Segment { before: 100, events: words.split_whitespace().map(event).collect() }
    }

    #[test]
    fn moments_are_partners_one_by_one_or_by_their_operations() {
        for (small, large, lines) in [
            // The same order, with other sizes.
            ("+1 +2 -1", "+2 +4 -2", &[[100, 100], [101, 102], [103, 106], [102, 104]][..]),
            // Another order without an operation, or within a single one: the peaks.
            ("+7 -7 +2", "+9 +8", &[[107, 117]]),
            // The second operation takes another path with 9 bytes of scratch memory; the rest does not.
            (
                "( +5 ) ( +3 ) -5",
                "( +10 ) ( +9 +6 -9 ) -10",
                &[
                    [100, 100],
                    [100, 100],
                    [105, 110],
                    [105, 110],
                    [117, 125],
                    [108, 116],
                    [108, 116],
                    [103, 106],
                ],
            ),
            // The path for fewer samples needs more memory.
            ("( +5 -5 )", "( +4 +1 -4 )", &[[100, 100], [104, 105], [105, 105], [100, 101]]),
            // Of two operations within a third, one takes another path.
            (
                "( ( +1 ) ( +2 ) )",
                "( ( +1 +9 -9 ) ( +4 ) )",
                &[
                    [100, 100],
                    [100, 100],
                    [110, 110],
                    [101, 101],
                    [101, 101],
                    [101, 101],
                    [103, 105],
                    [103, 105],
                    [103, 105],
                ],
            ),
        ] {
            assert_eq!(segment(small).lines(&segment(large)), lines, "{small} | {large}");
        }
    }
}
