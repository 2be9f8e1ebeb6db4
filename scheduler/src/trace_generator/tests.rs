use formats::trace::Trace;

use super::*;

fn line(job: &str) -> TraceRow {
    TraceRow { job: Some(job.parse().unwrap()), ..TraceRow::default() }
}

fn kind(job: &str, weight: f64, length: &str) -> JobKind {
    let length: Length = length.parse().unwrap();
    JobKind { row: line(job), weight, lengths: length.distribution }
}

fn recipe(length: &str) -> Recipe {
    Recipe {
        mix: vec![kind("lstm@b8@dp1", 3.0, length), kind("gpt2-mini@b8@dp2", 1.0, length)],
        virtual_clusters: Vec::new(),
        priorities: Vec::new(),
        jobs: 20_000,
        arrivals: Arrivals::Poisson { mean_gap_s: 10.0 },
        unit: length.parse::<Length>().unwrap().unit,
        longest: None,
        stratified: false,
        recurring: None,
        seed: 7,
    }
}

/// A step of `lstm` takes 10 ms, and one of all others 40 ms.
fn step_ns(row: &TraceRow) -> anyhow::Result<f64> {
    Ok(if row.job.as_ref().unwrap().workload == "lstm" { 1e7 } else { 4e7 })
}

fn made(recipe: &Recipe) -> Vec<TraceRow> {
    let rows: Vec<TraceRow> = make(recipe, step_ns).unwrap().rows().collect();
    let mut text = Vec::new();
    formats::trace::write(&mut text, &rows).unwrap();
    assert_eq!(Trace::parse("made".as_ref(), &text).unwrap().rows, rows, "it is a trace that can be read");
    rows
}

/// Scales all rows. Returns the number of jobs that are too long.
fn scale_time(rows: &mut [TraceRow], factor: f64) -> anyhow::Result<usize> {
    let scale = TimeScale::new(rows.iter().cloned(), factor)?;
    rows.iter_mut().for_each(|row| scale.scale(row));
    Ok(scale.too_long)
}

fn mean(values: impl ExactSizeIterator<Item = f64>) -> f64 {
    let count = values.len() as f64;
    values.sum::<f64>() / count
}

fn seconds(row: &TraceRow) -> f64 {
    row.steps.unwrap() as f64 * step_ns(row).unwrap() / 1e9
}

/// Five standard errors of the mean of 20,000 exponential numbers are 3.5 %, of a share of three quarters 1.5 points.
#[test]
fn what_is_drawn_has_the_means_it_should_have() {
    let rows = made(&recipe("exponential:5m"));
    assert!((rows.last().unwrap().submit_s / 20_000.0 / 10.0 - 1.0).abs() < 0.035);
    let lstm = rows.iter().filter(|row| row.name.starts_with("lstm-")).count() as f64 / 20_000.0;
    assert!((lstm - 0.75).abs() < 0.015, "{lstm}");
    let length_s = mean(rows.iter().map(seconds));
    assert!((length_s / 300.0 - 1.0).abs() < 0.035, "{length_s}");

    let rows = made(&recipe("log-normal:100s:0.5"));
    let log = |row: &TraceRow| (seconds(row) / 100.0).ln();
    let (mean_log, square) = (mean(rows.iter().map(log)), mean(rows.iter().map(|row| log(row).powi(2))));
    assert!(mean_log.abs() < 0.5 * 5.0 / 20_000f64.sqrt(), "{mean_log}");
    assert!((square.sqrt() - 0.5).abs() < 0.5 * 5.0 / 40_000f64.sqrt(), "{square}");
}

