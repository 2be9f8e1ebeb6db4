//! Items that users chose.

use std::iter::repeat_with;

use fastrand::Rng;
use tch::Tensor;

use super::{Pairs, normal};

/// Implicit feedback with one chosen item for every four random ones, as in the paper of NeuMF. Of some
/// random items, a user chooses the one whose hidden taste is nearest to that of the user.
///
/// Returns pairs (user, item), `[samples, 2]`, and 1 for chosen or 0, `[samples]`.
pub(super) fn implicit(rng: &mut Rng, users: u32, items: u32) -> Pairs {
    const SAMPLES: usize = 1 << 16;
    const PER_CHOICE: usize = 5;
    const CANDIDATES: usize = 16;
    let mut tastes = |count: u32| -> Vec<[f32; 2]> {
        repeat_with(|| [normal(rng), normal(rng)]).take(count as usize).collect()
    };
    let (of_users, of_items) = (tastes(users), tastes(items));

    let (mut pairs, mut chosen) = (Vec::with_capacity(2 * SAMPLES), Vec::with_capacity(SAMPLES));
    for _ in 0..SAMPLES {
        let user = rng.u32(..users);
        let is_choice = rng.usize(..PER_CHOICE) == 0;
        let liking = |item: &u32| {
            let (a, b) = (of_users[user as usize], of_items[*item as usize]);
            a[0] * b[0] + a[1] * b[1]
        };
        let item = if is_choice {
            let candidates: Vec<u32> = repeat_with(|| rng.u32(..items)).take(CANDIDATES).collect();
            candidates
                .into_iter()
                .max_by(|a, b| liking(a).total_cmp(&liking(b)))
                .expect("there are candidates")
        } else {
            rng.u32(..items)
        };
        pairs.extend([i64::from(user), i64::from(item)]);
        chosen.push(f32::from(u8::from(is_choice)));
    }
    Ok((Tensor::f_from_slice(&pairs)?.f_reshape([-1, 2])?, Tensor::f_from_slice(&chosen)?))
}

#[cfg(test)]
mod tests {
    use super::super::tests::samples;

    #[test]
    fn one_rating_in_five_is_a_choice() {
        let batch = samples("neumf", 1);
        let chosen = batch.targets.mean(None).double_value(&[]);
        assert!((0.12..0.28).contains(&chosen), "{chosen}");
        let most = batch.inputs.amax([0], false);
        assert!(most.int64_value(&[0]) < 6040 && most.int64_value(&[1]) < 3706);
    }
}
