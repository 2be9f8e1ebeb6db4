//! The grants, threads and data that `profile single` gives to a launch.

use front_door::{Background, has_cores, wait_for, wait_until};
use record::rows::{ErrorKind, Status};
use rustix::process::Signal;
use schema::{
    events::{self, EventReader, EventWriter},
    grant::Grant,
    spec::{Program, read_spec},
    units::Nanos,
    wire::Event,
};

use super::steps_of;

#[test]
fn two_ranks_step_together() {
    if !has_cores(2) {
        return;
    }
    let door = crate::door();
    door.exits(0, "single synthetic-sleep@b8@dp2 --device cpu:0,cpu:1 --steps 30 --repeats 1 --out r");
    let row = &door.measurements("r")[0];
    assert_eq!((row.device.as_str(), row.micro_batch), ("cpu:0,cpu:1", Some(4)));
    let rate = row.samples_per_s.expect("it stepped");
    let step_s = Nanos(row.step_ns_mean.expect("it stepped")).as_secs_f64();
    assert!((rate * step_s - 8.0).abs() < 0.1, "all ranks together work on the global batch");
}

/// The harness grants a job with slow steps its next step before the current one ends.
#[test]
fn a_slow_job_is_granted_its_next_step_before_it_has_done_the_present_one() {
    let door = crate::door();
    door.catalog("mine.toml", "slow", "step_us = 1100000, busy_percent = 1");
    let mut profile = Background::start(
        door.command("single slow --catalog mine.toml --device cpu:0 --seconds 600 --repeats 1 --out r"),
    );
    wait_until("the launch has begun", || door.path("r/jobs/0001-slow.json").exists());
    let run = door.run("r");
    let (control, said) = (run.control_path("0001-slow"), run.events_path("0001-slow", 0));
    wait_for("the step after the present one is granted", || {
        // The grant is read first: a step that ends between the two reads can only make the difference smaller.
        let granted = Grant::open(&control).map_or(0, |grant| grant.get());
        let mut lines = Vec::new();
        let read = EventReader::open(&said, 0).and_then(|mut reader| reader.poll(&mut lines));
        let done = lines.iter().filter(|line| matches!(line.event, Event::Step(_))).count() as u64;
        if done > 0 && granted >= done + 2 { Ok(()) } else { Err((granted, done, read)) }
    });
    profile.send(Signal::INT);
    let (code, err) = profile.wait();
    assert_eq!(code, Some(130), "{err}");
}

