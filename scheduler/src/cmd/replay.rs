//! later

/// Later.
///
/// Example: `sched replay`
#[derive(clap::Args)]
pub(super) struct Args {}

pub(super) fn run(_args: &Args) -> anyhow::Result<profiler::cmd::Exit> {
    anyhow::bail!("not yet")
}
