//! Properties of every reader of files, and the errors of each.

use std::{fs, path::Path};

use tch::{Kind, Tensor};
use tempfile::TempDir;

use super::{decode::RgbImage, *};
use crate::workload::Batch;

/// A test case of a reader: a kind of sample, and files to read it from.
struct Case {
    name: &'static str,
    samples: Samples,
    folder: TempDir,
}

fn cases() -> Vec<Case> {
    let case = |name, samples, fill: fn(&Path)| {
        let folder = tempfile::tempdir().unwrap();
        fill(folder.path());
        Case { name, samples, folder }
    };
    vec![
        case("cifar10", Samples::LabelledImages { channels: 3, side: 32, classes: 10 }, cifar10),
        case("cifar10 to imitate", Samples::NoiseAndImages { latent: 5, channels: 3, side: 64 }, cifar10),
        case("images", Samples::LabelledImages { channels: 3, side: 24, classes: 3 }, images),
        case("tokens", Samples::Tokens { vocabulary: 1000, context: 8 }, tokens),
        case("ratings.dat", Samples::Ratings { users: 5, items: 9 }, ratings_dat),
        case("ratings.csv", Samples::Ratings { users: 5, items: 9 }, ratings_csv),
    ]
}

fn cifar10(folder: &Path) {
    for (file, name) in cifar10::FILES.iter().enumerate() {
        let record = |label: usize| [vec![label as u8], vec![(17 * label) as u8; 3072]].concat();
        fs::write(folder.join(name), [record(2 * file), record(2 * file + 1)].concat()).unwrap();
    }
}

/// Three classes of two images each, in every format and layout that is read; `ball`, `cat/inner` and `dog`.
fn images(folder: &Path) {
    let save = |class: &str, name: &str, seed: u32| {
        let folder = folder.join(class);
        fs::create_dir_all(&folder).unwrap();
        let image = RgbImage::from_fn(40 + seed, 30, |x, y| [(6 * x) as u8, (8 * y) as u8, seed as u8]);
        let (width, height) = (image.width as u16, image.height as u16);
        if name.ends_with("png") {
            write_png(&folder.join(name), width, height, png::ColorType::Rgb, &image.pixels);
        } else {
            let encoder = jpeg_encoder::Encoder::new_file(folder.join(name), 95).unwrap();
            encoder.encode(&image.pixels, width, height, jpeg_encoder::ColorType::Rgb).unwrap();
        }
    };
    save("dog", "1.png", 1);
    save("dog", "2.JPEG", 2);
    save("ball", "3.jpg", 3);
    write_png(&folder.join("ball/grey.png"), 9, 9, png::ColorType::Grayscale, &[50; 81]);
    save("cat/inner", "4.png", 4);
    save("cat", "5.png", 5);
    // Neither a class nor an image.
    fs::write(folder.join("README.txt"), "made by hand").unwrap();
    fs::write(folder.join("dog/labels.txt"), "dog").unwrap();
}

fn write_png(file: &Path, width: u16, height: u16, colour: png::ColorType, pixels: &[u8]) {
    let mut encoder = png::Encoder::new(fs::File::create(file).unwrap(), width.into(), height.into());
    encoder.set_color(colour);
    encoder.write_header().unwrap().write_image_data(pixels).unwrap();
}

fn tokens(folder: &Path) {
    fs::write(folder.join("train.bin"), (0..500_u16).flat_map(u16::to_le_bytes).collect::<Vec<_>>()).unwrap();
}

/// Users 3, 7 and 40 rated 2, 1 and 3 of the items 10, 20, 21, 500 and 9000.
const RATED: [(u32, u32); 6] = [(7, 20), (3, 10), (3, 500), (40, 9000), (40, 10), (40, 21)];

fn ratings_dat(folder: &Path) {
    let lines = RATED.map(|(user, item)| format!("{user}::{item}::5::978300760\n"));
    fs::write(folder.join("ratings.dat"), lines.concat()).unwrap();
}

