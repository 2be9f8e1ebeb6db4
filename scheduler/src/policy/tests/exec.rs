//! The program of the documentation, and the policy of ours that it is meant to equal.

use std::process::{Command, Stdio};

use model::{Prediction, Question, Throughput};

use super::world::{AsAsked, World};
use crate::{
    job::What,
    policy::{Decision, Policy, build},
    topology::Topology,
    view::View,
};

const README: &str = include_str!("../../../README.md");

/// Does not know how long some jobs take.
struct KnowsOne;

impl Throughput for KnowsOne {
    fn predict(&self, question: &Question<'_>) -> Option<Prediction> {
        (question.job.workload == "gpt2").then(|| AsAsked.predict(question)).flatten()
    }
}

/// Asks both, and does what the first wants.
struct Both {
    ours: Box<dyn Policy>,
    program: Box<dyn Policy>,
    turns: u32,
}

impl Policy for Both {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let (ours, theirs) = (self.ours.decide(view), self.program.decide(view));
        assert!(self.program.failure().is_none());
        assert_eq!((&ours.actions, ours.wake_at), (&theirs.actions, theirs.wake_at), "turn {}", self.turns);
        self.turns += 1;
        ours
    }
}

#[test]
fn the_shortest_job_first_of_the_documentation_decides_as_ours_does() {
    if !Command::new("python3").arg("-V").stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    {
        return println!("skipped: there is no python3");
    }
    let (_, program) = README.split_once("```python\n").expect("it has an example");
    let (program, _) = program.split_once("```").expect("the example ends");
    assert!(program.lines().count() <= 30, "it is said to have thirty lines");
    let file = tempfile::Builder::new().suffix(".py").tempfile().expect("there is a place for files");
    std::fs::write(file.path(), program).expect("it can be written");

    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..5 {
        let mut jobs: Vec<_> =
            (0..40).map(|_| (random.u64(0..60), random.u32(1..9), random.u64(1..30))).collect();
        jobs.sort_by_key(|job| job.0);
        let mut world = World::on(Topology::uniform(14, 4, "GPU"), &jobs);
        world.model = Box::new(KnowsOne);
        for asked in world.asked.iter_mut().filter(|asked| asked.id.0 % 7 == 0) {
            asked.what = What::Training { workload: "unknown".into(), global_batch: Some(8) };
        }
        let mut both = Both {
            ours: build("sjf").expect("it is in the list"),
            program: build(&format!("exec:python3 {}", file.path().display())).expect("there is a python3"),
            turns: 0,
        };
        world.run(&mut both, |_| {});
        assert!(both.turns >= 80, "an arrival and an end of each");
    }
}
