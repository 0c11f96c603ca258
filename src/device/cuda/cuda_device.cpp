#include "device/cuda_device.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/units.h"
#include "device/cuda/copy_order.h"
#include "device/cuda/cuda_events.h"
#include "device/cuda/cuda_memory.h"
#include "device/cuda/cuda_op_timer.h"
#include "device/cuda/cuda_pinning.h"
#include "device/cuda/cuda_status.h"
#include "device/cuda/current_device.h"
#include "device/cuda/outside_of_capture.h"
#include "device/pci_address.h"

namespace teraio::device {
namespace {

Result<std::string> pci_address(int32_t ordinal) {
  char address[32] = {};
  TERAIO_RETURN_IF_ERROR(cuda_status(cudaDeviceGetPCIBusId(address, sizeof(address), ordinal),
                                     "ask for the GPU's PCI address"));
  return std::string(address);
}

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(CudaDeviceOptions options)
      : options_(std::move(options)),
        name_(fmt::format("cuda:{}", options_.ordinal)),
        account_(options_.budget_bytes) {}
  ~CudaDevice() override;
  // Must be called once, before anything else.
  Status open();

  std::string_view name() const override { return name_; }
  bool is_host_addressable() const override { return false; }
  int32_t numa_node() const override { return numa_node_; }
  int64_t spare_bytes() const override { return memory_->spare_bytes(); }
  const MemoryAccount& account() const override { return account_; }
  Status move_within(std::byte* to, const std::byte* from, int64_t size_bytes) override;
  Status fill(std::byte* memory, int64_t size_bytes, int value) override;
  void call_on_device(const std::function<void()>& call) override {
    const CurrentDevice current(options_.ordinal);
    call();
  }
  HostPinning* host_pinning() override { return &pinning_; }
  MemorySegments* segments() override { return &memory_->segments(); }
  OpTimer* op_timer() override { return &timer_; }

 private:
  std::byte* allocate_block(int64_t size_bytes, Effort effort, const Tenant& tenant) override;
  void release_block(std::byte* memory) override;
  void change_budget(int64_t budget_bytes) override;
  void count_outside(int64_t size_bytes) override { account_.add_outside_bytes(size_bytes); }
  void forget_peaks() override;
  MemoryUsage complete(MemoryUsage usage) const override;
  void note_tenant(const std::byte* memory, void* id) override {
    memory_->arena().set_tenant(memory, id);
  }
  void note_leaves_at(const std::byte* memory, double leaves_at) override {
    memory_->arena().set_leaves_at(memory, leaves_at);
  }
  std::vector<Relocation> find_relocations(int64_t size_bytes, const MayMove& may_move,
                                           int64_t most_bytes) const override;
  void relocate_blocks(std::span<const Relocation> relocations) override;
  void note_use(std::byte* memory, void* stream) override;
  int64_t return_free(int64_t size_bytes) override;

  Result<Event> record_point(Stream stream) override;
  bool is_past(Event event) const override { return events_.has_passed(event); }
  Status wait_for(Event event) override;
  Status make_wait(Stream stream, Event event) override;
  Result<Event> start_copy(const Copy& copy) override;

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
  std::byte* map(int64_t held_bytes, Effort effort, const Tenant& tenant);
  bool is_capturing() const;
  void take_back(bool waits);
  Status finish();

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
  CudaPinning pinning_{options_.ordinal};
  MemoryAccount account_;
  // The streams beside compute's that use a block.
  std::unordered_map<const std::byte*, std::vector<void*>> users_;
  std::deque<BlockInUse> blocks_in_use_;  // released ones
};

Status CudaDevice::open() {
  const CurrentDevice current(options_.ordinal);
  const Result<std::string> address = pci_address(options_.ordinal);
  if (!address.ok()) return address.status();
  numa_node_ = numa_node_of_pci_device(*address);
  for (cudaStream_t* stream : own_streams())
    TERAIO_RETURN_IF_ERROR(cuda_status(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking),
                                       "create a stream on " + name_));
  auto memory = CudaMemory::make(options_.ordinal, account_.budget_bytes(),
                                 std::move(options_.framework), [this] {
                                   const PauseOfOps pause(&timer_);
                                   return finish();
                                 });
  if (!memory.ok()) return memory.status();
  memory_ = std::move(*memory);
  return {};
}

