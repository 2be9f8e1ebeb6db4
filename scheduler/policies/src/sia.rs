//! Sia (Jayaram Subramanya et al., SOSP 2023, section 3.4), for jobs of a fixed global batch.
//!
//! In each round, a binary integer program (`sia/program.rs`) gives each job one of its configurations, or none, so that no type of
//! device is given out twice. A configuration is a number of devices of a type: a power of two within a node, or whole nodes. A
//! rigid job has one for each type. The matrix of the program has the throughput of each job in each configuration, divided by its
//! smallest and times the devices with which the job has that one, so that jobs are compared by the devices that they are worth.
//! What a running job would have elsewhere is multiplied by the restart factor `r = max(T - N S, 0) / (T + S)`, with its age T, the
//! number N of its restarts and the time S that a restart takes. With a value `g` of the matrix and `p < 0`, the program minimises
//! the sum of `g^p` over jobs with devices and of `lambda` over jobs without; with `p > 0`, it maximises the sum of `g^p` over jobs
//! with devices minus that of `lambda` over the others.
//!
//! The parameters are the time between two rounds, `every`, `p` and `lambda`, by default 60 s, -0.5 and 1.1, as in the paper. Where
//! the solver fails, or gives up after a number of nodes of its search, the round uses the greedy allocation for the same objective
//! if that is better, and the reason says so.
//!
//! Deviations: the batch is fixed, so that goodput is throughput and the adaptation of the batch is left out. Throughputs are those
//! of the model of the run; the paper learns them while the job runs, from profiles on one device of each type. S is what the run
//! knows of the job, where the simulator of the authors has a constant for each workload, and does not charge jobs younger than
//! that. Their simulator also rounds `g^p` to two digits and limits it. The smallest configuration of a job that has none of the
//! form above is kept, and so is the present one of a running job. A job for which there is no room on the nodes gets the next
//! smaller configuration. The policy changes the degree of data parallelism and nothing else of a plan, and ignores classes and
//! priorities.

mod program;

use std::ops::Bound::{Excluded, Unbounded};

use anyhow::ensure;
use engine::{
    policy::{Decision, Policy},
    view::View,
};

use self::program::{Choice, Program};
use crate::{
    declaration::{Declaration, Uses, each},
    kit::{
        elastic::{Candidate, Curve, Elastic, Level, Rounds, Types, restart_factor},
        in_order::every,
        round,
        settings::{Kind, Setting},
    },
};

pub(super) const SIA: Declaration = Declaration {
    name: "sia",
    source: "Sia, SOSP 2023",
    order: "integer program over configurations",
    misfit: "waits",
    preemption: "resizes and stops jobs in each round",
    packing: "no",
    needs: "times of steps, costs of restarts",
    uses: &[Uses::Resizes, Uses::Rounds],
    example: "sia:p=1:lambda=0.5",
    settings: &[
        every("60s"),
        Setting::new(
            "p",
            Kind::number("NUMBER", Unbounded, Unbounded),
            "-0.5",
            "the exponent of the objective, which weighs fairness; not 0",
        ),
        Setting::new(
            "lambda",
            Kind::number("NUMBER", Excluded(0.0), Unbounded),
            "1.1",
            "the price of a job without devices",
        ),
    ],
    build: |values| {
        let (every, p, lambda) = (values.time("every"), values.number("p"), values.number("lambda"));
        ensure!(p != 0.0, "'p=0': write a number that is not 0, such as p=-0.5");
        each(move || Sia { rounds: Rounds::new(every), jobs: Elastic::new(Types::All), p, lambda })
    },
};

struct Sia {
    rounds: Rounds,
    jobs: Elastic,
    p: f64,
    lambda: f64,
}

impl Policy for Sia {
    fn decide(&mut self, view: &View<'_>) -> Decision {
        let (p, lambda) = (self.p, self.lambda);
        round::decide(view, &mut self.rounds, &mut self.jobs, is_configuration, |candidates, free| {
            let of = |candidate| choices(view, candidate, p, lambda);
            let program = Program { choices: candidates.iter().map(of).collect(), free: free.to_vec() };
            let (chosen, failure) = program.solve();
            (chosen, failure.map_or_else(String::new, |why| format!("; greedy, because {why}")))
        })
    }
}

/// Whether a number of devices is a power of two within a node, or whole nodes.
fn is_configuration(curve: &Curve, level: &Level) -> bool {
    level.devices.is_multiple_of(curve.per_node)
        || (level.devices < curve.per_node && level.devices.is_power_of_two())
}

/// The choices for a job. The worth of one is what the objective gains by it over no devices.
fn choices(view: &View<'_>, candidate: &Candidate, p: f64, lambda: f64) -> Vec<Choice> {
    let of = &candidate.configurations;
    let Some(least) = of.iter().min_by(|a, b| a.rate.total_cmp(&b.rate)) else { return Vec::new() };
    let factor = candidate
        .running
        .as_ref()
        .map_or(1.0, |running| restart_factor(view, candidate.job, running.restart_s));
    let choice = |(place, configuration): (usize, &crate::kit::elastic::Configuration)| {
        let stays = candidate.now().is_none_or(|now| now == place);
        let alone = configuration.rate / least.rate * f64::from(least.devices);
        let power = (alone * if stays { 1.0 } else { factor }).powf(p);
        let worth = if p < 0.0 { lambda - power } else { lambda + power };
        Choice { pool: usize::from(configuration.pool.0), devices: configuration.devices, worth }
    };
    of.iter().enumerate().map(choice).collect()
}
