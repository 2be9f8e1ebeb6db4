//! A checkpoint is a directory with everything that a job needs to continue in another launch, under any
//! plan.
//!
//! It holds `manifest.toml` and the files that the manifest names, with their hashes. The worker decides
//! what is in these files. The first line of the manifest is the hash of its other lines, so that every
//! change of a checkpoint is detected. A checkpoint is written beside its place, with the suffix
//! `.unfinished`, and renamed when all of it is on disk. Under its final name it is therefore always
//! complete.

mod draft;
mod identity;
#[cfg(test)]
mod tests;

use std::{
    fs,
    ops::Range,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

pub use self::draft::Draft;
use crate::{
    catalog::{Model, Optimizer},
    files::{RunError, check_format, check_name, read},
    plan::Plan,
};

/// The newest format of a checkpoint that this program reads, and the one that it writes.
///
/// Format 1 has whole tensors alone and names neither them nor the definition of the model in its manifest.
pub const FORMAT: u32 = 2;

const MANIFEST: &str = "manifest.toml";

/// The content of a checkpoint's `manifest.toml`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoint {
    pub format: u32,
    /// Name of the workload in the catalog.
    pub workload: String,
    /// Number of trainable parameters of the whole model.
    pub parameters: u64,
    pub global_batch: u32,
    /// The plan that the checkpoint was written under.
    pub plan: Plan,
    pub ranks: u32,
    /// Steps since the parameters were initialised, in all launches of the job together.
    pub steps: u64,
    /// Samples that all ranks have consumed, which is the position in the data.
    pub samples: u64,
    /// The settings of the optimizer; absent in format 1.
    pub optimizer: Option<Optimizer>,
    /// The definition of the model; absent in format 1.
    pub model: Option<Model>,
    /// All files except the manifest.
    #[serde(rename = "file")]
    pub files: Vec<CheckpointFile>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointFile {
    /// The name of the file in the directory.
    pub name: String,
    pub content: Content,
    /// The rank that wrote the file; absent in format 1 if its content is the same for every rank.
    pub rank: Option<u32>,
    pub bytes: u64,
    /// The hash in hexadecimal digits.
    pub blake3: String,
    /// The tensors of the model or the optimizer in the file. Format 1 lists none of them.
    #[serde(default, rename = "tensor", skip_serializing_if = "Vec::is_empty")]
    pub tensors: Vec<StoredTensor>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// Parameters and buffers.
    Model,
    /// State of the optimizer.
    Optimizer,
    /// State of the random generators of a rank.
    Random,
    /// What decides the samples to come besides the position in the data: the environment of a model that acts, and what it has
    /// seen.
    Data,
}

/// A tensor in a file of a checkpoint, or a part of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredTensor {
    /// The name of the whole tensor, and of the part in the file.
    pub name: String,
    /// The shape of the whole tensor.
    pub shape: Vec<usize>,
    /// The part that is stored; absent for the whole tensor.
    pub region: Option<Region>,
}

/// A part of a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Region {
    /// Ranges along dimension `dim`, one behind the other. The part has the dimensions of the whole tensor.
    Slice { dim: usize, ranges: Vec<Range<usize>> },
    /// Consecutive numbers of the tensor. They are counted with its dimensions in `order`, from the slowest to the fastest. The
    /// part has one dimension.
    Numbers { first: usize, count: usize, order: Vec<usize> },
}

/// A checkpoint that cannot be written or that is invalid.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("{} is there already; a checkpoint is never written over", path.display())]
    Exists { path: PathBuf },
    #[error("{} cannot be the name of a checkpoint", path.display())]
    Unnamed { path: PathBuf },
    #[error("{}: has {found} bytes, and the checkpoint was written with {expected}", file.display())]
    Length { file: PathBuf, expected: u64, found: u64 },
    #[error("{}: was altered since the checkpoint was written: its hash is another", file.display())]
    Altered { file: PathBuf },
    #[error(transparent)]
    File(#[from] RunError),
}

impl Checkpoint {
    /// Reads the manifest of the checkpoint at `dir`. [`Checkpoint::read_file`] checks the other files.
    ///
    /// # Errors
    /// There is no checkpoint, it was altered, or it names a file outside of `dir`. A newer format has an error of its own.
    pub fn read(dir: &Path) -> Result<Checkpoint, CheckpointError> {
        let file = dir.join(MANIFEST);
        let text = read(&file)?;
        let parse = |e: toml::de::Error| RunError::Parse { file: file.clone(), message: e.message().into() };
        let table: toml::Table = text.parse().map_err(parse)?;
        // The format is checked first, because a newer one may be sealed in another way.
        let format = table.get("format").and_then(toml::Value::as_integer).map(|n| n as u64);
        check_format(&file, format, FORMAT)?;
        let rest = match text.split_once('\n') {
            Some((first, rest)) if first == seal(rest) => rest,
            _ => return Err(CheckpointError::Altered { file }),
        };
        let checkpoint: Checkpoint = toml::from_str(rest).map_err(parse)?;
        checkpoint.files.iter().try_for_each(|stored| check_name(&file, &stored.name))?;
        Ok(checkpoint)
    }

    /// Reads one of the files of the checkpoint at `dir` whole.
    ///
    /// # Errors
    /// The file is missing, or differs from what was written.
    pub fn read_file(dir: &Path, file: &CheckpointFile) -> Result<Vec<u8>, CheckpointError> {
        let path = dir.join(&file.name);
        let io = |cause| RunError::Io { file: path.clone(), cause };
        let found = fs::metadata(&path).map_err(io)?.len();
        if found != file.bytes {
            return Err(CheckpointError::Length { file: path, expected: file.bytes, found });
        }
        let content = fs::read(&path).map_err(io)?;
        if hash(&content) != file.blake3 {
            return Err(CheckpointError::Altered { file: path });
        }
        Ok(content)
    }
}

fn hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex().to_string()
}

/// The seal, which is the first line of a manifest with the other lines `rest`.
fn seal(rest: &str) -> String {
    format!("blake3 = \"{}\"", hash(rest.as_bytes()))
}
