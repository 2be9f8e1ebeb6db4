//! What a fitted model learns from observations.

mod support;

use formats::fitted::FittedRow;
use model::{
    FittedModel, JobKey, Observation, Options, Parts, Placement, PredictRequest, Setting, Throughput,
    fit_workload,
};
use record::facts::Facts;
use schema::{plan::Plan, sharing::Sharing};

use support::model_of;

/// Seconds of a step of plain data parallelism, whose computing and synchronising overlap (Pollux, OSDI 2021, section 3.2).
fn step_s(batch: u32, ranks: u32) -> f64 {
    let computed: f64 = 0.02 + 0.01 * f64::from(batch) / f64::from(ranks);
    let synchronised: f64 = if ranks == 1 { 0.0 } else { 0.3 + 0.05 * f64::from(ranks - 2) };
    (computed.powf(OVERLAP) + synchronised.powf(OVERLAP)).powf(1.0 / OVERLAP)
}

const OVERLAP: f64 = 2.5;

fn plan(ranks: u16) -> Plan {
    Plan { dp: ranks, ..Plan::default() }
}

/// A model of `job` that was measured on one device alone, with 4 cores.
fn of_one_device() -> FittedModel {
    let row = |batch: u32| FittedRow {
        source: 0,
        global_batch: batch,
        plan: plan(1),
        placement: vec![1],
        cpus: Some(4),
        ranks_per_device: 1,
        step_ns: (step_s(batch, 1) * 1e9).round() as u64,
        forward_ns: None,
        synchronised_ns: None,
        updated_ns: None,
        peak_memory_bytes: None,
        doubtful: false,
        left_out: None,
    };
    let rows = [8, 16, 32, 64].map(row).into();
    let options = Options::new(Parts::A800, 1);
    let workload = fit_workload("job", Facts::default(), rows, 0.3, &options).expect("there are enough rows");
    model_of(workload)
}

fn setting(batch: u32, ranks: u16) -> Setting {
    Setting {
        facts: Facts::default(),
        global_batch: batch,
        plan: plan(ranks),
        placement: Placement::of(&[ranks.into()]),
        cpus: Some(4),
        ranks_per_device: 1,
    }
}

fn error(model: &FittedModel, batch: u32, ranks: u16) -> f64 {
    let answer = model.answer("job", &setting(batch, ranks)).expect("a formula describes it");
    (answer.step_s / step_s(batch, ranks.into()) - 1.0).abs()
}

#[test]
fn observations_on_several_devices_teach_what_synchronisation_costs() {
    let mut model = of_one_device();
    let before = [(64, 2), (32, 4), (64, 8)].map(|(batch, ranks)| error(&model, batch, ranks));
    for (version, (batch, ranks)) in (1..).zip([(16, 2), (32, 2), (16, 4), (64, 4), (32, 8)]) {
        let seen = Observation::new(setting(batch, ranks), step_s(batch, ranks.into()));
        assert!(model.observe("job", seen) && !model.observe("job", seen), "the second says nothing new");
        assert_eq!(model.version(), Some(version));
        assert!(error(&model, batch, ranks) < 1e-9, "what was observed is known");
    }
    for ((batch, ranks), before) in [(64, 2), (32, 4), (64, 8)].into_iter().zip(before) {
        let after = error(&model, batch, ranks);
        assert!(
            before > 0.15 && after < 0.05,
            "dp{ranks} with a batch of {batch}: {before} and then {after}"
        );
    }
}

#[test]
fn an_observation_that_is_no_time_or_of_an_unknown_job_teaches_nothing() {
    let mut model = of_one_device();
    let before = model.clone();
    for step_s in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        assert!(!model.observe("job", Observation::new(setting(8, 2), step_s)), "{step_s}");
    }
    assert!(!model.observe("other", Observation::new(setting(8, 2), 1.0)));
    assert_eq!(model, before);
}

#[test]
fn questions_are_about_jobs_alone_on_devices_of_its_type_with_the_cores_of_its_rows() {
    let model = of_one_device();
    let job = JobKey::new("job", Some(16), Some(plan(1)));
    let question = PredictRequest {
        job,
        placement: &[1],
        device_type: "GPU",
        cpus: None,
        co_runners: &[],
        sharing: &Sharing::Alone,
        neighbours: &[],
    };
    let measured = Some((step_s(16, 1) * 1e9).round());
    let step_ns = |model: &FittedModel, question: &PredictRequest<'_>| {
        model.predict(question).map(|found| found.step_ns.round())
    };
    assert_eq!(step_ns(&model, &question), measured, "with 4 cores, as it was measured");
    assert_eq!(step_ns(&model, &PredictRequest { cpus: Some(4), ..question }), measured);
    assert_eq!(step_ns(&model, &PredictRequest { co_runners: &[job], ..question }), None);
    let of_other = PredictRequest { device_type: "CPU", ..question };
    assert_eq!(step_ns(&model, &of_other), None);
    assert_eq!(step_ns(&model.clone().for_all_devices(), &of_other), measured);
    let mut model = model;
    assert!(!Throughput::observe(&mut model, &of_other, 1e9), "devices of another type");
    assert!(Throughput::observe(&mut model, &question, 2e9 * step_s(16, 1)));
    let twice = step_ns(&model, &question).zip(measured).map(|(now, before)| now / before);
    assert!(twice.is_some_and(|twice| (twice - 2f64.sqrt()).abs() < 1e-6), "{twice:?}");
}
