//! Estimates of how long jobs run.

use formats::rows::{DurationErrors, DurationEstimator, DurationShape};
use record::rows::{self};

/// Jobs of two users in turns, one every 100 s: those of `ann` take 10 s, and those of `bob` 40 s.
fn history(jobs: usize) -> String {
    let mut text = "name,submit_s,job,steps,step_ns,user,submit_utc\n".to_owned();
    for number in 0..jobs {
        let (user, steps) = [("ann", 10), ("bob", 40)][number % 2];
        let at = number * 100;
        let date = format!("2020-09-01T{:02}:{:02}:{:02}Z", at / 3600, at / 60 % 60, at % 60);
        text += &format!("{user}-{number},{at},any,{steps},1000000000,{user},{date}\n");
    }
    text
}

#[test]
fn errors_are_those_of_estimates_from_the_past() {
    let door = crate::door();
    door.write("old.csv", &history(80));
    let said = door.exits(0, "fit --duration old.csv --out shapes.csv --json");
    let [mean, qssf, last, additive]: [DurationErrors; 4] =
        rows::from_json(&said.out).expect("four estimators");
    assert_eq!(
        [mean.estimator, qssf.estimator, last.estimator, additive.estimator],
        [
            DurationEstimator::Mean,
            DurationEstimator::Qssf,
            DurationEstimator::Last,
            DurationEstimator::Additive
        ]
    );
    assert_eq!([mean.jobs, qssf.jobs, last.jobs, additive.jobs], [40; 4]);
    // Jobs of a user repeat.
    assert_eq!(
        (last.p90_absolute_s, last.p90_factor, last.mean_absolute_s, last.rank_correlation),
        (0.0, 1.0, 0.0, 1.0),
        "{last:?}"
    );
    // Every job before has ended. The mean of an even number of them is 25 s; an odd number has one of `ann` more, and `bob` is next.
    let absolute = |before: usize| {
        let mean_s = (before.div_ceil(2) * 10 + before / 2 * 40) as f64 / before as f64;
        (mean_s - [10.0, 40.0][before % 2]).abs()
    };
    let expected = (40..80).map(absolute).sum::<f64>() / 40.0;
    assert!((mean.mean_absolute_s - expected).abs() < 1e-9, "{mean:?} and {expected}");
    assert_eq!(
        (qssf.mean_absolute_s, qssf.median_factor, qssf.rank_correlation),
        (0.0, 1.0, 1.0),
        "{qssf:?}"
    );
    assert!((additive.median_factor - 1.0).abs() < 1e-6 && additive.rank_correlation > 0.8, "{additive:?}");

    let shapes: Vec<DurationShape> = rows::read(&door.path("shapes.csv")).expect("shapes are written");
    let of_user = |user: &str| {
        let is_of = |shape: &&DurationShape| {
            shape.feature == "user" && shape.level == user && shape.other_feature.is_none()
        };
        shapes.iter().find(is_of).expect("it has a value")
    };
    assert_eq!((of_user("ann").jobs, of_user("bob").jobs), (40, 40));
    // Jobs of one user do not differ, so that nothing is shrunk.
    let ratio = of_user("bob").factor / of_user("ann").factor;
    assert!((ratio - 4.0).abs() < 1e-6, "{ratio}");
    let shown = door.exits(0, "fit --duration old.csv --out shapes.csv");
    assert!(shown.out.contains("rank correlation") && shown.out.contains("additive"), "{}", shown.out);
    assert!(shown.out.lines().all(|line| line.chars().count() <= 80), "{}", shown.out);

    door.write("one.csv", &history(1));
    let said = door.exits(2, "fit --duration one.csv --out shapes.csv");
    assert!(said.err.contains("no job arrives after another has ended"), "{}", said.err);
    door.exits(2, "fit --duration old.csv --csv old.csv --out shapes.csv");
}

/// A job every 1,000 s: the estimate is the last job of the same user and virtual cluster, or else of the user, or else of all.
#[test]
fn the_last_job_of_the_series_estimates_the_next() {
    let door = crate::door();
    let mut text = "name,submit_s,job,steps,step_ns,user,vc,submit_utc\n".to_owned();
    let jobs = [
        ("ann", "a", 10),
        ("ann", "b", 80),
        // The last of the series took 10 s.
        ("ann", "a", 20),
        // The last of ann took 20 s.
        ("ann", "c", 60),
        // The last of all took 60 s.
        ("bob", "c", 30),
        // The last of the series took 80 s.
        ("ann", "b", 320),
    ];
    for (number, (user, vc, steps)) in jobs.into_iter().enumerate() {
        let at = number * 1000;
        let date = format!("2020-09-01T{:02}:{:02}:{:02}Z", at / 3600, at / 60 % 60, at % 60);
        text += &format!("job-{number},{at},any,{steps},1000000000,{user},{vc},{date}\n");
    }
    door.write("old.csv", &text);
    let said = door.exits(0, "fit --duration old.csv --held-out 0.67 --out shapes.csv --json");
    let errors: Vec<DurationErrors> = rows::from_json(&said.out).expect("errors");
    let last = errors.iter().find(|row| row.estimator == DurationEstimator::Last).expect("it is a row");
    // The first job of six has no estimate, and the second has that of ann: 10 s for 80 s.
    assert_eq!(last.jobs, 5);
    let (mut absolute, mut factors) = ([70.0, 10.0, 40.0, 30.0, 240.0], [8.0, 2.0, 3.0, 2.0, 4.0]);
    absolute.sort_by(f64::total_cmp);
    factors.sort_by(f64::total_cmp);
    // Between the values on both sides, by distance.
    let at = |values: &[f64], share: f64| {
        let place = share * (values.len() - 1) as f64;
        let (lower, upper) = (values[place as usize], values[(place as usize + 1).min(values.len() - 1)]);
        lower * (1.0 - place.fract()) + upper * place.fract()
    };
    let logs: Vec<f64> = factors.iter().map(|factor: &f64| factor.ln()).collect();
    for (share, absolute_s, factor) in [
        (0.25, last.p25_absolute_s, last.p25_factor),
        (0.5, last.median_absolute_s, last.median_factor),
        (0.75, last.p75_absolute_s, last.p75_factor),
        (0.9, last.p90_absolute_s, last.p90_factor),
    ] {
        assert!((absolute_s - at(&absolute, share)).abs() < 1e-9, "{share}: {last:?}");
        assert!((factor.ln() - at(&logs, share)).abs() < 1e-9, "{share}: {last:?}");
    }
    let shown = door.exits(0, "fit --duration old.csv --held-out 0.67 --out shapes.csv");
    assert!(shown.out.contains(&format!("{:.2}x", last.p90_factor)), "{}", shown.out);
}

