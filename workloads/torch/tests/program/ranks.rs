//! Launches of several ranks, through the program itself: each rank is a process, as the harness starts them.

use std::fs;

use schema::{
    spec::{LaunchSpec, Program},
    units::Nanos,
    wire::{Command, Event, EventLine, FailureKind, Phases, Ready, Statistics},
};

use crate::support::{
    Worker, difference, failure, launch, launch_ranks, losses, mean_losses, program, run_to_end, steps,
    with_sgd,
};

fn ready(said: &[EventLine]) -> &Ready {
    let ready =
        said.iter().find_map(|line| if let Event::Ready(ready) = &line.event { Some(ready) } else { None });
    ready.unwrap_or_else(|| panic!("it is not ready: {said:#?}"))
}

fn held(index: u64) -> impl Fn(&Event) -> bool {
    move |event| matches!(event, Event::Held { index: at } if *at == index)
}

/// The learning rate of SGD at which these tests train, and what losses in fp32 may then be apart.
const RATE: f64 = 0.1;
const TOLERANCE: f64 = 1e-4;

/// A launch of `gpt2-mini` on this number of ranks.
fn gpt2(ranks: u16, global_batch: u32, plan: &str, steps: Option<u64>) -> LaunchSpec {
    with_sgd(launch_ranks(ranks, "gpt2-mini", global_batch, plan, steps), RATE)
}

#[test]
fn ranks_share_a_batch_out_start_equal_and_leave_together() {
    let (said, _) = run_to_end(&gpt2(1, 6, "dp1", Some(3)));
    let alone = losses(&said);
    for ranks in [2, 3] {
        let mut workers = Worker::start_ranks(&gpt2(ranks, 6, &format!("dp{ranks}"), None));
        workers[0].grant.extend_to(3);
        for worker in &mut workers {
            worker.wait_for(held(3));
            worker.command(&Command::Stop {});
        }
        let mut of_ranks = Vec::new();
        for worker in workers {
            let (said, status) = worker.finish();
            assert!(status.success(), "{said:#?}");
            let steps = steps(&said);
            assert_eq!(steps.len(), 3);
            assert!(steps.iter().all(|step| step.samples == Some(6 / u64::from(ranks))), "{steps:#?}");
            of_ranks.push(losses(&said));
        }
        let apart = difference(&mean_losses(&of_ranks), &alone);
        assert!(apart < TOLERANCE, "{ranks} ranks are {apart} apart: {of_ranks:?}, alone {alone:?}");
        assert!(
            of_ranks.windows(2).all(|pair| pair[0][0] != pair[1][0]),
            "each has samples of its own: {of_ranks:?}"
        );
    }
}

#[test]
fn ranks_train_as_one_process_does_on_the_whole_batch_and_say_what_sharing_took() {
    const STEPS: u64 = 4;
    let whole = gpt2(1, 4, "dp1", Some(STEPS));
    let (said, _) = run_to_end(&whole);
    let (parameters, alone) = (ready(&said).parameters, losses(&said));
    for step in steps(&said) {
        let Phases { sync_total_ns, sync_exposed_ns, .. } = step.phases.clone().expect("it has phases");
        assert_eq!((sync_total_ns, sync_exposed_ns, step.sent_bytes), (None, None, None));
    }
    for factor in [0.5, 2.0] {
        let (said, _) = run_to_end(&with_sgd(whole.clone(), factor * RATE));
        let apart = difference(&losses(&said), &alone);
        assert!(apart > 100.0 * TOLERANCE, "gradients that are {factor} times as large show: {apart}");
    }
    for plan in ["dp2", "dp2-ga2", "dp2-ga2-offload"] {
        let workers = Worker::start_ranks(&gpt2(2, 4, plan, Some(STEPS)));
        workers[0].grant.extend_to(STEPS);
        let mut of_ranks = Vec::new();
        for worker in workers {
            let (said, status) = worker.finish();
            assert!(status.success(), "{said:#?}");
            for step in steps(&said) {
                // 2 (n - 1) / n of the gradients.
                assert_eq!(step.sent_bytes, parameters.map(|count| 4 * count), "{plan}");
                let Phases { sync_total_ns, sync_exposed_ns, .. } =
                    step.phases.clone().expect("it has phases");
                assert!(sync_total_ns > Some(Nanos::ZERO) && sync_exposed_ns > Some(Nanos::ZERO), "{step:?}");
            }
            of_ranks.push(losses(&said));
        }
        let apart = difference(&mean_losses(&of_ranks), &alone);
        assert!(apart < TOLERANCE, "{plan} is {apart} apart: {of_ranks:?}, alone {alone:?}");
    }
}

