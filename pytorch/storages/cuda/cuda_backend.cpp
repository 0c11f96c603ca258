// The DeviceBackend for PyTorch's CUDA memory and streams. No other file uses them.
//
// SessionAllocator takes the place of PyTorch's caching allocator. Allocations that a session may
// offload go to the runtime, whose device has memory of its own; all others are forwarded to the
// caching allocator, which shares the budget (CachingAllocator). When that runs out of memory, also
// in a direct call for a library's workspace, the runtime offloads tensors, their memory returns to
// the GPU, and the allocation is tried again. SessionAllocator does this instead of a
// FreeMemoryCallback, which would run with the caching allocator's lock: a thread inside the
// runtime needs that lock to change the limit.
//
// This code has run on the emulated GPU (testing/cuda_emulation) and on no other.
#include "storages/cuda_backend.h"

#include <ATen/Context.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGraphsC10Utils.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <atomic>
#include <utility>

#include "device/cuda_device.h"
#include "op_error.h"
#include "running_op.h"
#include "storages/active_session.h"
#include "storages/adoption.h"
#include "storages/cuda/caching_allocator.h"
#include "storages/cuda/session_statistics.h"
#include "storages/data_pointer.h"
#include "storages/storage_swap.h"
#include "storages/tensor_handle.h"

namespace teraio::pytorch {
namespace {

namespace caching = c10::cuda::CUDACachingAllocator;

// The default budget's share of the free memory. Libraries need the rest for code that they load
// later.
constexpr double kDefaultBudgetShare = 0.92;

// PyTorch's own allocator, or null before the first session.
caching::CUDAAllocator*& stock() {
  static caching::CUDAAllocator* allocator = nullptr;
  return allocator;
}

// Pools of memory that the caching allocator takes from instead of its own: a graph of PyTorch is
// captured with one.
std::atomic<int32_t> private_pools_in_use = 0;

// CUDA is asked once for an operator, and not again for what it calls and allocates.
bool is_known_uncaptured() {
  return private_pools_in_use.load(std::memory_order_relaxed) == 0 && runs_uncaptured_op();
}

bool is_captured(const c10::cuda::CUDAStream& stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const cudaError_t error = cudaStreamIsCapturing(stream.stream(), &status);
  if (error != cudaSuccess) C10_CUDA_CHECK(error);
  return status != cudaStreamCaptureStatusNone;
}

bool is_capturing_now() {
  return !is_known_uncaptured() && is_captured(c10::cuda::getCurrentCUDAStream());
}

// Returns the session in use if it manages the current GPU, or null. `is_its_stream`: also null
// when this thread uses another stream than the session's, which must not move the tensors of such
// work.
ActiveSession* session_of_this_gpu(const SessionUse& use, bool is_its_stream) {
  ActiveSession* session = use.get();
  if (session == nullptr || !session->backend->torch_device().is_cuda()) return nullptr;
  const ThreadPlace place = session->backend->place_of_this_thread();
  const bool is_elsewhere = is_its_stream && place.is_on_other_stream;
  return is_elsewhere || place.is_on_other_device ? nullptr : session;
}

// Makes the runtime offload tensors until memory for `size_bytes` has returned to the GPU. False:
// it cannot, and what can leave has left.
bool make_room(ActiveSession& session, size_t size_bytes) {
  const StorageReferenceGuard guard;
  return session.runtime->return_memory(static_cast<int64_t>(size_bytes)).ok();
}

// Returns `allocate()`. When that runs out of memory, makes room and tries again.
//
// The caching allocator takes memory in segments, which are larger than what is needed. More and
// more therefore leaves, until that is enough.
template <typename Allocate>
auto with_room(size_t size_bytes, Allocate allocate) {
  const SessionUse use;
  bool has_room = true;
  for (size_t room_bytes = size_bytes; has_room; room_bytes *= 2) {
    try {
      return allocate();
    } catch (const c10::OutOfMemoryError&) {
      ActiveSession* session = session_of_this_gpu(use, /*is_its_stream=*/false);
      has_room = session != nullptr && make_room(*session, room_bytes);
    }
  }
  return allocate();
}

// Tells the caching allocator that `stream` uses a block of its own, with any deleter.
void record_stock_block(void* block, c10::Device device, c10::cuda::CUDAStream stream) {
  c10::DataPtr as_stock(block, block, stock()->raw_deleter(), device);
  stock()->recordStream(as_stock, stream);
  as_stock.release_context();
}

// Threads: any, with or without the GIL.
class SessionAllocator final : public caching::CUDAAllocator {
 public:
  using caching::CUDAAllocator::recordStream;

