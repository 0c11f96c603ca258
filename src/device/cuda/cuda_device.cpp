#include "device/cuda_device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <deque>
#include <iterator>
#include <limits>
#include <map>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/log.h"
#include "base/units.h"
#include "device/cuda/copy_order.h"
#include "device/cuda/cuda_events.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_op_timer.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/current_device.h"
#include "device/cuda/outside_of_capture.h"
#include "device/pci_address.h"

namespace teraio::device {
namespace {

// Large ranges are pinned in pieces: what the system refuses costs one piece and not all of it.
constexpr int64_t kPinnedPieceBytes = kGiB;
// Stands for a point that could not be recorded. Waiting for it fails.
constexpr Event kNoPoint{std::numeric_limits<uint64_t>::max()};

Result<std::string> pci_address(int32_t ordinal) {
  char address[32] = {};
  TERAIO_RETURN_IF_ERROR(cuda_status(cudaDeviceGetPCIBusId(address, sizeof(address), ordinal),
                                     "ask for the GPU's PCI address"));
  return std::string(address);
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(CudaDeviceOptions options)
      : options_(std::move(options)), name_(fmt::format("cuda:{}", options_.ordinal)) {}
  ~CudaDevice() override;
  // Must be called once, before anything else.
  Status open();

  std::string_view name() const override { return name_; }
  std::byte* allocate(int64_t size_bytes) override { return allocate(size_bytes, false); }
  std::byte* allocate_at_all_costs(int64_t size_bytes) override {
    return allocate(size_bytes, true);
  }
  int64_t shortage_bytes(int64_t size_bytes) const override;
  int64_t spare_bytes() const override { return memory_->spare_bytes(); }
  bool may_be_in_use(const std::byte* memory) const override;
  void release(std::byte* memory) override;
  void set_budget_bytes(int64_t budget_bytes) override;
  void add_outside_bytes(int64_t size_bytes) override;
  MemoryUsage usage() const override;
  int64_t budget_bytes() const override { return usage_.budget_bytes; }
  int64_t allocated_bytes() const override { return usage_.allocated_bytes; }
  void reset_peak() override;
  int64_t return_free_bytes(int64_t size_bytes) override;
  void record_use(std::byte* memory, void* stream) override;

  Event record() override { return record(compute_stream(), kComputeLane); }
  Event record_on(void* stream) override {
    return record(static_cast<cudaStream_t>(stream), kElsewhereLane);
  }
  bool has_passed(Event event) const override;
  Status wait(Event event) override;
  Status order_after(Event event) override;
  Status order_stream_after(void* stream, Event event) override;
  Result<Event> copy_to_host(std::byte* host, const std::byte* device, int64_t size_bytes,
                             Event after) override;
  Result<Event> copy_from_host(std::byte* device, const std::byte* host, int64_t size_bytes,
                               Event after) override;
  Status fill(std::byte* memory, int64_t size_bytes, int value) override;
  Status pin_host(std::byte* host, int64_t size_bytes) override;
  void unpin_host(std::byte* host) override;
  std::byte* allocate_pinned_host(int64_t size_bytes) override;
  void free_pinned_host(std::byte* host) override;
  void bind_thread() override { has_succeeded(cudaSetDevice(options_.ordinal)); }
  MemorySegments* segments() override;
  OpTimer* op_timer() override { return &timer_; }
  int32_t numa_node() const override { return numa_node_; }
  bool is_host_addressable() const override { return false; }

 private:
  struct Block {
    int64_t requested_bytes;
    int64_t held_bytes;
    std::vector<void*> users = {};  // streams beside compute's
  };
  // A released block that other streams use until these points have passed.
  struct BlockInUse {
    std::byte* memory;
    int64_t held_bytes;
    std::vector<Event> uses;
  };
  struct CopyDirection {
    cudaMemcpyKind kind;
    const char* what;
    EventLane first_lane;
    std::array<cudaStream_t, CopyOrder::kStreams> streams = {};
    CopyOrder order = {};
    std::mutex mutex = {};  // held from the choice of a stream until the copy is enqueued on it
  };

  cudaStream_t compute_stream() const;
  std::vector<cudaStream_t*> own_streams();
  Event record(cudaStream_t stream, EventLane lane);
  void note_unrecorded(const Status& status);
  Status why_unrecorded() const;
  std::byte* allocate(int64_t size_bytes, bool at_all_costs);
  std::byte* map(int64_t held_bytes, bool at_all_costs);
  std::byte* hand_out(std::byte* memory, Block block);
  void take_back(bool waits);
  Status finish();
  int64_t bytes_until_piece_ends(const std::byte* host) const;
  Result<Event> copy(CopyDirection& direction, void* to, const void* from, int64_t size_bytes,
                     Event after);

  CudaDeviceOptions options_;
  const std::string name_;
  int32_t numa_node_ = -1;
  cudaStream_t own_stream_ = nullptr;
  CopyDirection to_host_{cudaMemcpyDeviceToHost, "copy to the host", kFirstCopyLane};
  CopyDirection from_host_{cudaMemcpyHostToDevice, "copy from the host",
                           kFirstCopyLane + CopyOrder::kStreams};
  mutable CudaEvents events_;
  CudaOpTimer timer_{options_.ordinal, [this] { return compute_stream(); }};
  std::unique_ptr<CudaMemory> memory_;
  std::unordered_map<const std::byte*, Block> blocks_;
  std::deque<BlockInUse> blocks_in_use_;        // released ones
  mutable std::mutex mutex_;                    // protects the next members, which I/O threads use
  Status unrecorded_;                           // of the first event that could not be recorded
  std::map<const std::byte*, int64_t> pinned_;  // sizes of ranges of the host, by their begin
  MemoryUsage usage_;                           // what memory_ does not know
};

Status CudaDevice::open() {
  const CurrentDevice current(options_.ordinal);
  const Result<std::string> address = pci_address(options_.ordinal);
  if (!address.ok()) return address.status();
  numa_node_ = numa_node_of_pci_device(*address);
  for (cudaStream_t* stream : own_streams())
    TERAIO_RETURN_IF_ERROR(cuda_status(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking),
                                       "create a stream on " + name_));
  usage_.budget_bytes = std::max<int64_t>(options_.budget_bytes, 0);
  ComputeProgress compute{
      .record = [this] { return events_.record(compute_stream(), kComputeLane); },
      .has_passed = [this](Event event) { return has_passed(event); },
      .wait =
          [this](Event event) {
            const PauseOfOps pause(&timer_);
            return events_.wait(event);
          },
  };
  auto memory =
      CudaMemory::make(options_.ordinal, usage_.budget_bytes, std::move(options_.neighbour),
                       std::move(compute), [this] { return PauseOfCopiesToHost(to_host_.mutex); });
  if (!memory.ok()) return memory.status();
  memory_ = std::move(*memory);
  return {};
}

// Ignores errors: at process exit the driver may already be unloaded. Compute may still use blocks
// that were released.
CudaDevice::~CudaDevice() {
  const CurrentDevice current(options_.ordinal);
  const OutsideOfCapture harmless;
  for (const cudaStream_t* stream : own_streams())
    if (*stream != nullptr) cudaStreamSynchronize(*stream);
  if (memory_ != nullptr) {
    (void)finish();
    take_back(true);
    memory_.reset();
  }
  for (const cudaStream_t* stream : own_streams())
    if (*stream != nullptr) cudaStreamDestroy(*stream);
}

std::vector<cudaStream_t*> CudaDevice::own_streams() {
  std::vector<cudaStream_t*> streams = {&own_stream_};
  for (CopyDirection* direction : {&to_host_, &from_host_})
    for (cudaStream_t& stream : direction->streams) streams.push_back(&stream);
  return streams;
}

cudaStream_t CudaDevice::compute_stream() const {
  return options_.compute_stream ? static_cast<cudaStream_t>(options_.compute_stream())
                                 : own_stream_;
}

// --- Memory -------------------------------------------------------------------------------------

std::byte* CudaDevice::allocate(int64_t size_bytes, bool at_all_costs) {
  if (size_bytes < 0 || size_bytes > usage_.budget_bytes) return nullptr;
  const int64_t held_bytes = align_up(std::max<int64_t>(size_bytes, 1), kPageBytes);
  if (held_bytes > usage_.budget_bytes - usage_.allocated_bytes) return nullptr;
  take_back(at_all_costs);
  std::byte* memory = memory_->allocate_free(held_bytes);
  if (memory == nullptr) memory = map(held_bytes, at_all_costs);
  return memory == nullptr ? nullptr : hand_out(memory, {size_bytes, held_bytes});
}

std::byte* CudaDevice::map(int64_t held_bytes, bool at_all_costs) {
  const PauseOfOps pause(op_timer());  // moving pages takes milliseconds
  const CurrentDevice current(options_.ordinal);
  const OutsideOfCapture harmless;
  return at_all_costs ? memory_->allocate_at_all_costs(held_bytes) : memory_->allocate(held_bytes);
}

int64_t CudaDevice::shortage_bytes(int64_t size_bytes) const {
  return memory_->shortage_bytes(align_up(std::max<int64_t>(size_bytes, 1), kPageBytes));
}

std::byte* CudaDevice::hand_out(std::byte* memory, Block block) {
  usage_.allocated_bytes += block.held_bytes;
  usage_.rounding_bytes += block.held_bytes - block.requested_bytes;
  usage_.allocated_peak_bytes = std::max(usage_.allocated_peak_bytes, usage_.allocated_bytes);
  blocks_.emplace(memory, std::move(block));
  return memory;
}

void CudaDevice::release(std::byte* memory) {
  const auto found = blocks_.find(memory);
  TERAIO_CHECK(found != blocks_.end());
  const Block block = std::move(found->second);
  blocks_.erase(found);
  usage_.allocated_bytes -= block.held_bytes;
  usage_.rounding_bytes -= block.held_bytes - block.requested_bytes;
  if (block.users.empty()) {
    memory_->release(memory, block.held_bytes);
  } else {
    BlockInUse& in_use = blocks_in_use_.emplace_back(BlockInUse{memory, block.held_bytes, {}});
    for (void* stream : block.users) in_use.uses.push_back(record_on(stream));
  }
  if (usage_.budget_bytes != kNoBudget) return;
  take_back(true);
  return_free_bytes(block.held_bytes);
}

void CudaDevice::record_use(std::byte* memory, void* stream) {
  const auto found = blocks_.find(memory);
  TERAIO_CHECK(found != blocks_.end());
  std::vector<void*>& users = found->second.users;
  if (std::find(users.begin(), users.end(), stream) == users.end()) users.push_back(stream);
}

// Returns released blocks to the pool when nothing uses them any more.
void CudaDevice::take_back(bool waits) {
  std::erase_if(blocks_in_use_, [&](const BlockInUse& block) {
    for (const Event use : block.uses)
      if (!(waits ? wait(use).ok() : has_passed(use))) return false;
    memory_->release(block.memory, block.held_bytes);
    return true;
  });
}

void CudaDevice::set_budget_bytes(int64_t budget_bytes) {
  usage_.budget_bytes = std::max<int64_t>(budget_bytes, 0);
  const CurrentDevice current(options_.ordinal);
  const OutsideOfCapture harmless;
  memory_->set_limit_bytes(usage_.budget_bytes);
  if (usage_.budget_bytes == kNoBudget) memory_->return_free_bytes(kNoBudget);
}

// Waits until all compute that is enqueued has passed.
Status CudaDevice::finish() {
  const Result<Event> last = events_.record(compute_stream(), kComputeLane);
  return last.ok() ? events_.wait(*last) : last.status();
}

bool CudaDevice::may_be_in_use(const std::byte* memory) const {
  return memory_->may_be_in_use(memory, blocks_.at(memory).held_bytes);
}

int64_t CudaDevice::return_free_bytes(int64_t size_bytes) {
  const CurrentDevice current(options_.ordinal);
  const OutsideOfCapture harmless;
  return memory_->return_free_bytes(size_bytes);
}

MemorySegments* CudaDevice::segments() { return &memory_->segments(); }

void CudaDevice::add_outside_bytes(int64_t size_bytes) {
  usage_.allocated_bytes += size_bytes;
  usage_.allocated_peak_bytes = std::max(usage_.allocated_peak_bytes, usage_.allocated_bytes);
}

MemoryUsage CudaDevice::usage() const {
  MemoryUsage usage = usage_;
  usage.reserved_bytes = std::max(memory_->held_bytes(), usage.allocated_bytes);
  usage.reserved_peak_bytes = std::max(memory_->held_peak_bytes(), usage.allocated_peak_bytes);
  usage.neighbour_bytes = memory_->neighbour_bytes_within(usage.budget_bytes);
  usage.largest_free_bytes = memory_->largest_bytes();
  usage.stitch_count = memory_->pool().stitch_count();
  return usage;
}

void CudaDevice::reset_peak() {
  usage_.allocated_peak_bytes = usage_.allocated_bytes;
  memory_->reset_peak();
}

// --- Order --------------------------------------------------------------------------------------

Event CudaDevice::record(cudaStream_t stream, EventLane lane) {
  const CurrentDevice current(options_.ordinal);
  const Result<Event> event = events_.record(stream, lane);
  if (event.ok()) return *event;
  note_unrecorded(event.status());
  return kNoPoint;
}

// Told once: when the device has failed, every later event fails in the same way.
void CudaDevice::note_unrecorded(const Status& status) {
  {
    const std::lock_guard lock(mutex_);
    if (!unrecorded_.ok()) return;
    unrecorded_ = status;
  }
  spdlog::error(
      "teraio: {}: {}: a transfer that waits for this event cannot begin, and an op that needs its "
      "tensor fails. End the training, and start it again from a checkpoint{}",
      name_, status.message(), detail_lines(status));
}

Status CudaDevice::why_unrecorded() const {
  const std::lock_guard lock(mutex_);
  return unrecorded_.with_context(name_);
}

bool CudaDevice::has_passed(Event event) const {
  return event.id == 0 || (event.id != kNoPoint.id && events_.has_passed(event));
}

Status CudaDevice::wait(Event event) {
  if (event.id == 0) return {};
  if (event.id == kNoPoint.id) return why_unrecorded();
  const CurrentDevice current(options_.ordinal);
  return events_.wait(event);
}

Status CudaDevice::order_after(Event event) {
  if (event.id == 0) return {};
  if (event.id == kNoPoint.id) return wait(event);
  const CurrentDevice current(options_.ordinal);
  const PauseOfOps pause(&timer_);
  return events_.make_wait(compute_stream(), event);
}

Status CudaDevice::order_stream_after(void* stream, Event event) {
  if (event.id == 0) return {};
  if (event.id == kNoPoint.id) return wait(event);
  const CurrentDevice current(options_.ordinal);
  return events_.make_wait(static_cast<cudaStream_t>(stream), event);
}

// --- Copies -------------------------------------------------------------------------------------

Result<Event> CudaDevice::copy(CopyDirection& direction, void* to, const void* from,
                               int64_t size_bytes, Event after) {
  if (after.id == kNoPoint.id) return wait(after);
  const OutsideOfCapture harmless;
  const CurrentDevice current(options_.ordinal);
  const std::lock_guard lock(direction.mutex);
  const size_t chosen =
      direction.order.choose(after, [&](Event event) { return has_passed(event); });
  const cudaStream_t stream = direction.streams[chosen];
  if (after.id != 0) TERAIO_RETURN_IF_ERROR(events_.make_wait(stream, after));
  const bool is_to_host = direction.kind == cudaMemcpyDeviceToHost;
  for (int64_t done_bytes = 0; done_bytes < size_bytes;) {
    auto* target = static_cast<std::byte*>(to) + done_bytes;
    const auto* source = static_cast<const std::byte*>(from) + done_bytes;
    const int64_t part_bytes =
        std::min(size_bytes - done_bytes, bytes_until_piece_ends(is_to_host ? target : source));
    TERAIO_RETURN_IF_ERROR(cuda_status(
        cudaMemcpyAsync(target, source, static_cast<size_t>(part_bytes), direction.kind, stream),
        direction.what));
    done_bytes += part_bytes;
  }
  return events_.record(stream, direction.first_lane + static_cast<EventLane>(chosen));
}

// A copy that goes on from one piece into the next is an error to CUDA.
int64_t CudaDevice::bytes_until_piece_ends(const std::byte* host) const {
  const std::lock_guard lock(mutex_);
  const auto next = pinned_.upper_bound(host);
  if (next == pinned_.begin()) return std::numeric_limits<int64_t>::max();
  const auto& [begin, size_bytes] = *std::prev(next);
  const int64_t offset_bytes = host - begin;
  if (offset_bytes >= size_bytes) return std::numeric_limits<int64_t>::max();
  return kPinnedPieceBytes - offset_bytes % kPinnedPieceBytes;
}

Result<Event> CudaDevice::copy_to_host(std::byte* host, const std::byte* device, int64_t size_bytes,
                                       Event after) {
  return copy(to_host_, host, device, size_bytes, after);
}

Result<Event> CudaDevice::copy_from_host(std::byte* device, const std::byte* host,
                                         int64_t size_bytes, Event after) {
  return copy(from_host_, device, host, size_bytes, after);
}

Status CudaDevice::fill(std::byte* memory, int64_t size_bytes, int value) {
  const CurrentDevice current(options_.ordinal);
  return cuda_status(
      cudaMemsetAsync(memory, value, static_cast<size_t>(size_bytes), compute_stream()),
      "fill memory");
}

Status CudaDevice::pin_host(std::byte* host, int64_t size_bytes) {
  const OutsideOfCapture harmless;
  const CurrentDevice current(options_.ordinal);
  {
    const std::lock_guard lock(mutex_);
    pinned_[host] = size_bytes;
  }
  for (int64_t done_bytes = 0; done_bytes < size_bytes; done_bytes += kPinnedPieceBytes) {
    const auto piece_bytes =
        static_cast<size_t>(std::min(kPinnedPieceBytes, size_bytes - done_bytes));
    const Status status =
        cuda_status(cudaHostRegister(host + done_bytes, piece_bytes, cudaHostRegisterPortable),
                    done_bytes == 0 ? "pin host memory"
                                    : fmt::format("pin host memory, of which {} are pinned by now",
                                                  format_size(done_bytes)));
    if (!status.ok()) return status;  // copies work without pinning
  }
  return {};
}

void CudaDevice::unpin_host(std::byte* host) {
  const OutsideOfCapture harmless;
  const CurrentDevice current(options_.ordinal);
  int64_t size_bytes = 0;
  {
    const std::lock_guard lock(mutex_);
    const auto node = pinned_.extract(host);
    if (node.empty()) return;
    size_bytes = node.mapped();
  }
  // Of pieces that could not be pinned, it fails.
  for (int64_t done_bytes = 0; done_bytes < size_bytes; done_bytes += kPinnedPieceBytes)
    has_succeeded(cudaHostUnregister(host + done_bytes));
}

std::byte* CudaDevice::allocate_pinned_host(int64_t size_bytes) {
  const OutsideOfCapture harmless;
  const CurrentDevice current(options_.ordinal);
  void* host = nullptr;
  const cudaError_t error =
      cudaHostAlloc(&host, static_cast<size_t>(size_bytes), cudaHostAllocPortable);
  return has_succeeded(error) ? static_cast<std::byte*>(host) : nullptr;
}

void CudaDevice::free_pinned_host(std::byte* host) {
  const OutsideOfCapture harmless;
  const CurrentDevice current(options_.ordinal);
  has_succeeded(cudaFreeHost(host));
}

// --- The GPU ------------------------------------------------------------------------------------

Status find_gpu(int32_t ordinal) {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (!has_succeeded(error)) {
    return Status(ErrorCode::kUnsupported,
                  fmt::format("cuda: no GPU can be used: {}. Check the driver with nvidia-smi, or "
                              "use the device cpu",
                              cudaGetErrorString(error)));
  }
  if (ordinal >= 0 && ordinal < count) return {};
  return Status(ErrorCode::kUnsupported,
                fmt::format("cuda: GPU {} is not there: this process sees {}. Expected a number "
                            "below that",
                            ordinal, count));
}

}  // namespace

