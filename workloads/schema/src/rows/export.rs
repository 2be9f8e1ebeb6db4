//! The training table of `profile export`: what was measured, beside what it may be predicted from.

use super::{
    columns::columns,
    labels::{Arithmetic, ErrorKind, Status, Warnings, words},
    measurement::Measurement,
};
use crate::{
    plan::{Plan, Precision},
    sharing::Sharing,
    spec::Collectives,
    wire::{Statistics, Timing},
};

words! {
    /// What runs: a workload of the catalog, a part of training that is measured by itself, or any other program.
    ProgramKind {
        Training = "training",
        AllReduce = "all-reduce",
        Command = "command",
    }
}

words! {
    /// Where the sizes of a model are known from.
    Definition {
        /// What a launch of the run was told.
        Launch = "launch",
        /// The catalog of the program that made the table, under the same name: nothing of the workload was launched.
        Catalog = "catalog",
    }
}

words! {
    /// What a row is for, where a model is trained on the table.
    #[derive(Default)]
    Split {
        #[default]
        Train = "train",
        Test = "test",
    }
}

columns! {
    /// A launch, or a seat of one visit of a group, or what could not run. The columns of `measurements.csv` come first and
    /// mean what they mean there.
    ExportRow from Measurement {
        /// Name of the run, the last part of its path.
        run: String,
        /// The launch; of a seat whose job was started again, the first. Empty for what was never started.
        launch: String,
        /// The block, from 0.
        repeat: u32,
        /// Which part of the run it was measured in: 0 as the run began, and one more each time it was gone on with.
        part: u32,
        /// In full spelling, every default filled in.
        job: String,
        /// Name in the catalog, or of a command.
        workload: String,
        /// A program of the user's with its arguments, as a shell would take it; empty for a workload.
        command: Option<String>,
        /// In its canonical spelling.
        plan: Option<Plan>,
        /// The devices of the ranks, joined by commas.
        device: String,
        /// Of each rank, for work inside one operation.
        threads: u32,
        /// In its canonical spelling.
        sharing: Sharing,
        /// Name of the group; empty for a job alone.
        group: Option<String>,
        /// Place in the group, from 0.
        seat: Option<u32>,
        /// Samples of a step, all ranks together.
        global_batch: Option<u32>,
        /// Samples that one rank works on at a time.
        micro_batch: Option<u32>,
        /// Steps that were completed.
        steps_total: u64,
        /// Steps in the window that the numbers are of.
        steps_used: u64,
        /// Steps before it.
        warmup_steps: Option<u64>,
        /// Whether a steady state was found.
        steady: Option<bool>,
        /// How the boundaries of steps were found.
        timing: Option<Timing>,
        /// `local` where batch norm saw less than the global batch.
        statistics: Option<Statistics>,
        /// Median step time; time held is left out of a job alone, and is in it in a group.
        step_ns_median: Option<u64> ["ns"],
        /// Lower end of its 95 % interval, within the launch.
        step_ns_median_ci_lo: Option<u64> ["ns"],
        /// Upper end.
        step_ns_median_ci_hi: Option<u64> ["ns"],
        /// Length of the window over the steps in it; the samples of a step over it are samples_per_s.
        step_ns_mean: Option<u64> ["ns"],
        /// 90th percentile of single step times; empty of fewer than 20 steps, and where members of a group take turns.
        step_ns_p90: Option<u64> ["ns"],
        /// 99th percentile of single step times; empty of fewer than 200 steps, and where members of a group take turns.
        step_ns_p99: Option<u64> ["ns"],
        /// Samples of the window over its length, all ranks together.
        samples_per_s: Option<f64> ["1/s"],
        /// Phase of a step: waiting for its batch.
        data_ns_median: Option<u64> ["ns"],
        /// Phase of a step: forward passes.
        forward_ns_median: Option<u64> ["ns"],
        /// Phase of a step: backward passes.
        backward_ns_median: Option<u64> ["ns"],
        /// Phase of a step: all of gradient synchronisation, hidden or not.
        sync_total_ns_median: Option<u64> ["ns"],
        /// The part of it that the step waited for.
        sync_exposed_ns_median: Option<u64> ["ns"],
        /// Phase of a step: the optimizer's update.
        optimizer_ns_median: Option<u64> ["ns"],
        /// Phase of a step: copies between device and host for offloaded state.
        offload_ns_median: Option<u64> ["ns"],
        /// From the start of the job's first process to the end of its last rank.
        wall_ns: Option<u64> ["ns"],
        /// Length of the window: what the counters below grew in.
        window_ns: Option<u64> ["ns"],
        /// From the start of the slowest rank's process to its being ready.
        startup_ns: Option<u64> ["ns"],
        /// Numbers that are trained, as the built model has them.
        parameters: Option<u64>,
        /// Operations of one step, all ranks together; recomputation is not counted.
        flops_per_step: Option<u64> ["FLOP"],
        /// Model FLOPs utilisation: achieved in the window over the peak that the vendor states for mfu_arithmetic.
        mfu_percent: Option<f64> ["percent"],
        /// In which products of matrices are computed, the fastest where there are several: tf32 under fp32 on a GPU for a
        /// model with convolutions or recurrent layers.
        mfu_arithmetic: Option<Arithmetic>,
        /// Peak of tensor memory of the largest rank.
        peak_memory_bytes: Option<u64> ["bytes"],
        /// Peaks of tensor memory of all ranks, added up.
        peak_memory_sum_bytes: Option<u64> ["bytes"],
        /// What the peak of the largest rank was estimated to be before the run began.
        memory_estimate_bytes: Option<u64> ["bytes"],
        /// Highest device memory of the job's processes as the driver sees it.
        device_memory_bytes: Option<u64> ["bytes"],
        /// Largest sum of the resident sets of all processes of the job at one time; shared pages count in each.
        host_rss_peak_bytes: Option<u64> ["bytes"],
        /// CPU time of the job's processes in the window.
        cpu_ns: Option<u64> ["ns"],
        /// Time ready to run without a core, in the window.
        run_queue_wait_ns: Option<u64> ["ns"],
        /// Share of time in which the device was busy, whoever used it.
        device_util_percent_mean: Option<f64> ["percent"],
        /// The part of it that the driver attributes to the job's processes.
        job_util_percent_mean: Option<f64> ["percent"],
        /// Share of time in which a multiprocessor had work, mean over them.
        sm_util_percent: Option<f64> ["percent"],
        /// Warps resident on multiprocessors, over as many as there can be.
        sm_occupancy_percent: Option<f64> ["percent"],
        /// Share of time in which tensor cores worked.
        tensor_util_percent: Option<f64> ["percent"],
        /// Share of time in which device memory moved data.
        dram_util_percent: Option<f64> ["percent"],
        /// Bytes to the device over PCIe in the window, whole device.
        pcie_rx_bytes: Option<u64> ["bytes"],
        /// Bytes from the device over PCIe in the window, whole device.
        pcie_tx_bytes: Option<u64> ["bytes"],
        /// Bytes to the device over NVLink in the window, whole device.
        nvlink_rx_bytes: Option<u64> ["bytes"],
        /// Bytes from the device over NVLink in the window, whole device.
        nvlink_tx_bytes: Option<u64> ["bytes"],
        /// Bytes handed to collectives in the window, all ranks together.
        sent_bytes: Option<u64> ["bytes"],
        /// Energy of the whole device in the window.
        energy_mj: Option<u64> ["mJ"],
        /// What makes the row doubtful, joined by semicolons.
        warnings: Warnings,
        /// What became of it: ok, unsupported (refused before it started), failed. A label like any other.
        status: Status,
        /// Why there are no numbers.
        err: Option<ErrorKind>,
        /// The same in words, which for what failed hold the last words of its program, and are given with --with-output alone.
        err_detail: Option<String>,
    } and {
        /// The same in every table for all rows whose groups are of the same workloads, a job alone being a group of one. Rows
        /// with the same key belong on the same side of a split, or in the same fold, as of split_key % 5.
        split_key: u32,
        /// Learn from the rows with train and test on those with test. Rows with the same split_key have the same word. A fifth
        /// of the keys are test, and of two keys or more at least one is, so that of few keys a word depends on the other rows.
        split: Split,
        /// What runs.
        program: Option<ProgramKind>,
        /// Family of models, as definitions spell it.
        family: Option<String>,
        /// Where the sizes of the model are known from.
        definition: Option<Definition>,

        /// Plan: processes of the job, one device each.
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
        /// Plan: of numbers in matrix work.
        precision: Option<Precision>,

        /// Layers with weights, or blocks of them where the family's paper counts blocks; compare within a family.
        layers: Option<u32>,
        /// Width of its hidden layers, the widest where they differ; empty where layers have channels instead.
        hidden: Option<u32>,
        /// Tokens, patches, moments or points of a sample.
        sequence: Option<u32>,
        /// Side of an image in pixels.
        image: Option<u32>,
        /// Numbers that are trained, as published.
        parameters_expected: Option<u64>,
        /// Operations of one step per sample.
        flops_per_sample: Option<u64> ["FLOP"],
        /// The optimizer by its name in definitions.
        optimizer: Option<String>,
        /// Numbers that the optimizer keeps for each parameter.
        optimizer_state_per_parameter: Option<u32>,
        /// Parameters and buffers.
        model_bytes: Option<u64> ["bytes"],
        /// What a forward pass leaves behind for its backward pass, for each sample of a micro-batch; where a step makes
        /// several updates, the most of them. Known where the run measured it for an estimate of memory.
        activation_bytes_per_sample: Option<u64> ["bytes"],

        /// Threads of each rank that make batches ahead.
        loaders: Option<u32>,
        /// Whether samples are read from files; else they are synthetic.
        real_data: Option<bool>,
        /// Threads of each rank for the optimizer's step on the host; empty where as many as the rank has.
        offload_threads: Option<u32>,
        /// Who moves tensors between ranks; empty where the usual one of the devices.
        collectives: Option<Collectives>,

        /// Jobs that ran together, this one included: 1 alone.
        group_size: u32,
        /// The cells of the other members, in the order of their seats, joined by semicolons.
        co_runners: Option<String>,
        /// Their workloads, joined by semicolons.
        co_runner_workloads: Option<String>,
        /// How many of them have a device in common with this one.
        co_runners_on_device: Option<u32>,
        /// Sharing mode without its slice, quantum and weights.
        sharing_mode: String,
        /// Turns of so many steps, for a member of weight 1.
        quantum_steps: Option<u64>,
        /// The length of a turn of a member of weight 1; or of a time slice, where the kernel was asked for one.
        quantum_ns: Option<u64> ["ns"],
        /// Weight of this member over those of all; empty where the sharing mode has none.
        weight_share: Option<f64>,

        /// Time of a step of this job alone, in the same block: length of the window over the steps in it, geometric mean
        /// of its launches; how long it runs where no steps are known.
        step_ns_alone: Option<u64> ["ns"],
        /// The same of this row over that. Has no interval; the one over all blocks is slowdown. Empty under sequential.
        slowdown_in_block: Option<f64>,
        /// Of this job alone, mean over its launches in the run.
        alone_device_util_percent: Option<f64> ["percent"],
        /// Of this job alone, mean over its launches in the run.
        alone_sm_util_percent: Option<f64> ["percent"],
        /// Of this job alone, mean over its launches in the run.
        alone_dram_util_percent: Option<f64> ["percent"],
        /// Of this job alone, the most of its launches in the run.
        alone_peak_memory_bytes: Option<u64> ["bytes"],
        /// Of the other members alone, added up; empty where one of them is not known.
        co_runners_alone_device_util_percent: Option<f64> ["percent"],
        /// Of the other members alone, added up.
        co_runners_alone_sm_util_percent: Option<f64> ["percent"],
        /// Of the other members alone, added up.
        co_runners_alone_dram_util_percent: Option<f64> ["percent"],
        /// Of the other members alone, added up.
        co_runners_alone_peak_memory_bytes: Option<u64> ["bytes"],

        /// Blocks that the ratios below are over; they are those of `interference.csv`.
        blocks: Option<u32>,
        /// Blocks in which this member, or the job alone, failed: no ratio below is of them.
        blocks_failed: Option<u32>,
        /// Step time in the group over step time alone, paired within blocks; below 1 where faster in the group. Empty under
        /// sequential, where a member's share of the time follows from how long turns took.
        slowdown: Option<f64>,
        /// Lower end of its 95 % interval, over blocks.
        slowdown_ci_lo: Option<f64>,
        /// Upper end.
        slowdown_ci_hi: Option<f64>,
        /// The same ratio of the 99th percentiles of step lengths. Empty where a block has none of either, and under turns.
        slowdown_p99: Option<f64>,
        /// Lower end of its 95 % interval, over blocks.
        slowdown_p99_ci_lo: Option<f64>,
        /// Upper end.
        slowdown_p99_ci_hi: Option<f64>,
        /// Sum over the members of throughput in the group over throughput alone; the geometric mean over blocks.
        group_norm_throughput: Option<f64>,
        /// Lower end of its 95 % interval, over blocks.
        group_norm_throughput_ci_lo: Option<f64>,
        /// Upper end.
        group_norm_throughput_ci_hi: Option<f64>,
        /// Peaks of the members in the group, added up: what the driver says of a GPU, resident memory on a CPU device.
        group_memory_bytes: Option<u64> ["bytes"],
        /// Whether there are numbers that nothing makes doubtful: of a job alone in this row, of a group for all of its members
        /// and over all blocks. Never empty.
        valid: bool,
        /// Half of the interval between the launches of this cell over its estimate, as in `summary.csv`.
        half_width_percent: Option<f64> ["percent"],

        /// When the run began.
        started_utc: String,
        /// Of the program that measured.
        version: String,
        /// Of the source tree it was built from.
        git_revision: Option<String>,
        /// Of the run.
        seed: u64,
        /// Drawn by the kernel at each start of the machine: times of two boots cannot be compared.
        boot_id: Option<String>,
        /// Name of the processor.
        machine_cpu: Option<String>,
        /// Cores that the run could use.
        machine_cores: Option<u32>,
        /// Memory of the host.
        machine_memory_bytes: Option<u64> ["bytes"],
        /// Whether it is a virtual machine.
        machine_hypervisor: Option<bool>,
        /// Version of the NVIDIA driver.
        machine_driver: Option<String>,
        /// Version of libtorch.
        machine_libtorch: Option<String>,
        /// Name of the job's first device, for which the columns below stand.
        device_name: Option<String>,
        /// Its memory.
        device_capacity_bytes: Option<u64> ["bytes"],
        /// What its vendor states for the arithmetic in which the model is computed under the plan.
        device_peak_flops_per_s: Option<f64> ["FLOP/s"],
        /// Its multiprocessors.
        device_multiprocessors: Option<u64>,
        /// Its second-level cache.
        device_l2_cache_bytes: Option<u64> ["bytes"],
        /// Width of its memory bus.
        device_memory_bus_bits: Option<u64> ["bits"],
        /// Its highest clock.
        device_clock_mhz: Option<u64> ["MHz"],
        /// Its memory's highest clock.
        device_memory_clock_mhz: Option<u64> ["MHz"],

        /// Calibration: the triad of STREAM on the job's devices together.
        triad_bytes_per_s: Option<u64> ["bytes/s"],
        /// Lower end of its 95 % interval.
        triad_bytes_per_s_ci_lo: Option<u64> ["bytes/s"],
        /// Upper end.
        triad_bytes_per_s_ci_hi: Option<u64> ["bytes/s"],
        /// Calibration: copies of page-locked memory from the host to the first device.
        host_to_device_bytes_per_s: Option<u64> ["bytes/s"],
        /// Lower end of its 95 % interval.
        host_to_device_bytes_per_s_ci_lo: Option<u64> ["bytes/s"],
        /// Upper end.
        host_to_device_bytes_per_s_ci_hi: Option<u64> ["bytes/s"],
        /// Calibration: copies of page-locked memory from the first device to the host.
        device_to_host_bytes_per_s: Option<u64> ["bytes/s"],
        /// Lower end of its 95 % interval.
        device_to_host_bytes_per_s_ci_lo: Option<u64> ["bytes/s"],
        /// Upper end.
        device_to_host_bytes_per_s_ci_hi: Option<u64> ["bytes/s"],
        /// Calibration: the smallest all-reduce between the job's devices.
        all_reduce_latency_ns: Option<u64> ["ns"],
        /// Lower end of its 95 % interval.
        all_reduce_latency_ns_ci_lo: Option<u64> ["ns"],
        /// Upper end.
        all_reduce_latency_ns_ci_hi: Option<u64> ["ns"],
        /// Calibration: the largest all-reduce between the job's devices, 2 (n - 1) / n times its bytes over its time.
        all_reduce_bus_bytes_per_s: Option<u64> ["bytes/s"],
        /// Lower end of its 95 % interval.
        all_reduce_bus_bytes_per_s_ci_lo: Option<u64> ["bytes/s"],
        /// Upper end.
        all_reduce_bus_bytes_per_s_ci_hi: Option<u64> ["bytes/s"],
        /// Calibration: how many times as long a spin loop takes on a device of the job beside another one on a device of
        /// its co-runners, the most of all such pairs; empty where they have no other device.
        spin_ratio: Option<f64>,
        /// Lower end of its 95 % interval.
        spin_ratio_ci_lo: Option<f64>,
        /// Upper end.
        spin_ratio_ci_hi: Option<f64>,
        /// Calibration: from the order to write a checkpoint to the end of the first step of the job started again.
        restart_ns: Option<u64> ["ns"],
        /// Lower end of its 95 % interval.
        restart_ns_ci_lo: Option<u64> ["ns"],
        /// Upper end.
        restart_ns_ci_hi: Option<u64> ["ns"],
    }
}
