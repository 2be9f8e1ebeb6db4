//! A file of tokens in the format of nanoGPT: `train.bin`, 16-bit numbers, little-endian.

use std::{
    fs::File,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
};

use tch::{Device, Tensor};

use super::{
    DataError,
    in_order::InOrder,
    loaders::{Loaded, Reader},
    order::rng_at,
};
use crate::{shim::transfer::to_device, workload::Batch};

const FILE: &str = "train.bin";
const TOKEN_BYTES: u64 = size_of::<u16>() as u64;

/// Windows of the file at random positions, as in nanoGPT. They are read when needed, because the file may
/// be larger than memory, and the kernel's page cache keeps the used parts.
pub(super) struct TokenFile {
    path: PathBuf,
    file: File,
    tokens: u64,
    vocabulary: u32,
    context: usize,
    seed: u64,
}

#[derive(Default)]
pub(super) struct HostBatch {
    inputs: Vec<i64>,
    targets: Vec<i64>,
}

impl TokenFile {
    /// # Errors
    /// The file is missing, has an odd number of bytes, or is shorter than a window.
    pub(super) fn open(folder: &Path, vocabulary: u32, context: u32, seed: u64) -> Result<Self, DataError> {
        let path = folder.join(FILE);
        let opened = File::open(&path).and_then(|file| Ok((file.metadata()?.len(), file)));
        let (bytes, file) = match opened {
            Ok(opened) => opened,
            Err(source) => return Err(DataError::Unreadable { file: path, source }),
        };
        let tokens = bytes / TOKEN_BYTES;
        let problem = if bytes == 0 {
            "the file is empty".to_owned()
        } else if bytes % TOKEN_BYTES != 0 {
            "the file ends within a token; each takes 2 bytes".to_owned()
        } else if tokens <= u64::from(context) {
            format!("the file ends after {tokens} tokens; a sample takes {}", context + 1)
        } else {
            return Ok(Self { path, file, tokens, vocabulary, context: context as usize, seed });
        };
        Err(DataError::Malformed { file: path, offset: bytes, problem })
    }

    pub(super) fn stream(self, loaders: u32, device: Device) -> InOrder<Loaded<Self>> {
        let shape = [-1, self.context as i64];
        let transfer = move |HostBatch { inputs, targets }| {
            let tensor = |tokens: &[i64]| to_device(Tensor::f_from_slice(tokens)?.f_reshape(shape)?, device);
            Ok(Batch { inputs: tensor(&inputs)?, targets: tensor(&targets)? })
        };
        InOrder::new(Loaded::new(self, loaders, transfer))
    }

    /// The tokens of one sample and the next one, from token number `start` of the file on.
    fn window(&self, start: u64) -> Result<Vec<i64>, DataError> {
        let offset = start * TOKEN_BYTES;
        let mut bytes = vec![0; (self.context + 1) * TOKEN_BYTES as usize];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(|source| DataError::Unreadable { file: self.path.clone(), source })?;
        let tokens: Vec<i64> =
            bytes.chunks_exact(2).map(|pair| i64::from(u16::from_le_bytes([pair[0], pair[1]]))).collect();
        match tokens.iter().position(|&token| token >= i64::from(self.vocabulary)) {
            None => Ok(tokens),
            Some(index) => Err(DataError::Malformed {
                file: self.path.clone(),
                offset: offset + index as u64 * TOKEN_BYTES,
                problem: format!(
                    "token {}; the model's vocabulary is {}, counted from 0",
                    tokens[index], self.vocabulary
                ),
            }),
        }
    }
}

impl Reader for TokenFile {
    type Batch = HostBatch;

    fn read(&self, number: u64, batch: &mut HostBatch) -> Result<(), DataError> {
        let start = rng_at(self.seed, number).u64(..self.tokens - self.context as u64);
        let window = self.window(start)?;
        batch.inputs.extend_from_slice(&window[..self.context]);
        batch.targets.extend_from_slice(&window[1..]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::DataStream;

    fn open(folder: &Path, vocabulary: u32) -> Result<InOrder<Loaded<TokenFile>>, DataError> {
        Ok(TokenFile::open(folder, vocabulary, 4, 3)?.stream(0, Device::Cpu))
    }

    fn folder(bytes: &[u8]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join(FILE), bytes).unwrap();
        folder
    }

    fn bytes_of(tokens: impl IntoIterator<Item = u16>) -> Vec<u8> {
        tokens.into_iter().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn samples_are_windows_of_the_file_and_targets_follow_their_inputs() {
        let folder = folder(&bytes_of(300..310));
        let [mut stream, mut again] = [(), ()].map(|()| open(folder.path(), 310).unwrap());
        let batch = stream.next(50).unwrap();
        assert_eq!(batch.inputs.size(), [50, 4]);
        let starts: Vec<i64> = Vec::try_from(batch.inputs.select(1, 0)).unwrap();
        assert_eq!(
            (starts.iter().min(), starts.iter().max()),
            (Some(&300), Some(&305)),
            "both ends are reached"
        );
        let ramp = Tensor::arange(4, tch::kind::INT64_CPU);
        assert_eq!(batch.inputs, batch.inputs.narrow(1, 0, 1) + ramp);
        assert_eq!(batch.targets, &batch.inputs + 1);

        let pieces = [20, 30].map(|samples| again.next(samples).unwrap().inputs);
        assert_eq!(Tensor::cat(&pieces, 0), batch.inputs, "the order does not depend on the batch");
    }

    #[test]
    fn files_that_cannot_be_believed_are_refused_with_name_and_place() {
        let refused = |bytes: &[u8]| {
            let folder = folder(bytes);
            let error = match open(folder.path(), 100) {
                Ok(mut stream) => stream.next(1).err().expect("it must be refused").to_string(),
                Err(error) => error.to_string(),
            };
            error.replace(&folder.path().display().to_string(), "DIR")
        };
        assert_eq!(refused(&[]), "DIR/train.bin: byte 0: the file is empty");
        assert_eq!(
            refused(&[0; 11]),
            "DIR/train.bin: byte 11: the file ends within a token; each takes 2 bytes"
        );
        assert_eq!(
            refused(&bytes_of([1; 4])),
            "DIR/train.bin: byte 8: the file ends after 4 tokens; a sample takes 5"
        );
        assert_eq!(
            refused(&bytes_of([1, 2, 3, 100, 4])),
            "DIR/train.bin: byte 6: token 100; the model's vocabulary is 100, counted from 0"
        );
        let missing = open(Path::new("nowhere"), 100).err().unwrap();
        assert_eq!(missing.to_string(), "cannot read nowhere/train.bin");
        let reason = std::error::Error::source(&missing).expect("the reason follows").to_string();
        assert_eq!(reason, "No such file or directory (os error 2)");
    }
}
