//! Traces on the command line.

use formats::{
    rows::Outcome,
    trace::{Trace, TraceRow},
};
use record::rows::{self};

fn read(text: &str) -> Vec<TraceRow> {
    Trace::parse("printed".as_ref(), text.as_bytes()).expect("what is printed is a trace").rows
}

#[test]
fn a_made_trace_has_the_load_it_was_asked_for_and_is_drawn_again_from_its_seed() {
    let door = crate::door();
    let make = "trace make any=3 lstm@b8 --jobs 300 --length exponential:60s --step-time 100ms --load 0.8 --devices 4";
    let said = door.exits(0, make);
    let rows = read(&said.out);
    assert_eq!(rows.len(), 300);
    let work_s: f64 = rows.iter().map(|row| row.length_ns().unwrap() as f64 / 1e9).sum();
    let load = work_s / (4.0 * rows.last().unwrap().submit_s);
    assert!((load - 0.8).abs() < 1e-6, "{load}");
    let of_lstm = rows.iter().find(|row| row.name.starts_with("lstm-")).unwrap();
    assert_eq!(of_lstm.job.as_ref().unwrap().to_string(), "lstm@b8@dp1", "spelled in full");

    assert_eq!(door.exits(0, make).out, said.out);
    assert_ne!(door.exits(0, &format!("{make} --seed 2")).out, said.out);
    let written = door.exits(0, &format!("{make} --out t.csv"));
    assert_eq!(written.err.trim(), "trace: t.csv: 300 jobs");
    assert_eq!(std::fs::read_to_string(door.path("t.csv")).unwrap(), said.out);
    let replayed =
        door.exits(0, "trace make any --jobs 300 --length fixed:7 --step-time 1s --arrivals t.csv");
    let replayed = read(&replayed.out);
    assert!(replayed.iter().zip(&rows).all(|(a, b)| a.submit_s == b.submit_s && a.steps == Some(7)));
}

/// Five standard errors of a share of three quarters of 2,000 jobs are 4.9 points.
#[test]
fn virtual_clusters_and_priorities_are_drawn_and_leave_the_rest_as_it_was() {
    let door = crate::door();
    let make = "trace make any=3 other --jobs 2000 --every 2s --length exponential:60s --step-time 100ms";
    let plain = read(&door.exits(0, make).out);
    let more = "--vc a=3,b --priority -5,7=3 --cpus 4 --elastic --min-devices 1 --max-devices 2";
    let rows = read(&door.exits(0, &format!("{make} {more}")).out);
    let share = |is: &dyn Fn(&TraceRow) -> bool| rows.iter().filter(|row| is(row)).count() as f64 / 2_000.0;
    let shares = [share(&|row| row.vc == "a"), share(&|row| row.priority == 7)];
    assert!(shares.iter().all(|share| (share - 0.75).abs() < 0.049), "{shares:?}");
    let both = share(&|row| row.vc == "a" && row.priority == 7);
    assert!((both - 0.5625).abs() < 0.056, "they are drawn apart: {both}");
    assert!(rows.iter().all(|row| ["a", "b"].contains(&&*row.vc) && [-5, 7].contains(&row.priority)));
    for (row, plain) in rows.into_iter().zip(plain) {
        let (vc, priority) = (row.vc.clone(), row.priority);
        let of_all =
            TraceRow { cpus: Some(4), elastic: true, min_devices: Some(1), max_devices: Some(2), ..plain };
        assert_eq!(row, TraceRow { vc, priority, ..of_all });
    }
}

