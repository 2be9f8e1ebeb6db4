use proptest::prelude::*;

use super::*;
use crate::any_plan::any_plan;

fn parse(text: &str) -> Result<Trace, RowError> {
    Trace::parse(Path::new("jobs.csv"), text.as_bytes())
}

#[test]
fn a_trace_of_few_columns_has_defaults_for_the_others() {
    let trace = parse("name,submit_s,job,steps\na,0,lstm@b8@dp2,10\n\nb,1.5,resnet18-mini,20\n").unwrap();
    let [a, b] = &trace.rows[..] else { panic!("{trace:?}") };
    assert_eq!((a.devices(), b.devices(), b.submit_s), (2, 1, 1.5));
    assert_eq!((a.class, a.elastic, a.user.as_str(), a.step_ns), (Class::Guaranteed, false, "", None));
    assert_eq!((a.priority, a.cpus, a.min_devices, a.submitted_at()), (0, None, None, None));
    let error = trace.line(1).refuse("job", "there is no workload 'resnet18-mini'").to_string();
    assert_eq!(error, "jobs.csv: line 4: column 'job': there is no workload 'resnet18-mini'");
    let empty = "name,submit_s,command,elastic,class\nc,0,\"python train.py --x 'a b'\",,\n";
    let row = &parse(empty).unwrap().rows[0];
    assert_eq!((row.elastic, row.class, row.steps), (false, Class::Guaranteed, None));
}

