//! Parts of tensors as boxes: any part is a few of them, and two boxes overlap in a box.

use std::{iter::once, ops::Range};

use schema::checkpoint::{Region, StoredTensor};
use tch::{TchError, Tensor};

/// A box in a tensor: a range along each dimension.
pub(super) type Ranges = Vec<Range<usize>>;

/// The boxes of a part, which do not overlap. They are in the order in which the part holds them.
///
/// # Errors
/// The part is not one of a tensor of this shape.
pub(super) fn boxes(stored: &StoredTensor) -> Result<Vec<Ranges>, String> {
    let StoredTensor { shape, region, .. } = stored;
    let whole: Ranges = shape.iter().map(|size| 0..*size).collect();
    let outside = || format!("{region:?} is no part of a tensor of shape {shape:?}");
    match region {
        None => Ok(vec![whole]),
        Some(Region::Slice { dim, ranges }) => {
            let size = *shape.get(*dim).ok_or_else(outside)?;
            let mut end = 0;
            for range in ranges {
                if range.start < end || range.end < range.start || range.end > size {
                    return Err(outside());
                }
                end = range.end;
            }
            let of_range = |range: &Range<usize>| {
                let mut part = whole.clone();
                part[*dim] = range.clone();
                part
            };
            Ok(ranges.iter().map(of_range).collect())
        }
        Some(Region::Numbers { first, count, order }) => {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            let end = first.checked_add(*count);
            if !sorted.into_iter().eq(0..shape.len()) || end.is_none_or(|end| end > volume(&whole)) {
                return Err(outside());
            }
            let sizes: Vec<usize> = order.iter().map(|dim| shape[*dim]).collect();
            let mut found = Vec::new();
            of_numbers(&sizes, *first..first + count, &mut Vec::new(), &mut found);
            let logical = |in_order: Ranges| {
                let mut part = whole.clone();
                order.iter().zip(in_order).for_each(|(dim, range)| part[*dim] = range);
                part
            };
            Ok(found.into_iter().map(logical).collect())
        }
    }
}

/// Adds the boxes of consecutive numbers of a tensor of these `sizes`, of which the last dimension is the fastest. `before` are
/// the ranges of dimensions before these.
fn of_numbers(sizes: &[usize], numbers: Range<usize>, before: &mut Ranges, found: &mut Vec<Ranges>) {
    if numbers.is_empty() {
        return;
    }
    let Some((_, rest)) = sizes.split_first() else {
        found.push(before.clone());
        return;
    };
    let row: usize = rest.iter().product();
    let (mut start, end) = (numbers.start / row, numbers.end / row);
    let (into_first, into_last) = (numbers.start % row, numbers.end % row);
    let part_of_row = |index: usize, numbers, before: &mut Ranges, found: &mut Vec<Ranges>| {
        before.push(index..index + 1);
        of_numbers(rest, numbers, before, found);
        before.pop();
    };
    if start == end {
        part_of_row(start, into_first..into_last, before, found);
        return;
    }
    if into_first > 0 {
        part_of_row(start, into_first..row, before, found);
        start += 1;
    }
    if start < end {
        let whole = rest.iter().map(|size| 0..*size);
        found.push(before.iter().cloned().chain(once(start..end)).chain(whole).collect());
    }
    if into_last > 0 {
        part_of_row(end, 0..into_last, before, found);
    }
}

/// Number of numbers in a box.
pub(super) fn volume(part: &[Range<usize>]) -> usize {
    part.iter().map(Range::len).product()
}

/// The box in which two boxes of a tensor overlap, if they do.
pub(super) fn overlap(one: &[Range<usize>], other: &[Range<usize>]) -> Option<Ranges> {
    let common = |(one, other): (&Range<usize>, &Range<usize>)| {
        let range = one.start.max(other.start)..one.end.min(other.end);
        (!range.is_empty()).then_some(range)
    };
    one.iter().zip(other).map(common).collect()
}

/// The shape of the tensor that holds a part.
///
/// # Errors
/// See [`boxes`].
pub(super) fn shape(stored: &StoredTensor) -> Result<Vec<usize>, String> {
    let parts = boxes(stored)?;
    Ok(match &stored.region {
        None => stored.shape.clone(),
        Some(Region::Slice { dim, .. }) => {
            let mut shape = stored.shape.clone();
            shape[*dim] = parts.iter().map(|part| part[*dim].len()).sum();
            shape
        }
        Some(Region::Numbers { count, .. }) => vec![*count],
    })
}

/// The boxes of a part that `tensor` holds, each with the view of its numbers, which has the dimensions of the whole tensor.
///
/// # Errors
/// None is known; libtorch reserves the right.
///
/// # Panics
/// If the part is not one of a tensor of its shape.
pub(super) fn views(stored: &StoredTensor, tensor: &Tensor) -> Result<Vec<(Ranges, Tensor)>, TchError> {
    let mut place = 0;
    let mut view = |part: &Ranges| match &stored.region {
        None => Ok(tensor.shallow_clone()),
        Some(Region::Slice { dim, .. }) => {
            let length = part[*dim].len() as i64;
            place += length;
            tensor.f_narrow(*dim as i64, place - length, length)
        }
        Some(Region::Numbers { order, .. }) => {
            let count = volume(part) as i64;
            place += count;
            let sizes: Vec<i64> = order.iter().map(|dim| part[*dim].len() as i64).collect();
            let place_of =
                |dim| order.iter().position(|other| *other == dim).expect("it has every one") as i64;
            let logical: Vec<i64> = (0..order.len()).map(place_of).collect();
            tensor.f_narrow(0, place - count, count)?.f_view(&sizes[..])?.f_permute(&logical[..])
        }
    };
    let parts = boxes(stored).expect("the part was checked");
    parts.into_iter().map(|part| view(&part).map(|view| (part, view))).collect()
}

