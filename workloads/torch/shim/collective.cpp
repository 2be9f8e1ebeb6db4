// PyTorch's own process groups: how tensors move between the ranks of a job.
//
// A collective is started by its function here and runs on a thread of the group (Gloo) or in a stream of it (NCCL).
// It holds handles on its tensors, which must not be touched before it was waited for. All ranks start the same
// collectives in the same order, from one thread at a time.

// The class is part of libtorch_cpu on Linux; its header shows it to those who say that they know.
#define USE_C10D_GLOO

#include "shim.h"

#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <ctime>
#include <memory>
#include <mutex>

namespace {

using Milliseconds = std::chrono::milliseconds;

// All ranks of a job are processes of one machine, and must not be reachable from others.
constexpr const char* kLoopback = "127.0.0.1";

using Store = c10::intrusive_ptr<c10d::Store>;
using MakeNccl = void (*)(const Store& store, int rank, int size, Milliseconds timeout,
                          c10::intrusive_ptr<c10d::Backend>& backend);

// What the groups of one process have in common.
struct Meeting {
  Store store;
  Milliseconds timeout;
  // Null for Gloo.
  MakeNccl make_nccl;
  // The sockets of Gloo and the thread that serves them.
  std::shared_ptr<gloo::transport::Device> device;
};

struct Group {
  c10::intrusive_ptr<c10d::Backend> backend;
};

struct Work {
  c10::intrusive_ptr<c10d::Work> work;
  // Nanoseconds of CLOCK_MONOTONIC, 0 until then. Shared with the callback, which may outlive this.
  std::shared_ptr<std::atomic<int64_t>> finished_ns;
};

int64_t monotonic_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// The file in which ranks that know nothing of each other leave their addresses.
Store fresh_store(const char* file, int rank, int size, Milliseconds timeout) {
  auto store = c10::make_intrusive<c10d::FileStore>(file, size);
  store->setTimeout(timeout);
  // What an earlier launch has left in it would lead to ranks that are gone, and be noticed when the timeout is over.
  const auto arrivals = store->add("arrivals/" + std::to_string(rank), 1);
  TORCH_CHECK(arrivals == 1, file, ": a rank ", rank, " has been here before; a launch needs a new file to meet in");
  return store;
}

// Threads that are started while it lives do not take the core from another thread when they wake up.
//
// Gloo's event loop tries for the lock of a connection, and while a thread of the group holds it asks the kernel for the
// same event again and again. Where both have one core, as the ranks of CPU devices have, the loop that woke up in the
// middle of a send keeps its sender from going on until the next tick of the kernel: of small all-reduces every fourth took
// 4 ms then, and one that nothing disturbs 40 us.
class PatientThreads {
 public:
  PatientThreads() {
    pthread_getschedparam(pthread_self(), &policy_, &parameters_);
    if (policy_ == SCHED_OTHER) {
      pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters_);
    }
  }
  ~PatientThreads() { pthread_setschedparam(pthread_self(), policy_, &parameters_); }
  PatientThreads(const PatientThreads&) = delete;
  PatientThreads& operator=(const PatientThreads&) = delete;

 private:
  int policy_ = SCHED_OTHER;
  sched_param parameters_{};
};

std::shared_ptr<gloo::transport::Device> loopback_device() {
  const PatientThreads loop;
  return c10d::ProcessGroupGloo::createDeviceForHostname(kLoopback);
}

// What is copied is the memory of a tensor, whatever its strides. Gloo copies the results for a GPU from the host with
// an operation, which autograd refuses for parameters, so that the backend is given a tensor on the same memory that
// autograd does not know.
at::Tensor memory_of(const at::Tensor& tensor) {
  TORCH_CHECK(tensor.is_non_overlapping_and_dense(), "a tensor with gaps in memory cannot be sent or received");
  return tensor.variable_data();
}

Work* follow(c10::intrusive_ptr<c10d::Work> work) {
  auto followed = std::make_unique<Work>(Work{std::move(work), std::make_shared<std::atomic<int64_t>>(0)});
  // Other work of Gloo has no future, and NCCL's is complete as soon as the stream has the work.
  if (auto* of_gloo = dynamic_cast<c10d::ProcessGroupGloo::AsyncWork*>(followed->work.get())) {
    of_gloo->getFuture()->addCallback(
        [finished_ns = followed->finished_ns](c10::ivalue::Future&) { finished_ns->store(monotonic_ns()); },
        /*uses_future=*/false);
  }
  return followed.release();
}

// Starts a collective, one at a time in the whole process. PyTorch 2.11 notes those of all groups of a process in one map,
// into which it looks before it locks it (pytorch/pytorch, pull request 179313).
template <typename Start>
int begin(Work** work, Start start) {
  static std::mutex one_at_a_time;
  return shim::guarded([&] {
    const std::lock_guard lock(one_at_a_time);
    *work = follow(start());
  });
}

}  // namespace