#[test]
fn the_seed_decides_and_streams_do_not_touch_each_other() {
    let first = made(&recipe("exponential:1000"));
    assert_eq!(first, made(&recipe("exponential:1000")));
    assert_ne!(first, made(&Recipe { seed: 8, ..recipe("exponential:1000") }));
    let replayed = Arrivals::Replayed((0..20_000).map(f64::from).collect());
    let other = made(&Recipe { arrivals: replayed, ..recipe("exponential:1000") });
    assert_eq!(other[5].submit_s, 5.0);
    let jobs = |rows: &[TraceRow]| rows.iter().map(|row| (row.name.clone(), row.steps)).collect::<Vec<_>>();
    assert_eq!(jobs(&first), jobs(&other), "the same jobs at other times");
    let too_many = Recipe { arrivals: Arrivals::Replayed(vec![0.0]), ..recipe("fixed:1") };
    assert!(make(&too_many, step_ns).err().unwrap().to_string().contains("there are 1 arrivals to replay"));
}

/// The lengths of all jobs are distributed as before, and those of one recurring job are alike.
#[test]
fn recurring_jobs_share_a_part_of_the_variance() {
    let share = 0.75;
    let recurring = Recurring { jobs: 400, users: 20, share, seed: None };
    let rows = made(&Recipe { recurring: Some(recurring), ..recipe("log-normal:100s:1") });
    let log = |row: &TraceRow| (seconds(row) / 100.0).ln();
    let variance = |values: &[f64]| {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
    };
    let mut of_jobs: std::collections::BTreeMap<&str, (Vec<f64>, &str)> = std::collections::BTreeMap::new();
    for row in &rows {
        let of = of_jobs.entry(row.recurring_job.as_deref().unwrap()).or_insert((Vec::new(), &row.user));
        of.0.push(log(row));
        assert_eq!(of.1, row.user, "a recurring job has one user");
    }
    assert_eq!(of_jobs.len(), 400);
    assert_eq!(of_jobs.values().map(|(_, user)| user).collect::<std::collections::BTreeSet<_>>().len(), 20);
    let within = mean(of_jobs.values().map(|(logs, _)| variance(logs)));
    assert!((within - (1.0 - share)).abs() < 0.02, "{within}");
    let means: Vec<f64> =
        of_jobs.values().map(|(logs, _)| logs.iter().sum::<f64>() / logs.len() as f64).collect();
    // Of 400 recurring jobs, five standard errors of a variance are 35 %.
    assert!((variance(&means) / share - 1.0).abs() < 0.35, "{}", variance(&means));
}

#[test]
fn a_kind_has_lengths_of_its_own_and_virtual_clusters_take_what_they_have_room_for() {
    let share = |text: &str| text.parse::<VirtualClusterShare>().unwrap();
    let rows = made(&Recipe {
        mix: vec![
            kind("any@dp1", 1.0, "fixed:10s"),
            kind("any@dp2", 2.0, "fixed:10s"),
            kind("any@dp8", 1.0, "fixed:1h"),
        ],
        virtual_clusters: vec![share("small:4"), share("large=3:2..8")],
        ..recipe("fixed:10s")
    });
    for row in &rows {
        assert_eq!(seconds(row), if row.devices() == 8 { 3600.0 } else { 10.0 });
    }
    let of = |devices| rows.iter().filter(move |row| row.devices() == devices);
    assert!(of(8).all(|row| row.vc == "large") && of(1).all(|row| row.vc == "small"));
    let small = of(2).filter(|row| row.vc == "small").count() as f64 / of(2).count() as f64;
    // Five standard errors of a share of a quarter of 10,000 jobs.
    assert!((small - 0.25).abs() < 0.022, "{small}");
    let too_small = Recipe { virtual_clusters: vec![share("small:1")], ..recipe("fixed:10s") };
    let error = make(&too_small, step_ns).err().unwrap().to_string();
    assert_eq!(error, "no virtual cluster of --vc takes jobs of 2 devices; widen the range of one");
}