  c10::DataPtr allocate(size_t size_bytes) override {
    if (is_capturing_now()) return allocate_for_graph(size_bytes);
    const SessionUse use;
    const ActiveSession* session = session_of_this_gpu(use, /*is_its_stream=*/true);
    // Small tensors are never offloaded, and the caching allocator packs them better.
    if (session == nullptr || static_cast<int64_t>(size_bytes) < session->smallest_tensor_bytes) {
      return with_room(size_bytes, [&] { return stock()->allocate(size_bytes); });
    }
    const StorageReferenceGuard guard;
    const Result<NewTensor> newborn = make_tensor(
        session->runtime, session->backend->torch_device(), static_cast<int64_t>(size_bytes));
    if (!newborn.ok()) throw_status(newborn.status(), current_op_name());
    return make_newborn_data_ptr(newborn->handle, newborn->memory);
  }

  // Graphs know the memory by its address. No session adopts memory with this deleter.
  static c10::DataPtr allocate_for_graph(size_t size_bytes) {
    c10::DataPtr stocks = stock()->allocate(size_bytes);
    const c10::Device device = stocks.device();
    void* memory = stocks.release_context();
    return {memory, memory, &deallocate_raw, device};
  }

  static void deallocate_raw(void* memory) {
    if (!release_newborn(memory)) stock()->raw_delete(memory);
  }
  c10::DeleterFnPtr raw_deleter() const override { return &deallocate_raw; }
  void raw_delete(void* memory) override { deallocate_raw(memory); }

  void* raw_alloc(size_t size_bytes) override {
    return with_room(size_bytes, [&] { return stock()->raw_alloc(size_bytes); });
  }
  void* raw_alloc_with_stream(size_t size_bytes, cudaStream_t stream) override {
    return with_room(size_bytes,
                     [&] { return stock()->raw_alloc_with_stream(size_bytes, stream); });
  }

  // Another stream uses the memory. The tensor stays resident until the stream has finished the
  // work that it has got so far. Its memory is not reused before the stream has finished what it
  // has got when the tensor is freed, of which the session may not know.
  void recordStream(const c10::DataPtr& data_ptr, c10::cuda::CUDAStream stream) override {
    TensorHandle* handle = handle_behind(data_ptr);
    if (handle == nullptr) {
      const c10::DataPtr* kept = kept_memory(data_ptr);
      return record_stocks(kept == nullptr ? data_ptr : *kept, stream);
    }
    runtime::Runtime& runtime = *handle->runtime;
    const StorageReferenceGuard guard;
    if (const Status status = runtime.pin(handle->tensor); !status.ok())
      throw_status(status, "record_stream");
    const engine::Use use = {handle->tensor, true};
    runtime.record_stream(stream.stream(), std::span(&use, 1), /*is_use_open=*/true);
    runtime.unpin(handle->tensor);
  }

  static void record_stocks(const c10::DataPtr& data_ptr, c10::cuda::CUDAStream stream) {
    if (data_ptr.get_deleter() != &deallocate_raw) return stock()->recordStream(data_ptr, stream);
    record_stock_block(data_ptr.get(), data_ptr.device(), stream);
  }

