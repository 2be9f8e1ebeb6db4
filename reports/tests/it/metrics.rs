//! `/metrics` of `report serve`, read by hand and by Prometheus.

use std::{
    fs::{self, File},
    io::Write as _,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use formats::decision::{Action, ClusterEvent, DeviceId, JobId, Settled, Turn, TurnWriter};
use front_door::{Door, KilledAtTheEnd, get, wait_for};
use record::{
    launch_end::{LaunchEnd, Notes},
    run_dir::RunDir,
};
use schema::{
    FORMAT,
    events::EventWriter,
    spec::{LaunchSpec, Program},
    units::Nanos,
    wire::{Event, Step, Timing},
};

use crate::served::Served;

const LAUNCH: &str = "0001-lstm";

/// A run of two jobs, of which the first has devices.
struct Testbed {
    dir: RunDir,
    events: EventWriter,
    turns: TurnWriter,
    turn: u64,
}

impl Testbed {
    fn begin(folder: &Path) -> Testbed {
        let dir = RunDir::create(folder).expect("the folder is writable");
        let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("record/20261126-h200/testbed-fifo");
        fs::copy(record.join("manifest.toml"), dir.manifest_path()).expect("there is a record");
        let device = "cpu:0".parse().expect("a device");
        let program = Program::Command(vec!["true".into()]);
        let mut spec = LaunchSpec::new(LAUNCH, "lstm@b20@dp1", program, vec![device]);
        // A terminal must not obey the escape sequence.
        spec.cell = "the \"first\"\u{1b}[2J".into();
        dir.write_spec(&spec).expect("the folder is writable");
        let head = "mono_ns,end_mono_ns,launch,rank,processes,cpu_ns,run_queue_wait_ns,rss_bytes,read_bytes,write_bytes,\
                    throttled_periods,device_memory_bytes,device_util_percent,err\n";
        fs::write(dir.host_path(), head).expect("the folder is writable");
        Testbed {
            events: EventWriter::create(&dir.events_path(LAUNCH, 0), 0).expect("the folder is writable"),
            turns: TurnWriter::open(&dir.decisions_path()).expect("the folder is writable"),
            dir,
            turn: 0,
        }
    }

    fn turn(&mut self, events: Vec<ClusterEvent>, actions: Vec<Action>) {
        let turn = Turn {
            turn: self.turn,
            at_ns: Nanos(1_000_000_000 * (1 + self.turn)),
            model_version: None,
            events,
            actions,
            refused: Vec::new(),
            wake_at_ns: None,
            reason: String::new(),
            explain: Default::default(),
            view_hash: "0".into(),
        };
        self.turns.write(&turn).expect("the folder is writable");
        self.turn += 1;
    }

    fn step(&mut self, index: u64, milliseconds: u64) {
        let step = Step {
            index,
            dur_ns: Nanos(milliseconds * 1_000_000),
            samples: None,
            loss: None,
            phases: None,
            sent_bytes: None,
            timing: Timing::Host,
        };
        let at = Nanos(1_000_000_000 * (1 + index));
        self.events.say_at(at, Event::Step(step)).expect("the folder is writable");
    }

    fn holds(&self, rss_bytes: &str, device_bytes: &str) {
        let mut host = File::options().append(true).open(self.dir.host_path()).expect("it is there");
        writeln!(host, "1,2,{LAUNCH},0,1,0,0,{rss_bytes},0,0,,{device_bytes},,")
            .expect("the folder is writable");
    }

    fn end_launch(&self) {
        let end = LaunchEnd {
            format: FORMAT,
            mono_ns: Nanos(9_000_000_000),
            enough_mono_ns: None,
            err: None,
            err_detail: None,
            killed_after: None,
            notes: Notes::default(),
            ranks: Vec::new(),
        };
        self.dir.write_launch_end(LAUNCH, &end).expect("the folder is writable");
    }
}

/// Two jobs have arrived, and the first runs. It has taken three steps.
fn begun(folder: &Path) -> Testbed {
    let mut run = Testbed::begin(folder);
    let [first, second] = [JobId(0), JobId(1)];
    let start = Action::Start { job: first, devices: vec![DeviceId(0)], cpus: None, plan: None };
    run.turn(vec![ClusterEvent::Arrived { job: first }], vec![start]);
    run.turn(vec![ClusterEvent::Settled { job: first, now: Settled::Running, steps: 0 }], vec![]);
    run.turn(vec![ClusterEvent::Arrived { job: second }], vec![]);
    for (index, milliseconds) in [(0, 3), (1, 500), (2, 2)] {
        run.step(index, milliseconds);
    }
    run.holds("1000", "");
    run.holds("2000", "");
    run
}

/// Waits until `/metrics` has all of these lines, and returns the text.
fn lines_come(served: &Served, lines: &[&str]) -> String {
    wait_for("the metrics are as the files", || {
        let text = served.get("/metrics");
        if lines.iter().all(|line| text.lines().any(|of_text| of_text == *line)) {
            Ok(text)
        } else {
            Err(text)
        }
    })
}

#[test]
fn metrics_follow_a_run_from_its_first_step_to_its_end() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let mut run = begun(&door.path("r"));
    let served = Served::start(&door, Path::new("r"));
    let text = lines_come(
        &served,
        &[
            r#"tandem_step_seconds_bucket{le="0.002",run="r",cell="the \"first\"�[2J",training_job="lstm@b20@dp1"} 1"#,
            r#"tandem_step_seconds_bucket{le="0.004",run="r",cell="the \"first\"�[2J",training_job="lstm@b20@dp1"} 2"#,
            r#"tandem_step_seconds_bucket{le="0.256",run="r",cell="the \"first\"�[2J",training_job="lstm@b20@dp1"} 2"#,
            r#"tandem_step_seconds_bucket{le="+Inf",run="r",cell="the \"first\"�[2J",training_job="lstm@b20@dp1"} 3"#,
            r#"tandem_step_seconds_sum{run="r",cell="the \"first\"�[2J",training_job="lstm@b20@dp1"} 0.505"#,
            r#"tandem_step_seconds_count{run="r",cell="the \"first\"�[2J",training_job="lstm@b20@dp1"} 3"#,
            r#"tandem_memory_bytes{run="r",cell="the \"first\"�[2J",training_job="lstm@b20@dp1"} 2000"#,
            r#"tandem_jobs{run="r",state="running"} 1"#,
            r#"tandem_jobs{run="r",state="waiting"} 1"#,
            r#"tandem_jobs{run="r",state="finished"} 0"#,
            r#"tandem_turns_total{run="r"} 3"#,
            r#"tandem_run_ended{run="r"} 0"#,
            r#"tandem_unreadable_files{run="r"} 0"#,
        ],
    );
    assert!(text.contains("application/openmetrics-text"), "{text}");
    assert!(!text.contains("tandem_device_memory_bytes{"), "memory that was not read is absent: {text}");

    run.step(3, 495);
    run.holds("", "4096");
    run.turn(vec![ClusterEvent::Deadline], vec![Action::Pause { job: JobId(0) }]);
    let text = lines_come(
        &served,
        &[
            r#"tandem_step_seconds_sum{run="r",cell="the \"first\"�[2J",training_job="lstm@b20@dp1"} 1.0"#,
            r#"tandem_step_seconds_count{run="r",cell="the \"first\"�[2J",training_job="lstm@b20@dp1"} 4"#,
            r#"tandem_device_memory_bytes{run="r",cell="the \"first\"�[2J",training_job="lstm@b20@dp1"} 4096"#,
            r#"tandem_jobs{run="r",state="switching"} 1"#,
            r#"tandem_turns_total{run="r"} 4"#,
        ],
    );
    assert!(!text.contains("tandem_memory_bytes{"), "the last reading was none: {text}");

    run.turn(vec![ClusterEvent::Finished { job: JobId(0), steps: 4 }], vec![Action::End { job: JobId(1) }]);
    run.end_launch();
    let record = Path::new(env!("CARGO_MANIFEST_DIR")).join("record/20261126-h200/testbed-fifo/end.toml");
    fs::copy(record, run.dir.end_path()).expect("there is a record");
    let text = lines_come(
        &served,
        &[
            r#"tandem_step_seconds_count{run="r",cell="the \"first\"�[2J",training_job="lstm@b20@dp1"} 4"#,
            r#"tandem_jobs{run="r",state="finished"} 1"#,
            r#"tandem_jobs{run="r",state="ended-by-policy"} 1"#,
            r#"tandem_jobs{run="r",state="waiting"} 0"#,
            r#"tandem_run_ended{run="r"} 1"#,
        ],
    );
    assert!(!text.contains("memory_bytes{"), "a launch that has ended holds no memory: {text}");
    assert_eq!(served.end(), Some(0));
}

