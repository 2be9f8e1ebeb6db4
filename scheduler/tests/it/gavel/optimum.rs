//! The optimum of a linear program that is made from raw numbers, and not as the policy makes its own.

use microlp::{ComparisonOp, OptimizationDirection, Problem, Variable};

use super::Speeds;

/// What a program of this test maximises.
pub(super) enum Goal {
    /// The smallest throughput over what each job needs.
    Smallest(Vec<f64>),
    /// The sum of throughputs times these.
    Sum(Vec<f64>),
}

/// The optimum over all divisions of time, from raw steps in a second.
pub(super) fn optimum(speeds: &Speeds, devices: [u32; 3], sizes: &[u32], shares: bool, goal: &Goal) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let jobs = speeds.alone.len();
    let mut throughput: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); jobs];
    let mut time: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); jobs];
    for (place, of_type) in devices.iter().enumerate() {
        let mut used = Vec::new();
        let mut add = |members: &[(usize, f64)]| {
            let worth = match &goal {
                Goal::Smallest(_) => 0.0,
                Goal::Sum(weights) => members.iter().map(|(job, speed)| weights[*job] * speed).sum(),
            };
            let variable = problem.add_var(worth, (0.0, f64::INFINITY));
            for (job, speed) in members {
                throughput[*job].push((variable, *speed));
                time[*job].push((variable, 1.0));
            }
            used.push((variable, f64::from(sizes[members[0].0])));
        };
        for job in 0..jobs {
            add(&[(job, speeds.alone[job][place])]);
        }
        for ((one, other), [first, second]) in speeds.beside.iter().filter(|_| shares) {
            if sizes[*one] == sizes[*other] {
                let alone = [speeds.alone[*one][place], speeds.alone[*other][place]];
                add(&[(*one, first * alone[0]), (*other, second * alone[1])]);
            }
        }
        problem.add_constraint(&used, ComparisonOp::Le, f64::from(*of_type));
    }
    time.iter().for_each(|time| problem.add_constraint(time, ComparisonOp::Le, 1.0));
    add_smallest(&mut problem, throughput, goal);
    problem.solve().unwrap().into_solution().unwrap().objective()
}

/// The optimum for jobs alone over the time of each set of them that fits at an instant, from raw steps in a second. All sets are written
/// down.
pub(super) fn optimum_of_sets(speeds: &Speeds, devices: [u32; 3], sizes: &[u32], goal: &Goal) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let mut throughput: Vec<Vec<(Variable, f64)>> = vec![Vec::new(); sizes.len()];
    let mut all = Vec::new();
    // A set is a number in base 4 whose digits are the types of the jobs. Digit 3 says that the job does not run.
    for number in 0..4_usize.pow(sizes.len() as u32) {
        let types: Vec<usize> = (0..sizes.len()).map(|job| number >> (2 * job) & 3).collect();
        let left = (0..3).map(|place| {
            let used: u32 =
                types.iter().zip(sizes).filter(|(of, _)| **of == place).map(|(_, size)| size).sum();
            devices[place].checked_sub(used)
        });
        let Some(left) = left.collect::<Option<Vec<u32>>>() else { continue };
        let could_have_more =
            types.iter().zip(sizes).any(|(of, size)| *of == 3 && left.iter().any(|left| left >= size));
        if could_have_more {
            continue;
        }
        let running: Vec<(usize, f64)> = (0..sizes.len())
            .filter(|job| types[*job] < 3)
            .map(|job| (job, speeds.alone[job][types[job]]))
            .collect();
        let worth = match goal {
            Goal::Smallest(_) => 0.0,
            Goal::Sum(weights) => running.iter().map(|(job, speed)| weights[*job] * speed).sum(),
        };
        let time = problem.add_var(worth, (0.0, f64::INFINITY));
        all.push((time, 1.0));
        running.into_iter().for_each(|(job, speed)| throughput[job].push((time, speed)));
    }
    problem.add_constraint(&all, ComparisonOp::Le, 1.0);
    add_smallest(&mut problem, throughput, goal);
    problem.solve().unwrap().into_solution().unwrap().objective()
}

/// Makes the smallest throughput over what jobs need the objective, if it is the goal.
fn add_smallest(problem: &mut Problem, throughput: Vec<Vec<(Variable, f64)>>, goal: &Goal) {
    if let Goal::Smallest(needs) = goal {
        let smallest = problem.add_var(1.0, (0.0, f64::INFINITY));
        for (mut of_job, need) in throughput.into_iter().zip(needs) {
            of_job.push((smallest, -need));
            problem.add_constraint(&of_job, ComparisonOp::Ge, 0.0);
        }
    }
}

/// The steps in a second of each job on equal parts of all devices.
pub(super) fn means(speeds: &Speeds, devices: [u32; 3]) -> Vec<f64> {
    let all: f64 = devices.iter().map(|devices| f64::from(*devices)).sum();
    let mean = |alone: &[f64; 3]| {
        alone.iter().zip(devices).map(|(speed, devices)| speed * f64::from(devices)).sum::<f64>() / all
    };
    speeds.alone.iter().map(mean).collect()
}
