//! Checkpoints, through the program itself.

use std::{
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use front_door::let_pass;
use schema::{
    catalog::Catalog,
    checkpoint::Checkpoint,
    spec::{LaunchSpec, Program},
    wire::{Command, Event, EventLine, FailureKind},
};

use crate::support::{Worker, failure, launch, launch_of, launch_ranks, restored, run_to_end, steps};

fn losses(said: &[EventLine]) -> Vec<f64> {
    steps(said).iter().map(|step| step.loss.unwrap()).collect()
}

/// Writes a checkpoint at `place` after this number of steps, then trains the whole job; returns all losses.
fn checkpointed(spec: &LaunchSpec, after: u64, place: &Path) -> Vec<f64> {
    let mut worker = Worker::start(spec);
    worker.train_to(after);
    worker.checkpoint(place);
    worker.grant.extend_to(u64::MAX);
    let (said, status) = worker.finish();
    assert!(status.success(), "{said:#?}");
    losses(&said)
}

fn train(spec: &LaunchSpec) -> Vec<f64> {
    let (said, status) = run_to_end(spec);
    assert!(status.success(), "{said:#?}");
    losses(&said)
}

/// What an attempt to go on from a checkpoint says; it must come before anything is trained.
fn refusal(spec: &LaunchSpec, checkpoint: &Path) -> (FailureKind, String) {
    let (said, status) = run_to_end(&restored(spec, checkpoint, "dp1", 1));
    assert_eq!(status.code(), Some(1));
    assert_eq!(said.len(), 2, "hello and failed: {said:#?}");
    let (kind, words) = failure(&said);
    (kind, words.to_owned())
}

#[test]
fn a_job_goes_on_from_its_checkpoint_as_if_it_had_not_stopped() {
    let folder = tempfile::tempdir().unwrap();
    for (workload, batch) in [
        ("gpt2-mini", 1),
        ("resnet18-mini", 4),
        ("lstm", 2),
        ("dcgan-mini", 4),
        ("bert-mini", 2),
        ("ppo-cartpole", 64),
        ("td3-pendulum", 64),
    ] {
        let place = folder.path().join(workload);
        let spec = launch(workload, batch, "dp1", Some(20));
        let whole = checkpointed(&spec, 10, &place);
        assert_eq!(whole.len(), 20);
        let second = train(&restored(&spec, &place, "dp1", 10));
        // Dropout, the order of the data and every number of the optimizer are where they were.
        assert_eq!(second, whole[10..], "{workload}");
        assert_ne!(second, whole[..10], "{workload}");

        let written = Checkpoint::read(&place).unwrap();
        assert_eq!((written.workload.as_str(), written.global_batch), (workload, batch));
        assert_eq!((written.steps, written.samples, written.ranks), (10, 10 * u64::from(batch), 1));
    }
}

#[test]
fn a_checkpoint_is_of_no_plan() {
    let folder = tempfile::tempdir().unwrap();
    // Without dropout, whose masks depend on how a batch is cut, nor batch norm.
    let job = |plan, steps| launch("gpt2-mini", 4, plan, Some(steps));
    for (from, to, tolerance) in [
        ("dp1", "ga2", 1e-4),
        ("ga2", "gc-offload", 1e-4),
        ("offload", "dp1", 1e-4),
        ("bf16", "ga4-bf16", 0.02),
    ] {
        let place = folder.path().join(from);
        let whole = checkpointed(&job(from, 20), 10, &place);
        let second = train(&restored(&job(from, 20), &place, to, 10));
        for (step, (one, other)) in whole[10..].iter().zip(&second).enumerate() {
            assert!((one - other).abs() < tolerance, "step {step} of {from} to {to}: {one} and {other}");
        }
        assert_eq!(Checkpoint::read(&place).unwrap().plan.to_string(), from);
    }
}

#[test]
fn checkpoints_follow_one_another_over_launches() {
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let spec = launch("neumf", 8, "dp1", Some(9));
    let whole = checkpointed(&spec, 3, &place("3"));
    let second = checkpointed(&restored(&spec, &place("3"), "dp1", 6), 3, &place("6"));
    let third = train(&restored(&spec, &place("6"), "dp1", 3));
    assert_eq!((second.as_slice(), third.as_slice()), (&whole[3..], &whole[6..]));
    let written = Checkpoint::read(&place("6")).unwrap();
    assert_eq!((written.steps, written.samples), (6, 48), "of the job, not of the launch");
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_refused_and_the_job_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (taken, file) = (folder.path().join("taken"), folder.path().join("file"));
    fs::create_dir(&taken).unwrap();
    fs::write(&file, "").unwrap();
    let mut worker = Worker::start(&launch("neumf", 8, "dp1", Some(4)));
    worker.train_to(2);
    for (place, words) in [
        (taken.clone(), "taken is there already"),
        (file.clone(), "file is there already"),
        (file.join("below"), "below.unfinished cannot be written: Not a directory"),
        ("/".into(), "/ cannot be the name of a checkpoint"),
    ] {
        let path = place.to_str().unwrap().to_owned();
        match worker.ask(&Command::Checkpoint { path }) {
            Event::Refused { error } => assert!(error.contains(words), "{error}"),
            other => panic!("{other:?}"),
        }
    }
    let bytes = worker.checkpoint(&folder.path().join("new"));
    let on_file = fs::read_dir(folder.path().join("new")).unwrap();
    assert_eq!(on_file.map(|entry| entry.unwrap().metadata().unwrap().len()).sum::<u64>(), bytes);
    worker.grant.extend_to(4);
    assert!(worker.finish().1.success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "no draft is left");
}

#[test]
fn ranks_write_one_checkpoint_or_refuse_together() {
    let folder = tempfile::tempdir().unwrap();
    let [alone, together] = ["alone", "together"].map(|name| folder.path().join(name));
    let whole = checkpointed(&launch("gpt2-mini", 4, "dp1", Some(3)), 2, &alone);

    let spec = restored(&launch_ranks(2, "gpt2-mini", 4, "dp2", None), &alone, "dp2", 1);
    let mut workers = Worker::start_ranks(&spec);
    for place in [&alone, &together] {
        let path = place.to_str().unwrap().to_owned();
        for worker in &mut workers {
            worker.wait_for(|event| matches!(event, Event::Ready(_)));
            worker.command(&Command::Checkpoint { path: path.clone() });
        }
    }
    let answers = |worker: &mut Worker| {
        worker.wait_for(|event| matches!(event, Event::Checkpointed { .. }));
        let answers = worker.wait_for(|_| true).iter().filter_map(|line| match &line.event {
            Event::Checkpointed { bytes, .. } => Some(Ok(*bytes)),
            Event::Refused { error } => Some(Err(error.clone())),
            _ => None,
        });
        answers.collect::<Vec<_>>()
    };
    let said: Vec<_> = workers.iter_mut().map(answers).collect();
    let [[Err(first), Ok(first_bytes)], [Err(second), Ok(second_bytes)]] = [&said[0][..], &said[1][..]]
    else {
        panic!("{said:?}")
    };
    assert!(first.contains("alone is there already"), "{first}");
    assert!(second.contains("another rank"), "{second}");
    let on_file = files(&together).iter().map(|file| fs::metadata(file).unwrap().len()).sum::<u64>();
    assert_eq!(first_bytes + second_bytes, on_file);
    let written = Checkpoint::read(&together).unwrap();
    assert_eq!((written.ranks, written.steps, written.plan.to_string()), (2, 2, "dp2".into()));

    workers[0].grant.extend_to(1);
    let losses: Vec<_> = workers.into_iter().map(|worker| losses(&worker.finish().0)[0]).collect();
    let mean = losses.iter().sum::<f64>() / 2.0;
    assert!((mean - whole[2]).abs() < 1e-5, "{losses:?} and {}", whole[2]);
    let back = train(&restored(&launch("gpt2-mini", 4, "dp1", None), &together, "dp1", 1));
    assert!((back[0] - whole[2]).abs() < 1e-6, "{back:?} and {}", whole[2]);
}

#[test]
fn ranks_go_on_from_their_checkpoint_and_after_a_pause_to_the_bit() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("c");
    // Each rank has dropout of its own.
    let spec = launch_ranks(2, "bert-mini", 4, "dp2", Some(6));
    let finish = |mut workers: Vec<Worker>| {
        workers[0].grant.extend_to(6);
        workers.drain(..).map(|worker| losses(&worker.finish().0)).collect::<Vec<_>>()
    };
    let whole = finish(Worker::start_ranks(&spec));

    let mut workers = Worker::start_ranks(&spec);
    workers[0].grant.extend_to(3);
    workers.iter_mut().for_each(|worker| worker.train_to(3));
    let path = place.to_str().unwrap().to_owned();
    for command in [Command::Pause {}, Command::Checkpoint { path }, Command::Resume {}] {
        workers.iter_mut().for_each(|worker| worker.command(&command));
    }
    for worker in &mut workers {
        worker.wait_for(|event| matches!(event, Event::Resumed { .. }));
    }
    assert_eq!(finish(workers), whole);

    let second = finish(Worker::start_ranks(&restored(&spec, &place, "dp2", 3)));
    for (second, whole) in second.iter().zip(&whole) {
        assert_eq!(second[..], whole[3..]);
    }
}

