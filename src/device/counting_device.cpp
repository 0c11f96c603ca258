#include "device/counting_device.h"

#include <algorithm>
#include <unordered_map>

#include "base/check.h"
#include "base/units.h"

namespace teraio::device {
namespace {

class CountingDevice final : public Device {
 public:
  explicit CountingDevice(int64_t budget_bytes) : budget_bytes_(budget_bytes) {}

  std::string_view name() const override { return "counting"; }
  std::byte* allocate(int64_t size_bytes) override;
  void release(std::byte* memory) override;
  void set_budget_bytes(int64_t budget_bytes) override { budget_bytes_ = budget_bytes; }
  void add_outside_bytes(int64_t size_bytes) override;
  MemoryUsage usage() const override;
  int64_t budget_bytes() const override { return budget_bytes_; }
  int64_t allocated_bytes() const override { return allocated_bytes_; }
  void reset_peak() override { allocated_peak_bytes_ = allocated_bytes_; }

  Event record() override { return {}; }
  bool has_passed(Event) const override { return true; }
  Status wait(Event) override { return {}; }
  Status order_after(Event) override { return {}; }
  Result<Event> copy_to_host(std::byte*, const std::byte*, int64_t, Event) override {
    return no_bytes();
  }
  Result<Event> copy_from_host(std::byte*, const std::byte*, int64_t, Event) override {
    return no_bytes();
  }
  bool is_host_addressable() const override { return false; }

 private:
  static Status no_bytes() {
    return Status(ErrorCode::kUnsupported, "a counting device has no bytes that could be copied");
  }

  std::unordered_map<std::byte*, int64_t> sizes_;
  uintptr_t next_address_ = kPageBytes;
  int64_t budget_bytes_;
  int64_t allocated_bytes_ = 0;
  int64_t allocated_peak_bytes_ = 0;
};

std::byte* CountingDevice::allocate(int64_t size_bytes) {
  if (size_bytes < 0 || size_bytes > budget_bytes_ - allocated_bytes_) return nullptr;
  auto* memory = reinterpret_cast<std::byte*>(next_address_);
  // Addresses are distinct, but not as far apart as the block sizes.
  next_address_ += static_cast<uintptr_t>(kPageBytes);
  sizes_.emplace(memory, size_bytes);
  allocated_bytes_ += size_bytes;
  allocated_peak_bytes_ = std::max(allocated_peak_bytes_, allocated_bytes_);
  return memory;
}

void CountingDevice::release(std::byte* memory) {
  const auto entry = sizes_.find(memory);
  TERAIO_CHECK(entry != sizes_.end());
  allocated_bytes_ -= entry->second;
  sizes_.erase(entry);
}

void CountingDevice::add_outside_bytes(int64_t size_bytes) {
  allocated_bytes_ += size_bytes;
  allocated_peak_bytes_ = std::max(allocated_peak_bytes_, allocated_bytes_);
}

MemoryUsage CountingDevice::usage() const {
  MemoryUsage usage;
  usage.budget_bytes = budget_bytes_;
  usage.allocated_bytes = allocated_bytes_;
  usage.allocated_peak_bytes = allocated_peak_bytes_;
  usage.reserved_bytes = allocated_bytes_;
  usage.reserved_peak_bytes = allocated_peak_bytes_;
  usage.largest_free_bytes = std::max<int64_t>(budget_bytes_ - allocated_bytes_, 0);
  return usage;
}

}  // namespace

std::unique_ptr<Device> make_counting_device(int64_t budget_bytes) {
  return std::make_unique<CountingDevice>(budget_bytes);
}

}  // namespace teraio::device
