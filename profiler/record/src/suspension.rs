//! How a run suspends jobs.

use schema::words;

words! {
    /// How a policy that suspends a job gives its devices to another one. All jobs of a run are suspended in the same way.
    #[derive(Default)]
    Suspension {
        /// The job is held at the boundary of a step. Its memory stays on the device.
        StepGate = "step-gate",
        /// The job is held at the boundary of a step, and its tensors are moved to the memory of the host.
        #[default]
        Pause = "pause",
        /// The job is stopped with a checkpoint, and started again from it. Pauses are refused.
        Checkpoint = "checkpoint",
        /// The job is held at the boundary of a step, and NVIDIA's program `cuda-checkpoint` moves all of the device memory of its
        /// process to the memory of the host.
        CudaCheckpoint = "cuda-checkpoint",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_as_it_is_written() {
        for &suspension in Suspension::ALL {
            assert_eq!(suspension.to_string().parse(), Ok(suspension));
        }
        assert_eq!(Suspension::default(), Suspension::Pause, "the only one of runs that do not name one");
        assert_eq!(
            "criu".parse::<Suspension>().unwrap_err(),
            "'criu' is not one of: step-gate, pause, checkpoint, cuda-checkpoint"
        );
    }
}
