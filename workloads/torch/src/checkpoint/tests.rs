//! Checkpoints of several ranks, which are threads here.

mod plans;

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

use schema::{
    catalog::Optimizer,
    checkpoint::{Checkpoint, CheckpointFile, Content, Draft, Region},
    spec::Training,
    wire::FailureKind,
};
use tch::Tensor;

use super::{
    held::held,
    restore::Restore,
    save::save,
    tensors::{decode, encode},
};
use crate::{
    failure::Failure,
    parallel::tests::{ADAMW, Case, SGD, largest_difference},
    step::Trainer,
};

/// Steps before a checkpoint, and after it.
const STEPS: usize = 10;

fn case<'a>(model: &'a str, optimizer: Optimizer, plan: &str) -> Case<'a> {
    Case { model, optimizer, plan: plan.parse().expect("canonical"), is_exact: true, is_clipped: true }
}

fn train(trainer: &mut Trainer) -> Vec<f64> {
    let step = |_| {
        trainer.issue().unwrap();
        trainer.completed(0).unwrap().unwrap().loss
    };
    (0..STEPS).map(step).collect()
}

fn restore(training: &Training, place: &Path, trainer: &mut Trainer) -> Result<(), Failure> {
    let training = Training { restore: Some(place.into()), ..training.clone() };
    Restore::of(&training)?.expect("it names a checkpoint").apply(trainer, 1)
}

/// The losses of a job, which are the means over the ranks that have one.
fn mean(of_ranks: &[Vec<f64>]) -> Vec<f64> {
    let of_step = |step: usize| {
        let losses: Vec<f64> =
            of_ranks.iter().map(|losses| losses[step]).filter(|loss| !loss.is_nan()).collect();
        losses.iter().sum::<f64>() / losses.len() as f64
    };
    (0..STEPS).map(of_step).collect()
}

/// Trains a job and writes a checkpoint.
fn checkpointed(case: &Case, place: &Path) -> Vec<Vec<f64>> {
    let training = case.training();
    case.on_ranks(|trainer| {
        let losses = train(trainer);
        save(place, &training, trainer).unwrap().unwrap();
        losses
    })
}

/// The files of each rank: their names, and the numbers in them.
fn files_of_ranks(checkpoint: &Checkpoint) -> Vec<(&str, u32, usize)> {
    let of_file = |file: &'_ CheckpointFile| file.tensors.len();
    checkpoint.files.iter().map(|file| (file.name.as_str(), file.rank.unwrap(), of_file(file))).collect()
}

#[test]
fn each_rank_writes_what_no_rank_before_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let written = |plan: &str| {
        let place = folder.path().join(plan);
        let case = case("t5", ADAMW, plan);
        let bytes = case.on_ranks(|trainer| save(&place, &case.training(), trainer).unwrap().unwrap());
        let on_disk = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
        assert_eq!(bytes.iter().sum::<u64>(), on_disk.sum::<u64>(), "{plan}: every file is of one rank");
        let checkpoint = Checkpoint::read(&place).unwrap();
        assert_eq!((checkpoint.ranks as usize, checkpoint.steps, checkpoint.samples), (bytes.len(), 0, 0));
        checkpoint
    };
    let dp1 = written("dp1");
    let tensors = dp1.files[0].tensors.len();
    let names = |checkpoint: &Checkpoint, rank| -> BTreeSet<String> {
        let of_rank = checkpoint.files.iter().filter(|file| file.rank == Some(rank));
        of_rank.flat_map(|file| &file.tensors).map(|stored| stored.name.clone()).collect()
    };

    // What data-parallel ranks have in common is written by the first of them.
    let dp2 = written("dp2");
    let expected = [
        ("model-0-0.safetensors", 0, tensors),
        ("optimizer-0-0.safetensors", 0, 2 * tensors + 1),
        ("random-0.safetensors", 0, 0),
        ("random-1.safetensors", 1, 0),
    ];
    assert_eq!(files_of_ranks(&dp2), expected);
    assert_eq!(dp2.files[0].tensors, dp1.files[0].tensors);
    assert!(dp2.files[0].tensors.iter().all(|stored| stored.region.is_none()));

    // Of the three links that use the embedding, the first is in the first stage.
    let pp2 = written("pp2-ga2");
    let [first, second] = [0, 1].map(|rank| names(&pp2, rank));
    assert_eq!(first.intersection(&second).count(), 0);
    assert_eq!(first.len() + second.len(), 3 * tensors + 1);
    let tied = |names: &BTreeSet<String>| names.iter().filter(|name| name.contains("shared")).count();
    assert_eq!((tied(&first), tied(&second)), (3, 0), "{first:?}");
    assert!(first.contains("all.step") && !second.contains("all.step"));

    // Slices are written by their ranks, and whole tensors by the first.
    let tp2 = written("tp2");
    let slices = |file: &CheckpointFile| {
        file.tensors.iter().filter(|stored| matches!(stored.region, Some(Region::Slice { .. }))).count()
    };
    let of_model = |rank| {
        tp2.files.iter().find(|file| file.rank == Some(rank) && file.content == Content::Model).unwrap()
    };
    assert_eq!(of_model(0).tensors.len(), tensors);
    assert_eq!(slices(of_model(1)), of_model(1).tensors.len());
    assert!(0 < slices(of_model(1)) && slices(of_model(1)) < tensors);
}

