//! The memory of a launch, which torch-worker measures with a few steps of it.

use std::{fs, path::Path, process::Stdio, time::Duration};

use anyhow::{Context as _, bail};
use record::run_dir::RunDir;
use schema::{footprint::Answer, spec::LaunchSpec};

use crate::{
    interrupt,
    launch::{environment, removed_from_environment},
    leash::{Isolation, LeashHandle, RankCommand, RankStatus},
    programs,
};

/// The time limit. A few steps of a few samples take seconds; those of the largest models on one core take minutes.
const PATIENCE: Duration = Duration::from_secs(900);

/// Makes torch-worker take a few steps of one rank of a launch without the others, on its device and under a leash.
///
/// # Errors
/// There is no torch-worker, or it ends without an answer.
pub fn measure(spec: &LaunchSpec, rank: u32) -> anyhow::Result<Answer> {
    let folder = interrupt::temporary_folder().context("there is no place for temporary files")?;
    let run = RunDir::create(&folder.path().join("footprint"))?;
    run.write_spec(spec)?;
    let (stdout, stderr) = (run.stdout_path(&spec.launch, 0), run.stderr_path(&spec.launch, 0));
    let Some(device) = spec.devices.get(rank as usize) else { bail!("the launch has no rank {rank}") };
    let command = RankCommand {
        program: programs::find("torch-worker")?,
        arguments: [
            "--footprint".into(),
            "--spec".into(),
            run.spec_path(&spec.launch).into(),
            "--rank".into(),
            rank.to_string().into(),
        ]
        .into(),
        users_environment: Vec::new(),
        environment: environment(device, spec.threads)?,
        removed: removed_from_environment(),
        cwd: None,
        device: device.clone(),
        stdin: Stdio::null(),
        link: None,
        stdout: stdout.clone(),
        stderr: stderr.clone(),
    };
    let last_line = |path: &Path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        text.lines().last().unwrap_or_default().to_string()
    };
    match wait_for(command)? {
        RankStatus::Ended(end) if end.exit_code == Some(0) => Answer::from_line(&last_line(&stdout))
            .context("torch-worker --footprint is not of this version; run scripts/setup"),
        RankStatus::Ended(end) => match end.signal {
            Some(signal) => bail!("torch-worker was ended by signal {signal}"),
            None => bail!("torch-worker cannot tell: {}", last_line(&stderr)),
        },
        RankStatus::Refused { why } => bail!("torch-worker could not be started: {why}"),
        RankStatus::Lost | RankStatus::Started { .. } | RankStatus::Terminated | RankStatus::Leaving => {
            bail!("torch-worker was lost")
        }
    }
}

/// Runs a program to its end and returns its last report.
fn wait_for(command: RankCommand) -> anyhow::Result<RankStatus> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let own = std::env::current_exe()?;
    runtime.block_on(async {
        // The end of this process, or dropping the leash, ends the program.
        let (_leash, mut reports) = LeashHandle::start(&own, &Isolation::default(), command)?;
        let last = async {
            loop {
                let news = reports.next().await;
                if news.is_last() {
                    return news;
                }
            }
        };
        tokio::time::timeout(PATIENCE, last).await.context("torch-worker did not come to an end")
    })
}
