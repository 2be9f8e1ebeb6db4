//! What is known of parameters before a fit.

/// A parameter before the fit: its logarithm is normally distributed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prior {
    /// The median, above 0.
    pub mean: f64,
    /// Standard deviation of the logarithm; 0 if the parameter is given and not fitted.
    pub sd: f64,
}

impl Prior {
    /// A parameter that is not fitted.
    pub const fn given(value: f64) -> Prior {
        Prior { mean: value, sd: 0.0 }
    }

    pub(crate) fn is_given(&self) -> bool {
        self.sd == 0.0
    }
}

/// What is known of the parts of a machine. Times in s, bandwidths in GB/s, updates in s for 10^9 parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Parts {
    /// The part of a micro-batch that does not shrink with it.
    pub launch: Prior,
    /// Compute in bf16 over that in fp32.
    pub bf16: Prior,
    /// Casts of 10^9 weights to bf16.
    pub cast: Prior,
    /// Compute beside tensor or pipeline parallelism over that without: that of another framework, if it is one.
    pub divided: Prior,
    /// Bandwidth between devices of a node.
    pub intra: Prior,
    /// Bandwidth of a network card.
    pub inter: Prior,
    /// Bandwidth between a device and its host.
    pub host_link: f64,
    /// Update of parameters on a device.
    pub update: Prior,
    /// Update on the host: the part that does not shrink with the number of ranks, and the part that does, for 12 cores a rank.
    pub host_update_fixed: Prior,
    pub host_update: Prior,
    /// Fixed part of a tensor-parallel all-reduce, of a pipeline slot, and of the synchronisation of data-parallel ranks.
    pub tensor_latency: Prior,
    pub stage_latency: Prior,
    pub sync_latency: Prior,
}

const fn prior(mean: f64, sd: f64) -> Prior {
    Prior { mean, sd }
}

impl Parts {
    /// GPUs of a type, and with links, that no measurement is known of: they may be joined by PCIe or by NVLink.
    pub const GPUS: Parts = Parts {
        launch: prior(0.015, 1.5),
        bf16: prior(0.6, 0.5),
        cast: prior(0.005, 1.0),
        divided: prior(1.0, 0.5),
        intra: prior(40.0, 1.2),
        inter: prior(8.0, 1.0),
        host_link: 20.0,
        update: prior(0.07, 0.8),
        host_update_fixed: prior(0.3, 0.8),
        host_update: prior(0.63, 0.8),
        tensor_latency: prior(2e-5, 1.0),
        stage_latency: prior(0.004, 1.2),
        sync_latency: prior(1e-4, 1.0),
    };

    /// Servers with eight A800 that are joined by NVLink. The values are those of fits to published iteration times of A800 GPUs
    /// (repository AlibabaPAI/reconfigurable-dl-scheduler).
    pub const A800: Parts = Parts {
        launch: prior(0.045, 0.8),
        bf16: prior(0.6, 0.5),
        cast: prior(0.005, 1.0),
        divided: prior(1.0, 0.5),
        intra: prior(130.0, 0.4),
        inter: prior(20.0, 0.25),
        host_link: 64.0,
        update: prior(0.07, 0.4),
        host_update_fixed: prior(0.3, 0.35),
        host_update: prior(0.63, 0.3),
        tensor_latency: prior(2e-5, 1.0),
        stage_latency: prior(0.004, 1.2),
        sync_latency: prior(1e-4, 0.5),
    };

    /// Cores of one machine, whose ranks talk through its memory. They differ more than GPUs do, so that little is known. Latencies are
    /// the geometric means of ten fits to workloads on two cores (`two-ranks` of `reports/record/20261124-epyc-avx512` and `20261125-epyc-avx512`).
    pub const CORES: Parts = Parts {
        launch: prior(0.002, 1.5),
        bf16: prior(0.8, 0.7),
        cast: prior(0.5, 1.5),
        divided: prior(1.0, 0.1),
        intra: prior(2.0, 1.5),
        inter: prior(1.0, 1.5),
        host_link: 10.0,
        update: prior(5.0, 1.0),
        host_update_fixed: prior(0.5, 1.0),
        host_update: prior(0.5, 1.0),
        tensor_latency: prior(4.5e-4, 1.0),
        stage_latency: prior(1e-3, 1.5),
        sync_latency: prior(1.9e-3, 1.0),
    };
}
