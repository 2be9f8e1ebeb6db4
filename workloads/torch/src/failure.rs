//! Failures of a job: the kind in the protocol, and the message.

use std::any::Any;

use schema::wire::FailureKind;
use tch::TchError;

use crate::{data::DataError, step::StepError};

/// The last event of a worker that cannot continue.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    pub kind: FailureKind,
    pub message: String,
}

impl Failure {
    pub fn new(kind: FailureKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// A request that this worker, or this machine, cannot fulfil.
    pub fn unsupported(message: impl Into<String>) -> Self {
        Self::new(FailureKind::Unsupported, message)
    }

    /// A failure of kind `otherwise`, unless `message` reports exhausted memory, which can happen anywhere.
    ///
    /// libtorch's errors reach Rust as text, so the text is the only evidence.
    pub fn classify(otherwise: FailureKind, message: &str) -> Self {
        // In this order: PyTorch's allocators and CUDA itself, the host's allocator, cuBLAS and cuDNN
        // before version 9, and cuDNN since.
        const ALLOCATION_FAILED: [&str; 6] = [
            "out of memory",
            "can't allocate memory",
            "std::bad_alloc",
            "_STATUS_ALLOC_FAILED",
            "HOST_ALLOCATION_FAILED",
            "DEVICE_ALLOCATION_FAILED",
        ];
        let kind = if ALLOCATION_FAILED.iter().any(|words| message.contains(words)) {
            FailureKind::OutOfMemory
        } else {
            otherwise
        };
        Self::new(kind, plain(message))
    }
}

/// The part of a libtorch message before its C++ backtrace.
pub(crate) fn plain(message: &str) -> &str {
    let (plain, _) = message.split_once("\nException raised from").unwrap_or((message, ""));
    plain.trim_end()
}

/// The message of a panic.
pub(crate) fn words_of(payload: &(dyn Any + Send)) -> &str {
    let owned = payload.downcast_ref::<String>().map(String::as_str);
    owned.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic without words")
}

/// The kind of failure if there are no samples.
pub(crate) fn kind_of_samples(error: &anyhow::Error) -> FailureKind {
    match error.downcast_ref() {
        Some(DataError::Unsupported(_)) => FailureKind::Unsupported,
        // This is no fault of the data: a GPU that failed in an earlier step reports it at the next
        // request.
        Some(DataError::Torch(_)) => FailureKind::Internal,
        None if error.is::<TchError>() => FailureKind::Internal,
        _ => FailureKind::Data,
    }
}

impl From<TchError> for Failure {
    fn from(error: TchError) -> Self {
        Self::classify(FailureKind::Internal, &error.to_string())
    }
}

impl From<StepError> for Failure {
    fn from(error: StepError) -> Self {
        let otherwise = match &error {
            StepError::Data(error) => kind_of_samples(error),
            StepError::Update { .. } | StepError::Device(_) => FailureKind::Internal,
            StepError::Collective(_) => FailureKind::Collective,
        };
        Self::classify(otherwise, &error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_that_ran_out_is_known_by_its_words_wherever_it_happens() {
        for message in [
            "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139 GiB",
            "Internal torch error: CPU out of memory: tried to allocate 8 bytes with 0 bytes of tensors allocated",
            "CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported at some other API call",
            "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
            "cuDNN error: CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
            "std::bad_alloc",
        ] {
            assert_eq!(
                Failure::classify(FailureKind::Data, message).kind,
                FailureKind::OutOfMemory,
                "{message}"
            );
        }
        let other = Failure::classify(FailureKind::Data, "batch_1.bin: 7 bytes are no image");
        assert_eq!(
            (other.kind, other.message.as_str()),
            (FailureKind::Data, "batch_1.bin: 7 bytes are no image")
        );
    }

    #[test]
    fn what_a_device_says_while_samples_are_taken_is_no_fault_of_the_data() {
        let torch = |text: &str| TchError::Torch(text.into());
        let malformed = DataError::Malformed { file: "train.bin".into(), offset: 3, problem: "odd".into() };
        for (error, kind) in [
            (anyhow::Error::new(torch("CUDA error: an illegal memory access")), FailureKind::Internal),
            (DataError::Torch(torch("CUDA error: an illegal memory access")).into(), FailureKind::Internal),
            (DataError::Torch(torch("CUDA out of memory")).into(), FailureKind::OutOfMemory),
            (malformed.into(), FailureKind::Data),
            (anyhow::anyhow!("no more samples"), FailureKind::Data),
        ] {
            let words = error.to_string();
            let failure = Failure::from(StepError::Data(error));
            assert_eq!((failure.kind, failure.message), (kind, format!("reading a batch: {words}")));
        }
    }

    #[test]
    fn a_collective_that_fails_is_a_kind_of_its_own() {
        let closed = TchError::Torch("Connection closed by peer [127.0.0.1]:4096".into());
        let failure = Failure::from(StepError::Collective(closed));
        assert_eq!(failure.kind, FailureKind::Collective);
        assert!(failure.message.starts_with("a collective failed: "), "{failure}");
    }

    #[test]
    fn a_backtrace_is_cut_off() {
        let raw =
            "size mismatch\nException raised from infer_size at ExpandUtils.cpp:31\nframe #0: c10::Error";
        assert_eq!(Failure::classify(FailureKind::Internal, raw).message, "size mismatch");
    }
}
