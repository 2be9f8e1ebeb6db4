//! A folder of images in the layout of torchvision's `ImageFolder`: one folder per class, with images in it
//! or in its subfolders.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use fastrand::Rng;
use tch::{Device, TchError, Tensor};
use walkdir::{DirEntry, WalkDir};

use super::{
    DataError, crop,
    decode::decode,
    in_order::InOrder,
    loaders::{Loaded, Reader},
    order::{Epochs, rng_at},
    pixels::{COLOURS, Normalisation},
};
use crate::{shim::transfer::to_device, workload::Batch};

/// Extensions of images that are read.
const READ: [&str; 3] = ["jpg", "jpeg", "png"];
/// Extensions that torchvision reads and this reader does not. Ignoring them would change the data set.
const NOT_READ: [&str; 6] = ["bmp", "pgm", "ppm", "tif", "tiff", "webp"];

/// JPEG and PNG files, decoded each time they are used, in an order that each epoch shuffles again.
pub(super) struct ImageFolder {
    side: u32,
    /// Each image and the number of its class.
    images: Vec<(PathBuf, i64)>,
    epochs: Epochs,
    crop_seed: u64,
}

#[derive(Default)]
pub(super) struct HostBatch {
    pixels: Vec<u8>,
    labels: Vec<i64>,
}

impl ImageFolder {
    /// Lists the images of `folder` without opening them. Classes are numbered in the order of their names.
    ///
    /// # Errors
    /// `Unsupported` if the model has fewer classes or other colours; a folder that cannot be read, one without
    /// classes, a class without images, an image of an unsupported kind.
    pub(super) fn open(
        folder: &Path,
        channels: u32,
        side: u32,
        classes: u32,
        seed: u64,
    ) -> Result<Self, DataError> {
        if channels != COLOURS {
            return Err(DataError::Unsupported(format!(
                "the model takes images of {channels} colours; those of a folder have {COLOURS}"
            )));
        }
        let mut names = entries(folder, 1)?;
        names.retain(|entry| entry.file_type().is_dir());
        if names.len() > classes as usize {
            let problem =
                format!("{} holds {} classes; the model knows {classes}", folder.display(), names.len());
            return Err(DataError::Unsupported(problem));
        }
        let mut images = Vec::new();
        for (label, class) in names.iter().enumerate() {
            let before = images.len();
            for entry in entries(class.path(), usize::MAX)? {
                if entry.file_type().is_file() && is_image(entry.path())? {
                    images.push((entry.into_path(), label as i64));
                }
            }
            if images.len() == before {
                let problem =
                    "the class has no image; end its name in .jpg, .jpeg or .png, or remove the folder";
                return Err(not_a_data_set(class.path(), problem));
            }
        }
        if images.is_empty() {
            let problem = "it holds neither CIFAR-10's data_batch_1.bin nor folders of images, one a class";
            return Err(not_a_data_set(folder, problem));
        }
        let count = u32::try_from(images.len())
            .map_err(|_| not_a_data_set(folder, "it holds more images than can be numbered in 32 bits"))?;
        let mut seeds = Rng::with_seed(seed);
        Ok(Self { side, images, epochs: Epochs::new(count, seeds.u64(..)), crop_seed: seeds.u64(..) })
    }

    pub(super) fn stream(self, loaders: u32, device: Device) -> Result<InOrder<Loaded<Self>>, TchError> {
        // Of ImageNet's training set, as is customary for every folder of photographs.
        let normalisation = Normalisation::of([0.485, 0.456, 0.406], [0.229, 0.224, 0.225], device)?;
        let (side, kept) = (self.side, normalisation.tensors());
        let transfer = move |HostBatch { pixels, labels }| {
            Ok(Batch {
                inputs: normalisation.images(&pixels, side)?,
                targets: to_device(Tensor::f_from_slice(&labels)?, device)?,
            })
        };
        Ok(InOrder::new(Loaded::new(self, loaders, transfer).keeping(kept)))
    }
}

impl Reader for ImageFolder {
    type Batch = HostBatch;

    fn read(&self, number: u64, batch: &mut HostBatch) -> Result<(), DataError> {
        let (file, label) = &self.images[self.epochs.sample(number)];
        let bytes = fs::read(file).map_err(|source| DataError::Unreadable { file: file.clone(), source })?;
        if ends_within_jpeg(&bytes) {
            let problem = "the file ends within its image; fetch it again".into();
            return Err(DataError::Malformed { file: file.clone(), offset: bytes.len() as u64, problem });
        }
        let image = decode(&bytes).map_err(|source| DataError::Undecodable { file: file.clone(), source })?;
        crop::random_resized(&image, self.side, &mut rng_at(self.crop_seed, number), &mut batch.pixels);
        batch.labels.push(*label);
        Ok(())
    }
}

/// Whether a JPEG file is complete. Its decoder would fill a truncated image with grey. The end marker must
/// follow the start of the last scan, and neither marker occurs within a scan.
fn ends_within_jpeg(bytes: &[u8]) -> bool {
    const START_OF_FILE: [u8; 3] = [0xff, 0xd8, 0xff];
    const START_OF_SCAN: [u8; 2] = [0xff, 0xda];
    const END_OF_IMAGE: [u8; 2] = [0xff, 0xd9];
    let last = bytes.windows(2).rev().find(|pair| *pair == START_OF_SCAN || *pair == END_OF_IMAGE);
    bytes.starts_with(&START_OF_FILE) && last == Some(&START_OF_SCAN)
}

/// The entries of `folder` down to `depth` levels, each level sorted by name. Links are followed.
fn entries(folder: &Path, depth: usize) -> Result<Vec<DirEntry>, DataError> {
    let walk = WalkDir::new(folder).min_depth(1).max_depth(depth).follow_links(true).sort_by_file_name();
    walk.into_iter().collect::<Result<_, _>>().map_err(|error| DataError::Unreadable {
        file: error.path().unwrap_or(folder).to_owned(),
        source: error.into(),
    })
}

/// Whether `file` has the extension of an image.
fn is_image(file: &Path) -> Result<bool, DataError> {
    let ending = file.extension().and_then(OsStr::to_str).map(str::to_ascii_lowercase);
    let is_one_of = |endings: &[&str]| ending.as_deref().is_some_and(|ending| endings.contains(&ending));
    if is_one_of(&NOT_READ) {
        return Err(not_a_data_set(file, "images are read as JPEG or PNG; convert it to one of them"));
    }
    Ok(is_one_of(&READ))
}

fn not_a_data_set(file: &Path, problem: &str) -> DataError {
    DataError::Layout { file: file.to_owned(), problem: problem.into() }
}
