use proptest::prelude::*;

use super::*;

/// A program of jobs on one device each, with their throughputs alone by pool, and of all pairs with theirs by pool.
fn program(devices: &[f64], alone: &[Vec<f64>], pairs: &[(usize, usize, Vec<[f64; 2]>)]) -> Program {
    let mut units = Vec::new();
    for (job, speeds) in alone.iter().enumerate() {
        for (pool, speed) in speeds.iter().enumerate() {
            units.push(Unit { pool, devices: 1.0, speeds: vec![(job, *speed)] });
        }
    }
    for (one, other, speeds) in pairs {
        for (pool, [first, second]) in speeds.iter().enumerate() {
            units.push(Unit { pool, devices: 1.0, speeds: vec![(*one, *first), (*other, *second)] });
        }
    }
    Program { jobs: alone.len(), devices: devices.to_vec(), units }
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-6 * expected.abs().max(1.0), "{found} is not {expected}");
}

/// The example of section 4.1 of the paper: one V100 and one K80 for three jobs, whose allocation is printed there to two digits.
#[test]
fn the_allocation_of_the_paper_is_found() {
    let steps = [[40.0, 10.0], [12.0, 4.0], [100.0, 50.0]];
    let alone: Vec<Vec<f64>> = steps
        .iter()
        .map(|[v100, k80]| {
            let mean = (v100 + k80) / 2.0;
            vec![v100 / mean, k80 / mean]
        })
        .collect();
    let (least, fractions) = program(&[1.0, 1.0], &alone, &[]).max_min(&[1.0; 3]).unwrap();
    let printed = [0.45, 0.0, 0.45, 0.09, 0.09, 0.91];
    for (fraction, printed) in fractions.iter().zip(printed) {
        assert!((fraction - printed).abs() < 0.006, "{fractions:?}");
    }
    // Job 1 has the K80 for as long as job 2 has the V100, which gives 8/11. Equal parts of both are 2/3.
    near(least, 8.0 / 11.0);
}

#[test]
fn one_type_is_divided_as_by_filling_with_water() {
    // Jobs of 1, 2 and 4 devices: each is to have a third of the devices, and the first no more than one.
    let unit = |(job, devices): (usize, f64)| Unit { pool: 0, devices, speeds: vec![(job, 1.0)] };
    let units = [1.0, 2.0, 4.0].into_iter().enumerate().map(unit).collect();
    let of = |devices| Program { jobs: 3, devices: vec![devices], units: Clone::clone(&units) };
    let needs = [1.0, 0.5, 0.25];
    let (least, fractions) = of(3.0).relaxed(Goal::Ratio { needs: &needs }).unwrap();
    near(least, 1.0);
    fractions.iter().zip(needs).for_each(|(fraction, need)| near(*fraction, need));
    // On four devices, the third runs for a fifth of the time, and the first and the second in all the rest.
    let (least, fractions) = of(4.0).max_min(&needs).unwrap();
    near(least, 0.8);
    fractions.iter().zip([0.8, 0.8, 0.2]).for_each(|(fraction, expected)| near(*fraction, expected));
    // On six, the first has all of its time beside the second and the third in turns.
    let (least, fractions) = of(6.0).max_min(&needs).unwrap();
    near(least, 1.0);
    fractions.iter().zip([1.0, 0.5, 0.5]).for_each(|(fraction, expected)| near(*fraction, expected));
}

#[test]
fn throughput_goes_to_the_jobs_that_gain_most() {
    // The first is four times as fast on the first type, the second as fast on both.
    let alone = [vec![4.0, 1.0], vec![1.0, 1.0]];
    let (sum, fractions) = program(&[1.0, 1.0], &alone, &[]).max_sum(&[1.0; 2]).unwrap();
    near(sum, 5.0);
    assert_eq!(fractions.iter().map(|of| of.round() as u32).collect::<Vec<_>>(), [1, 0, 0, 1]);
    // Together on one device they have 1.5 of it.
    let together = program(&[1.0], &[vec![1.0], vec![1.0]], &[(0, 1, vec![[0.75, 0.75]])]);
    near(together.max_sum(&[1.0; 2]).unwrap().0, 1.5);
    let (least, fractions) = together.max_min(&[1.0; 2]).unwrap();
    near(least, 0.75);
    near(fractions[2], 1.0);
}

