//! How many images a second readers can give: JPEG files of ImageNet's usual size, decoded, cropped and resized to 224.
//!
//! `cargo bench --workspace --bench loaders`, on a machine with nothing else to do.

use std::{path::Path, time::Instant};

use jpeg_encoder::{ColorType, Encoder};
use procfs::process::Process;
use schema::catalog::Samples;
use tch::Device;
use torch_worker::data::{self, Files};

const IMAGES: u32 = 64;
const BATCH: usize = 32;
const BATCHES: usize = 40;

fn main() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    write_images(folder.path());
    tch::set_num_threads(1);
    println!("{:>7}  {:>8}  {:>20}", "loaders", "images/s", "images/s of CPU time");
    for loaders in [0, 1, 2] {
        let samples = Samples::LabelledImages { channels: 3, side: 224, classes: 1000 };
        let files = Files { folder: folder.path(), loaders };
        let mut stream = data::open(samples, Some(files), 1, Device::Cpu).expect("the folder is good");
        stream.next(BATCH).expect("the images are good");
        let (begin, cpu_s) = (Instant::now(), cpu_s());
        for _ in 0..BATCHES {
            stream.next(BATCH).expect("the images are good");
        }
        let images = (BATCH * BATCHES) as f64;
        let (wall_s, cpu_s) = (begin.elapsed().as_secs_f64(), self::cpu_s() - cpu_s);
        println!("{loaders:>7}  {:>8.0}  {:>20.0}", images / wall_s, images / cpu_s);
    }
}

/// Photographs are neither smooth nor noise: waves of several lengths under some grain, about 100 kB a file.
fn write_images(folder: &Path) {
    const QUALITY: u8 = 90;
    const WIDTH: u16 = 500;
    const HEIGHT: u16 = 375;
    let class = folder.join("class");
    std::fs::create_dir(&class).expect("the folder is ours");
    let mut rng = fastrand::Rng::with_seed(1);
    for number in 0..IMAGES {
        let mut pixels = Vec::new();
        for (y, x) in (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (y, x))) {
            let grain = rng.u8(..40);
            let wave =
                |a: f32, b: f32| ((f32::from(x) * a).sin() * (f32::from(y) * b).cos() * 90.0 + 110.0) as u8;
            pixels.extend([wave(0.05, 0.03), wave(0.11, 0.02), wave(0.02, 0.09)].map(|value| value + grain));
        }
        Encoder::new_file(class.join(format!("{number}.jpg")), QUALITY)
            .and_then(|encoder| encoder.encode(&pixels, WIDTH, HEIGHT, ColorType::Rgb))
            .expect("the folder is ours, and the disk has room");
    }
}

/// CPU time of this process so far, to 10 ms.
fn cpu_s() -> f64 {
    let stat = Process::myself().and_then(|process| process.stat()).expect("/proc tells of every process");
    (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64
}