#[test]
fn a_file_that_cannot_be_read_is_counted_and_the_others_are_shown() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let mut run = begun(&door.path("r"));
    let mut events = File::options().append(true).open(run.dir.events_path(LAUNCH, 0)).expect("it is there");
    events.write_all(b"no event\n").expect("the folder is writable");
    let served = Served::start(&door, Path::new("r"));
    let turns = r#"tandem_turns_total{run="r"} 3"#;
    lines_come(&served, &[r#"tandem_unreadable_files{run="r"} 1"#, turns]);

    // A turn is missing.
    run.turn += 1;
    run.turn(vec![ClusterEvent::Deadline], vec![]);
    let text = lines_come(&served, &[r#"tandem_unreadable_files{run="r"} 2"#]);
    assert!(!text.contains("tandem_turns_total{") && !text.contains("tandem_jobs{"), "{text}");
    assert!(text.contains("tandem_memory_bytes{"), "{text}");
}

/// Prometheus, which scrapes a server each second into a folder.
struct Prometheus {
    _process: KilledAtTheEnd,
    address: String,
}

impl Prometheus {
    /// `None` if it is not on the path.
    fn start(folder: &Path, target: &str) -> Option<Prometheus> {
        let config = folder.join("prometheus.yml");
        let text = format!(
            "global: {{scrape_interval: 1s}}\nscrape_configs: [{{job_name: tandem, static_configs: [{{targets: ['{target}']}}]}}]\n"
        );
        fs::write(&config, text).expect("the folder is writable");
        loop {
            // Another program may take the port before Prometheus does, which then ends.
            let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
            let address = free.expect("there is a free port").to_string();
            let mut command = Command::new("prometheus");
            command.arg(format!("--config.file={}", config.display()));
            command.arg(format!("--storage.tsdb.path={}", folder.join("data").display()));
            command.arg(format!("--web.listen-address={address}"));
            command.stdout(Stdio::null()).stderr(Stdio::null());
            let mut process = KilledAtTheEnd(command.spawn().ok()?);
            let is_ready = wait_for("Prometheus is ready", || {
                if process.0.try_wait().expect("it is ours").is_some() {
                    return Ok(false);
                }
                let answer = get(&address, "/-/ready").map_err(|error| error.to_string())?;
                if answer.starts_with("HTTP/1.1 200") { Ok(true) } else { Err(answer) }
            });
            if is_ready {
                return Some(Prometheus { _process: process, address });
            }
        }
    }

    /// Waits until a query, whose spaces are written as `%20`, has a result.
    fn shows(&self, query: &str) {
        wait_for(query, || {
            let answer = get(&self.address, &format!("/api/v1/query?query={query}"));
            let answer = answer.map_err(|error| error.to_string())?;
            if answer.contains(r#""value":["#) { Ok(()) } else { Err(answer) }
        });
    }
}

#[test]
fn prometheus_scrapes_the_metrics_of_a_run_that_goes_on() {
    let door = Door::new(env!("CARGO_BIN_EXE_report"));
    let mut run = begun(&door.path("r"));
    let served = Served::start(&door, Path::new("r"));
    let folder: PathBuf = door.path("prometheus");
    fs::create_dir(&folder).expect("the folder is writable");
    let Some(prometheus) = Prometheus::start(&folder, &served.address) else {
        schema::skips::skipped("prometheus", "there is no prometheus, as in Debian's package of that name");
        return;
    };
    let own = r#"run="r",cell=~"the%20\"first\".*",training_job="lstm@b20@dp1""#;
    prometheus.shows(&format!("tandem_step_seconds_count{{{own}}}==3"));
    prometheus.shows(&format!("tandem_memory_bytes{{{own}}}==2000"));
    prometheus.shows(r#"tandem_jobs{state="waiting"}==1"#);
    prometheus.shows(r#"tandem_turns_total==3"#);
    run.step(3, 495);
    prometheus.shows("tandem_step_seconds_sum==1");
    prometheus.shows(r#"histogram_quantile(0.5,tandem_step_seconds_bucket)<0.3"#);
}
