//! The division of gradients into sums, and the place of each gradient.

use tch::{TchError, Tensor};

/// A gradient of at least this size is summed on its own, in place; smaller ones share buckets.
///
/// A sum on its own saves the copy, but costs the fixed time of a collective. With Gloo, between the two
/// cores of this test, that is 55 us (`profile calibrate`), and copying a MiB takes 200 us.
const LARGE_BYTES: u64 = 1 << 20;

/// The size at which the first bucket is closed, unless a large gradient precedes it; later ones are
/// larger. Small buckets begin early, large ones use the link better. These are the sizes of PyTorch's
/// DistributedDataParallel (`kDefaultFirstBucketBytes` and `kDefaultBucketBytesCap` in
/// torch/csrc/distributed/c10d/reducer.hpp).
const FIRST_BYTES: u64 = 1 << 20;
const LATER_BYTES: u64 = 25 << 20;

/// Gradients that are moved by one sum.
pub(super) struct Portion {
    pub(super) numbers: Numbers,
    /// Number of them that the current backward pass has still to add to.
    pub(super) incomplete: usize,
}

/// The place of a portion's numbers.
pub(super) enum Numbers {
    /// In a buffer of this module, one small gradient after the other without gaps.
    Bucket(Tensor),
    /// In the memory that autograd uses for the gradient of this parameter.
    Left { parameter: usize },
}

/// The place of one parameter's gradient.
pub(super) struct Place {
    /// The portion's number.
    pub(super) portion: usize,
    /// Its part of a bucket, with the parameter's shape and strides. `None` if it stays in autograd's
    /// memory.
    pub(super) view: Option<Tensor>,
}

/// The portions of the gradients of `parameters` in the order of their sums, zeroed buckets, and a place
/// for each gradient.
///
/// A parameter is one block of memory, even weights of convolutions in channels-last layout, so that its
/// gradient takes no more numbers of a bucket than the parameter has.
///
/// # Errors
/// Out of memory.
pub(super) fn lay_out(parameters: &[Tensor]) -> Result<(Vec<Portion>, Vec<Place>), TchError> {
    let bytes: Vec<u64> = parameters.iter().map(bytes_of).collect();
    let (mut portions, mut places) = (Vec::new(), Vec::new());
    for members in divide(&bytes) {
        let portion = portions.len();
        let numbers = match members[..] {
            [parameter] if bytes[parameter] >= LARGE_BYTES => {
                places.push((parameter, Place { portion, view: None }));
                Numbers::Left { parameter }
            }
            _ => {
                let numbers = members.iter().map(|member| parameters[*member].numel() as i64).sum::<i64>();
                let like = &parameters[members[0]];
                let bucket = Tensor::f_zeros([numbers], (like.f_kind()?, like.device()))?;
                let mut offset = 0;
                for &member in &members {
                    let parameter = &parameters[member];
                    let view = bucket.f_as_strided(parameter.size(), parameter.stride(), offset)?;
                    places.push((member, Place { portion, view: Some(view) }));
                    offset += parameter.numel() as i64;
                }
                Numbers::Bucket(bucket)
            }
        };
        portions.push(Portion { numbers, incomplete: 0 });
    }
    places.sort_by_key(|(parameter, _)| *parameter);
    Ok((portions, places.into_iter().map(|(_, place)| place).collect()))
}

/// Divides parameters, given the sizes of their gradients, into portions: from the last one to the first,
/// because a backward pass reaches the last layers first. Only sizes decide, so that all ranks have the
/// same portions in the same order.
fn divide(bytes: &[u64]) -> Vec<Vec<usize>> {
    let (mut portions, mut bucket, mut held) = (Vec::new(), Vec::new(), 0);
    for (index, &bytes) in bytes.iter().enumerate().rev() {
        if bytes >= LARGE_BYTES {
            portions.push(vec![index]);
            continue;
        }
        bucket.push(index);
        held += bytes;
        let limit = if portions.is_empty() { FIRST_BYTES } else { LATER_BYTES };
        if held >= limit {
            portions.push(std::mem::take(&mut bucket));
            held = 0;
        }
    }
    if !bucket.is_empty() {
        portions.push(bucket);
    }
    portions
}

fn bytes_of(parameter: &Tensor) -> u64 {
    (parameter.numel() * parameter.kind().elt_size_in_bytes()) as u64
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind};

    use super::*;
    use crate::nn::channels_last;

    #[test]
    fn large_gradients_go_alone_and_buckets_are_filled_from_the_last_parameter_on() {
        const MIB: u64 = 1 << 20;
        let (first, second) = ((2..28).rev().collect(), vec![1, 0]);
        for (bytes, portions) in [
            (vec![], vec![]),
            (vec![4], vec![vec![0]]),
            (vec![4, 8, 12], vec![vec![2, 1, 0]]),
            (vec![4, 8, MIB], vec![vec![2], vec![1, 0]]),
            (vec![40 * MIB, 4, 8], vec![vec![0], vec![2, 1]]),
            (vec![40 * MIB, MIB], vec![vec![1], vec![0]]),
            // The gradient that fills the first bucket to a MiB closes it, even if it is larger.
            (vec![4, MIB - 1, 2], vec![vec![2, 1], vec![0]]),
            (vec![4, MIB - 1, MIB - 1], vec![vec![2, 1], vec![0]]),
            // If a large gradient begins early, buckets need not.
            (vec![8, 9 * MIB, MIB - 4, 2], vec![vec![1], vec![3, 2, 0]]),
            (vec![4, MIB, 8, 20 * MIB, 12], vec![vec![3], vec![1], vec![4, 2, 0]]),
            // Later buckets have a capacity of 25 MiB: 26 gradients that are a byte smaller than one.
            (vec![MIB - 1; 30], vec![vec![29, 28], first, second]),
        ] {
            assert_eq!(divide(&bytes), portions, "{bytes:?}");
        }
    }

    #[test]
    fn every_number_of_a_small_gradient_has_one_place_with_the_strides_of_its_parameter() {
        let numbers = |shape: &[i64]| Tensor::zeros(shape, (Kind::Float, Device::Cpu));
        let convolution = channels_last(&numbers(&[4, 3, 2, 2])).unwrap();
        let transposed = numbers(&[5, 7]).transpose(0, 1);
        let parameters = [numbers(&[200, 1000]), convolution, numbers(&[]), transposed, numbers(&[512, 512])];

        let (portions, places) = lay_out(&parameters).unwrap();
        let small = 200_000 + 48 + 1 + 35;
        let Numbers::Bucket(bucket) = &portions[1].numbers else { panic!("they share a bucket") };
        assert_eq!((portions.len(), bucket.numel()), (2, small));
        assert_eq!(places.iter().map(|place| place.portion).collect::<Vec<_>>(), [1, 1, 1, 1, 0]);
        assert!(places[4].view.is_none() && matches!(portions[0].numbers, Numbers::Left { parameter: 4 }));
        for (place, parameter) in places.iter().zip(&parameters).take(4) {
            let mut view = place.view.as_ref().unwrap().shallow_clone();
            assert_eq!((view.size(), view.stride()), (parameter.size(), parameter.stride()));
            // Overlapping places would be counted twice.
            let _sum = view.f_add_scalar_(1.0).unwrap();
        }
        assert_eq!((bucket.min().double_value(&[]), bucket.max().double_value(&[])), (1.0, 1.0));
    }
}
