//! `report serve`: shows runs while they go on.

use std::path::PathBuf;

use anyhow::Context as _;
use rig::{Exit, output};
use rustix::process::setpriority_process;

use crate::serve::Server;

/// The lowest priority, so that the server takes cores that others leave.
const NICEST: i32 = 19;

/// Show runs while they go on, in a browser on this machine.
///
/// The page is that of `report RUN...`, made again when the tables of a run have changed. Only programs on this machine can read it
/// (the loopback interface), and it loads nothing from elsewhere. Ctrl-C ends the server, and not the run. Prometheus can scrape steps,
/// step times, memory, the queue and turns at `/metrics`.
///
/// The server runs at the lowest priority, and rests for 30 times the time that making a page took. On a machine whose cores are
/// measured, it still takes some of them: a run says so by the warning `foreign`.
///
/// Example: `report serve runs/pairs`
///
/// Example: `report serve runs/tiresias --port 8000`
#[derive(clap::Args)]
pub(super) struct Args {
    /// Directories of runs, or of folders that have runs below them, or the table of `sched fit --duration`.
    #[arg(required = true, value_name = "RUN")]
    runs: Vec<PathBuf>,
    /// The port on the loopback interface; 0 takes a free one.
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
}

pub(super) fn run(args: &Args) -> anyhow::Result<Exit> {
    // Without permission it keeps the priority that it has.
    let _ = setpriority_process(None, NICEST);
    let server = Server::new(args.runs.clone())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("threads")?;
    let ended = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    let served = runtime.block_on(server.serve(
        args.port,
        |address| output::print(format_args!("http://{address}/")),
        ended,
    ));
    // A page that is being made writes no file, so that it need not be waited for.
    runtime.shutdown_background();
    served.map(|()| Exit::Ok)
}