#[test]
fn what_cannot_be_made_is_told() {
    let door = crate::door();
    for (arguments, message) in [
        ("any --jobs 3 --every 1s --length fixed:5", "there is no workload 'any'"),
        ("lstm --jobs 3 --every 1s --length fixed:5s", "the time of a step of lstm@b"),
        (
            "lstm --jobs 3 --every 1s --length fixed:5s --cpus 3",
            "run `profile single lstm@b20@dp1 --threads 3 --out",
        ),
        ("lstm@b7@dp2 --jobs 3 --every 1s --length fixed:5", "a batch of 7 cannot be cut into 2"),
        ("lstm --jobs 3 --length fixed:5", "--every <TIME>|--arrivals <TRACE>|--load <LOAD>"),
        ("lstm --jobs 3 --every 0s --length fixed:5", "write a time above 0"),
        ("lstm@on=cpu:0 --jobs 3 --every 1s --length fixed:5", "remove @on="),
        ("lstm=0 --jobs 3 --every 1s --length fixed:5", "'0' is not a number above 0"),
        ("lstm --jobs 3 --every 1s --length normal:5", "is no distribution"),
        ("lstm --jobs 3 --length fixed:5 --load 0.5", "--devices"),
        ("lstm --jobs 3 --every 1s --length fixed:5 --vc a=0", "write a weight above 0"),
        (
            "lstm@dp2 --jobs 3 --every 1s --length fixed:5 --vc a:1",
            "no virtual cluster of --vc takes jobs of 2 devices",
        ),
        (
            "lstm=1:fixed:5s --jobs 3 --every 1s --length fixed:5",
            "its lengths are times, and those of --length are numbers of",
        ),
        ("lstm=1:fixed --jobs 3 --every 1s --length fixed:5", "'fixed' is no distribution"),
        ("lstm --jobs 3 --every 1s --length fixed:5 --nights 0", "'0' is not a number above 0"),
        ("lstm --jobs 3 --every 1s --length fixed:5 --recurring-seed 2", "--recurring <N>"),
        ("lstm --jobs 3 --every 1s --length fixed:5 --vc =2", "write a name before the weight"),
        ("lstm --jobs 3 --every 1s --length fixed:5 --priority high", "'high': invalid digit"),
        ("lstm --jobs 3 --every 1s --length fixed:5 --max-devices 2", "--elastic"),
        (
            "lstm@dp2 --jobs 3 --every 1s --length fixed:5 --elastic --max-devices 1",
            "'lstm@b20@dp2': --max-devices is 1, and the job asks for 2",
        ),
    ] {
        let said = door.exits(2, &format!("trace make {arguments}"));
        assert!(said.err.contains(message) && said.out.is_empty(), "{arguments}: {}", said.err);
    }
}

/// As `pandas.read_csv("t.csv").to_csv("u.csv")` writes a trace in which some cells are empty.
#[test]
fn a_trace_that_pandas_has_written_is_simulated() {
    let door = crate::door();
    let text = ",name,submit_s,job,steps,devices,elastic,step_ns,priority\n0,a,0.0,any,100,2.0,True,250000000,1.0\n\
                1,b,5.0,any,100,,False,250000000,\n";
    door.write("u.csv", text);
    let sim = "sim u.csv --policy fifo --cluster 1x4 --switch-cost 0s";
    door.exits(0, &format!("{sim} --out runs/sim"));
    let outcomes: Vec<Outcome> = rows::read(&door.path("runs/sim/outcomes.csv")).unwrap();
    assert_eq!(outcomes.iter().map(|row| row.devices).collect::<Vec<_>>(), [2, 1]);
    door.write("u.csv", &text.replace("2.0", "2.5"));
    let said = door.exits(2, sim);
    assert!(said.err.contains("u.csv: line 2: column 'devices': '2.5' is no whole number"), "{}", said.err);
}

#[test]
fn a_trace_in_utf_16_is_imported_and_a_workbook_is_refused() {
    let door = crate::door();
    let text = "\u{feff}timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 00:00:00,100,2,200,a\n";
    let bytes: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    std::fs::write(door.path("philly.csv"), bytes).unwrap();
    let rows = read(&door.exits(0, "trace import --format philly philly.csv").out);
    assert_eq!(rows.iter().map(TraceRow::devices).collect::<Vec<_>>(), [2]);
    let bytes: Vec<u8> = text[3..].encode_utf16().flat_map(u16::to_be_bytes).collect();
    std::fs::write(door.path("philly.csv"), bytes).unwrap();
    assert_eq!(read(&door.exits(0, "trace import --format philly philly.csv").out), rows, "without its mark");
    door.write("philly.csv", "PK\u{3}\u{4}");
    let said = door.exits(2, "trace import --format philly philly.csv");
    assert!(
        said.err.contains("philly.csv: line 1: this is a zip archive or a workbook; unpack it"),
        "{}",
        said.err
    );
}