/// At any instant, one of three jobs has no other beside it, and one of five that are joined in a ring.
#[test]
fn an_odd_number_of_jobs_is_not_in_pairs_all_of_the_time() {
    for jobs in [3, 4, 5] {
        let pairs: Vec<_> = (0..jobs).map(|job| (job, (job + 1) % jobs, vec![[0.9, 0.9]])).collect();
        let ring =
            Program { jobs, devices: vec![9.0], units: program(&[9.0], &vec![vec![]; jobs], &pairs).units };
        // Each job has the time of its pairs, of which there are two of three at an instant, or four of five.
        let (least, _) = ring.max_min(&vec![1.0; jobs]).unwrap();
        near(least, 0.9 * (jobs / 2 * 2) as f64 / jobs as f64);
        near(ring.relaxed(Goal::Ratio { needs: &vec![1.0; jobs] }).unwrap().0, 0.9);
    }
}

/// Three jobs of two devices each on three devices: one runs at an instant, and one device is idle.
#[test]
fn devices_that_no_job_can_use_are_not_given() {
    let units = (0..3).map(|job| Unit { pool: 0, devices: 2.0, speeds: vec![(job, 1.0)] }).collect();
    let program = Program { jobs: 3, devices: vec![3.0], units };
    near(program.max_min(&[1.0; 3]).unwrap().0, 1.0 / 3.0);
    near(program.max_sum(&[1.0, 2.0, 3.0]).unwrap().0, 3.0);
    near(program.relaxed(Goal::Ratio { needs: &[1.0; 3] }).unwrap().0, 0.5);
}

/// The largest value of `objective` over all corners of `rows * x <= limits`, `x >= 0`, by trying every corner.
fn best_corner(objective: &[f64], rows: &[Vec<f64>], limits: &[f64]) -> f64 {
    let variables = objective.len();
    let mut all: Vec<(Vec<f64>, f64)> = rows.iter().cloned().zip(limits.iter().copied()).collect();
    for variable in 0..variables {
        let mut row = vec![0.0; variables];
        row[variable] = -1.0;
        all.push((row, 0.0));
    }
    let mut best = f64::NEG_INFINITY;
    let mut chosen: Vec<usize> = (0..variables).collect();
    loop {
        if let Some(corner) = intersection(chosen.iter().map(|place| &all[*place])) {
            let at = |row: &[f64]| row.iter().zip(&corner).map(|(a, x)| a * x).sum::<f64>();
            if all.iter().all(|(row, limit)| at(row) <= limit + 1e-9) {
                best = best.max(at(objective));
            }
        }
        // The next choice of as many rows, in order.
        let Some(place) = (0..variables).rev().find(|place| chosen[*place] < all.len() - variables + place)
        else {
            return best;
        };
        chosen[place] += 1;
        for later in place + 1..variables {
            chosen[later] = chosen[later - 1] + 1;
        }
    }
}

/// The point at which all rows are equal to their limits, by elimination.
fn intersection<'a>(rows: impl Iterator<Item = &'a (Vec<f64>, f64)>) -> Option<Vec<f64>> {
    let mut rows: Vec<Vec<f64>> = rows.map(|(row, limit)| [row.clone(), vec![*limit]].concat()).collect();
    let count = rows.len();
    for column in 0..count {
        let pivot =
            (column..count).max_by(|a, b| rows[*a][column].abs().total_cmp(&rows[*b][column].abs()))?;
        rows.swap(column, pivot);
        if rows[column][column].abs() < 1e-9 {
            return None;
        }
        let pivot = rows[column].clone();
        for (_, row) in rows.iter_mut().enumerate().filter(|(other, _)| *other != column) {
            let factor = row[column] / pivot[column];
            row.iter_mut().zip(&pivot).for_each(|(cell, of_pivot)| *cell -= factor * of_pivot);
        }
    }
    Some((0..count).map(|place| rows[place][count] / rows[place][place]).collect())
}

/// The rows and limits of a program: devices, and time.
fn limits(program: &Program) -> (Vec<Vec<f64>>, Vec<f64>) {
    let (mut rows, mut limits) = (Vec::new(), Vec::new());
    for (pool, devices) in program.devices.iter().enumerate() {
        let of = |unit: &Unit| if unit.pool == pool { unit.devices } else { 0.0 };
        rows.push(program.units.iter().map(of).collect());
        limits.push(*devices);
    }
    for job in 0..program.jobs {
        let of = |unit: &Unit| f64::from(u8::from(unit.speeds.iter().any(|(other, _)| *other == job)));
        rows.push(program.units.iter().map(of).collect());
        limits.push(1.0);
    }
    (rows, limits)
}

fn speed(unit: &Unit, job: usize) -> f64 {
    unit.speeds.iter().filter(|(other, _)| *other == job).map(|(_, speed)| speed).sum()
}