fn files(checkpoint: &Path) -> Vec<PathBuf> {
    fs::read_dir(checkpoint).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn a_damaged_checkpoint_is_refused_by_the_name_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("c");
    let spec = launch("neumf", 8, "dp1", Some(2));
    checkpointed(&spec, 1, &place);
    let files = files(&place);
    assert_eq!(files.len(), 4, "the model, the optimizer's state, random state, the manifest: {files:?}");
    for file in files {
        let whole = fs::read(&file).unwrap();
        let mut flipped = whole.clone();
        flipped[whole.len() / 2] ^= 1;
        for content in [Some(&whole[..whole.len() - 1]), Some(&flipped), None] {
            match content {
                Some(content) => fs::write(&file, content).unwrap(),
                None => fs::remove_file(&file).unwrap(),
            }
            let (kind, words) = refusal(&spec, &place);
            assert_eq!(kind, FailureKind::Data, "{words}");
            assert!(words.contains(file.to_str().unwrap()), "{words}");
        }
        fs::write(&file, &whole).unwrap();
    }
    assert_eq!(train(&restored(&spec, &place, "dp1", 1)).len(), 1, "whole again, it restores");
}

#[test]
fn a_checkpoint_of_another_job_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("c");
    let spec = launch("neumf", 8, "dp1", Some(2));
    checkpointed(&spec, 1, &place);

    let changed = |change: &dyn Fn(&mut schema::spec::Training)| {
        let mut spec = spec.clone();
        let Program::Training(training) = &mut spec.program else { unreachable!() };
        change(training);
        spec
    };
    let wider = changed(&|training| {
        let schema::catalog::Model::Neumf(model) = &mut training.workload.model else { unreachable!() };
        model.items += 1;
    });
    let sgd = |momentum| {
        changed(&|training| {
            training.workload.optimizer =
                schema::catalog::Optimizer::Sgd { learning_rate: 0.1, momentum, weight_decay: 0.0 };
        })
    };
    for (other, words) in [
        (
            launch("gpt2-mini", 8, "dp1", Some(1)),
            "c: is a checkpoint of neumf@b8, and this job is gpt2-mini@b8: its model is of the family neumf",
        ),
        (launch("neumf", 16, "dp1", Some(1)), "c: is a checkpoint of neumf@b8, and this job is neumf@b16"),
        (wider, "`items` of its model is "),
        (sgd(0.0), "its optimizer is adam, and the job's sgd"),
        (sgd(0.9), "its optimizer is adam, and the job's sgd"),
    ] {
        let (kind, said) = refusal(&other, &place);
        assert_eq!(kind, FailureKind::Unsupported, "{said}");
        assert!(said.contains(words), "{said}");
    }

    let manifest = place.join("manifest.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(&manifest, text.replace("format = 2", "format = 3")).unwrap();
    let (kind, said) = refusal(&spec, &place);
    assert_eq!(kind, FailureKind::Unsupported, "{said}");
    assert!(said.contains("c/manifest.toml: format 3 is newer than this program"), "{said}");
}

