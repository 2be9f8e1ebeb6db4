//! Ratings as MovieLens publishes them, seen as implicit feedback: `ratings.dat`, lines of `user::item::rating::time`, or
//! `ratings.csv`, lines of `user,item,rating,time` under a header.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use fastrand::Rng;
use tch::{Device, Tensor};

use super::{
    DataError,
    in_order::InOrder,
    loaders::{Loaded, Reader},
    order::{Epochs, rng_at},
};
use crate::{shim::transfer::to_device, workload::Batch};

/// Each file and the separator of its fields.
const FILES: [(&str, &str); 2] = [("ratings.dat", "::"), ("ratings.csv", ",")];
/// Number of unrated items per rated item and user, which each epoch draws again (He et al., WWW 2017).
const NEGATIVES: u32 = 4;

/// Pairs of a user and a rated item, regardless of the rating, in an order that each epoch shuffles again.
/// All ratings are for training.
pub(super) struct Ratings {
    /// User and item, both numbered from 0 in the order of their ids; sorted, each pair once.
    pairs: Vec<[u32; 2]>,
    items: u32,
    /// Over pairs and negatives, [`NEGATIVES`] + 1 of them for each pair.
    epochs: Epochs,
    negatives_seed: u64,
}

#[derive(Default)]
pub(super) struct HostBatch {
    /// User, item, user, item and so on.
    pairs: Vec<i64>,
    chosen: Vec<f32>,
}

impl Ratings {
    /// Reads the file whole.
    ///
    /// # Errors
    /// `Unsupported` if the model has fewer users or items; a missing file; a line that is no rating; a user who
    /// rated every item.
    pub(super) fn open(folder: &Path, users: u32, items: u32, seed: u64) -> Result<Self, DataError> {
        let (file, separator) = find(folder)?;
        let bytes = fs::read(&file).map_err(|source| DataError::Unreadable { file: file.clone(), source })?;
        let mut pairs = parse(&file, &bytes, separator)?;
        drop(bytes);
        let of_file = |index| number_by_rank(&mut pairs, index);
        let [users_found, items_found] = [0, 1].map(of_file);
        if users_found > users as usize || items_found > items as usize {
            return Err(DataError::Unsupported(format!(
                "{} has {users_found} users and {items_found} items; the model knows {users} and {items}",
                file.display()
            )));
        }
        let mut pairs: Vec<[u32; 2]> = pairs.into_iter().map(|pair| pair.map(|rank| rank as u32)).collect();
        pairs.sort_unstable();
        pairs.dedup();
        if pairs.chunk_by(|a, b| a[0] == b[0]).any(|of_user| of_user.len() == items_found) {
            let problem =
                format!("a user rated all {items_found} items, which leaves none that he did not choose");
            return Err(DataError::Layout { file, problem });
        }
        let Some(samples) =
            u32::try_from(pairs.len()).ok().and_then(|pairs| pairs.checked_mul(NEGATIVES + 1))
        else {
            let problem = "it holds more ratings than can be numbered in 32 bits with their negatives".into();
            return Err(DataError::Layout { file, problem });
        };
        let mut seeds = Rng::with_seed(seed);
        let epochs = Epochs::new(samples, seeds.u64(..));
        Ok(Self { pairs, items: items_found as u32, epochs, negatives_seed: seeds.u64(..) })
    }

    pub(super) fn stream(self, loaders: u32, device: Device) -> InOrder<Loaded<Self>> {
        let transfer = move |HostBatch { pairs, chosen }| {
            Ok(Batch {
                inputs: to_device(Tensor::f_from_slice(&pairs)?.f_reshape([-1, 2])?, device)?,
                targets: to_device(Tensor::f_from_slice(&chosen)?, device)?,
            })
        };
        InOrder::new(Loaded::new(self, loaders, transfer))
    }

    /// A random item that `user` did not rate, which must exist.
    fn negative(&self, user: u32, rng: &mut Rng) -> u32 {
        loop {
            let item = rng.u32(..self.items);
            if self.pairs.binary_search(&[user, item]).is_err() {
                return item;
            }
        }
    }
}

impl Reader for Ratings {
    type Batch = HostBatch;

    fn read(&self, number: u64, batch: &mut HostBatch) -> Result<(), DataError> {
        let sample = self.epochs.sample(number);
        let per_pair = NEGATIVES as usize + 1;
        let [user, rated] = self.pairs[sample / per_pair];
        let is_chosen = sample.is_multiple_of(per_pair);
        let item =
            if is_chosen { rated } else { self.negative(user, &mut rng_at(self.negatives_seed, number)) };
        batch.pairs.extend([i64::from(user), i64::from(item)]);
        batch.chosen.push(f32::from(u8::from(is_chosen)));
        Ok(())
    }
}

fn find(folder: &Path) -> Result<(PathBuf, &'static str), DataError> {
    let [dat, csv] = FILES.map(|(name, separator)| (folder.join(name), separator));
    Ok(if csv.0.is_file() && !dat.0.is_file() { csv } else { dat })
}

/// The ids of user and item of each line.
fn parse(file: &Path, bytes: &[u8], separator: &str) -> Result<Vec<[u64; 2]>, DataError> {
    let malformed = |offset: usize, problem: String| DataError::Malformed {
        file: file.to_owned(),
        offset: offset as u64,
        problem,
    };
    let mut pairs = Vec::new();
    let mut offset = 0;
    for (index, line) in bytes.split_inclusive(|&byte| byte == b'\n').enumerate() {
        let start = offset;
        offset += line.len();
        let rating = std::str::from_utf8(line).ok().and_then(|text| rating(text.trim_end(), separator));
        // Only one of the two formats begins with a header of column names.
        let is_header = index == 0 && separator == ",";
        match (rating, is_header) {
            (Some(pair), false) => pairs.push(pair),
            (None, true) => {}
            (Some(_), true) => {
                return Err(malformed(start, "the first line is a rating; a header belongs there".into()));
            }
            (None, false) => {
                let fields = ["user", "item", "rating", "time"].join(separator);
                return Err(malformed(start, format!("line {} is no rating; it reads {fields}", index + 1)));
            }
        }
    }
    if pairs.is_empty() {
        return Err(malformed(bytes.len(), "the file holds no rating".into()));
    }
    Ok(pairs)
}

fn rating(line: &str, separator: &str) -> Option<[u64; 2]> {
    let fields: Vec<&str> = line.split(separator).collect();
    let [user, item, rating, time] = fields[..] else { return None };
    let _: (f64, u64) = (rating.parse().ok()?, time.parse().ok()?);
    Some([user.parse().ok()?, item.parse().ok()?])
}

/// Replaces the ids of one column by their ranks, and returns the number of distinct ids.
fn number_by_rank(pairs: &mut [[u64; 2]], column: usize) -> usize {
    let distinct: BTreeSet<u64> = pairs.iter().map(|pair| pair[column]).collect();
    let ids: Vec<u64> = distinct.into_iter().collect();
    for pair in pairs {
        pair[column] = ids.binary_search(&pair[column]).expect("every id of the column is among them") as u64;
    }
    ids.len()
}
