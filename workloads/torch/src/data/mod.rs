//! Where samples come from: a synthetic stream by default, files where the user names a folder.

mod cifar10;
mod pool;
mod synthetic;
mod tokens;

use std::path::{Path, PathBuf};

use schema::catalog::Samples;
use tch::{Device, TchError};

use self::{
    cifar10::{Cifar10, Use},
    tokens::TokenFile,
};
use crate::workload::{DataStream, Workload};
pub(crate) use synthetic::normal;

/// Opens what `model` learns from: what it makes for itself where it acts, else [`open`]'s.
///
/// # Errors
/// As [`open`]'s.
pub fn of(
    model: &dyn Workload,
    samples: Samples,
    folder: Option<&Path>,
    seed: u64,
    device: Device,
) -> anyhow::Result<Box<dyn DataStream>> {
    if folder.is_none()
        && let Some(experience) = model.experience(seed, device)?
    {
        return Ok(experience);
    }
    open(samples, folder, seed, device)
}

/// Opens samples: those in `folder`, or the synthetic ones of `seed`.
///
/// Both are endless and depend on nothing but the seed, the files and how many samples were taken before.
///
/// # Errors
/// A [`DataError`], for the caller to look for with `downcast_ref`.
pub fn open(
    samples: Samples,
    folder: Option<&Path>,
    seed: u64,
    device: Device,
) -> anyhow::Result<Box<dyn DataStream>> {
    let Some(folder) = folder else { return Ok(Box::new(synthetic::stream(samples, seed, device)?)) };
    match samples {
        Samples::LabelledImages { channels: _, side, classes } => {
            let purpose = Use::Classify { image: side, labels: i64::from(classes) };
            Ok(Box::new(Cifar10::open(folder, purpose, seed, device)?))
        }
        Samples::NoiseAndImages { latent, channels, side } => {
            let purpose = Use::Imitate { image: side, channels, latent: i64::from(latent) };
            Ok(Box::new(Cifar10::open(folder, purpose, seed, device)?))
        }
        Samples::Tokens { vocabulary, context } => {
            Ok(Box::new(TokenFile::open(folder, vocabulary, context, seed, device)?))
        }
        Samples::Transitions => Err(DataError::Unsupported(
            "the model makes its samples by acting in its environment and reads none; leave out the data folder"
                .into(),
        )
        .into()),
        _ => Err(DataError::Unsupported(format!(
            "there is no reader for files of {}s; leave out the data folder to train on synthetic ones",
            samples.word()
        ))
        .into()),
    }
}

/// Why there are no samples.
#[derive(Debug, thiserror::Error)]
pub enum DataError {
    /// Files cannot be used for this model at all.
    #[error("{0}")]
    Unsupported(String),
    #[error("cannot read {file}")]
    Unreadable { file: PathBuf, source: std::io::Error },
    /// The file does not hold what its name promises.
    #[error("{file}: byte {offset}: {problem}")]
    Malformed { file: PathBuf, offset: u64, problem: String },
    #[error(transparent)]
    Torch(#[from] TchError),
}

#[cfg(test)]
mod tests {
    use schema::catalog::Catalog;

    use super::*;

    #[test]
    fn a_model_without_a_reader_says_so() {
        let catalog = Catalog::embedded();
        let samples = catalog.get("neumf").unwrap().model.samples();
        let error = open(samples, Some(Path::new("folder")), 0, Device::Cpu).err().unwrap();
        assert!(matches!(error.downcast_ref(), Some(DataError::Unsupported(_))));
        assert_eq!(
            error.to_string(),
            "there is no reader for files of ratings; leave out the data folder to train on synthetic ones"
        );
    }

    #[test]
    fn a_model_that_acts_reads_no_files() {
        let error = open(Samples::Transitions, Some(Path::new("folder")), 0, Device::Cpu).err().unwrap();
        assert!(matches!(error.downcast_ref(), Some(DataError::Unsupported(_))));
        assert_eq!(
            error.to_string(),
            "the model makes its samples by acting in its environment and reads none; leave out the data folder"
        );
    }
}
