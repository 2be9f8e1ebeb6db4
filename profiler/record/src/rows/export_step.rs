//! The long table of `profile export --steps`, with every step of every launch.

use schema::{plan::Plan, sharing::Sharing, wire::Timing};

use super::{columns::columns, export::Split, measurement::Measurement};

columns! {
    /// One step of a job, or, under pipeline parallelism, what one stage did in it.
    ExportStep from Measurement {
        /// Name of the run, the last part of its path.
        run: String,
        /// The launch that has the job's row in the table without --steps.
        launch: String,
        /// The block, from 0.
        repeat: u32,
        /// The job in full spelling, with every default filled in.
        job: String,
        /// Name in the catalog, or of a command.
        workload: String,
        /// The plan in its canonical spelling.
        plan: Option<Plan>,
        /// The devices of the ranks, joined by commas.
        device: String,
        /// The sharing mode in its canonical spelling.
        sharing: Sharing,
        /// Name of the group; empty for a job alone.
        group: Option<String>,
        /// Seat in the group, from 0.
        seat: Option<u32>,
    } and {
        /// As in the table without --steps.
        split_key: u32,
        /// As in the table without --steps.
        split: Split,
        /// The launch that made the step, which differs if a job of a group ended and was restarted.
        step_launch: String,
        /// Index of the step in its launch, from 0.
        index: u64,
        /// The pipeline stage that samples, loss, phases and sent_bytes are of, from 0. A step has a row for
        /// each stage, and one row without pipeline parallelism.
        stage: u32,
        /// End of the step on its last rank, on the host's CLOCK_MONOTONIC, which restarts with the
        /// machine.
        end_mono_ns: u64 ["ns"],
        /// Duration of the step, without the time in which the job was held. Equal in all rows of a step.
        dur_ns: u64 ["ns"],
        /// Whether the launch's numbers include the step; empty if unknown.
        in_window: Option<bool>,
        /// Samples over all ranks of the stage; empty if unknown, as for a user's program. Those of a
        /// pipeline are all in its last stage.
        samples: Option<u64>,
        /// Mean loss over the samples; empty if it was not read or is not finite.
        loss: Option<f64>,
        /// Phase: waiting for its batch. Like the other phases, that of the rank that took longest.
        data_ns: Option<u64> ["ns"],
        /// Phase: forward passes.
        forward_ns: Option<u64> ["ns"],
        /// Phase: backward passes.
        backward_ns: Option<u64> ["ns"],
        /// Phase: all of gradient synchronisation, whether hidden or exposed.
        sync_total_ns: Option<u64> ["ns"],
        /// The part of the synchronisation that the step waited for.
        sync_exposed_ns: Option<u64> ["ns"],
        /// Phase: the optimizer's update.
        optimizer_ns: Option<u64> ["ns"],
        /// Phase: copies between device and host for offloaded state.
        offload_ns: Option<u64> ["ns"],
        /// Phase: waiting for collectives of tensor-parallel ranks; empty with NCCL.
        tensor_ns: Option<u64> ["ns"],
        /// Phase: waiting for parameters that ZeRO gathers; empty with NCCL.
        gather_ns: Option<u64> ["ns"],
        /// Phase: waiting for activations and gradients of other pipeline stages; empty with NCCL.
        pipeline_ns: Option<u64> ["ns"],
        /// Bytes that ranks sent to each other by the ring algorithms, over all ranks of the stage.
        sent_bytes: Option<u64> ["bytes"],
        /// How the boundaries of the step were found.
        timing: Option<Timing>,
    }
}