#[test]
fn a_rank_that_cannot_write_keeps_all_from_saying_that_there_is_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let case = case("gpt2", SGD, "dp2");
    let said = case.on_ranks(|trainer| {
        let is_first = trainer.world().at.data == 0;
        // The second rank does not see the folder of the first one.
        let place = folder.path().join(if is_first { "c" } else { "absent/c" });
        save(&place, &case.training(), trainer).unwrap().unwrap_err().to_string()
    });
    assert_eq!(said[0], "another rank cannot write its part");
    assert!(said[1].contains("random-1.safetensors cannot be written: No such file"), "{}", said[1]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}

/// Why a job of one rank cannot continue from a checkpoint.
fn refusal(case: &Case, training: &Training, place: &Path) -> (FailureKind, String) {
    let refused = case.on_ranks(|trainer| restore(training, place, trainer).unwrap_err());
    let Failure { kind, message } = refused.into_iter().next().expect("there is one rank");
    (kind, message)
}

/// A copy of a checkpoint with another manifest.
fn rewritten(from: &Path, name: &str, change: impl FnOnce(&mut Checkpoint)) -> PathBuf {
    let place = from.with_file_name(name);
    let draft = Draft::of(&place).unwrap();
    draft.begin().unwrap();
    let mut checkpoint = Checkpoint::read(from).unwrap();
    for file in &checkpoint.files {
        fs::copy(from.join(&file.name), from.with_file_name(format!("{name}.unfinished")).join(&file.name))
            .unwrap();
    }
    change(&mut checkpoint);
    draft.finish(&checkpoint).unwrap();
    place
}

#[test]
fn missing_altered_and_overlapping_parts_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("c");
    checkpointed(&case("gpt2", SGD, "tp2"), &place);
    let alone = case("gpt2", SGD, "dp1");
    let training = alone.training();
    let checkpoint = Checkpoint::read(&place).unwrap();
    let parts: Vec<_> = checkpoint.files.iter().filter(|file| file.content != Content::Random).collect();
    assert_eq!(parts.len(), 4, "both ranks have parts of the model and of the optimizer's state");

    for file in &parts {
        let path = place.join(&file.name);
        let content = fs::read(&path).unwrap();
        let mut flipped = content.clone();
        flipped[content.len() / 2] ^= 1;
        for damaged in [None, Some(&flipped[..]), Some(&content[1..])] {
            match damaged {
                None => fs::remove_file(&path).unwrap(),
                Some(content) => fs::write(&path, content).unwrap(),
            }
            let (kind, words) = refusal(&alone, &training, &place);
            assert_eq!(kind, FailureKind::Data, "{words}");
            assert!(words.contains(path.to_str().unwrap()), "{words}");
        }
        fs::write(&path, content).unwrap();
    }

    let file_of = |checkpoint: &Checkpoint, content, rank| {
        let is_it = |file: &CheckpointFile| (file.content, file.rank) == (content, Some(rank));
        checkpoint.files.iter().position(is_it).unwrap()
    };
    let other = |name: &str, change: &dyn Fn(&mut Checkpoint)| {
        let place = rewritten(&place, name, change);
        let (kind, words) = refusal(&alone, &training, &place);
        assert_eq!(kind, FailureKind::Data, "{words}");
        words
    };
    for (content, named) in [(Content::Model, "model-0-0"), (Content::Optimizer, "optimizer-0-0")] {
        let without = other(&format!("without-{named}"), &|checkpoint| {
            checkpoint.files.remove(file_of(checkpoint, content, 1));
        });
        assert!(without.contains("numbers are missing beside") && without.contains(named), "{without}");
        let twice = other(&format!("twice-{named}"), &|checkpoint| {
            let (first, second) = (file_of(checkpoint, content, 0), file_of(checkpoint, content, 1));
            let name = checkpoint.files[second].tensors[0].name.clone();
            let same = checkpoint.files[first].tensors.iter().find(|stored| stored.name == name).unwrap();
            checkpoint.files[second].tensors[0].region = same.region.clone();
        });
        assert!(twice.contains("hold the same numbers") && twice.contains(named), "{twice}");
    }
    let unlisted = other("unlisted", &|checkpoint| {
        let first = file_of(checkpoint, Content::Model, 0);
        let whole = checkpoint.files[first].tensors.iter().position(|stored| stored.region.is_none());
        checkpoint.files[first].tensors.remove(whole.unwrap());
    });
    assert!(
        unlisted.contains("model-0-0.safetensors: tensor ") && unlisted.contains("not list it"),
        "{unlisted}"
    );
}