  // --- With the memory of sessions ---
  c10::CachingDeviceAllocator::DeviceStats getDeviceStats(c10::DeviceIndex device) override {
    c10::CachingDeviceAllocator::DeviceStats stats = stock()->getDeviceStats(device);
    SessionStatistics::of_device(device).add_to(stats);
    return stats;
  }
  void resetAccumulatedStats(c10::DeviceIndex device) override {
    stock()->resetAccumulatedStats(device);
    SessionStatistics::of_device(device).reset_accumulated();
  }
  void resetPeakStats(c10::DeviceIndex device) override {
    stock()->resetPeakStats(device);
    SessionStatistics::of_device(device).reset_peaks();
  }
  // The caching allocator knows no memory of sessions, and raises.
  caching::ShareableHandle shareIpcHandle(void* memory) override {
    try {
      return stock()->shareIpcHandle(memory);
    } catch (const c10::Error& error) {
      TORCH_CHECK(false, error.what_without_backtrace(),
                  ". If a teraio session has made this tensor, it cannot be shared with another "
                  "process through CUDA IPC, because its memory moves: share a copy on the CPU");
    }
  }
  // Memory that is mapped for one GPU alone, as a session's is, can only be copied to another one
  // by the call for two GPUs.
  cudaError_t memcpyAsync(void* to, int to_device, const void* from, int from_device, size_t count,
                          cudaStream_t stream, bool p2p_enabled) override {
    if (to_device != from_device)
      return cudaMemcpyPeerAsync(to, to_device, from, from_device, count, stream);
    return stock()->memcpyAsync(to, to_device, from, from_device, count, stream, p2p_enabled);
  }

