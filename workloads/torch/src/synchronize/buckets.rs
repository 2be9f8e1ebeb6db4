//! Which gradients are moved together, and where each of them lies.

use std::ops::Range;

use tch::{TchError, Tensor};

/// The first bucket is closed when it holds so much, and each later one. Small ones begin early, large ones use the link
/// better; these are the sizes of PyTorch's DistributedDataParallel (`kDefaultFirstBucketBytes` and
/// `kDefaultBucketBytesCap` in torch/csrc/distributed/c10d/reducer.hpp).
const FIRST_BYTES: u64 = 1 << 20;
const LATER_BYTES: u64 = 25 << 20;

/// Gradients that are moved together.
pub(super) struct Bucket {
    /// Their numbers, one gradient after the other in the order of the parameters, without gaps.
    pub(super) flat: Tensor,
    /// How many of them the backward pass under way has still to add to.
    pub(super) incomplete: usize,
}

impl Bucket {
    pub(super) fn bytes(&self) -> u64 {
        (self.flat.numel() * self.flat.kind().elt_size_in_bytes()) as u64
    }
}

/// Where the gradient of one parameter lies.
pub(super) struct Place {
    /// With the parameter's shape and strides.
    pub(super) view: Tensor,
    /// The bucket's number.
    pub(super) bucket: usize,
}

/// Buckets for the gradients of `parameters`, all zeros, and a place for each of them.
///
/// A parameter is one block of memory, as the weights of convolutions are in channels-last layout, too; so its gradient
/// takes no more numbers of the bucket than it has.
///
/// # Errors
/// Out of memory.
pub(super) fn lay_out(parameters: &[Tensor]) -> Result<(Vec<Bucket>, Vec<Place>), TchError> {
    let bytes = |parameter: &Tensor| (parameter.numel() * parameter.kind().elt_size_in_bytes()) as u64;
    let ranges = in_buckets(&parameters.iter().map(bytes).collect::<Vec<_>>());
    let (mut buckets, mut places) = (Vec::new(), Vec::new());
    for (bucket, range) in ranges.into_iter().enumerate().rev() {
        let members = &parameters[range];
        let numbers = members.iter().map(|member| member.numel() as i64).sum::<i64>();
        let flat = Tensor::f_zeros([numbers], (members[0].kind(), members[0].device()))?;
        let mut offset = 0;
        for member in members {
            places.push(Place { view: flat.f_as_strided(member.size(), member.stride(), offset)?, bucket });
            offset += member.numel() as i64;
        }
        buckets.push(Bucket { flat, incomplete: 0 });
    }
    // The first parameters lie in the last bucket.
    buckets.reverse();
    Ok((buckets, places))
}

/// Which parameters, of so many bytes each, share a bucket: from the last one to the first, as a backward pass comes to
/// the last layers first.
fn in_buckets(bytes: &[u64]) -> Vec<Range<usize>> {
    let mut buckets = Vec::new();
    let (mut end, mut held) = (bytes.len(), 0);
    for (index, bytes) in bytes.iter().enumerate().rev() {
        held += bytes;
        let limit = if buckets.is_empty() { FIRST_BYTES } else { LATER_BYTES };
        if held >= limit || index == 0 {
            buckets.push(index..end);
            (end, held) = (index, 0);
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::nn::channels_last;

    #[test]
    fn buckets_are_filled_from_the_last_parameter_on() {
        const MIB: u64 = 1 << 20;
        for (bytes, buckets) in [
            (vec![4], vec![(0, 1)]),
            (vec![4, 8, 12], vec![(0, 3)]),
            // The first one is closed by what makes it a MiB, however much more that is.
            (vec![4, 8, MIB], vec![(2, 3), (0, 2)]),
            (vec![8, 9 * MIB, MIB - 4, 2], vec![(1, 4), (0, 1)]),
            (vec![4, 20 * MIB, 10 * MIB, 24 * MIB, 2 * MIB], vec![(4, 5), (2, 4), (0, 2)]),
            (vec![40 * MIB, 40 * MIB], vec![(1, 2), (0, 1)]),
        ] {
            let made: Vec<_> = in_buckets(&bytes).into_iter().map(|range| (range.start, range.end)).collect();
            assert_eq!(made, buckets, "{bytes:?}");
        }
    }

    #[test]
    fn every_number_of_a_gradient_has_one_place_with_the_strides_of_its_parameter() {
        let numbers = |shape: &[i64]| Tensor::zeros(shape, (Kind::Float, Device::Cpu));
        let convolution = channels_last(&numbers(&[4, 3, 2, 2])).unwrap();
        let transposed = numbers(&[5, 7]).transpose(0, 1);
        let parameters = [numbers(&[300, 1000]), convolution, numbers(&[]), transposed, numbers(&[512, 512])];

        let (buckets, places) = lay_out(&parameters).unwrap();
        assert_eq!(
            buckets.iter().map(Bucket::bytes).collect::<Vec<_>>(),
            [1 << 20, 4 * (300_000 + 48 + 1 + 35)]
        );
        assert_eq!(places.iter().map(|place| place.bucket).collect::<Vec<_>>(), [1, 1, 1, 1, 0]);
        for (Place { view, .. }, parameter) in places.iter().zip(&parameters) {
            assert_eq!((view.size(), view.stride()), (parameter.size(), parameter.stride()));
            // A number that lay in two places would be counted twice.
            let _sum = view.shallow_clone().f_add_scalar_(1.0).unwrap();
        }
        for Bucket { flat, .. } in &buckets {
            assert_eq!((flat.min().double_value(&[]), flat.max().double_value(&[])), (1.0, 1.0));
        }
    }
}