#[test]
fn a_table_that_is_compressed_or_in_utf_16_is_refused_with_a_remedy() {
    let door = crate::door();
    let text = "name,submit_s,job,steps,step_ns\na,0,any,5,7\n";
    door.write("t.csv", text);
    let utf_16: Vec<u8> = text.encode_utf16().flat_map(u16::to_le_bytes).collect();
    for (file, bytes, message) in [
        ("t.csv.gz", &b"\x1f\x8b\x08\0\0\0"[..], "this is compressed with gzip; unpack it with `gzip -d`"),
        ("t.csv.zst", b"\x28\xb5\x2f\xfd\x04\x58", "this is compressed with zstd; unpack it with `zstd -d`"),
        ("t.csv.xz", b"\xfd7zXZ\0", "this is compressed with xz; unpack it with `xz -d`"),
        ("u.csv", &utf_16, "this is UTF-16; save it as UTF-8"),
    ] {
        std::fs::write(door.path(file), bytes).unwrap();
        for command in [
            format!("sim {file} --policy fifo --cluster 1x1 --switch-cost 0s"),
            format!("sim t.csv --history {file} --policy fifo --cluster 1x1 --switch-cost 0s"),
            format!("fidelity {file} {file}"),
            format!("fit --csv {file} --workload lstm@b8 --out model.json"),
            format!("fit --duration {file} --out shapes.csv"),
        ] {
            let said = door.exits(2, &command);
            assert!(
                said.err.contains(&format!("error: {file}: line 1: {message}\n")),
                "{command}: {}",
                said.err
            );
        }
    }
}

#[test]
fn a_number_with_a_comma_is_refused_with_a_remedy() {
    let door = crate::door();
    door.write("t.csv", "name;submit_s;job;steps;step_ns\na;0;any;5;7\nb;1,5;any;5;7\n");
    let remedy = "; write a point before a fraction, and no commas, such as 1234.5\n";
    let said = door.exits(2, "sim t.csv --policy fifo --cluster 1x1 --switch-cost 0s");
    let message = format!("t.csv: line 3: column 'submit_s': '1,5' is no number{remedy}");
    assert!(said.err.contains(&message), "{}", said.err);
    let import = "trace import --format csv --columns submit=submit_s,gpus=steps,duration=step_ns t.csv";
    let said = door.exits(0, import);
    assert_eq!(read(&said.out).len(), 1);
    assert!(
        said.err.contains(&format!("1 row is left out: 'submit_s' is no number{remedy}")),
        "{}",
        said.err
    );
    let said = door.exits(2, &format!("{import} --strict"));
    assert!(said.err.contains(&message), "{}", said.err);
}

#[test]
fn an_imported_trace_can_be_scaled() {
    let door = crate::door();
    door.write(
        "philly.csv",
        "timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 00:00:00,100,2,200,a\n2017-10-09 00:01:40,300,1,300,b\n",
    );
    let rows = read(&door.exits(0, "trace import --format philly philly.csv").out);
    assert_eq!(
        rows.iter().map(|row| (row.submit_s, row.steps)).collect::<Vec<_>>(),
        [(0.0, Some(100)), (100.0, Some(300))]
    );
    // 500 GPU-seconds at half of the rate of two GPUs.
    let scaled = "trace import --format philly philly.csv --time-scale 0.1 --load 0.5 --devices 2";
    let rows = read(&door.exits(0, scaled).out);
    assert_eq!((rows[1].submit_s, rows[1].steps), (50.0, Some(30)));
    let said = door.exits(2, "trace import --format philly philly.csv --time-scale 1e9 --out t.csv");
    let message = "the trace that would be written: line 2: column 'step_ns': makes the job more than a hundred years long";
    assert!(said.err.contains(message) && !door.path("t.csv").exists(), "{}", said.err);
    let said = door.exits(2, "trace import --format rubick philly.csv");
    assert!(
        said.err.contains("philly.csv: line 1: there is no column 'name' in the first line"),
        "{}",
        said.err
    );
    let said = door.exits(2, "trace import --format borg philly.csv");
    assert!(said.err.contains("'borg' is not one of: acme, "), "{}", said.err);
}