#[test]
fn a_rank_whose_peer_is_killed_fails_with_the_next_collective() {
    let mut workers = Worker::start_ranks(&launch_ranks(2, "gpt2-mini", 4, "dp2", None));
    workers[0].grant.extend_to(u64::MAX);
    for worker in &mut workers {
        worker.wait_for(|event| matches!(event, Event::Step(step) if step.index == 2));
    }
    workers[1].kill();
    let (said, status) = workers.swap_remove(0).finish();
    assert_eq!(status.code(), Some(1));
    let (kind, error) = failure(&said);
    assert_eq!(kind, FailureKind::Collective, "{error}");
    assert!(error.starts_with("a collective failed: "), "{error}");
}

#[test]
fn ranks_draw_the_same_parameters_and_take_their_parts_of_the_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let export = |spec: &LaunchSpec, name: &str, rank: u32| {
        fs::write(path("spec.json"), serde_json::to_vec(spec).unwrap()).unwrap();
        let mut command = program();
        command.arg("--spec").arg(path("spec.json")).arg("--export-data").arg(path(name));
        let output = command.args(["--rank", &rank.to_string()]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let tensors = tch::Tensor::read_safetensors(path(name)).unwrap();
        tensors.into_iter().find(|(name, _)| name == "targets.0").expect("a micro-batch was exported").1
    };
    let whole = export(&launch("neumf", 8, "dp1", None), "whole", 0);
    let two = launch_ranks(2, "neumf", 8, "dp2", None);
    let parts = [0, 1].map(|rank| export(&two, "part", rank));
    assert_eq!(tch::Tensor::cat(&parts, 0), whole);
}

#[test]
fn batch_norm_over_a_part_of_the_batch_is_said() {
    for (workload, global_batch, plan, statistics) in [
        ("resnet18-mini", 4, "dp1", None),
        ("resnet18-mini", 4, "ga2", Some(Statistics::Local)),
        ("gpt2-mini", 4, "ga2", None),
    ] {
        let (said, _) = run_to_end(&launch(workload, global_batch, plan, Some(1)));
        assert_eq!(ready(&said).statistics, statistics, "{workload}, {plan}");
    }
    for worker in Worker::start_ranks(&launch_ranks(2, "resnet18-mini", 4, "dp2", Some(1))) {
        worker.grant.extend_to(1);
        let (said, _) = worker.finish();
        assert_eq!(ready(&said).statistics, Some(Statistics::Local));
    }
}

#[test]
fn an_lstm_that_computes_in_fp32_under_bf16_is_said() {
    #[cfg(target_arch = "x86_64")]
    let has_kernel = std::arch::is_x86_feature_detected!("avx512bw");
    #[cfg(not(target_arch = "x86_64"))]
    let has_kernel = true;
    let in_fp32: &[&str] = if has_kernel { &[] } else { &["LSTM"] };
    for (workload, plan, layers) in
        [("lstm", "dp1", &[][..]), ("lstm", "bf16", in_fp32), ("espcn-mini", "bf16", &[])]
    {
        let (said, _) = run_to_end(&launch(workload, 2, plan, Some(1)));
        assert_eq!(ready(&said).fp32_layers, layers, "{workload}, {plan}");
    }
}

#[test]
fn ranks_that_were_told_nothing_of_use_about_where_to_meet_fail_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let used = folder.path().join("used");
    let mut spec = launch_ranks(2, "neumf", 4, "dp2", Some(1));
    let meet_in = |spec: &mut LaunchSpec, file: &std::path::Path| {
        let Program::Training(training) = &mut spec.program else { unreachable!("it trains") };
        training.rendezvous = Some(file.to_owned());
    };
    meet_in(&mut spec, &used);
    for worker in Worker::start_ranks(&spec) {
        worker.grant.extend_to(1);
        worker.finish();
    }
    // Nothing removes the file of ranks that end as processes do.
    for worker in Worker::start_ranks(&spec) {
        let (said, status) = worker.finish();
        assert_eq!(status.code(), Some(1));
        let (kind, error) = failure(&said);
        assert_eq!(kind, FailureKind::Collective, "{error}");
        assert!(error.contains("has been here before"), "{error}");
    }
}
