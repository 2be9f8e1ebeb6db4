//! Checkpoints of several ranks, which are threads here.

use std::{
    fs,
    path::Path,
    sync::{
        Barrier,
        atomic::{AtomicU32, Ordering},
    },
    thread,
};

use schema::{
    checkpoint::{Checkpoint, Content},
    spec::Training,
};

use super::{
    model, optimizers,
    restore::Restore,
    save::{Peers, save},
};
use crate::{failure::Failure, launch::tests::training, step::tests::trainer_of};

/// Trains one step on each rank of a job and saves. The ranks call `meanwhile`, with the rank and the
/// number of the round, each time that all of them agree.
fn save_together(
    ranks: u32,
    place: &Path,
    meanwhile: impl Fn(u32, u32) + Sync,
) -> Vec<Result<anyhow::Result<u64>, Failure>> {
    let (barrier, agreed) = (Barrier::new(ranks as usize), AtomicU32::new(0));
    let rank_main = |rank| {
        let training = training("neumf", 8, &format!("dp{ranks}"));
        let mut trainer = trainer_of("neumf", 8);
        trainer.issue().unwrap();
        let mut rounds = 0;
        let mut all = |ready: bool| {
            rounds += 1;
            agreed.fetch_add(u32::from(ready), Ordering::Relaxed);
            barrier.wait();
            let everybody = agreed.load(Ordering::Relaxed) == ranks * rounds;
            barrier.wait();
            meanwhile(rank, rounds);
            Ok(everybody)
        };
        save(place, &training, &trainer, &mut Peers { rank, ranks, all: &mut all })
    };
    let rank_main = &rank_main;
    thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks).map(|rank| scope.spawn(move || rank_main(rank))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn ranks_write_one_checkpoint_that_restores_in_any_number_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("c");
    let rounds = AtomicU32::new(0);
    let said = save_together(2, &place, |_, round| {
        rounds.fetch_max(round, Ordering::Relaxed);
    });
    assert_eq!(rounds.into_inner(), 1 + 3 + 1, "to begin, after each file of the first rank, and in the end");
    let written: Vec<u64> = said.into_iter().map(|said| said.unwrap().unwrap()).collect();
    let on_file = fs::read_dir(&place).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len());
    assert_eq!(written.iter().sum::<u64>(), on_file.sum::<u64>());

    let checkpoint = Checkpoint::read(&place).unwrap();
    assert_eq!((checkpoint.ranks, checkpoint.steps, checkpoint.samples), (2, 1, 8));
    let parts = checkpoint.files.iter().map(|file| (&*file.name, file.content, file.rank));
    assert_eq!(
        parts.collect::<Vec<_>>(),
        [
            ("model-0.safetensors", Content::Model, None),
            ("optimizer-0.safetensors", Content::Optimizer, None),
            ("random-0.safetensors", Content::Random, Some(0)),
            ("random-1.safetensors", Content::Random, Some(1)),
        ]
    );
    assert_eq!(checkpoint.files[3].bytes, written[1], "what all ranks have is written by the first");

    let restored: Vec<_> = [(0, 1), (1, 2), (2, 3)]
        .into_iter()
        .map(|(rank, ranks)| {
            let training = training("neumf", 8, &format!("dp{ranks}"));
            let training = Training { restore: Some(place.clone()), ..training };
            let mut trainer = trainer_of("neumf", 8);
            Restore::of(&training).unwrap().unwrap().apply(&mut trainer, 1).unwrap();
            trainer
        })
        .collect();
    for trainer in &restored {
        assert_eq!(trainer.data().position(), Some(8));
        assert_eq!(model(trainer), model(&restored[0]));
        assert_eq!(optimizers(trainer), optimizers(&restored[0]));
    }
    let names: Vec<_> = optimizers(&restored[0]).into_iter().map(|(name, _)| name).collect();
    assert!(names.contains(&"all.step".into()), "{names:?}");
    assert!(names.iter().any(|name| name.starts_with("all.average.")), "{names:?}");
}

#[test]
fn a_rank_that_cannot_write_keeps_all_from_saying_that_there_is_a_checkpoint() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("c.unfinished/random-1.safetensors");
    let said = save_together(2, &folder.path().join("c"), |rank, round| {
        if (rank, round) == (1, 1) {
            fs::create_dir(&in_the_way).unwrap();
        }
    });
    let words: Vec<_> = said.into_iter().map(|said| said.unwrap().unwrap_err().to_string()).collect();
    assert_eq!(words[0], "another rank cannot write its part");
    assert!(words[1].contains("random-1.safetensors cannot be written: File exists"), "{}", words[1]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left");
}