#[test]
fn a_checkpoint_belongs_to_a_definition() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("c");
    let job = case("gpt2", SGD, "dp1");
    checkpointed(&job, &place);
    let mut training = job.training();
    training.workload.name = "mine".into();
    job.on_ranks(|trainer| restore(&training, &place, trainer).unwrap());

    let with_adamw = case("gpt2", ADAMW, "dp1");
    let (kind, words) = refusal(&with_adamw, &with_adamw.training(), &place);
    assert_eq!(kind, FailureKind::Unsupported);
    assert!(
        words.contains("c: is a checkpoint of gpt2@b8") && words.contains("is sgd, and the job's adamw"),
        "{words}"
    );
    let llama = case("llama", SGD, "dp1");
    let (_, words) = refusal(&llama, &llama.training(), &place);
    assert!(words.contains("this job is llama@b8: its model is of the family gpt2"), "{words}");
}

/// Writes a checkpoint of a job of one rank as programs before format 2 did.
fn save_in_format_1(place: &Path, training: &Training, trainer: &Trainer) {
    let draft = Draft::of(place).unwrap();
    draft.begin().unwrap();
    let write = |name: &str, content, rank, tensors: Vec<(String, Tensor)>| {
        draft.write(name.into(), content, rank, &encode(&tensors).unwrap()).unwrap()
    };
    let named = |content| -> Vec<(String, Tensor)> {
        held(trainer, content).into_iter().map(|held| (held.stored.name, held.tensor)).collect()
    };
    let random = vec![("cpu".into(), crate::shim::random::random_state(tch::Device::Cpu).unwrap())];
    let files = vec![
        write("model-0.safetensors", Content::Model, None, named(Content::Model)),
        write("optimizer-0.safetensors", Content::Optimizer, None, named(Content::Optimizer)),
        write("random-0.safetensors", Content::Random, Some(0), random),
    ];
    let samples = trainer.data().position().unwrap();
    let written = Checkpoint {
        format: 1,
        workload: training.workload.name.clone(),
        parameters: trainer.workload().parameters().count(),
        global_batch: training.global_batch,
        plan: training.plan,
        ranks: 1,
        steps: samples / u64::from(training.global_batch),
        samples,
        optimizer: None,
        model: None,
        files,
    };
    draft.finish(&written).unwrap();
}

#[test]
fn a_checkpoint_of_format_1_is_continued_under_any_plan() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("c");
    let job = case("gpt2", ADAMW, "dp1");
    let training = job.training();
    let expected = job.on_ranks(|trainer| {
        train(trainer);
        save_in_format_1(&place, &training, trainer);
        train(trainer)
    });
    let manifest = fs::read_to_string(place.join("manifest.toml")).unwrap();
    assert!(
        manifest.contains("\nformat = 1\n")
            && !manifest.contains("[model")
            && !manifest.contains("[[file.tensor")
    );
    for plan in ["dp1", "dp2-zero3", "dp2-tp2-pp2-ga2"] {
        let case = case("gpt2", ADAMW, plan);
        let ours = case.on_ranks(|trainer| {
            restore(&training, &place, trainer).unwrap();
            train(trainer)
        });
        assert!(largest_difference(&mean(&ours), &expected[0]) <= 1e-9, "{plan}: {ours:?} for {expected:?}");
    }

    // A tensor that is in no file, and one that the job does not have.
    let content = decode(&fs::read(place.join("model-0.safetensors")).unwrap()).unwrap();
    for (name, words) in [("other", "tensor other: the job has none"), ("", "has no tensor ")] {
        let mut tensors = content.iter().map(|(name, tensor)| (name.clone(), tensor.shallow_clone()));
        let (_, first) = tensors.next().unwrap();
        let renamed = (!name.is_empty()).then(|| (name.to_owned(), first));
        let bytes = encode(&tensors.chain(renamed).collect::<Vec<_>>()).unwrap();
        let changed = folder.path().join(format!("changed-{name}"));
        let draft = Draft::of(&changed).unwrap();
        draft.begin().unwrap();
        let mut checkpoint = Checkpoint::read(&place).unwrap();
        checkpoint.files[0] =
            draft.write("model-0.safetensors".into(), Content::Model, None, &bytes).unwrap();
        draft.finish(&checkpoint).unwrap();
        let (kind, said) = refusal(&job, &training, &changed);
        assert_eq!(kind, FailureKind::Unsupported);
        assert!(said.contains(words), "{said}");
    }
}
