//! CIFAR-10 in its binary version (Krizhevsky, 2009): five files of images, each one byte of label and 3072 of pixels,
//! the red plane first, then green, then blue.

use std::path::{Path, PathBuf};

use fastrand::Rng;
use tch::{Device, TchError, Tensor};

use super::{
    DataError,
    in_order::InOrder,
    loaders::{Loaded, Reader},
    order::{Epochs, rng_at},
    pixels::{COLOURS, Normalisation},
    synthetic::normal,
};
use crate::{shim::transfer::to_device, workload::Batch};

pub(super) const FILES: [&str; 5] =
    ["data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"];
const SIDE: u32 = 32;
const CLASSES: u8 = 10;
const PLANE_BYTES: usize = (SIDE * SIDE) as usize;
const PIXEL_BYTES: usize = PLANE_BYTES * COLOURS as usize;
const RECORD_BYTES: usize = 1 + PIXEL_BYTES;

/// The use of the images by a model.
#[derive(Clone, Copy, Debug)]
pub(super) enum Use {
    /// The label is the target.
    Classify { image: u32, channels: u32, labels: u32 },
    /// The image, enlarged to the side of the model, is the target. The input is noise.
    Imitate { image: u32, channels: u32, latent: u32 },
}

/// All training images, kept as bytes, in an order that each epoch shuffles again.
pub(super) struct Cifar10 {
    /// Size of the noise vector for each image.
    latent: usize,
    /// `[images, 32, 32, 3]`: channels-last from the start, so that no batch needs rearranging. This is no
    /// tensor, because the choice to keep the whole data set in memory is no tensor memory of the job.
    pixels: Vec<u8>,
    /// `[images]`.
    labels: Vec<i64>,
    epochs: Epochs,
    noise_seed: u64,
}

#[derive(Default)]
pub(super) struct HostBatch {
    pixels: Vec<u8>,
    labels: Vec<i64>,
    noise: Vec<f32>,
}

impl Cifar10 {
    /// Reads the five files of `folder` whole.
    ///
    /// # Errors
    /// `Unsupported` if the model needs other images; a missing file; a file that ends within an image; a label
    /// above 9.
    pub(super) fn open(folder: &Path, purpose: Use, seed: u64) -> Result<Self, DataError> {
        fits(purpose)?;
        let (mut labels, mut pixels) = (Vec::new(), Vec::new());
        for name in FILES {
            read_file(folder.join(name), &mut labels, &mut pixels)?;
        }
        let mut seeds = Rng::with_seed(seed);
        let latent = match purpose {
            Use::Classify { .. } => 0,
            Use::Imitate { latent, .. } => latent as usize,
        };
        let images = u32::try_from(labels.len()).expect("five files of more than 12 TB are not in memory");
        let epochs = Epochs::new(images, seeds.u64(..));
        Ok(Self { latent, pixels, labels, epochs, noise_seed: seeds.u64(..) })
    }

    /// The stream of the images of this reader, for the purpose that it was opened for.
    pub(super) fn stream(
        self,
        purpose: Use,
        loaders: u32,
        device: Device,
    ) -> Result<InOrder<Loaded<Self>>, TchError> {
        let normalisation = match purpose {
            // Mean and deviation of the training set, as is customary.
            Use::Classify { .. } => {
                Normalisation::of([0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616], device)?
            }
            Use::Imitate { .. } => Normalisation::to_tanh(device)?,
        };
        let kept = normalisation.tensors();
        let transfer = move |HostBatch { pixels, labels, noise }| {
            let images = normalisation.images(&pixels, SIDE)?;
            let (inputs, targets) = match purpose {
                Use::Classify { .. } => (images, to_device(Tensor::f_from_slice(&labels)?, device)?),
                Use::Imitate { image, latent, .. } => {
                    const ALIGN_CORNERS: bool = false;
                    let larger =
                        images.f_upsample_bilinear2d([i64::from(image); 2], ALIGN_CORNERS, None, None)?;
                    let noise = Tensor::f_from_slice(&noise)?.f_reshape([-1, i64::from(latent), 1, 1])?;
                    (to_device(noise, device)?, larger)
                }
            };
            Ok(Batch { inputs, targets })
        };
        Ok(InOrder::new(Loaded::new(self, loaders, transfer).keeping(kept)))
    }
}