/// The mean of a log-normal distribution with such a tail is that of few jobs, and differs by tens of percent from seed to seed.
#[test]
fn the_mean_of_a_stratified_sample_is_that_of_the_distribution() {
    let alone = |seed| Recipe {
        mix: vec![kind("lstm@b8@dp1", 1.0, "log-normal:100s:3")],
        longest: Some(1e6),
        jobs: 2000,
        seed,
        ..recipe("log-normal:100s:3")
    };
    // The mean of exp(mu + sigma z) below a bound, with the distribution function of the standard normal distribution.
    let cdf = |z: f64| statrs::distribution::Normal::standard().cdf(z);
    let bound = (1e6f64 / 100.0).ln() / 3.0;
    let expected_s = 100.0 * 4.5f64.exp() * cdf(bound - 3.0) / cdf(bound);
    let off = |recipe: Recipe| mean(made(&recipe).iter().map(seconds)) / expected_s - 1.0;
    for seed in 0..5 {
        assert!(off(Recipe { stratified: true, ..alone(seed) }).abs() < 0.03);
        let recurring = Some(Recurring { jobs: 50, users: 5, share: 0.8, seed: None });
        assert!(off(Recipe { stratified: true, recurring, ..alone(seed) }).abs() < 0.03);
    }
    let plain = (0..5).map(|seed| off(alone(seed)).abs()).fold(0.0, f64::max);
    assert!(plain > 0.05, "{plain}");
}

/// Two traces with the seed of the recurring jobs in common have the same ones, and other jobs.
#[test]
fn traces_can_share_their_recurring_jobs() {
    let of = |seed, of_jobs| {
        let recurring = Recurring { jobs: 100, users: 10, share: 1.0, seed: of_jobs };
        made(&Recipe { recurring: Some(recurring), seed, ..recipe("log-normal:100s:1") })
    };
    let by_name = |rows: &[TraceRow]| {
        let of_row = |row: &TraceRow| (row.recurring_job.clone().unwrap(), (row.user.clone(), row.steps));
        rows.iter().map(of_row).collect::<std::collections::BTreeMap<_, _>>()
    };
    let (first, second) = (of(1, Some(9)), of(2, Some(9)));
    // With the share 1, a recurring job always takes the same time.
    assert_eq!(by_name(&first), by_name(&second));
    assert_ne!(first, second);
    assert_ne!(by_name(&first), by_name(&of(1, None)));
}

#[test]
fn no_job_is_longer_than_the_longest() {
    let rows = made(&Recipe { longest: Some(200.0), ..recipe("exponential:100s") });
    let longest = rows.iter().map(seconds).fold(0.0, f64::max);
    assert!((190.0..=200.05).contains(&longest), "{longest}");
    // The mean of an exponential distribution that ends at twice its mean.
    let cut = (-2.0f64).exp();
    let expected = 100.0 * (1.0 - 3.0 * cut) / (1.0 - cut);
    let found = mean(rows.iter().map(seconds));
    assert!((found / expected - 1.0).abs() < 0.03, "{found} and {expected}");
}

#[test]
fn a_trace_with_a_start_has_dates() {
    let start = humantime::parse_rfc3339("2020-09-01T00:00:00Z").unwrap();
    let arrivals = Arrivals::Replayed(vec![0.0, 86_400.0, 90_000.4]);
    let mut rows = made(&Recipe { jobs: 3, arrivals, ..recipe("fixed:1") });
    rows.iter_mut().for_each(|row| set_date(row, start));
    let dates: Vec<&str> = rows.iter().filter_map(|row| row.submit_utc.as_deref()).collect();
    assert_eq!(dates, ["2020-09-01T00:00:00Z", "2020-09-02T00:00:00Z", "2020-09-02T01:00:00Z"]);
}

