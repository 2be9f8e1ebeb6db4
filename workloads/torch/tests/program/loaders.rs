//! Real data through the program itself: `--data` and `--loaders` of `profile single`.

use std::{fs, path::Path};

use jpeg_encoder::{ColorType, Encoder};
use schema::{
    spec::{LaunchSpec, Program},
    wire::{Command, Event, FailureKind},
};

use crate::support::{Worker, failure, launch, run_to_end, steps};

/// Two classes of three images each.
fn images(folder: &Path) {
    for class in ["cat", "dog"] {
        fs::create_dir(folder.join(class)).unwrap();
        for number in 0..3_u8 {
            let places = (0..45).flat_map(|y| (0..60).map(move |x| (x, y)));
            let pixels: Vec<u8> = places.flat_map(|(x, y)| [4 * x, 5 * y, number]).collect();
            let encoder = Encoder::new_file(folder.join(class).join(format!("{number}.jpg")), 75).unwrap();
            encoder.encode(&pixels, 60, 45, ColorType::Rgb).unwrap();
        }
    }
}

fn with_data(workload: &str, folder: &Path, loaders: u32, steps: Option<u64>) -> LaunchSpec {
    let mut spec = launch(workload, 4, "ga2", steps);
    let Program::Training(training) = &mut spec.program else { unreachable!("it trains") };
    (training.data, training.loaders) = (Some(folder.to_owned()), loaders);
    spec
}

#[test]
fn losses_are_the_same_to_the_bit_whoever_makes_the_batches_and_their_making_is_a_phase() {
    let folder = tempfile::tempdir().unwrap();
    images(folder.path());
    let losses = [0, 1, 4].map(|loaders| {
        let (said, status) = run_to_end(&with_data("resnet18-cifar", folder.path(), loaders, Some(3)));
        assert!(status.success(), "{said:#?}");
        let steps = steps(&said);
        for step in &steps {
            let phases = step.phases.as_ref().expect("torch-worker says phases");
            assert!(phases.data_ns.is_some_and(|data| data.0 > 0), "{phases:?}");
        }
        steps.iter().map(|step| step.loss.unwrap().to_bits()).collect::<Vec<_>>()
    });
    assert_eq!(losses[0].len(), 3);
    assert!(losses[0] == losses[1] && losses[0] == losses[2], "{losses:?}");
}

#[test]
fn a_damaged_image_ends_the_job_with_its_name() {
    let folder = tempfile::tempdir().unwrap();
    images(folder.path());
    let damaged = folder.path().join("dog/1.jpg");
    fs::write(&damaged, "no image").unwrap();
    let (said, status) = run_to_end(&with_data("resnet18-cifar", folder.path(), 2, Some(10)));
    assert_eq!(status.code(), Some(1));
    let (kind, error) = failure(&said);
    assert_eq!(kind, FailureKind::Data, "{error}");
    let expected = format!("reading a batch: cannot decode {}: ", damaged.display());
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn a_job_with_loaders_leaves_when_it_is_told_to() {
    let folder = tempfile::tempdir().unwrap();
    let ratings: String = (0..50).map(|n| format!("{}::{}::5::0\n", n % 7, n % 20)).collect();
    fs::write(folder.path().join("ratings.dat"), ratings).unwrap();
    let mut worker = Worker::start(&with_data("neumf", folder.path(), 3, None));
    worker.grant.extend_to(4);
    worker.wait_for(|event| matches!(event, Event::Held { index: 4 }));
    worker.command(&Command::Stop {});
    let (said, status) = worker.finish();
    assert!(status.success(), "{said:#?}");
    assert_eq!(steps(&said).len(), 4);
}
