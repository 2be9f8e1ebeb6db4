//! The long table of `profile export --steps`: every step of every launch.

use super::{columns::columns, measurement::Measurement};
use crate::{plan::Plan, sharing::Sharing, wire::Timing};

columns! {
    /// One step of a job: as long as its slowest rank took.
    ExportStep from Measurement {
        /// Name of the run, the last part of its path.
        run: String,
        /// The launch under which the table without --steps has its row.
        launch: String,
        /// The block, from 0.
        repeat: u32,
        /// In full spelling, every default filled in.
        job: String,
        /// Name in the catalog, or of a command.
        workload: String,
        /// In its canonical spelling.
        plan: Option<Plan>,
        /// The devices of the ranks, joined by commas.
        device: String,
        /// In its canonical spelling.
        sharing: Sharing,
        /// Name of the group; empty for a job alone.
        group: Option<String>,
        /// Place in the group, from 0.
        seat: Option<u32>,
    } and {
        /// As in the table without --steps.
        split_key: u32,
        /// The launch that made the step: another one where a job of a group ended and was started again.
        step_launch: String,
        /// Counts from 0 in its launch.
        index: u64,
        /// When its last rank was through, on the host's CLOCK_MONOTONIC, which begins anew when the machine does.
        end_mono_ns: u64 ["ns"],
        /// Its length, without what the job was held.
        dur_ns: u64 ["ns"],
        /// Whether it is one of those that the launch's numbers are of; empty where that is not known.
        in_window: Option<bool>,
        /// Samples that all ranks worked on; empty where nobody knows, as of a program of the user's.
        samples: Option<u64>,
        /// Mean over them; empty where it was not read, and where it is not finite.
        loss: Option<f64>,
        /// Phase: waiting for its batch; of the slowest rank, as the other phases.
        data_ns: Option<u64> ["ns"],
        /// Phase: forward passes.
        forward_ns: Option<u64> ["ns"],
        /// Phase: backward passes.
        backward_ns: Option<u64> ["ns"],
        /// Phase: all of gradient synchronisation, hidden or not.
        sync_total_ns: Option<u64> ["ns"],
        /// The part of it that the step waited for.
        sync_exposed_ns: Option<u64> ["ns"],
        /// Phase: the optimizer's update.
        optimizer_ns: Option<u64> ["ns"],
        /// Phase: copies between device and host for offloaded state.
        offload_ns: Option<u64> ["ns"],
        /// Bytes handed to collectives, all ranks together.
        sent_bytes: Option<u64> ["bytes"],
        /// How its boundaries were found.
        timing: Option<Timing>,
    }
}