#[test]
fn lengths_are_spelled_as_they_are_asked_for() {
    let (steps, seconds) = (Unit::Steps, Unit::Seconds);
    for (text, distribution, unit) in [
        ("fixed:30s", Distribution::Fixed(30.0), seconds),
        ("exponential:1000", Distribution::Exponential { mean: 1000.0 }, steps),
        ("log-normal:10m:1.5", Distribution::LogNormal { median: 600.0, sigma: 1.5 }, seconds),
    ] {
        assert_eq!(text.parse::<Length>(), Ok(Length { distribution, unit }));
    }
    for text in
        ["fixed", "fixed:0", "fixed:30s:1", "log-normal:30s", "log-normal:30s:0", "normal:3:1", "fixed:-1s"]
    {
        let error = text.parse::<Length>().unwrap_err();
        assert!(error.starts_with(&format!("'{text}' is no distribution; write fixed:L")), "{error}");
    }
}

#[test]
fn load_moves_arrivals_and_time_scale_moves_all() {
    let mut rows = made(&Recipe { jobs: 200, ..recipe("fixed:100s") });
    let lengths: Vec<f64> = rows.iter().map(seconds).collect();
    assert!(lengths.iter().all(|length| *length == 100.0));
    let load = LoadScale::new(rows.iter().cloned(), 0.5, 4, step_ns).unwrap();
    rows.iter_mut().for_each(|row| load.scale(row));
    let work: f64 = rows.iter().map(|row| seconds(row) * f64::from(row.devices())).sum();
    let (first, last) = (rows[0].submit_s, rows.last().unwrap().submit_s);
    assert_eq!(first, 0.0);
    assert!((work / (last * 4.0) - 0.5).abs() < 1e-6, "{work} in {last}");

    let before = rows.clone();
    assert_eq!(scale_time(&mut rows, 0.01).unwrap(), 0);
    for (after, before) in rows.iter().zip(&before) {
        assert!((seconds(after) - 1.0).abs() < 1e-9);
        assert!((after.submit_s - before.submit_s * 0.01).abs() < 5.1e-4);
    }
    assert_eq!(scale_time(&mut rows, 1e-9).unwrap(), 200);
    assert!(rows.iter().all(|row| row.steps == Some(1)), "no job has nothing to do");

    let at_once = [rows[0].clone(), TraceRow { submit_s: 0.0, ..rows[1].clone() }];
    assert!(
        LoadScale::new(at_once.into_iter(), 0.5, 4, step_ns)
            .unwrap_err()
            .to_string()
            .contains("arrive at once")
    );
    let mut command = [TraceRow { job: None, command: Some("train".into()), steps: None, ..line("a") }];
    assert!(scale_time(&mut command, 2.0).unwrap_err().to_string().contains("--time-scale cannot scale"));
}

/// Steps that the trace times are scaled exactly, and others to half a step.
#[test]
fn a_scaled_job_has_the_scaled_length() {
    let job = |steps, step_ns| TraceRow { steps: Some(steps), step_ns, ..line("llama-30b") };
    for (steps, step_ns, factor, scaled, scaled_ns) in [
        // One step of 4.4 s is a step of 44 ms at a hundredth, and not a step of 4.4 s.
        (1, Some(4_400_000_000), 0.01, 1, Some(44_000_000)),
        (149, Some(1_000_000), 0.01, 1, Some(1_490_000)),
        (25, Some(1_000_000), 0.1, 3, Some(833_333)),
        (3, Some(1_000), 2.0, 6, Some(1_000)),
        (1, Some(1), 0.001, 1, Some(1)),
        (149, None, 0.01, 1, None),
        (151, None, 0.01, 2, None),
        (50, None, 0.01, 1, None),
    ] {
        let mut rows = [job(steps, step_ns)];
        assert_eq!(scale_time(&mut rows, factor).unwrap(), 0, "{steps} steps");
        assert_eq!((rows[0].steps, rows[0].step_ns), (Some(scaled), scaled_ns), "{steps} steps");
    }
    // A job has at least one step. Without the time of a step, nothing shorter can be written.
    let mut rows = [job(1, None), job(49, None), job(50, None)];
    assert_eq!(scale_time(&mut rows, 0.01).unwrap(), 2);
    assert!(rows.iter().all(|row| row.steps == Some(1)));
}