#[test]
fn invalid_traces_are_refused_with_line_and_column() {
    let header = "name,submit_s,job,command,steps,devices,step_ns\n";
    for (rows, message) in [
        ("a,-1,lstm,,5,,\n", "line 2: column 'submit_s': -1 is no time"),
        ("a,NaN,lstm,,5,,\n", "line 2: column 'submit_s': NaN is no time"),
        ("a,1e12,lstm,,5,,\n", "line 2: column 'submit_s': 1000000000000 is no time"),
        ("a,0,lstm,,5000000000,,7000000000\n", "line 2: column 'step_ns': makes the job more than"),
        ("a,soon,lstm,,5,,\n", "line 2: column 'submit_s': 'soon' is no number"),
        ("a,0,lstm,,5,,\na,1,lstm,,5,,\n", "line 3: column 'name': 'a' stands in line 2 already"),
        ("a,2,lstm,,5,,\nb,1,lstm,,5,,\n", "line 3: column 'submit_s': 1 is before 2"),
        (",0,lstm,,5,,\n", "line 2: column 'name': is empty"),
        ("a,0,lstm@b0,,5,,\n", "line 2: column 'job': job 'lstm@b0': 'b0' is no batch"),
        ("a,0,lstm@on=cpu:0,,5,,\n", "line 2: column 'job': names a device"),
        ("a,0,lstm,x,5,,\n", "line 2: column 'command': stands beside a job"),
        ("a,0,,,5,,\n", "line 2: column 'job': is empty, and so is command"),
        ("a,0,lstm,,,,\n", "line 2: column 'steps': is empty"),
        ("a,0,lstm,,-5,,\n", "line 2: column 'steps': -5 is below 0"),
        ("a,0,lstm,,0,,\n", "line 2: column 'steps': is 0"),
        ("a,0,lstm,,0x10,,\n", "line 2: column 'steps': 0x10 is hexadecimal; write a decimal number"),
        ("a,0,lstm,,5,,\n0x1,1,lstm,,5,,0X9\n", "line 3: column 'step_ns': 0X9 is hexadecimal"),
        ("a,0,lstm,,5,0,\n", "line 2: column 'devices': is 0"),
        ("a,0,lstm@dp2,,5,4,\n", "line 2: column 'devices': is 4, and the plan of lstm@dp2 takes 2"),
        ("a,0,,x,,,7\n", "line 2: column 'step_ns': says something of steps"),
        ("a,0,lstm,,5,,\nb,1,lst", "line 3: column 'command': the line ends after 3 of 7 columns"),
        ("a,0,lstm,,5,,\nb,1,lstm,,5,,1", "line 3: column 'step_ns': the file ends within this line"),
        ("a,0,lstm,,5,,,\n", "line 2: "),
    ] {
        let error = parse(&format!("{header}{rows}")).unwrap_err().to_string();
        assert!(error.starts_with("jobs.csv: ") && error.contains(message), "{rows:?}: {error}");
    }
    let header = "name,submit_s,job,steps,devices,cpus,elastic,min_devices,max_devices,priority,submit_utc\n";
    for (rows, message) in [
        ("a,0,lstm,5,,0,,,,,\n", "line 2: column 'cpus': is 0"),
        ("a,0,lstm,5,,70000,,,,,\n", "line 2: column 'cpus': 70000 is too large"),
        (
            "a,0,lstm,5,4,,,2,,,\n",
            "line 2: column 'min_devices': bounds an elastic job; write true in elastic",
        ),
        ("a,0,lstm,5,4,,false,,8,,\n", "line 2: column 'max_devices': bounds an elastic job"),
        ("a,0,lstm,5,4,,true,0,8,,\n", "line 2: column 'min_devices': is 0"),
        ("a,0,lstm,5,4,,true,8,2,,\n", "line 2: column 'min_devices': is 8, above max_devices, which is 2"),
        ("a,0,lstm,5,4,,true,5,,,\n", "line 2: column 'min_devices': is 5, and the job asks for 4 devices"),
        ("a,0,lstm,5,4,,true,1,3,,\n", "line 2: column 'max_devices': is 3, and the job asks for 4 devices"),
        ("a,0,lstm,5,,,,,,high,\n", "line 2: column 'priority': 'high' is no whole number"),
        ("a,0,lstm,5,,,,,,0x7,\n", "line 2: column 'priority': 0x7 is hexadecimal"),
        (
            "a,0,lstm,5,,,,,,,2020-09-01 08:00\n",
            "line 2: column 'submit_utc': '2020-09-01 08:00' is no time in UTC",
        ),
        (
            "a,0,lstm,5,,,,,,,2020-09-01T08:00:00+08:00\n",
            "line 2: column 'submit_utc': '2020-09-01T08:00:00+08:00'",
        ),
    ] {
        let error = parse(&format!("{header}{rows}")).unwrap_err().to_string();
        assert!(error.starts_with("jobs.csv: ") && error.contains(message), "{rows:?}: {error}");
    }
    for (text, message) in [
        ("name,submit_s,jib,steps\na,0,lstm,5\n", "unknown field `jib`"),
        ("name,job,steps\na,lstm,5\n", "missing field `submit_s`"),
        ("", "line 1: there is no header"),
    ] {
        let error = parse(text).unwrap_err().to_string();
        assert!(error.contains(message), "{error}");
    }
    let endless = Trace::read(Path::new("/dev/zero")).unwrap_err().to_string();
    assert!(endless.starts_with("/dev/zero: line 1: the line is longer than 16.0 MiB"), "{endless}");
    assert!(Trace::read(Path::new("/nowhere.csv")).unwrap_err().to_string().starts_with("/nowhere.csv: "));
}

#[test]
fn the_optional_columns_are_read() {
    let text = "name,submit_s,job,steps,devices,device_type,cpus,elastic,min_devices,max_devices,priority,user,recurring_job,\
                submit_utc,search,learning_rate,loss_curve\na,0,lstm,10,4,NVIDIA H200,6,true,2,8,-3,u,nightly,\
                2020-09-01T08:00:00Z,rates,1e-3,0.01/0.5/0.2\n";
    let row = &parse(text).unwrap().rows[0];
    assert_eq!((row.device_type.as_deref(), row.cpus, row.priority), (Some("NVIDIA H200"), Some(6), -3));
    assert_eq!((row.min_devices, row.max_devices), (Some(2), Some(8)));
    assert_eq!((row.user.as_str(), row.recurring_job.as_deref()), ("u", Some("nightly")));
    assert_eq!((row.search.as_deref(), row.learning_rate), (Some("rates"), Some(0.001)));
    assert_eq!(row.loss_curve, "0.01/0.5/0.2".parse().ok());
    // 2020-09-01T08:00:00Z in seconds of Unix time.
    let submitted = row.submitted_at().unwrap().duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(submitted.as_secs(), 1_598_947_200);
}