#[test]
fn neither_time_held_nor_what_comes_after_enough_is_measured() {
    let door = crate::door();
    door.catalog("mine.toml", "ten-ms", "step_us = 10000, busy_percent = 1");
    door.exits(0, "single ten-ms --catalog mine.toml --device cpu:0 --seconds 0.6 --repeats 1 --out r");
    let (run, launch) = (door.run("r"), "0001-ten-ms");
    let row = &door.measurements("r")[0];
    let steps = steps_of(&run, launch);
    let mut end = run.launch_end(launch).expect("it reads").expect("it ended");
    let enough = end.enough_mono_ns.expect("it was told to leave");
    let in_time = steps.iter().filter(|(_, end)| *end <= enough).count() as u64;
    assert!(row.steps_used <= in_time && in_time <= row.steps_total, "{in_time} of {row:?}");
    let warmup_steps = row.warmup_steps.expect("it stepped") as usize;
    let used = &steps[warmup_steps..warmup_steps + row.steps_used as usize];
    let stepped = used.iter().map(|(begin, end)| (*end - *begin).0).sum();
    let span = (used[used.len() - 1].1 - used[0].0).0;
    assert!(row.window_ns >= Some(stepped) && row.window_ns <= Some(span), "{stepped} to {span}: {row:?}");

    // The same launch with rewritten events: held for half a second after its second step, and twenty slower steps after the command to
    // leave.
    let file = run.events_path(launch, 0);
    let lines = events::read(&file, 0).expect("events read");
    std::fs::remove_file(&file).expect("it was just read");
    let mut writer = EventWriter::create(&file, 0).expect("the folder is writable");
    let (mut now, mut index) = (Nanos::ZERO, 0);
    for line in lines.iter().filter(|line| matches!(line.event, Event::Hello(_) | Event::Ready(_))) {
        now = line.mono_ns;
        writer.say_at(now, line.event.clone()).expect("the file is writable");
    }
    let step = lines.iter().find_map(|line| match &line.event {
        Event::Step(step) => Some(step.clone()),
        _ => None,
    });
    let step = step.expect("it stepped");
    for (count, ms) in [(2, 10), (78, 10), (20, 50)] {
        for _ in 0..count {
            let dur_ns = Nanos(1_000_000 * ms);
            now += dur_ns;
            let step = Event::Step(schema::wire::Step { index, dur_ns, ..step.clone() });
            writer.say_at(now, step).expect("the file is writable");
            index += 1;
        }
        if index == 2 {
            writer.say_at(now, Event::Held { index }).expect("the file is writable");
            now += Nanos(500_000_000);
        }
        if index == 80 {
            end.enough_mono_ns = Some(now);
        }
    }
    let finished = Event::Finished { steps: index, samples: None, loss: None };
    writer.say_at(now, finished).expect("the file is writable");
    run.write_launch_end(launch, &end).expect("the folder is writable");
    door.exits(0, "derive r");
    let row = &door.measurements("r")[0];
    assert_eq!((row.steps_total, row.warmup_steps, row.steps_used), (100, Some(0), 80), "{row:?}");
    assert_eq!((row.window_ns, row.step_ns_mean), (Some(800_000_000), Some(10_000_000)), "{row:?}");
}

#[test]
fn a_launch_is_told_how_many_threads_step_in_host_memory() {
    let door = crate::door();
    door.catalog("c.toml", "one", "step_us = 1_000, busy_percent = 0");
    let file = door.path("c.toml");
    let text = std::fs::read_to_string(&file).expect("just written");
    std::fs::write(file, text.replace(r#"["dp", "ga"]"#, r#"["offload"]"#)).expect("it is writable");
    let told = |run: &str| {
        let spec = read_spec(&door.run(run).spec_path("0001-one")).expect("it was told something");
        let Program::Training(training) = spec.program else { panic!("a workload is trained: {spec:?}") };
        (training.plan.to_string(), training.offload_threads)
    };
    let single = "single one@offload --catalog c.toml --device cpu:0 --steps 2 --repeats 1";
    door.exits(0, &format!("{single} --out none"));
    assert_eq!(told("none"), ("offload".into(), None));
    door.exits(0, &format!("{single} --offload-threads 3 --out three"));
    assert_eq!(told("three"), ("offload".into(), Some(3)));
}

#[test]
fn every_launch_is_told_where_its_data_is_and_who_reads_it() {
    let door = crate::door();
    // The synthetic worker refuses, but its spec is on file.
    let arguments =
        "single synthetic-sleep --device cpu:0 --steps 3 --repeats 2 --data . --loaders 3 --out r";
    door.exits(1, arguments);
    let launches = door.run("r").launches().expect("there are launches");
    assert_eq!(launches.len(), 2);
    for launch in launches {
        let spec = door.run("r").spec(&launch).expect("a launch has a spec");
        let Program::Training(training) = spec.program else { panic!("a workload is trained") };
        assert_eq!((training.data, training.loaders), (Some(".".into()), 3), "{launch}");
    }
    for row in door.measurements("r") {
        assert_eq!((row.status, row.err), (Status::Failed, Some(ErrorKind::Unsupported)));
        let detail = row.err_detail.expect("it says why");
        assert!(detail.contains("trains nothing and reads no data; leave out --data"), "{detail}");
    }
}