#[test]
fn an_imported_trace_keeps_its_dates_when_it_is_scaled_and_can_be_simulated() {
    let door = crate::door();
    door.write(
        "cluster_log.csv",
        "job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n\
         1,u,v,2,8,1,COMPLETED,2020-06-09 18:41:00,,,100,0\n2,u,v,0,8,1,FAILED,2020-06-09 18:41:10,,,5,0\n\
         3,w,v,1,6,1,CANCELLED,2020-06-09 18:42:40,,,300,0\n",
    );
    let import = "trace import --format helios cluster_log.csv --time-scale 0.1 --load 0.5 --devices 2";
    let said = door.exits(0, &format!("{import} --out t.csv"));
    assert!(said.err.contains("1 row is left out: no GPU requested"), "{}", said.err);
    let rows = read(&std::fs::read_to_string(door.path("t.csv")).unwrap());
    let dates: Vec<_> = rows.iter().map(|row| (row.submit_s, row.submit_utc.as_deref())).collect();
    // 50 GPU-seconds at half of the rate of two GPUs.
    assert_eq!(dates, [(0.0, Some("2020-06-09T18:41:00Z")), (50.0, Some("2020-06-09T18:42:40Z"))]);
    assert_eq!(rows.iter().map(|row| row.cpus).collect::<Vec<_>>(), [Some(4), Some(6)]);
    let said = door.exits(0, "sim t.csv --policy fifo --cluster 1x2 --switch-cost 0s --out runs/sim");
    assert!(said.out.contains("fifo"), "{}", said.out);
}

/// A table as a spreadsheet writes it, with a blank line, a line break in a cell, and rows with faults.
#[test]
fn odd_rows_are_left_out_with_their_counts_and_refused_if_strict() {
    let door = crate::door();
    let text = "job_id;user;vc;gpu_num;cpu_num;submit_time;duration\n\n1;\"u\nx\";v;2;8;2021-05-03 08:00:00+08:00;100\n\
                2;u;v;1;4;2021-05-03 00:01:00;\n1;u;v;1;4;2021-05-03 00:02:00;5\n4;u;v;1;4;2021-05-03 00:03:00;-5\n\
                5;u;v;1;4;1970-01-01 00:00:00;5\n6;u;v;1;4;2021-05-03 00:04:00;\n7;u;v;1.0;4;2021-05-03 00:05:00;60\n";
    door.write("h.csv", text);
    let said = door.exits(0, "trace import --format helios h.csv --out t.csv");
    let rows = read(&std::fs::read_to_string(door.path("t.csv")).unwrap());
    let jobs: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.submit_s, row.devices())).collect();
    assert_eq!(jobs, [("1", 0.0, 2), ("7", 300.0, 1)]);
    for why in [
        "2 rows are left out: 'duration' is empty",
        "1 row is left out: 'duration' is below 0",
        "1 row is left out: an arrival more than ten years from that of most jobs",
        "1 row is left out: the name of an earlier job",
    ] {
        assert!(said.err.contains(why), "{}", said.err);
    }
    let said = door.exits(2, "trace import --format helios h.csv --strict --out t.csv");
    assert!(said.err.contains("h.csv: line 5: column 'duration': is empty"), "{}", said.err);
    let header = text.lines().next().unwrap();
    door.write("h.csv", &format!("{header}\n2;u;v;1;4;2021-05-03 00:01:00;\n"));
    let said = door.exits(4, "trace import --format helios h.csv");
    assert!(said.err.contains("h.csv has no jobs: 1 row is left out: 'duration' is empty"), "{}", said.err);
}

#[test]
fn jobs_of_slurm_are_simulated() {
    let door = crate::door();
    door.write(
        "jobs.txt",
        "JobID|JobName|User|Partition|State|Submit|Elapsed|AllocCPUS|AllocTRES\n\
         7|a|ana|gpu|COMPLETED|2024-03-01T08:00:00|00:10:00|16|cpu=16,gres/gpu:a100=2,gres/gpu=2,node=1\n\
         8|b|bob|gpu|FAILED|2024-03-01T08:01:00|00:05:00|8|cpu=8,gres/gpu=1,node=1\n\
         9|b|bob|gpu|RUNNING|2024-03-01T08:01:00|00:05:00|8|cpu=8,gres/gpu=1,node=1\n",
    );
    let said = door.exits(0, "trace import --format sacct jobs.txt --out t.csv");
    assert!(said.err.contains("1 row is left out: a job that had not ended"), "{}", said.err);
    door.exits(0, "sim t.csv --policy fifo --cluster 1x2 --switch-cost 0s --out runs/sim");
    let outcomes: Vec<Outcome> = rows::read(&door.path("runs/sim/outcomes.csv")).unwrap();
    let jobs: Vec<_> =
        outcomes.iter().map(|row| (row.name.as_str(), row.devices, row.user.as_str())).collect();
    assert_eq!(jobs, [("7", 2, "ana"), ("8", 1, "bob")]);
}