/// A job in each half hour of four days.
#[test]
fn errors_of_arrivals_are_printed_for_histories_with_dates() {
    let door = crate::door();
    let mut text = "name,submit_s,job,steps,step_ns,user,submit_utc\n".to_owned();
    for number in 0..192u32 {
        let at = number * 1800;
        let date = format!("2020-09-{:02}T{:02}:{:02}:00Z", 1 + at / 86400, at / 3600 % 24, at / 60 % 60);
        text += &format!("job-{number},{at},any,10,1000000000,ann,{date}\n");
    }
    door.write("days.csv", &text);
    let said = door.exits(0, "fit --duration days.csv --out shapes.csv");
    let line = said
        .out
        .lines()
        .find(|line| line.starts_with("arrivals in each of the next 5 bins"))
        .expect("it is printed");
    // The last half begins in bin 288, and the last job arrives in bin 573. Four of these bins are not followed by enough others.
    assert!(line.contains("predictions: mean absolute error"), "{line}");
    let bins: u32 = line
        .split(" predictions")
        .next()
        .and_then(|part| part.split(", ").last())
        .expect("a number")
        .parse()
        .expect("it is one");
    assert_eq!(bins, 574 - 288 - 4, "{line}");
}

/// A job every 1,000 s, of three users in turns. Those of `ann` repeat the one before, but for each tenth, which is any other. Those of
/// `bob` have nothing to do with the ones before, and those of `eve` are of two recurring jobs.
#[test]
fn additive_estimates_keep_what_repeats_and_what_features_tell() {
    let door = crate::door();
    let mut random = fastrand::Rng::with_seed(11);
    let mut text = "name,submit_s,job,steps,step_ns,user,recurring_job,submit_utc\n".to_owned();
    let mut of_ann = 100;
    for number in 0..1800u32 {
        let at = u64::from(number) * 1000;
        let date = humantime::format_rfc3339_seconds(
            std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_598_918_400 + at),
        );
        let (user, name, steps) = match number % 3 {
            0 => {
                if random.u8(0..10) == 0 {
                    of_ann = 10 << random.u8(0..6);
                }
                ("ann", "train", of_ann)
            }
            1 => ("bob", "train", random.u32(20..80)),
            _ => {
                let is_long = random.bool();
                ("eve", if is_long { "long" } else { "short" }, if is_long { 900 } else { 9 })
            }
        };
        text += &format!("job-{number},{at},any,{steps},1000000000,{user},{name},{date}\n");
    }
    door.write("old.csv", &text);
    let said = door.exits(0, "fit --duration old.csv --out shapes.csv --json");
    let errors: Vec<DurationErrors> = rows::from_json(&said.out).expect("errors");
    let row = |estimator| errors.iter().find(|row| row.estimator == estimator).expect("it is a row");
    let (last, additive) = (row(DurationEstimator::Last), row(DurationEstimator::Additive));
    // More than a quarter of the jobs repeat exactly.
    assert!(additive.p25_absolute_s < 1e-9 && additive.p25_factor < 1.0 + 1e-9, "{additive:?}");
    assert!(additive.median_absolute_s <= last.median_absolute_s + 1e-9, "{additive:?} and {last:?}");
    assert!(additive.median_factor < 1.15, "{additive:?}");
    // The last duration says nothing of the next job of bob and of eve; their features do.
    assert!(additive.p75_absolute_s < 0.6 * last.p75_absolute_s, "{additive:?} and {last:?}");
    assert!(additive.p90_absolute_s < 0.2 * last.p90_absolute_s, "{additive:?} and {last:?}");
    assert!(additive.p75_factor < last.p75_factor && last.p90_factor > 50.0, "{additive:?} and {last:?}");
    assert!(additive.p90_factor < 3.0, "{additive:?}");
    assert!(additive.rank_correlation > last.rank_correlation, "{additive:?} and {last:?}");
}