extern "C" {

// Opens the file in which all `size` ranks of a job leave their addresses. Groups meet through Gloo, or through NCCL
// where `make_nccl` is the function of nccl.cpp, whose library is open.
int tw_meeting_open(MakeNccl make_nccl, const char* file, int rank, int size, int64_t timeout_ms, Meeting** meeting) {
  return shim::guarded([&] {
    const Milliseconds timeout(timeout_ms);
    auto store = fresh_store(file, rank, size, timeout);
    *meeting = new Meeting{std::move(store), timeout, make_nccl, make_nccl ? nullptr : loopback_device()};
  });
}

void tw_meeting_delete(Meeting* meeting) { delete meeting; }

// Meets the other ranks of the group `name`, and returns when all of `size` have come. A collective that takes longer
// than the timeout, as one for which another rank does not come, fails; when another rank's process ends it fails at
// once. NCCL connects in the first collective.
int tw_group_meet(Meeting* meeting, const char* name, int rank, int size, Group** group) {
  return shim::guarded([&] {
    const auto store = c10::make_intrusive<c10d::PrefixStore>(name, meeting->store);
    Group met;
    if (meeting->make_nccl != nullptr) {
      meeting->make_nccl(store, rank, size, meeting->timeout, met.backend);
    } else {
      auto options = c10d::ProcessGroupGloo::Options::create(meeting->timeout);
      options->devices.push_back(meeting->device);
      met.backend = c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
    }
    *group = new Group(std::move(met));
  });
}

// Waits for collectives that are under way, which then fail if other ranks have gone.
void tw_group_delete(Group* group) { delete group; }

// The sum over all ranks, or the maximum.
int tw_group_all_reduce(Group* group, at::Tensor* tensor, int is_maximum, Work** work) {
  return begin(work, [&] {
    std::vector<at::Tensor> tensors{memory_of(*tensor)};
    c10d::AllreduceOptions options;
    options.reduceOp = is_maximum ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
    return group->backend->allreduce(tensors, options);
  });
}

int tw_group_broadcast(Group* group, at::Tensor* tensor, int root, Work** work) {
  return begin(work, [&] {
    std::vector<at::Tensor> tensors{memory_of(*tensor)};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    return group->backend->broadcast(tensors, options);
  });
}

// `whole` gets the parts of all ranks, one after the other.
int tw_group_all_gather(Group* group, at::Tensor* whole, at::Tensor* part, Work** work) {
  return begin(work, [&] {
    auto gathered = memory_of(*whole);
    auto own = memory_of(*part);
    return group->backend->_allgather_base(gathered, own);
  });
}

// `part` gets this rank's part of the sum over all ranks of `whole`.
int tw_group_reduce_scatter_sum(Group* group, at::Tensor* part, at::Tensor* whole, Work** work) {
  return begin(work, [&] {
    auto own = memory_of(*part);
    auto summed = memory_of(*whole);
    return group->backend->_reduce_scatter_base(own, summed);
  });
}

// `received` gets part number `rank` of every rank's `sent`, in the order of ranks. Both are cut into equal parts.
int tw_group_all_to_all(Group* group, at::Tensor* received, at::Tensor* sent, Work** work) {
  return begin(work, [&] {
    auto into = memory_of(*received);
    auto from = memory_of(*sent);
    std::vector<int64_t> equal_parts;
    return group->backend->alltoall_base(into, from, equal_parts, equal_parts);
  });
}

int tw_group_send(Group* group, at::Tensor* tensor, int to, int tag, Work** work) {
  return begin(work, [&] {
    std::vector<at::Tensor> tensors{memory_of(*tensor)};
    return group->backend->send(tensors, to, tag);
  });
}

int tw_group_recv(Group* group, at::Tensor* tensor, int from, int tag, Work** work) {
  return begin(work, [&] {
    std::vector<at::Tensor> tensors{memory_of(*tensor)};
    return group->backend->recv(tensors, from, tag);
  });
}

int tw_group_barrier(Group* group, Work** work) {
  return begin(work, [&] {
    c10d::BarrierOptions options;
    // A rank sees one GPU, its own. Without being told, NCCL would take the rank's number for that of a GPU; Gloo does
    // not ask.
    options.device_ids = {0};
    return group->backend->barrier(options);
  });
}

// On the CPU waits for the end of the work; on a GPU lets the current stream wait, so that what is queued from here on
// may use its tensors.
int tw_work_wait(Work* work) {
  return shim::guarded([&] { TORCH_CHECK(work->work->wait(), "a collective was given up"); });
}

int tw_work_is_done(const Work* work, int* done) {
  return shim::guarded([&] { *done = work->work->isCompleted(); });
}

// Nanoseconds of CLOCK_MONOTONIC; 0 where it is not finished, and where the backend does not tell.
int64_t tw_work_finished_ns(const Work* work) { return work->finished_ns->load(); }

// A collective that is under way goes on, and keeps its tensors alive. Gloo gives up a send or a receive, and does not
// copy the result of a reduce-scatter.
void tw_work_delete(Work* work) { delete work; }

}  // extern "C"