/// The part `inner` of the view of box `outer`.
///
/// # Errors
/// None is known; libtorch reserves the right.
pub(super) fn narrowed(
    view: &Tensor,
    outer: &[Range<usize>],
    inner: &[Range<usize>],
) -> Result<Tensor, TchError> {
    let mut narrow = view.shallow_clone();
    for (dim, (outer, inner)) in outer.iter().zip(inner).enumerate() {
        narrow = narrow.f_narrow(dim as i64, (inner.start - outer.start) as i64, inner.len() as i64)?;
    }
    Ok(narrow)
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;

    fn stored(shape: &[usize], region: Option<Region>) -> StoredTensor {
        StoredTensor { name: "t".into(), shape: shape.to_vec(), region }
    }

    #[test]
    fn consecutive_numbers_are_a_few_boxes_in_their_order() {
        let boxes_of = |first, count| {
            let region = Region::Numbers { first, count, order: vec![0, 1] };
            boxes(&stored(&[4, 5], Some(region))).unwrap()
        };
        assert_eq!(boxes_of(0, 20), [[0..4, 0..5]]);
        assert_eq!(boxes_of(5, 10), [[1..3, 0..5]]);
        assert_eq!(boxes_of(6, 3), [[1..2, 1..4]]);
        assert_eq!(boxes_of(3, 14), [[0..1, 3..5], [1..3, 0..5], [3..4, 0..2]]);
        assert_eq!(boxes_of(4, 2), [[0..1, 4..5], [1..2, 0..1]]);
        assert!(boxes_of(20, 0).is_empty());
        assert_eq!(boxes(&stored(&[], None)).unwrap(), [Ranges::new()], "a scalar is one number");
    }

    #[test]
    fn views_of_any_part_hold_its_numbers_at_their_places() {
        let shape = [3, 4, 2, 5];
        let whole = Tensor::arange(120, (Kind::Int64, Device::Cpu)).view([3, 4, 2, 5]);
        let order = vec![0, 2, 3, 1];
        let in_order = whole.permute([0, 2, 3, 1]).contiguous().view([120]);
        let of_slice = Tensor::cat(&[whole.narrow(1, 0, 1), whole.narrow(1, 2, 2)], 1);
        let mut cases = vec![
            (None, whole.shallow_clone()),
            (Some(Region::Slice { dim: 1, ranges: vec![0..1, 2..4] }), of_slice),
        ];
        for (first, count) in [(0, 120), (7, 90), (41, 1), (38, 4), (119, 1), (13, 0)] {
            let numbers = in_order.narrow(0, first as i64, count as i64);
            cases.push((Some(Region::Numbers { first, count, order: order.clone() }), numbers));
        }
        for (region, held) in cases {
            let stored = stored(&shape, region);
            let mut numbers = 0;
            for (part, view) in views(&stored, &held).unwrap() {
                let everything: Vec<_> = shape.iter().map(|size| 0..*size).collect();
                assert_eq!(view, narrowed(&whole, &everything, &part).unwrap(), "{stored:?} {part:?}");
                numbers += volume(&part);
            }
            assert_eq!(numbers, held.numel(), "{stored:?}");
            let sizes: Vec<usize> = held.size().into_iter().map(|size| size as usize).collect();
            assert_eq!(super::shape(&stored).unwrap(), sizes);
        }
    }

    #[test]
    fn a_part_outside_its_tensor_is_refused() {
        for region in [
            Region::Slice { dim: 2, ranges: vec![] },
            Region::Slice { dim: 0, ranges: vec![0..1, 1..5] },
            Region::Slice { dim: 0, ranges: vec![0..2, 1..3] },
            Region::Numbers { first: 19, count: 2, order: vec![0, 1] },
            Region::Numbers { first: usize::MAX, count: 2, order: vec![0, 1] },
            Region::Numbers { first: 0, count: 2, order: vec![0, 0] },
            Region::Numbers { first: 0, count: 2, order: vec![0] },
        ] {
            let error = boxes(&stored(&[4, 5], Some(region))).unwrap_err();
            assert!(error.contains("no part of a tensor of shape [4, 5]"), "{error}");
        }
    }

    #[test]
    fn boxes_overlap_in_a_box() {
        assert_eq!(overlap(&[0..3, 2..5], &[1..9, 0..3]), Some(vec![1..3, 2..3]));
        assert_eq!(overlap(&[0..3, 2..5], &[1..9, 5..6]), None);
        assert_eq!(overlap(&[], &[]), Some(Ranges::new()));
    }
}