impl Reader for Cifar10 {
    type Batch = HostBatch;

    fn read(&self, number: u64, batch: &mut HostBatch) -> Result<(), DataError> {
        let image = self.epochs.sample(number);
        batch.pixels.extend_from_slice(&self.pixels[image * PIXEL_BYTES..][..PIXEL_BYTES]);
        batch.labels.push(self.labels[image]);
        let mut rng = rng_at(self.noise_seed, number);
        batch.noise.extend((0..self.latent).map(|_| normal(&mut rng)));
        Ok(())
    }
}

fn fits(purpose: Use) -> Result<(), DataError> {
    let problem = match purpose {
        Use::Classify { image, channels, labels }
            if image != SIDE || channels != COLOURS || labels < u32::from(CLASSES) =>
        {
            format!("the model takes {image}x{image} images of {channels} colours and {labels} classes")
        }
        Use::Imitate { channels, .. } if channels != COLOURS => format!("the model makes {channels} colours"),
        _ => return Ok(()),
    };
    Err(DataError::Unsupported(format!(
        "{problem}; the reader is one for CIFAR-10, {SIDE}x{SIDE} images of {COLOURS} colours and {CLASSES} classes"
    )))
}

fn read_file(file: PathBuf, labels: &mut Vec<i64>, pixels: &mut Vec<u8>) -> Result<(), DataError> {
    let bytes = match std::fs::read(&file) {
        Ok(bytes) => bytes,
        Err(source) => return Err(DataError::Unreadable { file, source }),
    };
    let malformed =
        |file, offset: usize, problem| DataError::Malformed { file, offset: offset as u64, problem };
    let rest = bytes.len() % RECORD_BYTES;
    if bytes.is_empty() {
        return Err(malformed(file, 0, "the file is empty".into()));
    }
    if rest != 0 {
        let problem = format!("the file ends {rest} bytes into an image; each takes {RECORD_BYTES}");
        return Err(malformed(file, bytes.len(), problem));
    }
    for (index, record) in bytes.chunks_exact(RECORD_BYTES).enumerate() {
        let (label, image) = (record[0], &record[1..]);
        if label >= CLASSES {
            let problem = format!("label {label}; there are {CLASSES} classes, counted from 0");
            return Err(malformed(file, index * RECORD_BYTES, problem));
        }
        labels.push(i64::from(label));
        let [red, green, blue] = [0, 1, 2].map(|colour| &image[colour * PLANE_BYTES..][..PLANE_BYTES]);
        pixels.extend((0..PLANE_BYTES).flat_map(|pixel| [red[pixel], green[pixel], blue[pixel]]));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::DataStream;

    const CLASSIFY: Use = Use::Classify { image: 32, channels: 3, labels: 10 };

    fn open(folder: &Path, purpose: Use) -> Result<InOrder<Loaded<Cifar10>>, DataError> {
        Ok(Cifar10::open(folder, purpose, 7)?.stream(purpose, 0, Device::Cpu)?)
    }

    /// Five files of `images` images each; image number `n` of all has label `n % 10` and planes `n`, `n + 1`, `n + 2`.
    fn folder(images: usize) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (file, name) in FILES.iter().enumerate() {
            let mut bytes = Vec::new();
            for number in file * images..(file + 1) * images {
                bytes.push((number % 10) as u8);
                for plane in 0..3 {
                    bytes.extend([(number + plane) as u8; 1024]);
                }
            }
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        folder
    }

    fn labels(batch: &Batch) -> Vec<i64> {
        Vec::try_from(&batch.targets).unwrap()
    }

    #[test]
    fn an_epoch_shows_every_image_once_with_its_own_label() {
        let folder = folder(2);
        let mut stream = open(folder.path(), CLASSIFY).unwrap();
        let first = stream.next(10).unwrap();
        assert_eq!(first.inputs.size(), [10, 3, 32, 32]);
        assert_eq!(first.inputs.stride(), [3072, 1, 96, 3], "channels-last");
        let mut seen = labels(&first);
        for (row, label) in seen.iter().enumerate() {
            for (plane, (mean, deviation)) in
                [(0.4914, 0.2470), (0.4822, 0.2435), (0.4465, 0.2616)].into_iter().enumerate()
            {
                let pixel = first.inputs.double_value(&[row as i64, plane as i64, 31, 0]);
                let expected = ((*label as f64 + plane as f64) / 255.0 - mean) / deviation;
                assert!((pixel - expected).abs() < 1e-5, "{pixel} for {expected}");
            }
        }
        let second = labels(&stream.next(10).unwrap());
        assert_ne!(seen, second, "each epoch has an order of its own");
        seen.sort();
        assert_eq!(seen, (0..10).collect::<Vec<_>>());

        let mut again = open(folder.path(), CLASSIFY).unwrap();
        let pieces: Vec<_> = [4, 6, 7, 3].into_iter().flat_map(|n| labels(&again.next(n).unwrap())).collect();
        assert_eq!(pieces[..10], labels(&first), "the order does not depend on the batch");
        assert_eq!(pieces[10..], second);
    }

    #[test]
    fn images_to_imitate_are_enlarged_and_lie_between_minus_one_and_one() {
        let folder = folder(1);
        let purpose = Use::Imitate { image: 64, channels: 3, latent: 7 };
        let mut stream = open(folder.path(), purpose).unwrap();
        let batch = stream.next(3).unwrap();
        assert_eq!((batch.inputs.size(), batch.targets.size()), (vec![3, 7, 1, 1], vec![3, 3, 64, 64]));
        assert!(batch.targets.abs().max().double_value(&[]) <= 1.0);
        assert_ne!(batch.inputs, stream.next(3).unwrap().inputs, "noise is fresh for every batch");
    }

    #[test]
    fn files_that_cannot_be_believed_are_refused_with_name_and_place() {
        let refused = |change: &dyn Fn(&Path), purpose| {
            let folder = folder(2);
            change(folder.path());
            let error = open(folder.path(), purpose).err().expect("it must be refused");
            error.to_string().replace(&folder.path().display().to_string(), "DIR")
        };
        let third = |folder: &Path| folder.join("data_batch_3.bin");
        assert_eq!(
            refused(&|folder| std::fs::remove_file(third(folder)).unwrap(), CLASSIFY),
            "cannot read DIR/data_batch_3.bin"
        );
        assert_eq!(
            refused(&|folder| std::fs::write(third(folder), []).unwrap(), CLASSIFY),
            "DIR/data_batch_3.bin: byte 0: the file is empty"
        );
        let truncate = |folder: &Path| {
            std::fs::OpenOptions::new().write(true).open(third(folder)).unwrap().set_len(4000).unwrap();
        };
        assert_eq!(
            refused(&truncate, CLASSIFY),
            "DIR/data_batch_3.bin: byte 4000: the file ends 927 bytes into an image; each takes 3073"
        );
        let mislabel = |folder: &Path| {
            let mut bytes = std::fs::read(third(folder)).unwrap();
            bytes[RECORD_BYTES] = 10;
            std::fs::write(third(folder), bytes).unwrap();
        };
        assert_eq!(
            refused(&mislabel, CLASSIFY),
            "DIR/data_batch_3.bin: byte 3073: label 10; there are 10 classes, counted from 0"
        );
        for (purpose, problem) in [
            (
                Use::Classify { image: 224, channels: 3, labels: 1000 },
                "the model takes 224x224 images of 3 colours and 1000 classes",
            ),
            (
                Use::Classify { image: 32, channels: 1, labels: 10 },
                "the model takes 32x32 images of 1 colours and 10 classes",
            ),
            (Use::Imitate { image: 32, channels: 1, latent: 7 }, "the model makes 1 colours"),
        ] {
            let refused = refused(&|_| (), purpose);
            assert!(refused.starts_with(&format!("{problem}; the reader is one for CIFAR-10")), "{refused}");
        }
    }
}