#[test]
fn a_kill_while_a_checkpoint_is_written_leaves_none_or_a_whole_one() {
    const KILLS: u32 = 20;
    let folder = tempfile::tempdir().unwrap();
    let spec = launch("gpt2-mini", 1, "dp1", Some(2));
    let last = folder.path().join("last");
    let mut worker = Worker::start(&spec);
    worker.train_to(1);
    let begin = Instant::now();
    worker.checkpoint(&last);
    let took = begin.elapsed();
    worker.kill();
    worker.finish();

    for kill in 0..KILLS {
        let place = folder.path().join("next");
        let mut worker = Worker::start(&restored(&spec, &last, "dp1", 1));
        worker.wait_for(|event| matches!(event, Event::Ready(_)));
        worker.command(&Command::Checkpoint { path: place.to_str().unwrap().into() });
        // From before it begins to after its end.
        let_pass(took * kill / (KILLS - 5), "the kill comes at any moment of the writing");
        worker.kill();
        worker.finish();
        if place.exists() {
            let written = Checkpoint::read(&place).unwrap();
            for file in &written.files {
                Checkpoint::read_file(&place, file).unwrap();
            }
            fs::remove_dir_all(&last).unwrap();
            fs::rename(&place, &last).unwrap();
        }
    }
    // Remains of the last kill have no effect, and the last whole checkpoint restores.
    let mut worker = Worker::start(&restored(&spec, &last, "dp1", 1));
    worker.wait_for(|event| matches!(event, Event::Ready(_)));
    worker.checkpoint(&folder.path().join("next"));
    worker.grant.extend_to(1);
    assert!(worker.finish().1.success());
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2, "no draft is left");
}