fn ratings_csv(folder: &Path) {
    let lines = RATED.map(|(user, item)| format!("{user},{item},3.5,978300760\r\n"));
    fs::write(folder.join("ratings.csv"), format!("userId,movieId,rating,timestamp\r\n{}", lines.concat()))
        .unwrap();
}

fn stream(case: &Case, loaders: u32, seed: u64) -> anyhow::Result<Box<dyn DataStream>> {
    open(case.samples, Some(Files { folder: case.folder.path(), loaders }), seed, Device::Cpu)
}

/// The samples of batches of these sizes, concatenated.
fn take(case: &Case, loaders: u32, seed: u64, sizes: &[usize]) -> [Tensor; 2] {
    let mut stream = stream(case, loaders, seed).unwrap();
    let batches: Vec<Batch> = sizes.iter().map(|&samples| stream.next(samples).unwrap()).collect();
    let all = |of: fn(&Batch) -> &Tensor| Tensor::cat(&batches.iter().map(of).collect::<Vec<_>>(), 0);
    [all(|batch| &batch.inputs), all(|batch| &batch.targets)]
}

#[test]
fn samples_depend_on_the_seed_and_not_on_loaders_or_batches() {
    for case in cases() {
        // This is more than an epoch of every reader except that of tokens, which has none.
        let reference = take(&case, 0, 7, &[45]);
        for (loaders, sizes) in [
            (0, &[9; 5][..]),
            (1, &[9; 5]),
            (4, &[9; 5]),
            (4, &[5; 9]),
            (4, &[20, 10, 10, 5]),
            (64, &[15; 3]),
        ] {
            let taken = take(&case, loaders, 7, sizes);
            assert!(taken == reference, "{} with {loaders} loaders, batches of {sizes:?}", case.name);
        }
        assert_ne!(take(&case, 1, 8, &[45]), reference, "{}", case.name);
    }
}

#[test]
fn an_image_folder_has_classes_in_order_of_their_names_and_shows_each_image_anew() {
    let case = &cases()[2];
    let [inputs, labels] = take(case, 2, 1, &[6, 6]);
    assert_eq!(inputs.size(), [12, 3, 24, 24]);
    let first: Vec<i64> = Vec::try_from(labels.narrow(0, 0, 6)).unwrap();
    let mut sorted = first.clone();
    sorted.sort_unstable();
    assert_eq!(sorted, [0, 0, 1, 1, 2, 2], "an epoch shows every image once");
    // Blue identifies the image: 3 and 50 are balls, 4 and 5 cats, 1 and 2 dogs. Two of them went through
    // JPEG.
    for (row, label) in first.iter().enumerate() {
        let normalised = inputs.double_value(&[row as i64, 2, 12, 12]);
        let blue = (normalised * 0.225 + 0.406) * 255.0;
        let expected: [f64; 2] = [[3.0, 50.0], [4.0, 5.0], [1.0, 2.0]][*label as usize];
        assert!(expected.iter().any(|expected| (blue - expected).abs() < 4.0), "{label}: {blue}");
    }
    assert_eq!(
        stream(case, 0, 1).unwrap().next(2).unwrap().inputs.stride(),
        [1728, 1, 72, 3],
        "channels-last"
    );
    let grey = |epoch: i64| {
        let pixels = inputs.narrow(0, 6 * epoch, 6).select(1, 0).flatten(1, -1);
        let constant = pixels.std_dim(1, false, false).argmin(0, false).int64_value(&[]);
        pixels.double_value(&[constant, 0])
    };
    assert!((grey(0) - grey(1)).abs() < 1e-5, "grey stays grey however it is cropped");
    let whole = |epoch: i64| inputs.narrow(0, 6 * epoch, 6).sum(Kind::Double).double_value(&[]);
    assert_ne!(whole(0), whole(1), "but every epoch shows other parts");
}

