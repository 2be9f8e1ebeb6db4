//! What Gandiva says of a job.

use engine::{Engine, cluster::JobId, job::JobRequest, topology::Topology};
use formats::decision::Turn;
use launches::simulated::{self, Settings};
use model::switch_costs::Named;
use schema::units::Nanos;

use super::{HEAVY, LIGHT, Truth, job};
use crate::{
    rubick::EndsAfter,
    support::{SECOND, built},
};

/// What the policy says of a job at a second.
fn said(policy: &str, jobs: &[JobRequest], second: u64, job: u32) -> String {
    let topology = Topology::uniform(1, 1, "GPU");
    let costs = Named::constant(Nanos::ZERO);
    let settings = Settings { progress_every: Some(Nanos::SECOND), ..Settings::default() };
    let sim = simulated::cluster(&topology, jobs, Box::new(Truth), &costs, settings).expect("all is known");
    let mut engine = Engine::new(&topology, jobs, &Truth, engine::Settings::default());
    let mut policy = built(policy);
    let mut turns: Vec<Turn> = Vec::new();
    let mut until = EndsAfter { sim, at: Nanos(second * SECOND) };
    engine::run(&mut engine, &mut until, &mut *policy, &mut turns).expect_err("it ends before the jobs");
    policy.explain(&engine.view(), JobId(job))
}

#[test]
fn a_job_is_explained_by_its_devices_and_the_jobs_there() {
    let heavy: Vec<_> = (0..2).map(|id| job(id, HEAVY, (0, 1, 100))).collect();
    let policy = "gandiva:quantum=10s:reports=3";
    let text = said(policy, &heavy[..1], 5, 0);
    assert_eq!(text, "it takes turns with no other job on n0/cuda:0");
    let text = said(policy, &heavy, 5, 1);
    assert_eq!(
        text,
        "it takes turns on n0/cuda:0 with job-0; in order of time over weight, it is at 0.0 s with weight 1"
    );
    let text = said(policy, &heavy, 80, 1);
    assert!(
        text.contains("it is not packed with job-0, because such jobs lost or did not fit together"),
        "{text}"
    );
    let light: Vec<_> = (0..2).map(|id| job(id, LIGHT, (0, 1, 100))).collect();
    let text = said(policy, &light, 60, 0);
    assert!(
        text.starts_with("it takes turns with no other job on n0/cuda:0; it is packed with job-1, 1.6"),
        "{text}"
    );
    let text = said("gandiva:slice=off:pack=off", &heavy, 5, 1);
    assert_eq!(
        text,
        "it is number 1 of 1 in the queue; it finds no devices that are free or that it may share"
    );
}