#[test]
fn a_table_with_columns_of_its_own_is_imported() {
    let door = crate::door();
    door.write(
        "jobs.csv",
        "n_gpus,owner,submitted,run_s\n2,ana,2024-03-01 08:00:00,600\n2.5,bob,2024-03-01 08:00:00,5\n1,bob,2024-03-01 08:01:00,5\n",
    );
    let import = "trace import --format csv jobs.csv";
    let columns = "--columns submit=submitted,duration=run_s,gpus=n_gpus,user=owner";
    let said = door.exits(0, &format!("{import} {columns}"));
    assert!(said.err.contains("1 row is left out: 'n_gpus' is no whole number"), "{}", said.err);
    let rows = read(&said.out);
    let jobs: Vec<_> =
        rows.iter().map(|row| (row.submit_s, row.steps, row.devices(), row.user.as_str())).collect();
    assert_eq!(jobs, [(0.0, Some(600), 2, "ana"), (60.0, Some(5), 1, "bob")]);
    for (arguments, message) in [
        (
            format!("{import} {columns} --strict"),
            "jobs.csv: line 3: column 'n_gpus': '2.5' is no whole number",
        ),
        (import.to_owned(), "--format csv has no columns of its own; name those of the file with --columns"),
        (format!("{import} --columns submit=submitted"), "name columns for submit and gpus"),
        (format!("{import} {columns}s"), "jobs.csv: line 1: there is no column 'owners' in the first line"),
        (format!("trace import --format philly jobs.csv {columns}"), "and philly has columns of its own"),
    ] {
        let said = door.exits(2, &arguments);
        assert!(said.err.contains(message), "{arguments}: {}", said.err);
    }
}

#[test]
fn the_tables_of_pai_are_one_trace() {
    let door = crate::door();
    door.write("jobs.csv", "j,i,ana,Terminated,100.0,400.0\nk,l,bob,Failed,160.0,200.0\n");
    door.write(
        "tasks.csv",
        "j,worker,4.0,Terminated,110.0,400.0,600.0,29.3,50.0,T4\nk,worker,1.0,Failed,170.0,200.0,600.0,29.3,100.0,T4\n",
    );
    door.write("groups.csv", "i,ana,T4,nightly,\n");
    let rows = read(&door.exits(0, "trace import --format pai-2020 jobs.csv tasks.csv groups.csv").out);
    let found: Vec<_> =
        rows.iter().map(|row| (row.devices(), row.cpus, row.device_type.as_deref())).collect();
    assert_eq!(found, [(2, Some(12), Some("T4")), (1, Some(6), None)]);
    assert_eq!(rows[0].recurring_job.as_deref(), Some("nightly"));
    let said = door.exits(2, "trace import --format pai-2020 jobs.csv");
    assert!(
        said.err.contains("--format pai-2020 reads pai_job_table.csv, pai_task_table.csv"),
        "{}",
        said.err
    );
    let said = door.exits(2, "trace import --format pai-2020 tasks.csv jobs.csv");
    assert!(said.err.contains("jobs.csv: line 1: has 6 columns, and 10 are expected"), "{}", said.err);
}

#[test]
fn jobs_of_pai_that_cannot_be_true_are_left_out_with_a_note() {
    let door = crate::door();
    door.write(
        "jobs.csv",
        "j,i,ana,Terminated,100.0,400.0\nk,l,bob,Failed,1e19,200.0\nm,n,cy,Failed,160.0,200.0\n",
    );
    door.write(
        "tasks.csv",
        "j,worker,1.0,Terminated,110.0,400.0,600.0,29.3,100.0,T4\nk,worker,1.0,Failed,170.0,200.0,600.0,29.3,100.0,T4\n\
         m,worker,1.0,Failed,170.0,200.0,600.0,29.3,1e-8,T4\n",
    );
    let said = door.exits(0, "trace import --format pai-2020 jobs.csv tasks.csv");
    let rows = read(&said.out);
    assert_eq!(rows.iter().map(|row| &*row.name).collect::<Vec<_>>(), ["j"]);
    for why in ["'start_time' is more than a hundred years", "no GPU requested"] {
        assert!(said.err.contains(&format!("1 row is left out: {why}")), "{}", said.err);
    }
}