#[test]
fn four_items_in_five_were_not_rated_and_all_are_numbered_by_rank() {
    for case in &cases()[4..] {
        let [pairs, chosen] = take(case, 1, 3, &[30, 30]);
        let pairs: Vec<i64> = Vec::try_from(pairs.flatten(0, -1)).unwrap();
        let chosen: Vec<f64> = Vec::try_from(chosen.to_kind(Kind::Double)).unwrap();
        // Users 3, 7, 40 are 0, 1, 2; items 10, 20, 21, 500, 9000 are 0 to 4.
        let mut rated = [[0, 0], [0, 3], [1, 1], [2, 0], [2, 2], [2, 4]];
        rated.sort_unstable();
        let epochs = [0..30, 30..60].map(|epoch: std::ops::Range<usize>| {
            let (mut positive, mut negative) = (Vec::new(), Vec::new());
            for row in epoch {
                let pair = [pairs[2 * row], pairs[2 * row + 1]];
                if chosen[row] == 1.0 { positive.push(pair) } else { negative.push(pair) }
            }
            positive.sort_unstable();
            negative.sort_unstable();
            assert_eq!(positive, rated, "an epoch shows every rating once");
            assert!(negative.iter().all(|pair| !rated.contains(pair) && pair[1] < 5), "{negative:?}");
            let of_users = [0, 1, 2].map(|user| negative.iter().filter(|pair| pair[0] == user).count());
            assert_eq!(of_users, [8, 4, 12], "four for each rating");
            negative
        });
        assert_ne!(epochs[0], epochs[1], "they are drawn anew in each epoch");
    }
}

#[test]
fn a_stream_that_is_given_up_ends_at_once() {
    for case in cases() {
        let mut given_up = stream(&case, 4, 7).unwrap();
        given_up.next(3).unwrap();
        drop(given_up);
        // Streams end cleanly even if nothing was taken from them.
        drop(stream(&case, 4, 7).unwrap());
    }
}

/// A change to the folder of a case.
type Change = Box<dyn Fn(&Path)>;

/// The error for `case` after `change` to its folder, on opening a stream and on reading the first epoch.
fn refused(case: usize, change: Change) -> [String; 2] {
    let case = cases().swap_remove(case);
    change(case.folder.path());
    let said = |loaders| {
        let error = match stream(&case, loaders, 7) {
            Ok(mut stream) => (0..10).find_map(|_| stream.next(10).err()).expect("it must be refused"),
            Err(error) => error,
        };
        assert!(error.downcast_ref::<DataError>().is_some(), "{error:#}");
        format!("{error:#}").replace(&case.folder.path().display().to_string(), "DIR")
    };
    [said(0), said(3)]
}

