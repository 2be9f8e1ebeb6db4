//! The training table of `profile export`: measurements, and the features that may predict them.

use schema::words;
use schema::{
    plan::{Plan, Precision},
    sharing::Sharing,
    spec::Collectives,
    wire::{Statistics, Timing},
};

use super::{
    by_stage::ByStage,
    columns::columns,
    labels::{Arithmetic, ErrorKind, Status, Warnings},
    measurement::Measurement,
};

words! {
    /// The kind of program: a workload of the catalog, a part of training that is measured by itself, or
    /// any other program.
    ProgramKind {
        Training = "training",
        AllReduce = "all-reduce",
        Command = "command",
    }
}

words! {
    /// The source of the sizes of a model.
    Definition {
        /// The specification of a launch of the run.
        Launch = "launch",
        /// The catalog of the exporting program, by name, because no job of the workload was launched.
        Catalog = "catalog",
    }
}

words! {
    /// The use of a row when a model is trained on the table.
    #[derive(Default)]
    Split {
        #[default]
        Train = "train",
        Test = "test",
    }
}

columns! {
    /// A launch, a seat of one visit of a group, or a job that could not run. The columns of
    /// `measurements.csv` come first and have the same meaning.
    ExportRow from Measurement {
        /// Name of the run, the last part of its path.
        run: String,
        /// The launch; for a seat whose job was restarted, the first one. Empty if nothing was started.
        launch: String,
        /// The block, from 0.
        repeat: u32,
        /// The part of the run that it was measured in: 0 at first, and one more after each --resume.
        part: u32,
        /// The job in full spelling, with every default filled in.
        job: String,
        /// Name in the catalog, or of a command.
        workload: String,
        /// A user's program with its arguments, quoted for a shell; empty for a workload.
        command: Option<String>,
        /// The values of --vary in the command, as lr=0.1 width=64; empty without --vary.
        vary: Option<String>,
        /// The plan in its canonical spelling.
        plan: Option<Plan>,
        /// The devices of the ranks, joined by commas.
        device: String,
        /// Threads of each rank for work inside one operation.
        threads: u32,
        /// The sharing mode in its canonical spelling.
        sharing: Sharing,
        /// Name of the group; empty for a job alone.
        group: Option<String>,
        /// Seat in the group, from 0.
        seat: Option<u32>,
        /// Samples of a step over all ranks.
        global_batch: Option<u32>,
        /// Samples that one rank works on at a time.
        micro_batch: Option<u32>,
        /// Number of completed steps.
        steps_total: u64,
        /// Steps in the window that the numbers are from.
        steps_used: u64,
        /// Steps before the window.
        warmup_steps: Option<u64>,
        /// Whether a steady state was found.
        steady: Option<bool>,
        /// How the boundaries of steps were found.
        timing: Option<Timing>,
        /// `local` where batch norm saw less than the global batch.
        statistics: Option<Statistics>,
        /// Median step time. For a job alone it leaves out the time held, in a group it includes it.
        step_ns_median: Option<u64> ["ns"],
        /// Lower end of its 95 % interval, within the launch.
        step_ns_median_ci_lo: Option<u64> ["ns"],
        /// Upper end of its 95 % interval, within the launch.
        step_ns_median_ci_hi: Option<u64> ["ns"],
        /// Length of the window over its steps. The samples of a step over this are samples_per_s.
        step_ns_mean: Option<u64> ["ns"],
        /// 90th percentile of single step times; empty below 20 steps, and if members of a group take
        /// turns.
        step_ns_p90: Option<u64> ["ns"],
        /// 99th percentile of single step times; empty below 200 steps, and if members of a group take
        /// turns.
        step_ns_p99: Option<u64> ["ns"],
        /// Samples of the window over its length, over all ranks.
        samples_per_s: Option<f64> ["1/s"],
        /// Phase of a step: waiting for its batch. Phases are those of the rank that took longest, and empty
        /// under pipeline parallelism.
        data_ns_median: Option<u64> ["ns"],
        /// Phase of a step: forward passes.
        forward_ns_median: Option<u64> ["ns"],
        /// Phase of a step: backward passes.
        backward_ns_median: Option<u64> ["ns"],
        /// Phase of a step: all of gradient synchronisation, whether hidden or exposed.
        sync_total_ns_median: Option<u64> ["ns"],
        /// The part of the synchronisation that the step waited for.
        sync_exposed_ns_median: Option<u64> ["ns"],
        /// Phase of a step: the optimizer's update.
        optimizer_ns_median: Option<u64> ["ns"],
        /// Phase of a step: copies between device and host for offloaded state.
        offload_ns_median: Option<u64> ["ns"],
        /// Phase of a step: waiting for collectives of tensor-parallel ranks; empty with NCCL.
        tensor_ns_median: Option<u64> ["ns"],
        /// Phase of a step: waiting for parameters that ZeRO gathers; empty with NCCL.
        gather_ns_median: Option<u64> ["ns"],
        /// Phase of each pipeline stage, in order of stages and joined by semicolons: waiting for its batch.
        /// Those of a stage are of its rank that took longest. Empty without pipeline parallelism.
        data_ns_median_by_stage: Option<ByStage> ["ns"],
        /// Phase of each pipeline stage: forward passes.
        forward_ns_median_by_stage: Option<ByStage> ["ns"],
        /// Phase of each pipeline stage: backward passes.
        backward_ns_median_by_stage: Option<ByStage> ["ns"],
        /// Phase of each pipeline stage: all of gradient synchronisation, whether hidden or exposed.
        sync_total_ns_median_by_stage: Option<ByStage> ["ns"],
        /// The part of the synchronisation that each pipeline stage waited for.
        sync_exposed_ns_median_by_stage: Option<ByStage> ["ns"],
        /// Phase of each pipeline stage: the optimizer's update.
        optimizer_ns_median_by_stage: Option<ByStage> ["ns"],
        /// Phase of each pipeline stage: copies between device and host for offloaded state.
        offload_ns_median_by_stage: Option<ByStage> ["ns"],
        /// Phase of each pipeline stage: waiting for collectives of tensor-parallel ranks; empty with NCCL.
        tensor_ns_median_by_stage: Option<ByStage> ["ns"],
        /// Phase of each pipeline stage: waiting for activations and gradients of other stages; empty with
        /// NCCL.
        pipeline_ns_median_by_stage: Option<ByStage> ["ns"],
        /// Time from the start of the job's first process to the end of its last rank.
        wall_ns: Option<u64> ["ns"],
        /// Length of the window in which the counters below grew.
        window_ns: Option<u64> ["ns"],
        /// The part of window_ns in which the job did no step, because it was held between two of them. Empty for a job alone, whose
        /// window leaves out such time, and for a member that was started again.
        held_ns: Option<u64> ["ns"],
        /// Time from the start of the slowest rank's process until it was ready.
        startup_ns: Option<u64> ["ns"],
        /// Time from the last step, or from the order to stop if that came later, to the end of the last process. Empty if no step was
        /// seen.
        exit_ns: Option<u64> ["ns"],
        /// Number of trainable parameters of the built model.
        parameters: Option<u64>,
        /// Size of the state that the optimizers of a rank hold, of the rank with most of it. Known of programs with the step hook.
        optimizer_bytes: Option<u64> ["bytes"],
        /// Operations of one step over all ranks, without recomputation.
        flops_per_step: Option<u64> ["FLOP"],
        /// Model FLOPs utilisation: FLOP/s in the window over the vendor's peak for mfu_arithmetic.
        mfu_percent: Option<f64> ["percent"],
        /// Arithmetic of matrix products, the fastest if there are several. Under fp32 on a GPU it is tf32
        /// for a model with convolutions or recurrent layers.
        mfu_arithmetic: Option<Arithmetic>,
        /// Peak of tensor memory of the largest rank.
        peak_memory_bytes: Option<u64> ["bytes"],
        /// Sum of the peaks of tensor memory of all ranks.
        peak_memory_sum_bytes: Option<u64> ["bytes"],
        /// The estimate of the largest rank's peak from before the run.
        memory_estimate_bytes: Option<u64> ["bytes"],
        /// Highest device memory of the job's processes, as the driver reports it.
        device_memory_bytes: Option<u64> ["bytes"],
        /// Largest resident memory of all processes of the job at one time; a page that processes of one rank share counts once.
        host_rss_peak_bytes: Option<u64> ["bytes"],
        /// CPU time of the job's processes in the window.
        cpu_ns: Option<u64> ["ns"],
        /// Time ready to run without a core, in the window.
        run_queue_wait_ns: Option<u64> ["ns"],
        /// Share of time in which the device was busy, with any process.
        device_util_percent_mean: Option<f64> ["percent"],
        /// The part of the utilisation that the driver attributes to the job's processes; on cores, the CPU time of the job over the time
        /// of the cores.
        job_util_percent_mean: Option<f64> ["percent"],
        /// Share of time in which a multiprocessor had work, averaged over multiprocessors.
        sm_util_percent: Option<f64> ["percent"],
        /// Resident warps over the maximum of resident warps.
        sm_occupancy_percent: Option<f64> ["percent"],
        /// Share of time in which tensor cores were active.
        tensor_util_percent: Option<f64> ["percent"],
        /// Share of time in which device memory transferred data.
        dram_util_percent: Option<f64> ["percent"],
        /// Bytes to the device over PCIe in the window, whole device.
        pcie_rx_bytes: Option<u64> ["bytes"],
        /// Bytes from the device over PCIe in the window, whole device.
        pcie_tx_bytes: Option<u64> ["bytes"],
        /// Bytes to the device over NVLink in the window, whole device.
        nvlink_rx_bytes: Option<u64> ["bytes"],
        /// Bytes from the device over NVLink in the window, whole device.
        nvlink_tx_bytes: Option<u64> ["bytes"],
        /// Bytes that ranks sent to each other in the window by the ring algorithms, over all ranks.
        sent_bytes: Option<u64> ["bytes"],
        /// Energy of the whole device in the window.
        energy_mj: Option<u64> ["mJ"],
        /// Reasons to doubt the row, joined by semicolons.
        warnings: Warnings,
        /// Status: ok, unsupported (refused before it started), failed. A label like any other.
        status: Status,
        /// The reason why there are no numbers.
        err: Option<ErrorKind>,
        /// The reason in words. After a failure they include the last output of the program, and are given
        /// only with --with-output.
        err_detail: Option<String>,
    } and {
        /// A number that is equal for all rows whose groups are of the same workloads, in every table. A
        /// job alone is a group of one. Rows with the same key belong on the same side of a split, or in
        /// the same fold, as in split_key % 5.
        split_key: u32,
        /// Train on the rows with train and test on those with test. Rows with the same split_key have the
        /// same word. A fifth of the keys are test, and at least one of two or more, so that with few keys
        /// a word depends on the other rows.
        split: Split,
        /// The kind of program.
        program: Option<ProgramKind>,
        /// Family of the model, as definitions spell it.
        family: Option<String>,
        /// The source of the sizes of the model.
        definition: Option<Definition>,

        /// Plan: number of processes of the job, with one device each.
        ranks: Option<u32>,
        /// Plan: data-parallel degree.
        dp: Option<u32>,
        /// Plan: tensor-parallel degree.
        tp: Option<u32>,
        /// Plan: pipeline-parallel degree.
        pp: Option<u32>,
        /// Plan: ZeRO stage.
        zero: Option<u32>,
        /// Plan: micro-batches accumulated before one optimizer update.
        ga: Option<u32>,
        /// Plan: activation checkpointing.
        gc: Option<bool>,
        /// Plan: optimizer state in host memory.
        offload: Option<bool>,
        /// Plan: precision of numbers in matrix products.
        precision: Option<Precision>,

        /// Number of layers with weights, or of blocks if the family's paper counts blocks; comparable
        /// within a family.
        layers: Option<u32>,
        /// Width of the hidden layers, the widest if they differ; empty if layers have channels instead.
        hidden: Option<u32>,
        /// Tokens, patches, time steps or points of a sample.
        sequence: Option<u32>,
        /// Side of an image in pixels.
        image: Option<u32>,
        /// Number of trainable parameters, as published.
        parameters_expected: Option<u64>,
        /// Operations of one step per sample.
        flops_per_sample: Option<u64> ["FLOP"],
        /// Name of the optimizer, as definitions spell it.
        optimizer: Option<String>,
        /// Numbers that the optimizer keeps for each parameter.
        optimizer_state_per_parameter: Option<u32>,
        /// Size of parameters and buffers.
        model_bytes: Option<u64> ["bytes"],
        /// Activations of a forward pass for its backward pass, per sample of a micro-batch; if a step
        /// makes several updates, the largest of them. Known if the run measured it for an estimate of
        /// memory.
        activation_bytes_per_sample: Option<u64> ["bytes"],

        /// Loader threads per rank.
        loaders: Option<u32>,
        /// Whether samples are read from files. Otherwise they are synthetic.
        real_data: Option<bool>,
        /// Threads per rank for the optimizer's step on the host; empty means all threads of the rank.
        offload_threads: Option<u32>,
        /// Library for collectives; empty means the default of the devices.
        collectives: Option<Collectives>,

        /// Number of jobs that ran together, including this one; 1 alone.
        group_size: u32,
        /// Cells of the other members in the order of their seats, joined by semicolons.
        co_runners: Option<String>,
        /// Workloads of the other members, joined by semicolons.
        co_runner_workloads: Option<String>,
        /// Number of other members that share a device with this one.
        co_runners_on_device: Option<u32>,
        /// Sharing mode without its slice, quantum, weights and limits.
        sharing_mode: String,
        /// Length of a turn in steps, for a member of weight 1.
        quantum_steps: Option<u64>,
        /// Length of a turn in time, for a member of weight 1; or the length of a time slice, if one was
        /// requested from the kernel.
        quantum_ns: Option<u64> ["ns"],
        /// Weight of this member over the sum of weights; empty if the sharing mode has none.
        weight_share: Option<f64>,
        /// Multiprocessors that MPS lets this member use; empty without a limit.
        thread_limit_percent: Option<u32> ["percent"],
        /// Device memory that MPS lets this member allocate, its context included; empty without a limit.
        memory_limit_bytes: Option<u64> ["bytes"],

        /// Step time of this job alone, in the same block: length of the window over its steps, geometric
        /// mean of its launches. For a program without steps, its duration.
        step_ns_alone: Option<u64> ["ns"],
        /// The step time of this row over step_ns_alone. Has no interval; the one over all blocks is
        /// slowdown. Empty under sequential.
        slowdown_in_block: Option<f64>,
        /// Device utilisation of this job alone, mean over its launches in the run.
        alone_device_util_percent: Option<f64> ["percent"],
        /// Multiprocessor utilisation of this job alone, mean over its launches in the run.
        alone_sm_util_percent: Option<f64> ["percent"],
        /// Device memory utilisation of this job alone, mean over its launches in the run.
        alone_dram_util_percent: Option<f64> ["percent"],
        /// Peak of tensor memory of this job alone, maximum over its launches in the run.
        alone_peak_memory_bytes: Option<u64> ["bytes"],
        /// Sum of the other members' alone_device_util_percent; empty if one of them is unknown.
        co_runners_alone_device_util_percent: Option<f64> ["percent"],
        /// Sum of the other members' alone_sm_util_percent; empty if one of them is unknown.
        co_runners_alone_sm_util_percent: Option<f64> ["percent"],
        /// Sum of the other members' alone_dram_util_percent; empty if one of them is unknown.
        co_runners_alone_dram_util_percent: Option<f64> ["percent"],
        /// Sum of the other members' alone_peak_memory_bytes; empty if one of them is unknown.
        co_runners_alone_peak_memory_bytes: Option<u64> ["bytes"],

        /// Number of blocks behind the ratios below, which are those of `interference.csv`.
        blocks: Option<u32>,
        /// Number of blocks in which this member or the job alone failed. The ratios below leave them out.
        blocks_failed: Option<u32>,
        /// Step time in the group over step time alone, paired within blocks; below 1 if faster in the
        /// group. Empty under sequential, where a member's share of the time follows from the length of
        /// turns.
        slowdown: Option<f64>,
        /// Lower end of its 95 % interval, over blocks.
        slowdown_ci_lo: Option<f64>,
        /// Upper end of its 95 % interval, over blocks.
        slowdown_ci_hi: Option<f64>,
        /// Ratio of the 99th percentiles of step times. Empty if a block lacks one of them, and under modes
        /// with turns.
        slowdown_p99: Option<f64>,
        /// Lower end of its 95 % interval, over blocks.
        slowdown_p99_ci_lo: Option<f64>,
        /// Upper end of its 95 % interval, over blocks.
        slowdown_p99_ci_hi: Option<f64>,
        /// Sum over the members of throughput in the group over throughput alone; the geometric mean over
        /// blocks.
        group_norm_throughput: Option<f64>,
        /// Lower end of its 95 % interval, over blocks.
        group_norm_throughput_ci_lo: Option<f64>,
        /// Upper end of its 95 % interval, over blocks.
        group_norm_throughput_ci_hi: Option<f64>,
        /// Sum of the members' peaks in the group: device memory as the driver reports it on a GPU,
        /// resident memory on a CPU device.
        group_memory_bytes: Option<u64> ["bytes"],
        /// Whether there are numbers without a doubt: of a job alone in this row, of a group for all of its
        /// members and over all blocks. Never empty.
        valid: bool,
        /// Half of the interval between the launches of this cell over its estimate, as in `summary.csv`.
        half_width_percent: Option<f64> ["percent"],

        /// Start of the run.
        started_utc: String,
        /// Version of the program that measured.
        version: String,
        /// Revision of the source tree that the program was built from.
        git_revision: Option<String>,
        /// Seed of the run.
        seed: u64,
        /// Identifier of the boot. Monotonic times of two boots cannot be compared.
        boot_id: Option<String>,
        /// Name of the processor.
        machine_cpu: Option<String>,
        /// Number of cores that the run could use.
        machine_cores: Option<u32>,
        /// Memory of the host.
        machine_memory_bytes: Option<u64> ["bytes"],
        /// Whether the machine is virtual.
        machine_hypervisor: Option<bool>,
        /// Version of the NVIDIA driver.
        machine_driver: Option<String>,
        /// Version of libtorch.
        machine_libtorch: Option<String>,
        /// Name of the job's first device, which the columns below describe.
        device_name: Option<String>,
        /// Memory of the device.
        device_capacity_bytes: Option<u64> ["bytes"],
        /// The vendor's peak for the arithmetic of the model under the plan.
        device_peak_flops_per_s: Option<f64> ["FLOP/s"],
        /// Number of multiprocessors.
        device_multiprocessors: Option<u64>,
        /// Size of the second-level cache.
        device_l2_cache_bytes: Option<u64> ["bytes"],
        /// Width of the memory bus.
        device_memory_bus_bits: Option<u64> ["bits"],
        /// Highest clock of the device.
        device_clock_mhz: Option<u64> ["MHz"],
        /// Highest clock of the device's memory.
        device_memory_clock_mhz: Option<u64> ["MHz"],

        /// Calibration: the STREAM triad on the job's devices together.
        triad_bytes_per_s: Option<u64> ["bytes/s"],
        /// Lower end of its 95 % interval.
        triad_bytes_per_s_ci_lo: Option<u64> ["bytes/s"],
        /// Upper end of its 95 % interval.
        triad_bytes_per_s_ci_hi: Option<u64> ["bytes/s"],
        /// Calibration: copies of page-locked memory from the host to the first device.
        host_to_device_bytes_per_s: Option<u64> ["bytes/s"],
        /// Lower end of its 95 % interval.
        host_to_device_bytes_per_s_ci_lo: Option<u64> ["bytes/s"],
        /// Upper end of its 95 % interval.
        host_to_device_bytes_per_s_ci_hi: Option<u64> ["bytes/s"],
        /// Calibration: copies of page-locked memory from the first device to the host.
        device_to_host_bytes_per_s: Option<u64> ["bytes/s"],
        /// Lower end of its 95 % interval.
        device_to_host_bytes_per_s_ci_lo: Option<u64> ["bytes/s"],
        /// Upper end of its 95 % interval.
        device_to_host_bytes_per_s_ci_hi: Option<u64> ["bytes/s"],
        /// Calibration: the smallest all-reduce between the job's devices.
        all_reduce_latency_ns: Option<u64> ["ns"],
        /// Lower end of its 95 % interval.
        all_reduce_latency_ns_ci_lo: Option<u64> ["ns"],
        /// Upper end of its 95 % interval.
        all_reduce_latency_ns_ci_hi: Option<u64> ["ns"],
        /// Calibration: the largest all-reduce between the job's devices, 2 (n - 1) / n times its bytes
        /// over its time.
        all_reduce_bus_bytes_per_s: Option<u64> ["bytes/s"],
        /// Lower end of its 95 % interval.
        all_reduce_bus_bytes_per_s_ci_lo: Option<u64> ["bytes/s"],
        /// Upper end of its 95 % interval.
        all_reduce_bus_bytes_per_s_ci_hi: Option<u64> ["bytes/s"],
        /// Calibration: slowdown of a spin loop on a device of the job beside another one on a device of
        /// its co-runners, the largest over all such pairs; empty if they have no other device.
        spin_ratio: Option<f64>,
        /// Lower end of its 95 % interval.
        spin_ratio_ci_lo: Option<f64>,
        /// Upper end of its 95 % interval.
        spin_ratio_ci_hi: Option<f64>,
        /// Calibration: from the order to write a checkpoint to the end of the first step of the job started again.
        restart_ns: Option<u64> ["ns"],
        /// Lower end of its 95 % interval.
        restart_ns_ci_lo: Option<u64> ["ns"],
        /// Upper end of its 95 % interval.
        restart_ns_ci_hi: Option<u64> ["ns"],
    }
}
