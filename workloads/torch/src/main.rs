//! `torch-worker`: trains one job in libtorch under the eyes of the harness.

use std::{path::PathBuf, process::ExitCode};

use clap::{ArgGroup, Parser};
use schema::capabilities::Capabilities;
use torch_worker::{
    capabilities, cuda, export, footprint, run, shapes,
    shim::{library, memory},
};

/// Trains one job in libtorch: what TANDEM_SPEC says, as far as TANDEM_CONTROL grants, telling TANDEM_EVENTS.
///
/// `profile` starts it; see workloads/README.md for the protocol. The options below serve those who want to know what
/// it would do, or to do the same elsewhere: they write what a launch starts from and then leave.
#[derive(Parser)]
#[command(name = "torch-worker", disable_version_flag = true)]
#[command(group = ArgGroup::new("of-a-launch").args(["shapes", "footprint", "export_initial", "export_data"]).multiple(true))]
struct Args {
    /// Print the versions of this program, of libtorch and of CUDA.
    #[arg(long, exclusive = true)]
    version: bool,

    /// Print what libtorch can do on this machine as one line of JSON.
    #[arg(long, exclusive = true)]
    capabilities: bool,

    /// Print what the workload of a launch takes, counted by the shapes of its tensors alone, as one line of JSON.
    ///
    /// Takes no memory, however large the model: parameters, buffers, their bytes, and operations per sample.
    #[arg(long, requires = "spec", conflicts_with = "export")]
    shapes: bool,

    /// Take a few steps of a launch and print what they take in memory, as one line of JSON.
    ///
    /// The steps are taken at its micro-batch and at twice that, by one rank without the others.
    #[arg(long, requires = "spec", conflicts_with_all = ["export", "shapes"])]
    footprint: bool,

    /// The launch to count, to try or to export from, a file jobs/<launch>.json of a run.
    #[arg(long, value_name = "FILE", requires = "of-a-launch")]
    spec: Option<PathBuf>,

    #[command(flatten)]
    export: Export,

    /// Steps whose data is exported.
    #[arg(long, value_name = "N", requires = "export_data", default_value_t = 1)]
    steps: u64,

    /// The rank whose memory is measured, or whose data is exported.
    #[arg(long, value_name = "N", requires = "spec", default_value_t = 0)]
    rank: u32,
}

#[derive(clap::Args)]
#[group(id = "export", multiple = true, requires = "spec")]
struct Export {
    /// Write the initial parameters and buffers as safetensors, under the names of PyTorch's state_dict.
    ///
    /// The tensors are contiguous whatever their layout in training. Scalars such as `num_batches_tracked`, which
    /// training does not read, are left out.
    #[arg(long, value_name = "FILE")]
    export_initial: Option<PathBuf>,

    /// Write the micro-batches of the first N steps as safetensors: `inputs.0`, `targets.0`, `inputs.1` and so on.
    #[arg(long, value_name = "FILE")]
    export_data: Option<PathBuf>,
}

fn main() -> ExitCode {
    let args = Args::parse();
    // These three come before any other use of libtorch: CUDA's hooks are looked up once, tensors made
    // earlier are not counted, and threads inherit the setting from the thread that starts them. CUDA may
    // be missing; code that needs it calls `load` again and gets the reason.
    let _ = cuda::load();
    memory::count_cpu_tensors();
    // Without it the program is slower and otherwise the same.
    let _ = memory::keep_freed_memory();
    library::flush_denormals();

    match obey(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("torch-worker: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn obey(args: &Args) -> anyhow::Result<()> {
    if args.version {
        let Capabilities { libtorch, cuda, .. } = capabilities::probe();
        let cuda = cuda.as_deref().unwrap_or("no");
        println!("torch-worker {} (libtorch {libtorch}, CUDA {cuda})", env!("CARGO_PKG_VERSION"));
    } else if args.capabilities {
        println!("{}", capabilities::try_devices().to_line());
    } else if let Some(spec) = args.spec.as_deref().filter(|_| args.shapes) {
        println!("{}", shapes::of_launch(spec)?.to_line());
    } else if let Some(spec) = args.spec.as_deref().filter(|_| args.footprint) {
        println!("{}", footprint::of_launch(spec, args.rank).to_line());
    } else if let Some(spec) = &args.spec {
        let Export { export_initial, export_data } = &args.export;
        export::export(
            spec,
            args.rank,
            export_initial.as_deref(),
            export_data.as_deref().map(|file| (file, args.steps)),
        )?;
    } else {
        match run::run()? {}
    }
    Ok(())
}