/// The model of the checkpoint in `checkpoint/format-1`, which an earlier program has written after 6 of 12 steps.
const TINY: &str = r#"
[[workload]]
name = "tiny"
about = "a decoder whose checkpoint has a few kilobytes"
source = "a test"
global_batch = 4
axes = ["dp", "ga"]
verify = { global_batch = 4, steps = 3 }
optimizer.adamw = { learning_rate = 1e-2, beta1 = 0.9, beta2 = 0.95, epsilon = 1e-8, weight_decay = 0.1 }
model.gpt2 = { vocabulary = 7, context = 3, layers = 1, width = 4, heads = 2 }
"#;

#[test]
fn a_checkpoint_of_an_earlier_program_is_continued() {
    // Those of the program that wrote it.
    const LOSSES: [f64; 6] = [
        1.8734946250915527,
        1.8798660039901733,
        1.8979129791259766,
        1.8851205110549927,
        1.90683114528656,
        1.8792471885681152,
    ];
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/program/checkpoint/format-1");
    let written = Checkpoint::read(&place).unwrap();
    assert_eq!((written.format, written.model, written.steps), (1, None, 6));
    let mut catalog = Catalog::default();
    catalog.add("tiny.toml", TINY).unwrap();
    let tiny = catalog.get("tiny").unwrap().clone();
    let spec = launch_of(tiny.clone(), 4, "dp1".parse().unwrap(), None);
    for plan in ["dp1", "ga2"] {
        let ours = train(&restored(&spec, &place, plan, 6));
        let apart = ours.iter().zip(LOSSES).map(|(ours, expected)| (ours - expected).abs());
        assert!(ours.len() == 6 && apart.fold(0.0, f64::max) < 1e-5, "{plan}: {ours:?} for {LOSSES:?}");
    }

    // It is known by its name alone.
    let renamed = schema::catalog::Workload { name: "other".into(), ..tiny };
    let (kind, said) = refusal(&launch_of(renamed, 4, "dp1".parse().unwrap(), None), &place);
    assert_eq!(kind, FailureKind::Unsupported);
    assert!(said.contains("is a checkpoint of tiny@b4, and this job is other@b4"), "{said}");
}
