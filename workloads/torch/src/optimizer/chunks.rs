//! Cuts the parameters of an update into chunks that are copied down, stepped and copied up one after
//! another.

/// A part of a parameter, in the order of its memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Index of the parameter among those of the update.
    pub(super) parameter: usize,
    /// Its first number.
    pub(super) first: i64,
    /// Number of numbers.
    pub(super) count: i64,
}

/// Parameters are cut at multiples of this number, which is at least a cache line. The fused kernels
/// process whole lines and then the rest of a parameter one by one, with possibly different rounding. This
/// alignment makes the result for a cut parameter equal to the bit to that for a whole one.
const LINE: i64 = 16;

/// All numbers of parameters of these sizes, in order, in chunks of at most `chunk` numbers.
///
/// A chunk without space for a line of the next parameter stays smaller. `chunk` is at least a line.
pub(super) fn cut(numbers: &[i64], chunk: i64) -> Vec<Vec<Piece>> {
    assert!(chunk >= LINE, "a chunk has room for a line");
    let mut chunks = Vec::new();
    let (mut pieces, mut room) = (Vec::new(), chunk);
    for (parameter, &numbers) in numbers.iter().enumerate() {
        let mut first = 0;
        while first < numbers {
            let left = numbers - first;
            let count = if left <= room { left } else { room / LINE * LINE };
            if count > 0 {
                pieces.push(Piece { parameter, first, count });
            }
            first += count;
            room -= count;
            if first < numbers {
                chunks.push(std::mem::take(&mut pieces));
                room = chunk;
            }
        }
    }
    if !pieces.is_empty() {
        chunks.push(pieces);
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut_into(numbers: &[i64], chunk: i64) -> Vec<Vec<(usize, i64, i64)>> {
        let plain = |piece: &Piece| (piece.parameter, piece.first, piece.count);
        cut(numbers, chunk).iter().map(|pieces| pieces.iter().map(plain).collect()).collect()
    }

    #[test]
    fn chunks_are_filled_in_order_and_parameters_cut_between_lines() {
        for (numbers, chunk, expected) in [
            (&[][..], 16, vec![]),
            (&[1], 16, vec![vec![(0, 0, 1)]]),
            (&[16], 16, vec![vec![(0, 0, 16)]]),
            (&[17], 16, vec![vec![(0, 0, 16)], vec![(0, 16, 1)]]),
            (&[8, 8, 1], 16, vec![vec![(0, 0, 8), (1, 0, 8)], vec![(2, 0, 1)]]),
            (&[3, 40], 32, vec![vec![(0, 0, 3), (1, 0, 16)], vec![(1, 16, 24)]]),
            // The space for ten numbers is less than a line.
            (&[22, 40, 5], 32, vec![vec![(0, 0, 22)], vec![(1, 0, 32)], vec![(1, 32, 8), (2, 0, 5)]]),
        ] {
            assert_eq!(cut_into(numbers, chunk), expected, "{numbers:?} by {chunk}");
        }
    }

    #[test]
    fn every_number_is_in_one_piece_and_no_chunk_is_too_large_or_empty() {
        let numbers: Vec<i64> = (0..60).map(|index| (index * index * 37) % 501).collect();
        for chunk in [16, 31, 64, 100, 1000, 100_000] {
            let chunks = cut(&numbers, chunk);
            let sizes = chunks.iter().map(|pieces| pieces.iter().map(|piece| piece.count).sum::<i64>());
            assert!(sizes.into_iter().all(|size| (1..=chunk).contains(&size)));
            let mut seen = vec![0; numbers.len()];
            for piece in chunks.iter().flatten() {
                assert_eq!(piece.first, seen[piece.parameter], "pieces follow one another");
                assert_eq!(piece.first % LINE, 0);
                seen[piece.parameter] += piece.count;
            }
            assert_eq!(seen, numbers);
        }
    }
}