/// The throughput of each job.
fn throughputs(program: &Program, fractions: &[f64]) -> Vec<f64> {
    let of =
        |job| program.units.iter().zip(fractions).map(|(unit, fraction)| speed(unit, job) * fraction).sum();
    (0..program.jobs).map(of).collect()
}

/// The largest smallest multiple of needs, by trying every corner. The multiple is the last variable.
fn corner_of_max_min(program: &Program, needs: &[f64]) -> f64 {
    let (mut rows, mut limits) = limits(program);
    rows.iter_mut().for_each(|row| row.push(0.0));
    for (job, need) in needs.iter().enumerate() {
        let mut row: Vec<f64> = program.units.iter().map(|unit| -speed(unit, job)).collect();
        row.push(*need);
        rows.push(row);
        limits.push(0.0);
    }
    let objective = [vec![0.0; program.units.len()], vec![1.0]].concat();
    best_corner(&objective, &rows, &limits)
}

/// All configurations of a program.
fn all_configurations(program: &Program) -> Vec<Vec<usize>> {
    let mut all = vec![Vec::new()];
    for (place, unit) in program.units.iter().enumerate() {
        let fits = |chosen: &&Vec<usize>| {
            let on_pool =
                chosen.iter().map(|other| &program.units[*other]).filter(|other| other.pool == unit.pool);
            let used: f64 = on_pool.map(|other| other.devices).sum();
            let shares_a_job =
                |other: &usize| program.units[*other].speeds.iter().any(|(job, _)| speed(unit, *job) > 0.0);
            used + unit.devices <= program.devices[unit.pool] && !chosen.iter().any(shares_a_job)
        };
        let more: Vec<Vec<usize>> =
            all.iter().filter(fits).map(|chosen| [&chosen[..], &[place]].concat()).collect();
        all.extend(more);
    }
    all
}

/// The largest smallest multiple of needs over the time of each of all configurations.
fn best_mix(program: &Program, needs: &[f64]) -> f64 {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let ratio = problem.add_var(1.0, (0.0, f64::INFINITY));
    let mut times = Vec::new();
    let mut of_jobs = vec![vec![(ratio, -1.0)]; program.jobs];
    for units in all_configurations(program) {
        let time = problem.add_var(0.0, (0.0, 1.0));
        times.push((time, 1.0));
        for (job, need) in needs.iter().enumerate() {
            let throughput: f64 = units.iter().map(|unit| speed(&program.units[*unit], job)).sum();
            of_jobs[job].push((time, throughput / need));
        }
    }
    problem.add_constraint(&times, ComparisonOp::Le, 1.0);
    of_jobs.iter().for_each(|of_job| problem.add_constraint(of_job, ComparisonOp::Ge, 0.0));
    solved(&problem).unwrap().objective()
}

/// Programs with parts of devices, which have corners.
fn any_program() -> impl Strategy<Value = Program> {
    let alone = prop::collection::vec(prop::collection::vec(0.2f64..3.0, 2), 3);
    let devices = prop::collection::vec(1.0f64..2.0, 2);
    (alone, devices, prop::collection::vec(0.4f64..1.0, 2)).prop_map(|(alone, devices, beside)| {
        let together = |pool: usize| [beside[0] * alone[0][pool], beside[1] * alone[1][pool]];
        program(&devices, &alone, &[(0, 1, vec![together(0)])])
    })
}

/// Programs with whole devices, of jobs of one and two of them.
fn any_program_of_sizes() -> impl Strategy<Value = Program> {
    let beside = prop::collection::vec(0.4f64..1.0, 2);
    let job = (prop::collection::vec(0.2f64..3.0, 2), 1u32..=2, beside);
    (prop::collection::vec(job, 4), prop::collection::vec(2u32..=3, 2)).prop_map(|(jobs, devices)| {
        let mut units = Vec::new();
        for pool in 0..2 {
            for (number, (alone, size, beside)) in jobs.iter().enumerate() {
                let devices = f64::from(*size);
                units.push(Unit { pool, devices, speeds: vec![(number, alone[pool])] });
                for (other, (of_other, ..)) in
                    jobs.iter().enumerate().skip(number + 1).filter(|(_, (_, theirs, _))| theirs == size)
                {
                    let speeds = vec![(number, beside[0] * alone[pool]), (other, beside[1] * of_other[pool])];
                    units.push(Unit { pool, devices, speeds });
                }
            }
        }
        Program { jobs: jobs.len(), devices: devices.into_iter().map(f64::from).collect(), units }
    })
}