  // --- Forwarded ---
  void copy_data(void* to, const void* from, std::size_t count) const override {
    stock()->copy_data(to, from, count);
  }
  bool initialized() override { return stock()->initialized(); }
  void emptyCache(c10::MempoolId_t pool) override { stock()->emptyCache(pool); }
  std::pair<size_t, size_t> getMemoryInfo(c10::DeviceIndex device) override {
    return stock()->getMemoryInfo(device);
  }
  void init(int device_count) override { stock()->init(device_count); }
  double getMemoryFraction(c10::DeviceIndex device) override {
    return stock()->getMemoryFraction(device);
  }
  void setMemoryFraction(double fraction, c10::DeviceIndex device) override {
    stock()->setMemoryFraction(fraction, device);
  }
  std::vector<caching::StreamSegmentSize> getExpandableSegmentSizes(
      c10::DeviceIndex device) override {
    return stock()->getExpandableSegmentSizes(device);
  }
  void enable(bool value) override { stock()->enable(value); }
  bool isEnabled() const override { return stock()->isEnabled(); }
  void cacheInfo(c10::DeviceIndex device, size_t* largest_block) override {
    stock()->cacheInfo(device, largest_block);
  }
  void* getBaseAllocation(void* memory, size_t* size) override {
    return stock()->getBaseAllocation(memory, size);
  }
  caching::SnapshotInfo snapshot(c10::MempoolId_t pool, bool include_traces) override {
    return stock()->snapshot(pool, include_traces);
  }
  void beginAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                           std::function<bool(cudaStream_t)> filter) override {
    private_pools_in_use.fetch_add(1);
    stock()->beginAllocateToPool(device, pool, std::move(filter));
  }
  void endAllocateToPool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    stock()->endAllocateToPool(device, pool);
    // One that began before the first session was not counted.
    if (private_pools_in_use.fetch_sub(1) <= 0) private_pools_in_use.fetch_add(1);
  }
  void releasePool(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    stock()->releasePool(device, pool);
  }
  int getPoolUseCount(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    return stock()->getPoolUseCount(device, pool);
  }
  void createOrIncrefPool(c10::DeviceIndex device, c10::MempoolId_t pool,
                          std::shared_ptr<CUDAAllocator> allocator) override {
    stock()->createOrIncrefPool(device, pool, std::move(allocator));
  }
  void setUseOnOOM(c10::DeviceIndex device, c10::MempoolId_t pool, bool use_on_oom) override {
    stock()->setUseOnOOM(device, pool, use_on_oom);
  }
  void setNoSplit(c10::DeviceIndex device, c10::MempoolId_t pool) override {
    stock()->setNoSplit(device, pool);
  }
  bool checkPoolLiveAllocations(c10::DeviceIndex device, c10::MempoolId_t pool,
                                const std::unordered_set<void*>& expected) override {
    return stock()->checkPoolLiveAllocations(device, pool, expected);
  }
  std::shared_ptr<void> getIpcDevPtr(std::string handle) override {
    return stock()->getIpcDevPtr(std::move(handle));
  }
  bool isHistoryEnabled() override { return stock()->isHistoryEnabled(); }
  void recordHistory(bool enabled, caching::CreateContextFn recorder, size_t max_entries,
                     caching::RecordContext when, bool clear,
                     const std::vector<std::string>& skip_actions) override {
    stock()->recordHistory(enabled, recorder, max_entries, when, clear, skip_actions);
  }
  void recordAnnotation(
      const std::vector<std::pair<std::string, std::string>>& annotation) override {
    stock()->recordAnnotation(annotation);
  }
  void pushCompileContext(std::string& context) override { stock()->pushCompileContext(context); }
  void popCompileContext() override { stock()->popCompileContext(); }
  void setUserMetadata(const std::string& metadata) override { stock()->setUserMetadata(metadata); }
  std::string getUserMetadata() override { return stock()->getUserMetadata(); }
  void attachOutOfMemoryObserver(caching::OutOfMemoryObserver observer) override {
    stock()->attachOutOfMemoryObserver(std::move(observer));
  }
  void attachAllocatorTraceTracker(caching::AllocatorTraceTracker tracker) override {
    stock()->attachAllocatorTraceTracker(std::move(tracker));
  }
  void enablePeerAccess(c10::DeviceIndex device, c10::DeviceIndex to) override {
    stock()->enablePeerAccess(device, to);
  }
  std::shared_ptr<caching::AllocatorState> getCheckpointState(c10::DeviceIndex device,
                                                              c10::MempoolId_t pool) override {
    return stock()->getCheckpointState(device, pool);
  }
  caching::CheckpointDelta setCheckpointPoolState(
      c10::DeviceIndex device, std::shared_ptr<caching::AllocatorState> state) override {
    return stock()->setCheckpointPoolState(device, std::move(state));
  }
  std::string name() override { return stock()->name(); }
#if TERAIO_TORCH_MINOR >= 15
  void markCaptureBegin(c10::DeviceIndex device) override { stock()->markCaptureBegin(device); }
  void markCaptureEnd(c10::DeviceIndex device) override { stock()->markCaptureEnd(device); }
  std::shared_ptr<c10::GatheredContext> getContextForPointer(const void* memory) override {
    return stock()->getContextForPointer(memory);
  }
  bool supportsUserMetadata() override { return stock()->supportsUserMetadata(); }
  void annotateMemory(const void* memory, const std::string& metadata) override {
    stock()->annotateMemory(memory, metadata);
  }
  void attachOomRejectionObserver(caching::OomRejectionObserver observer) override {
    stock()->attachOomRejectionObserver(std::move(observer));
  }
  c10::DataPtr allocateWithAddress(size_t size_bytes, void* address) override {
    return stock()->allocateWithAddress(size_bytes, address);
  }
#endif
};

class CudaBackend final : public DeviceBackend {
 public:
  CudaBackend(int32_t ordinal, device::CudaFacts facts)
      : ordinal_(static_cast<c10::DeviceIndex>(ordinal)), facts_(std::move(facts)) {}

  c10::Device torch_device() const override { return c10::Device(c10::DeviceType::CUDA, ordinal_); }

