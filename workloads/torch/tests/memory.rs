//! The counting allocator is exact. All of it is one test: the count is the whole process's.

use tch::{Device, Kind, Tensor};
use torch_worker::shim::memory::{count_cpu_tensors, reset_peak, tensor_memory};

fn allocated() -> u64 {
    tensor_memory(Device::Cpu).unwrap().allocated_bytes
}

fn peak() -> u64 {
    tensor_memory(Device::Cpu).unwrap().peak_bytes
}

fn floats(count: i64) -> Tensor {
    Tensor::empty([count], (Kind::Float, Device::Cpu))
}

#[test]
fn tensor_memory_is_exact_up_and_down() {
    count_cpu_tensors();
    let base = allocated();

    let (first, second) = (floats(1_000_000), floats(1_000_000));
    assert_eq!(allocated() - base, 8_000_000);
    assert_eq!(first.data_ptr() as usize % 64, 0, "torch's kernels are tuned for this alignment");
    let view = first.view([1000, 1000]);
    assert_eq!(allocated() - base, 8_000_000, "a view owns nothing");
    drop(first);
    assert_eq!(allocated() - base, 8_000_000, "the view keeps the storage");
    drop(view);
    assert_eq!(allocated() - base, 4_000_000);

    let third = floats(500_000);
    assert_eq!((allocated() - base, peak() - base), (6_000_000, 8_000_000), "the peak stays");
    let fourth = floats(1_000_000);
    assert_eq!((allocated() - base, peak() - base), (10_000_000, 10_000_000));
    drop((second, third, fourth));
    assert_eq!((allocated() - base, peak() - base), (0, 10_000_000));

    let kept = floats(250_000);
    reset_peak(Device::Cpu).unwrap();
    assert_eq!(peak() - base, 1_000_000, "the peak falls to what is allocated");
    drop((kept, floats(500_000)));
    assert_eq!((allocated() - base, peak() - base), (0, 3_000_000), "and rises from there");

    // oneDNN allocates its scratch memory through the same allocator, in raw blocks.
    {
        let images = Tensor::randn([4, 3, 32, 32], (Kind::Float, Device::Cpu));
        let kernels = Tensor::randn([16, 3, 3, 3], (Kind::Float, Device::Cpu)).set_requires_grad(true);
        images.conv2d(&kernels, None::<Tensor>, 1, 1, 1, 1).square().mean(Kind::Float).backward();
    }
    assert_eq!(allocated(), base, "everything that a convolution took is given back");

    let error = Tensor::f_empty([1 << 46], (Kind::Float, Device::Cpu)).unwrap_err().to_string();
    assert!(error.contains("CPU out of memory: tried to allocate 281474976710656 bytes"), "{error}");
    assert_eq!(allocated(), base, "what was refused is not counted");
}
