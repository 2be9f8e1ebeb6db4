//! What Lucid says of a job.

use engine::{Engine, cluster::JobId, job::JobRequest, policy::Policy, view::PolicyContext};
use formats::decision::Turn;
use launches::simulated::{self, Settings};
use model::switch_costs::Named;
use schema::units::Nanos;

use super::{ByBatch, JUMBO, MEDIUM, TINY, UNKNOWN, World, estimated, job, of_class, stage::with_stage};
use crate::{
    rubick::EndsAfter,
    support::{Own, SECOND, built},
};

/// What the policy says of a job at a second.
fn said(world: &World<'_>, policy: &str, jobs: &[JobRequest], (second, of): (u64, u32)) -> String {
    let costs = Named::constant(Nanos::ZERO);
    let settings = Settings { progress_every: world.reports.then_some(Nanos::SECOND), ..Settings::default() };
    let truth = Box::new(Own { slowdown: world.truth });
    let sim = simulated::cluster(&world.topology, jobs, truth, &costs, settings).expect("all is known");
    let known =
        PolicyContext { history: &world.history, classes: Some(&ByBatch), ..PolicyContext::default() };
    let mut engine =
        Engine::new(&world.topology, jobs, world.belief, engine::Settings::default()).knowing(known);
    let mut policy: Box<dyn Policy> = built(policy);
    let mut turns: Vec<Turn> = Vec::new();
    let mut until = EndsAfter { sim, at: Nanos(second * SECOND) };
    engine::run(&mut engine, &mut until, &mut *policy, &mut turns).expect_err("it ends before the jobs");
    policy.explain(&engine.view(), JobId(of))
}

fn assert_says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn a_waiting_job_is_explained_by_its_class_its_estimate_and_the_jobs_that_it_does_not_join() {
    let jobs = [
        of_class(JUMBO, estimated(100, job(0, (0, 1, 100)))),
        of_class(MEDIUM, estimated(50, job(1, (1, 1, 100)))),
        of_class(TINY, estimated(100, job(2, (2, 1, 100)))),
    ];
    let world = World { reports: true, ..World::node(1).remembers(&[50, 100]) };
    let text = said(&world, "lucid:estimates=rolling:sharing=on", &jobs[..2], (10, 1));
    assert_says(
        &text,
        &[
            "its class is Medium: batch 2 <= 3, busy 0.31 <= 0.52; ",
            "it is estimated to run for 50 s; ",
            "its priority is 50 device-seconds, and it is number 1 of 1 in the queue; ",
            "of the jobs that run alone on as many devices, it joins none: 1 of classes that are too heavy together",
            "sharing is on, as set",
        ],
    );
    let text = said(&world, "lucid:estimates=rolling:sharing=on", &jobs[..1], (10, 0));
    assert_says(&text, &["its class is Jumbo: "]);
    // The third joins the first.
    let both = [jobs[0].clone(), JobRequest { id: JobId(1), ..jobs[2].clone() }];
    let text = said(&world, "lucid:estimates=rolling:sharing=on", &both, (10, 1));
    assert_says(&text, &["it is packed with job-0, 1.", " times taking turns at most, as measured"]);
    let text = said(&world, "lucid", &[jobs[0].clone(), of_class(UNKNOWN, jobs[1].clone())], (10, 1));
    assert_says(
        &text,
        &[
            "its class is not known, so that it is not packed",
            "sharing is off: 0.40 jobs are expected in each of the next 5 bins of 600 s, no more than 2 (0.00 in the last hour)",
        ],
    );
}

#[test]
fn the_terms_of_an_estimate_and_its_correction_are_named() {
    let of = |user: &str, id, length| job(id, (0, 1, length)).with(|request| request.user = user.into());
    let mut jobs: Vec<JobRequest> = Vec::new();
    for id in 0..12 {
        jobs.push(if id % 2 == 0 { of("ann", id, 10) } else { of("bob", id, 90) });
    }
    jobs.push(of("ann", 12, 900));
    let world = World { reports: true, ..World::node(1) };
    // When two jobs of each user have ended, those of the first one come first. It starts at 240 s, after six of them.
    let text = said(&world, "lucid", &jobs, (245, 12));
    assert_says(&text, &["it is estimated to run for 10 s: the 17 s of the mean job, times 0.58 for user"]);
    let text = said(&world, "lucid", &jobs, (290, 12));
    assert_says(&text, &["; it has run for longer, and is taken to run for 100 s"]);
}

#[test]
fn the_stage_of_a_job_is_named() {
    let world = || World { reports: true, ..World::new(with_stage(&[("", 1, 1, true), ("", 1, 2, false)])) };
    let tiny = |id, devices| of_class(TINY, job(id, (0, devices, 1000)));
    let jobs = [tiny(0, 1), tiny(1, 1), tiny(2, 2)];
    let says = |of, second, parts: &[&str]| assert_says(&said(&world(), "lucid", &jobs, (second, of)), parts);
    let unknown = "its class is not known before it is profiled, so that it is not packed";
    says(0, 10, &["it is in the profiler stage, until 200 s if it does not end before; ", unknown]);
    says(
        1,
        10,
        &["it is number 1 of 1 before the profiler stage, by devices and then by arrival; ", unknown],
    );
    says(0, 210, &["it has been profiled; its class is Tiny: ", "in the queue"]);
    says(
        2,
        10,
        &["it is not profiled: it asks for 2 devices, and the stage is for up to 8 of one node; ", unknown],
    );
}

#[test]
fn the_bound_is_named() {
    let jobs = [job(0, (0, 1, 500)), job(1, (1, 2, 10))];
    let world = World { reports: true, ..World::node(2) };
    let text = said(&world, "lucid:bound=1m", &jobs, (70, 1));
    assert_says(&text, &["in the queue, as it has waited for more than 60.0 s and others wait for it"]);
}
