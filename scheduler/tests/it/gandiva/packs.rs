//! Packs by trial.

use super::{HEAVY, LIGHT, World, ends, job, reasons};

#[test]
fn light_jobs_are_packed_after_they_were_measured_and_stay_packed() {
    let jobs: Vec<_> = (0..2).map(|id| job(id, LIGHT, (0, 1, 100))).collect();
    let (turns, outcomes) = World::node(1).run("gandiva:quantum=10s:reports=3", &jobs);
    assert_eq!(reasons(&turns, "tries").len(), 1);
    let kept = reasons(&turns, "stays beside");
    assert_eq!(kept.len(), 1, "{kept:?}");
    let sum: f64 = kept[0].split(' ').nth(4).expect("it names the sum").parse().expect("it is a number");
    assert!((sum - 2.0 / 1.2).abs() < 0.02, "two jobs at 1 / 1.2 of their speed alone: {kept:?}");
    let last = ends(&outcomes).into_iter().fold(0.0, f64::max);
    assert!(last < 135.0, "in turns they would take 200 s: {last}");
    let (_, outcomes) = World::node(1).run("gandiva:quantum=10s:reports=3:pack=off", &jobs);
    assert!(ends(&outcomes).into_iter().fold(0.0, f64::max) >= 200.0);
}

#[test]
fn a_pack_that_loses_is_tried_once_and_undone() {
    let jobs: Vec<_> = (0..3).map(|id| job(id, HEAVY, (0, 1, 100))).collect();
    let (turns, outcomes) = World::node(1).run("gandiva:quantum=10s:reports=3", &jobs);
    assert_eq!(reasons(&turns, "tries").len(), 1, "jobs like these are not tried again");
    let undone = reasons(&turns, "no longer beside");
    assert_eq!(undone.len(), 1);
    assert!(undone[0].contains("0.800 ± "), "two jobs at 1 / 2.5: {undone:?}");
    let last = ends(&outcomes).into_iter().fold(0.0, f64::max);
    assert!(last < 304.0, "the trial costs a few seconds: {last}");
}

#[test]
fn without_reports_jobs_take_turns_and_are_not_packed() {
    let jobs: Vec<_> = (0..2).map(|id| job(id, LIGHT, (0, 1, 50))).collect();
    let world = World { reports: false, ..World::node(1) };
    let (turns, outcomes) = world.run("gandiva:quantum=5s", &jobs);
    assert_eq!(reasons(&turns, "tries").len(), 0);
    assert!(ends(&outcomes).into_iter().fold(0.0, f64::max) >= 100.0);
}