#[test]
fn jobs_of_pollux_are_elastic_jobs_of_the_catalog() {
    let door = crate::door();
    door.write(
        "w.csv",
        "name,time,application,num_replicas,batch_size\ncifar10-0,107,cifar10,6,2048\ndeepspeech2-1,110,deepspeech2,6,320\n\
         ncf-2,135,ncf,1,32768\nimagenet-3,140,imagenet,32,6400\nbert-4,150,bert,12,384\nyolov3-5,160,yolov3,4,64\n",
    );
    let said = door.exits(0, "trace import --format pollux w.csv --out t.csv");
    assert!(said.err.contains("1 row is left out: YOLOv3, which"), "{}", said.err);
    // The catalog has the workloads, and they support the plans: all that is missing are times.
    let said = door.exits(2, "sim t.csv --policy fifo --cluster 16x4 --switch-cost 30s");
    assert!(!said.err.contains("line "), "{}", said.err);
    assert!(said.err.contains("resnet18-cifar"), "{}", said.err);
}

#[test]
fn times_of_rubick_come_from_a_table_and_not_from_its_durations() {
    let door = crate::door();
    door.write(
        "mt.csv",
        "name,submission_time,duration,application,num_gpus,num_cpus,bandwidth,exec_plan,steps,is_sla\n\
         a,0,0.02,bert,1,8,0,gc,1,1\nb,100,30,bert,2,16,0,ga,450,0\n",
    );
    let scaled = door.exits(0, "trace import --format rubick mt.csv --time-scale 0.1");
    let steps: Vec<_> = read(&scaled.out).iter().map(|row| (row.steps, row.step_ns)).collect();
    assert_eq!(steps, [(Some(1), None), (Some(45), None)]);
    assert!(scaled.err.contains("1 of 2 jobs are shorter than half a step"), "{}", scaled.err);
    let said = door.exits(2, "trace import --format rubick mt.csv --load 0.5 --devices 2");
    assert!(said.err.contains("error: mt.csv: a: --format rubick has no time of a step"), "{}", said.err);
    let said = door.exits(2, "trace import --format rubick mt.csv --load 0.5 --devices 2");
    assert!(said.err.contains("a: --format rubick has no time of a step"), "{}", said.err);
    door.exits(0, "trace import --format rubick mt.csv --out t.csv");
    let said = door.exits(2, "sim t.csv --policy fifo --cluster 1x2 --switch-cost 1s");
    assert!(said.err.contains("bert-large"), "{}", said.err);
}

/// Two jobs of 100 s on one device, at a load of one: they arrive 200 s apart.
#[test]
fn dates_are_those_of_scaled_arrivals() {
    let door = crate::door();
    let made = "trace make any --jobs 2 --length fixed:100s --step-time 1s --load 1 --devices 1 --start 2020-09-01T23:59:00Z";
    let rows = read(&door.exits(0, made).out);
    assert_eq!(rows.iter().map(|row| row.submit_s).collect::<Vec<_>>(), [0.0, 200.0]);
    let dates: Vec<_> = rows.iter().filter_map(|row| row.submit_utc.as_deref()).collect();
    assert_eq!(dates, ["2020-09-01T23:59:00Z", "2020-09-02T00:02:20Z"]);
}

/// A job each minute, for ten days from noon on: at a quarter of the rate, a night has 8/4 of the 18 parts of a day.
#[test]
fn fewer_jobs_arrive_at_night() {
    let door = crate::door();
    let make = "trace make any --jobs 14400 --every 60s --length fixed:1s --step-time 1s --start 2020-09-01T12:00:00Z";
    let by_night = |rows: &[TraceRow]| {
        let hour = |row: &TraceRow| row.submit_utc.as_ref().unwrap()[11..13].parse::<u32>().unwrap();
        rows.iter().filter(|row| hour(row) < 8).count() as f64 / rows.len() as f64
    };
    let plain = read(&door.exits(0, make).out);
    let nights = read(&door.exits(0, &format!("{make} --nights 0.25")).out);
    // Five standard errors are below two points.
    assert!((by_night(&plain) - 8.0 / 24.0).abs() < 0.02, "{}", by_night(&plain));
    assert!((by_night(&nights) - 2.0 / 18.0).abs() < 0.02, "{}", by_night(&nights));
    let last = |rows: &[TraceRow]| rows.last().unwrap().submit_s;
    assert!((last(&plain) - last(&nights)).abs() < 86_400.0);
}