// Ignores errors: at process exit the driver may already be unloaded. Compute may still use blocks
// that were released.
CudaDevice::~CudaDevice() {
  const CurrentDevice current(options_.ordinal);
  const OutsideOfCapture harmless;
  (void)cudaDeviceSynchronize();
  if (memory_ != nullptr) {
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

std::byte* CudaDevice::allocate_block(int64_t size_bytes, Effort effort, const Tenant& tenant) {
  const int64_t held_bytes = align_up(std::max<int64_t>(size_bytes, 1), kPageBytes);
  if (held_bytes > account_.room_bytes()) return nullptr;
  take_back(effort == Effort::kUtmost);
  std::byte* memory = memory_->allocate_free(held_bytes, tenant);
  if (memory == nullptr) memory = map(held_bytes, effort, tenant);
  return memory == nullptr ? nullptr : account_.add(memory, size_bytes, held_bytes);
}

std::byte* CudaDevice::map(int64_t held_bytes, Effort effort, const Tenant& tenant) {
  const PauseOfOps pause(op_timer());  // mapping pages takes milliseconds
  const CurrentDevice current(options_.ordinal);
  const OutsideOfCapture harmless;
  return memory_->allocate(held_bytes, effort, tenant);
}

// A capture would take the copies for its own.
bool CudaDevice::is_capturing() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return !has_succeeded(cudaStreamIsCapturing(compute_stream(), &status)) ||
         status != cudaStreamCaptureStatusNone;
}

// What other streams use stays: they may change the bytes while compute copies them.
std::vector<Relocation> CudaDevice::find_relocations(int64_t size_bytes, const MayMove& may_move,
                                                     int64_t most_bytes) const {
  const int64_t held_bytes = align_up(std::max<int64_t>(size_bytes, 1), kPageBytes);
  if (held_bytes > account_.room_bytes() || is_capturing()) return {};
  std::vector<Relocation> relocations =
      memory_->arena().find_room(held_bytes, may_move, most_bytes);
  const bool is_one_used = std::ranges::any_of(
      relocations, [&](const Relocation& relocation) { return users_.contains(relocation.from); });
  return is_one_used ? std::vector<Relocation>() : relocations;
}

void CudaDevice::relocate_blocks(std::span<const Relocation> relocations) {
  memory_->arena().relocate(relocations);
  for (const Relocation& relocation : relocations) account_.move(relocation.from, relocation.to);
}

void CudaDevice::release_block(std::byte* memory) {
  const int64_t held_bytes = account_.remove(memory);
  const auto users = users_.extract(memory);
  if (users.empty()) {
    memory_->release(memory, held_bytes);
  } else {
    BlockInUse& in_use = blocks_in_use_.emplace_back(BlockInUse{memory, held_bytes, {}});
    for (void* stream : users.mapped()) in_use.uses.push_back(record_on(stream));
  }
  if (budget_bytes() != kNoBudget) return;
  take_back(true);
  return_free(held_bytes);
}

void CudaDevice::note_use(std::byte* memory, void* stream) {
  std::vector<void*>& users = users_[memory];
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

void CudaDevice::change_budget(int64_t budget_bytes) {
  account_.set_budget_bytes(budget_bytes);
  const CurrentDevice current(options_.ordinal);
  const OutsideOfCapture harmless;
  memory_->set_limit_bytes(budget_bytes);
  if (budget_bytes == kNoBudget) memory_->return_free_bytes(kNoBudget);
}

// Waits until all compute that is enqueued has passed. Nobody tells what uses the tensors that a
// session has left behind, on any stream.
Status CudaDevice::finish() {
  if (budget_bytes() == kNoBudget) return cuda_status(cudaDeviceSynchronize(), "wait for " + name_);
  const Result<Event> last = events_.record(compute_stream(), kComputeLane);
  return last.ok() ? events_.wait(*last) : last.status();
}

int64_t CudaDevice::return_free(int64_t size_bytes) {
  const CurrentDevice current(options_.ordinal);
  const OutsideOfCapture harmless;
  return memory_->return_free_bytes(size_bytes);
}

MemoryUsage CudaDevice::complete(MemoryUsage usage) const {
  usage.reserved_bytes = std::max(memory_->held_bytes(), usage.allocated_bytes);
  usage.reserved_peak_bytes = std::max(memory_->held_peak_bytes(), usage.allocated_peak_bytes);
  usage.framework_bytes = memory_->framework_bytes_within(usage.budget_bytes);
  usage.largest_free_bytes = memory_->largest_bytes();
  return usage;
}

void CudaDevice::forget_peaks() {
  account_.reset_peak();
  memory_->reset_peak();
}

// --- Order --------------------------------------------------------------------------------------

Result<Event> CudaDevice::record_point(Stream stream) {
  const CurrentDevice current(options_.ordinal);
  const Result<Event> event =
      stream ? events_.record(static_cast<cudaStream_t>(*stream), kElsewhereLane)
             : events_.record(compute_stream(), kComputeLane);
  return event.ok() ? event : event.status().with_context(name_);
}

Status CudaDevice::wait_for(Event event) {
  const CurrentDevice current(options_.ordinal);
  return events_.wait(event);
}

Status CudaDevice::make_wait(Stream stream, Event event) {
  const CurrentDevice current(options_.ordinal);
  if (stream) return events_.make_wait(static_cast<cudaStream_t>(*stream), event);
  const PauseOfOps pause(&timer_);
  return events_.make_wait(compute_stream(), event);
}

// --- Copies -------------------------------------------------------------------------------------

Result<Event> CudaDevice::start_copy(const Copy& copy) {
  const OutsideOfCapture harmless;
  const CurrentDevice current(options_.ordinal);
  CopyDirection& direction = copy.is_to_host ? to_host_ : from_host_;
  const std::lock_guard lock(direction.mutex);
  const size_t chosen =
      direction.order.choose(copy.after, [&](Event event) { return has_passed(event); });
  const cudaStream_t stream = direction.streams[chosen];
  if (copy.after.id != 0) TERAIO_RETURN_IF_ERROR(events_.make_wait(stream, copy.after));
  for (int64_t done_bytes = 0; done_bytes < copy.size_bytes;) {
    std::byte* to = copy.to + done_bytes;
    const std::byte* from = copy.from + done_bytes;
    const int64_t part_bytes = std::min(
        copy.size_bytes - done_bytes, pinning_.bytes_until_part_ends(copy.is_to_host ? to : from));
    TERAIO_RETURN_IF_ERROR(cuda_status(
        cudaMemcpyAsync(to, from, static_cast<size_t>(part_bytes), direction.kind, stream),
        direction.what));
    done_bytes += part_bytes;
  }
  return events_.record(stream, direction.first_lane + static_cast<EventLane>(chosen));
}

Status CudaDevice::move_within(std::byte* to, const std::byte* from, int64_t size_bytes) {
  const CurrentDevice current(options_.ordinal);
  const int64_t part_bytes = to < from ? std::min<int64_t>(size_bytes, from - to) : size_bytes;
  for (int64_t done_bytes = 0; done_bytes < size_bytes; done_bytes += part_bytes) {
    const auto part = static_cast<size_t>(std::min(part_bytes, size_bytes - done_bytes));
    TERAIO_RETURN_IF_ERROR(cuda_status(cudaMemcpyAsync(to + done_bytes, from + done_bytes, part,
                                                       cudaMemcpyDeviceToDevice, compute_stream()),
                                       "copy within the GPU"));
  }
  return {};
}

Status CudaDevice::fill(std::byte* memory, int64_t size_bytes, int value) {
  const CurrentDevice current(options_.ordinal);
  return cuda_status(
      cudaMemsetAsync(memory, value, static_cast<size_t>(size_bytes), compute_stream()),
      "fill memory");
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