#[test]
fn errors_of_every_reader_name_the_file() {
    const IMAGES: usize = 2;
    const DAT: usize = 4;
    const CSV: usize = 5;
    /// The byte at which it ends depends on the encoder.
    const JPEG_CUT: &str = "DIR/ball/3.jpg: byte ";
    let write = |name: &'static str, content: &'static str| {
        move |folder: &Path| fs::write(folder.join(name), content).unwrap()
    };
    let cut = |name: &'static str, bytes: usize| {
        move |folder: &Path| {
            let whole = fs::read(folder.join(name)).unwrap();
            fs::write(folder.join(name), &whole[..whole.len() - bytes]).unwrap();
        }
    };
    let table: Vec<(usize, Change, &str)> = vec![
        (IMAGES, Box::new(cut("dog/1.png", 40)), "cannot decode DIR/dog/1.png: "),
        (IMAGES, Box::new(cut("ball/3.jpg", 2)), JPEG_CUT),
        (IMAGES, Box::new(write("cat/5.png", "no image")), "cannot decode DIR/cat/5.png: "),
        (IMAGES, Box::new(write("dog/3.webp", "RIFF")), "DIR/dog/3.webp: images are read as JPEG or PNG"),
        (
            IMAGES,
            Box::new(|folder: &Path| fs::create_dir(folder.join("emu")).unwrap()),
            "DIR holds 4 classes; the model knows 3",
        ),
        (
            IMAGES,
            Box::new(|folder: &Path| {
                fs::remove_file(folder.join("dog/1.png")).unwrap();
                fs::remove_file(folder.join("dog/2.JPEG")).unwrap();
            }),
            "DIR/dog: the class has no image",
        ),
        (
            IMAGES,
            Box::new(|folder: &Path| {
                for class in ["ball", "cat", "dog"] {
                    fs::remove_dir_all(folder.join(class)).unwrap();
                }
            }),
            "DIR: it holds neither CIFAR-10's data_batch_1.bin nor folders of images",
        ),
        (IMAGES, Box::new(|folder: &Path| fs::remove_dir_all(folder).unwrap()), "cannot read DIR: "),
        (
            IMAGES,
            Box::new(|folder: &Path| {
                fs::remove_file(folder.join("dog/2.JPEG"))
                    .and(std::os::unix::fs::symlink("nowhere", folder.join("dog/2.JPEG")))
                    .unwrap()
            }),
            "cannot read DIR/dog/2.JPEG: ",
        ),
        (
            DAT,
            Box::new(|folder: &Path| fs::remove_file(folder.join("ratings.dat")).unwrap()),
            "cannot read DIR/ratings.dat: No such file",
        ),
        (DAT, Box::new(write("ratings.dat", "")), "DIR/ratings.dat: byte 0: the file holds no rating"),
        (
            DAT,
            Box::new(write("ratings.dat", "1::2::3::4\n1::5::3\n")),
            "DIR/ratings.dat: byte 11: line 2 is no rating; it reads user::item::rating::time",
        ),
        (
            DAT,
            Box::new(write("ratings.dat", "1::2::3::4\n1::5::3::4\n2::2::1::1\n")),
            "DIR/ratings.dat: a user rated all 2 items",
        ),
        (
            CSV,
            Box::new(write("ratings.csv", "1,2,3,4\n")),
            "DIR/ratings.csv: byte 0: the first line is a rating; a header belongs there",
        ),
        (
            CSV,
            Box::new(write("ratings.csv", "user,item,rating,time\n1,2,3.5,4\n1,-2,3.5,4\n")),
            "DIR/ratings.csv: byte 32: line 3 is no rating",
        ),
        (
            CSV,
            Box::new(write("ratings.csv", "u,i,r,t\n1,1,1,1\n2,1,1,1\n3,1,1,1\n4,1,1,1\n5,1,1,1\n6,2,1,1\n")),
            "DIR/ratings.csv has 6 users and 2 items; the model knows 5 and 9",
        ),
    ];
    for (case, change, expected) in table {
        for said in refused(case, change) {
            assert!(said.starts_with(expected), "{said}; expected {expected}");
        }
    }
}

#[test]
fn colours_that_a_reader_does_not_have_are_refused_before_anything_is_read() {
    for case in &cases()[..3] {
        let samples = match case.samples {
            Samples::LabelledImages { side, classes, .. } => {
                Samples::LabelledImages { channels: 1, side, classes }
            }
            Samples::NoiseAndImages { latent, side, .. } => {
                Samples::NoiseAndImages { latent, channels: 1, side }
            }
            _ => unreachable!("the first three are images"),
        };
        let files = Files { folder: case.folder.path(), loaders: 0 };
        let error = open(samples, Some(files), 0, Device::Cpu).err().expect("it must be refused");
        assert!(matches!(error.downcast_ref(), Some(DataError::Unsupported(_))), "{}: {error:#}", case.name);
    }
}

#[test]
fn a_model_without_a_reader_says_so() {
    let files = Files { folder: Path::new("folder"), loaders: 0 };
    let error = open(Samples::Nothing, Some(files), 0, Device::Cpu).err().unwrap();
    assert!(matches!(error.downcast_ref(), Some(DataError::Unsupported(_))));
    assert_eq!(
        error.to_string(),
        "there is no reader for files of samples; leave out the data folder to train on synthetic ones"
    );
}

#[test]
fn a_model_that_acts_reads_no_files() {
    let files = Files { folder: Path::new("folder"), loaders: 0 };
    let error = open(Samples::Transitions, Some(files), 0, Device::Cpu).err().unwrap();
    assert!(matches!(error.downcast_ref(), Some(DataError::Unsupported(_))));
    assert_eq!(
        error.to_string(),
        "the model makes its samples by acting in its environment and reads none; leave out the data folder"
    );
}