Result<CudaFacts> inspect_cuda_device(int32_t ordinal) {
  TERAIO_RETURN_IF_ERROR(find_gpu(ordinal));
  const CurrentDevice current(ordinal);
  cudaDeviceProp properties = {};
  TERAIO_RETURN_IF_ERROR(
      cuda_status(cudaGetDeviceProperties(&properties, ordinal), "ask for the GPU's properties"));
  const Result<std::string> address = pci_address(ordinal);
  if (!address.ok()) return address.status();
  size_t free_bytes = 0;
  size_t total_bytes = 0;
  TERAIO_RETURN_IF_ERROR(
      cuda_status(cudaMemGetInfo(&free_bytes, &total_bytes), "ask for the GPU's free memory"));
  return CudaFacts{properties.name, *address, static_cast<int64_t>(total_bytes),
                   static_cast<int64_t>(free_bytes)};
}

Result<std::unique_ptr<Device>> make_cuda_device(CudaDeviceOptions options) {
  TERAIO_RETURN_IF_ERROR(find_gpu(options.ordinal));
  auto device = std::make_unique<CudaDevice>(std::move(options));
  TERAIO_RETURN_IF_ERROR(device->open());
  return std::unique_ptr<Device>(std::move(device));
}

}  // namespace teraio::device