/// The ages, the remaining times and the times on isolated shares of jobs, in which `slower` is the rho of the past.
fn finishes(isolated: &[f64], of: &[(f64, f64, f64)]) -> Vec<Finish> {
    let finish = |(&(age, left, slower), share): (&(f64, f64, f64), &f64)| Finish {
        age,
        left,
        isolated: age / slower + left / share,
    };
    of.iter().zip(isolated).map(finish).collect()
}

fn check_rho(program: &Program, isolated: &[f64], finishes: &[Finish]) {
    let (rho, fractions) = program.min_max_rho(finishes, isolated).unwrap();
    // With what jobs need for the smallest rho, no multiple above 1 of it can be reached.
    let needs: Vec<f64> = finishes.iter().map(|finish| finish.need(rho)).collect();
    assert!((best_mix(program, &needs) - 1.0).abs() < 1e-5, "{rho}: {}", best_mix(program, &needs));
    let throughputs = throughputs(program, &fractions);
    let reached = finishes.iter().zip(throughputs).map(|(finish, throughput)| finish.rho(throughput));
    let largest = reached.fold(0.0, f64::max);
    assert!(largest <= rho * (1.0 + 1e-5), "{largest} instead of {rho}");
}

/// The rho of a job that has waited for long depends little on its throughput, so that steps by its gain alone are small.
#[test]
fn rho_is_the_smallest_also_if_ages_are_most_of_it() {
    let program = program(&[1.0, 1.0], &[vec![0.2, 2.7], vec![0.2, 0.2], vec![1.9, 1.8]], &[]);
    let isolated = [0.97, 0.13, 1.2];
    for slower in [1.0, 1.5, 3.0] {
        let of = [(47.0, 1.0, slower), (0.0, 1.0, 1.0), (29.0, 29.0, 2.0)];
        check_rho(&program, &isolated, &finishes(&isolated, &of));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn no_corner_is_better(program in any_program(), needs in prop::collection::vec(0.3f64..2.0, 3)) {
        let (least, fractions) = program.relaxed(Goal::Ratio { needs: &needs }).unwrap();
        near(least, corner_of_max_min(&program, &needs));
        let throughputs = throughputs(&program, &fractions);
        for (throughput, need) in throughputs.iter().zip(&needs) {
            prop_assert!(*throughput >= need * least * (1.0 - 1e-6), "{throughputs:?}");
        }
        let (rows, limits) = limits(&program);
        for (row, limit) in rows.iter().zip(&limits) {
            let sum: f64 = row.iter().zip(&fractions).map(|(a, x)| a * x).sum();
            prop_assert!(sum <= limit + 1e-6);
        }
        let weight = |unit: &Unit| (0..3).map(|job| needs[job] * speed(unit, job)).sum::<f64>();
        let weights: Vec<f64> = program.units.iter().map(weight).collect();
        let (sum, _) = program.relaxed(Goal::Sum { weights: &needs, needs: &[0.0; 3] }).unwrap();
        near(sum, best_corner(&weights, &rows, &limits));
    }

    #[test]
    fn no_mix_of_configurations_is_better(
        program in any_program_of_sizes(),
        needs in prop::collection::vec(0.3f64..2.0, 4),
    ) {
        let (least, fractions) = program.max_min(&needs).unwrap();
        prop_assert!((least / best_mix(&program, &needs) - 1.0).abs() < 1e-5);
        let throughputs = throughputs(&program, &fractions);
        for (throughput, need) in throughputs.iter().zip(&needs) {
            prop_assert!(*throughput >= need * least * (1.0 - 1e-5), "{throughputs:?}");
        }
        let worth = |units: &Vec<usize>| -> f64 {
            let of = |unit: &usize| (0..4).map(|job| needs[job] * speed(&program.units[*unit], job)).sum::<f64>();
            units.iter().map(of).sum()
        };
        let best = all_configurations(&program).iter().map(worth).fold(0.0, f64::max);
        near(program.max_sum(&needs).unwrap().0, best);
    }

    #[test]
    fn no_smaller_rho_can_be_reached(
        program in any_program_of_sizes(),
        of in prop::collection::vec((0.0f64..50.0, 1.0f64..100.0, 1.0f64..2.0), 4),
    ) {
        let all: f64 = program.devices.iter().sum();
        let isolated: Vec<f64> = (0..4).map(|job| {
            let alone = program.units.iter().filter(|unit| unit.speeds.len() == 1);
            let own = alone.filter(|unit| speed(unit, job) > 0.0);
            let share = |unit: &Unit| speed(unit, job) * program.devices[unit.pool] / all;
            own.map(|unit| share(unit) * (all / (4.0 * unit.devices)).min(1.0)).sum()
        }).collect();
        check_rho(&program, &isolated, &finishes(&isolated, &of));
    }
}
