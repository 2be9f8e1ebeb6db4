use record::manifest::Settings;

use super::*;

fn found(jobs: &[&str], company: Company, modes: &[&str]) -> anyhow::Result<(Vec<Cell>, Vec<Group>)> {
    placed(jobs, company, false, modes)
}

fn placed(
    jobs: &[&str],
    company: Company,
    apart: bool,
    modes: &[&str],
) -> anyhow::Result<(Vec<Cell>, Vec<Group>)> {
    let jobs: Vec<Job> = jobs.iter().map(|job| job.parse().expect("a job")).collect();
    let modes: Vec<Sharing> = modes.iter().map(|mode| mode.parse().expect("a mode")).collect();
    let pool = [Device::Cpu(vec![0]), Device::Cpu(vec![1])];
    let surroundings = &Surroundings::default();
    let (modes, vary) = (&modes, &Varied::default());
    let request =
        GroupRequest { jobs: &jobs, programs: &[], vary, surroundings, company, apart, modes, pool: &pool };
    of(&Catalog::embedded(), &request, &mut Estimates::new(&Settings::default(), 1))
}

fn names(groups: &[Group]) -> Vec<String> {
    let short = |name: &String| {
        let job = name.replace("synthetic-", "").replace("@b32@dp1", "");
        job.replace("@on=cpu:0", "")
    };
    groups.iter().map(|group| group.members.iter().map(short).collect::<Vec<_>>().join("+")).collect()
}

#[test]
fn all_jobs_are_one_group_and_a_job_named_twice_is_one_cell() {
    let jobs = ["synthetic-spin", "synthetic-sleep@on=cpu:1", "synthetic-spin@b32"];
    let (cells, groups) = found(&jobs, Company::All, &["time-slice", "sequential"]).expect("groups");
    assert_eq!(cells.len(), 2);
    assert_eq!(names(&groups), ["spin+sleep@on=cpu:1+spin"; 2]);
    assert_ne!(groups[0].sharing, groups[1].sharing);
    let error = found(&["synthetic-spin"], Company::All, &["time-slice"]).expect_err("refused");
    assert!(error.to_string().contains("name a job twice"), "{error}");
}

#[test]
fn every_group_of_a_size_is_there_once() {
    let jobs = ["synthetic-spin", "synthetic-sleep", "synthetic-spin"];
    let (_, groups) = found(&jobs, Company::Every(2), &["time-slice"]).expect("groups");
    assert_eq!(names(&groups), ["spin+spin", "spin+sleep", "sleep+sleep"]);
}

#[test]
fn members_that_are_apart_take_the_next_devices_each() {
    let jobs = ["synthetic-spin", "synthetic-sleep"];
    let (cells, groups) = placed(&jobs, Company::Every(2), true, &["time-slice"]).expect("groups");
    let expected = ["spin+spin@on=cpu:1", "spin+sleep@on=cpu:1", "sleep+sleep@on=cpu:1"];
    assert_eq!((cells.len(), names(&groups)), (4, expected.map(str::to_owned).into()));
    for (first, devices) in [("synthetic-spin@dp2", 3), ("synthetic-spin@dp4", 5)] {
        let error = placed(&[first, "synthetic-sleep"], Company::All, true, &["time-slice"]);
        let message =
            format!("--apart: a group needs {devices} devices, and there are 2; name more with --device");
        assert_eq!(error.expect_err("there are two devices").to_string(), message);
    }
}

#[test]
fn each_job_stands_beside_each_of_the_others_on_its_own_device() {
    let beside: Vec<Job> =
        ["synthetic-sleep@b1", "synthetic-sleep@b2"].map(|job| job.parse().unwrap()).into();
    let jobs = ["synthetic-spin", "synthetic-spin@on=cpu:1"];
    let (cells, groups) = found(&jobs, Company::Beside(beside), &["time-slice"]).expect("groups");
    assert_eq!((cells.len(), groups.len()), (6, 4));
    assert!(groups[3].name.ends_with("spin@b32@dp1@on=cpu:1+synthetic-sleep@b2@dp1@on=cpu:1"), "{groups:?}");
}

#[test]
fn members_that_no_device_holds_together_are_refused() {
    let cell = |device: Device, memory_estimate_bytes| Cell {
        name: "x".into(),
        sharing: Sharing::Alone,
        job: "x".into(),
        workload: "x".into(),
        command: None,
        all_reduce_bytes: None,
        global_batch: None,
        plan: None,
        devices: vec![device],
        memory_estimate_bytes,
        unsupported: None,
        ..Cell::default()
    };
    let core = |number| Device::Cpu(vec![number]);
    let gib = 1u64 << 30;
    let reason = |cells: &[Cell]| {
        does_not_fit(&cells.iter().collect::<Vec<_>>(), |device| match device {
            Device::Cuda(_) => Some(8 * gib),
            _ => Some(4 * gib),
        })
    };
    assert_eq!(reason(&[cell(core(0), Some(2 * gib)), cell(core(0), Some(2 * gib))]), None);
    assert_eq!(reason(&[cell(core(0), Some(3 * gib)), cell(core(1), Some(3 * gib))]), None);
    assert_eq!(reason(&[cell(core(0), None), cell(core(0), Some(3 * gib))]), None, "not known is no reason");
    let refused = reason(&[cell(core(0), Some(3 * gib)), cell(core(0), Some(2 * gib))]);
    assert_eq!(refused.as_deref(), Some("its members need 5.00 GiB together and cpu:0 has 4.00 GiB"));
    // On a GPU each has a context of its own.
    let gpu = |gib_of_tensors| cell(Device::Cuda(0), Some(gib_of_tensors * gib));
    assert_eq!(reason(&[gpu(3), gpu(3)]), None);
    assert!(reason(&[gpu(3), gpu(4)]).is_some());
}
