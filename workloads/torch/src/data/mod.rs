//! Sources of samples: a synthetic stream by default, files if the user names a folder.

mod cifar10;
mod crop;
mod decode;
mod image_folder;
mod in_order;
mod loaders;
mod order;
mod pixels;
mod pool;
mod ratings;
mod synthetic;
mod tokens;
mod widened;

use std::path::{Path, PathBuf};

use schema::catalog::Samples;
use tch::{Device, TchError};

pub use self::decode::DecodeError;
use self::{
    cifar10::{Cifar10, Use},
    image_folder::ImageFolder,
    ratings::Ratings,
    tokens::TokenFile,
    widened::Widened,
};
use crate::workload::{DataStream, Workload};
pub(crate) use synthetic::normal;

/// Opens the samples of `model`, in fp64 if it computes in that: its own ones if it acts in an environment, else
/// those of [`open`].
///
/// # Errors
/// See [`open`].
pub fn of(
    model: &dyn Workload,
    samples: Samples,
    files: Option<Files<'_>>,
    seed: u64,
    device: Device,
) -> anyhow::Result<Box<dyn DataStream>> {
    let experience = if files.is_none() { model.experience(seed, device)? } else { None };
    let stream = experience.map_or_else(|| open(samples, files, seed, device), Ok)?;
    Ok(if model.parameters().is_exact() { Box::new(Widened(stream)) } else { stream })
}

/// The folder of real samples, and the number of loaders.
#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    pub folder: &'a Path,
    /// Threads that prepare batches; with 0 the training thread makes them when they are needed.
    pub loaders: u32,
}

/// Opens samples: those of `files`, or the synthetic ones of `seed`.
///
/// Both are endless and depend only on the seed, the files and the number of samples taken before.
///
/// # Errors
/// A [`DataError`], which the caller finds with `downcast_ref`.
pub fn open(
    samples: Samples,
    files: Option<Files>,
    seed: u64,
    device: Device,
) -> anyhow::Result<Box<dyn DataStream>> {
    let Some(Files { folder, loaders }) = files else {
        return Ok(Box::new(synthetic::stream(samples, seed, device)?));
    };
    Ok(match samples {
        Samples::LabelledImages { channels, side, classes } if holds_cifar10(folder) => {
            let purpose = Use::Classify { image: side, channels, labels: classes };
            Box::new(Cifar10::open(folder, purpose, seed)?.stream(purpose, loaders, device)?)
        }
        Samples::LabelledImages { channels, side, classes } => {
            let images = ImageFolder::open(folder, channels, side, classes, seed)?;
            Box::new(images.stream(loaders, device)?)
        }
        Samples::NoiseAndImages { latent, channels, side } => {
            let purpose = Use::Imitate { image: side, channels, latent };
            Box::new(Cifar10::open(folder, purpose, seed)?.stream(purpose, loaders, device)?)
        }
        Samples::Tokens { vocabulary, context } => {
            Box::new(TokenFile::open(folder, vocabulary, context, seed)?.stream(loaders, device))
        }
        Samples::Ratings { users, items } => {
            Box::new(Ratings::open(folder, users, items, seed)?.stream(loaders, device))
        }
        Samples::Transitions => {
            return Err(DataError::Unsupported(
                "the model makes its samples by acting in its environment and reads none; leave out the data folder"
                    .into(),
            )
            .into());
        }
        _ => {
            return Err(DataError::Unsupported(format!(
                "there is no reader for files of {}s; leave out the data folder to train on synthetic ones",
                samples.word()
            ))
            .into());
        }
    })
}

/// One file is enough, so that an incomplete data set is recognised and the missing file is named.
fn holds_cifar10(folder: &Path) -> bool {
    cifar10::FILES.iter().any(|name| folder.join(name).is_file())
}

/// The reason why there are no samples.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// The model cannot use files.
    #[error("{0}")]
    Unsupported(String),
    #[error("cannot read {file}")]
    Unreadable { file: PathBuf, source: std::io::Error },
    /// The image is damaged or of an unknown format.
    #[error("cannot decode {file}")]
    Undecodable { file: PathBuf, source: DecodeError },
    /// The files are not those of a known data set.
    #[error("{file}: {problem}")]
    Layout { file: PathBuf, problem: String },
    /// The content of a file does not fit its name.
    #[error("{file}: byte {offset}: {problem}")]
    Malformed { file: PathBuf, offset: u64, problem: String },
    #[error(transparent)]
    Torch(#[from] TchError),
}

#[cfg(test)]
mod tests;