#[test]
fn what_is_wrong_with_a_member_of_a_search_is_refused() {
    let header = "name,submit_s,job,command,steps,search,learning_rate,loss_curve\n";
    for (row, message) in [
        ("a,0,lstm,,5,,0,\n", "line 2: column 'learning_rate': is 0; write a finite number above 0"),
        ("a,0,lstm,,5,,-0.1,\n", "line 2: column 'learning_rate': is -0.1"),
        ("a,0,lstm,,5,,nan,\n", "line 2: column 'learning_rate': is NaN"),
        ("a,0,lstm,,5,,high,\n", "line 2: column 'learning_rate': 'high' is no number"),
        ("a,0,lstm,,5,,,1/2\n", "line 2: column 'loss_curve': '1/2' is no loss curve"),
        ("a,0,,train,5,,0.1,\n", "line 2: column 'learning_rate': says something of jobs of the catalog"),
        ("a,0,,train,5,s,,\n", "line 2: column 'search': says something of jobs of the catalog"),
        ("a,0,,train,5,,,1/2/3\n", "line 2: column 'loss_curve': says something of jobs of the catalog"),
    ] {
        let error = parse(&format!("{header}{row}")).unwrap_err().to_string();
        assert!(error.contains(message), "{row:?}: {error}");
    }
}

fn any_row() -> impl Strategy<Value = TraceRow> {
    let job = ("[a-z][a-z0-9-]{0,9}", prop::option::of(1u32..999), prop::option::of(any_plan()))
        .prop_map(|(workload, global_batch, plan)| Job { workload, global_batch, plan, device: None });
    let told = (prop::option::of(1..3_000_000_000u64), any::<bool>(), prop::sample::select(Class::ALL));
    (job, prop::option::of("\\PC{1,20}"), 1..1_000_000_000u64, 0.0..1e9f64, told, "\\PC{0,9}").prop_map(
        |(job, command, steps, submit_s, (step_ns, elastic, class), user)| {
            let is_command = command.is_some();
            TraceRow {
                name: String::new(),
                submit_s,
                devices: command.is_some().then_some(3),
                job: command.is_none().then_some(job),
                steps_regex: command.clone(),
                command,
                steps: Some(steps),
                device_type: elastic.then(|| "NVIDIA H200".into()),
                cpus: steps.try_into().ok(),
                elastic,
                min_devices: elastic.then_some(1),
                max_devices: elastic.then_some(4),
                class,
                priority: submit_s as i32 - 7,
                weight: elastic.then_some(2),
                vc: user.clone(),
                recurring_job: Some(user.clone()).filter(|name| !name.is_empty()),
                user,
                submit_utc: elastic.then(|| "2020-09-01T08:00:00Z".into()),
                step_ns,
                search: (elastic && !is_command).then(|| "rates".into()),
                learning_rate: (elastic && !is_command).then_some(3e-4),
                loss_curve: (!is_command).then(|| "0.01/0.5/0.2".parse().unwrap()),
            }
        },
    )
}

proptest! {
    #[test]
    fn every_trace_round_trips(mut rows in prop::collection::vec(any_row(), 1..9)) {
        rows.sort_by(|a, b| a.submit_s.total_cmp(&b.submit_s));
        for (number, row) in rows.iter_mut().enumerate() {
            row.name = format!("job \"{number}\",");
        }
        let mut text = Vec::new();
        write(&mut text, &rows).unwrap();
        prop_assert_eq!(Trace::parse(Path::new("t"), &text).unwrap().rows, rows);
    }
}