  Result<int64_t> memory_bytes() const override { return facts_.memory_bytes; }
  // Memory that PyTorch has reserved already counts as free.
  Result<int64_t> default_budget_bytes() const override {
    const Result<device::CudaFacts> now = device::inspect_cuda_device(ordinal_);
    if (!now.ok()) return now.status();
    constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
    const int64_t reserved_bytes =
        caching::get()->getDeviceStats(ordinal_).reserved_bytes[kAll].current;
    return static_cast<int64_t>(kDefaultBudgetShare *
                                static_cast<double>(now->free_bytes + reserved_bytes));
  }

  Result<std::unique_ptr<device::Device>> make_device(int64_t budget_bytes) override {
    choose_stream();
    if (stock() == nullptr) stock() = caching::get();
    device::CudaDeviceOptions options;
    options.ordinal = ordinal_;
    options.budget_bytes = budget_bytes;
    options.compute_stream = [this] { return static_cast<void*>(stream_); };
    options.framework = std::make_unique<CachingAllocator>(*stock(), ordinal_, facts_.memory_bytes);
    auto device = make_cuda_device(std::move(options));
    if (!device.ok()) return device.status();
    return std::unique_ptr<device::Device>(std::move(*device));
  }

  void install() override {
    static auto* ours = new SessionAllocator();  // never freed: storages keep a pointer to it
    choose_stream();
    if (caching::get() == ours) return;
    stock() = caching::get();
    caching::allocator.store(ours);
  }

  bool owns(const c10::StorageImpl& storage) const override {
    const c10::DeleterFnPtr deleter = deleter_of(storage.data_ptr());
    return storage.device() == torch_device() &&
           (deleter == stock()->raw_deleter() || deleter == &SessionAllocator::deallocate_raw);
  }
  bool can_adopt(const c10::StorageImpl& storage) const override {
    if (storage.device() != torch_device()) return false;
    const ThreadPlace place = place_of_this_thread();
    return !place.is_on_other_stream && !place.is_capturing &&
           deleter_of(storage.data_ptr()) == stock()->raw_deleter();
  }
  // The allocator gives freed memory to the stream that it was allocated for, which may be another
  // one and does not know of the copy.
  void copy(std::byte* to, const c10::StorageImpl& from) override {
    const c10::cuda::CUDAGuard guard(ordinal_);
    C10_CUDA_CHECK(
        cudaMemcpyAsync(to, from.data(), from.nbytes(), cudaMemcpyDeviceToDevice, stream_));
    stock()->recordStream(from.data_ptr(), c10::cuda::getStreamFromExternal(stream_, ordinal_));
  }

  bool has_streams() const override { return true; }
  bool is_capturing() const override { return is_capturing_now(); }
  ThreadPlace place_of_this_thread() const override {
    const c10::cuda::CUDAStream current = c10::cuda::getCurrentCUDAStream();
    const bool is_here = current.device_index() == ordinal_;
    return {.is_capturing = !is_known_uncaptured() && is_captured(current),
            .is_on_other_stream = (is_here ? current.stream() : stream_of_this_thread()) != stream_,
            .is_on_other_device = !is_here};
  }
  void* stream_of_this_thread() const override {
    return c10::cuda::getCurrentCUDAStream(ordinal_).stream();
  }
  void run_on_session_stream(const std::function<void()>& call) override {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromExternal(stream_, ordinal_));
    call();
  }

 private:
  void choose_stream() { stream_ = c10::cuda::getCurrentCUDAStream(ordinal_).stream(); }

  const c10::DeviceIndex ordinal_;
  const device::CudaFacts facts_;
  cudaStream_t stream_ = nullptr;
};

}  // namespace

Result<std::unique_ptr<DeviceBackend>> make_cuda_backend(int32_t ordinal) {
  const Result<device::CudaFacts> facts = device::inspect_cuda_device(ordinal);
  if (!facts.ok()) return facts.status();
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return std::unique_ptr<DeviceBackend>(std::make_unique<CudaBackend>(ordinal, *facts));
}

}  // namespace teraio::pytorch
