#include "device/counting_device.h"

#include "device/device.h"

namespace teraio::device {
namespace {

class CountingDevice final : public Device {
 public:
  explicit CountingDevice(int64_t budget_bytes) : account_(budget_bytes) {}

  std::string_view name() const override { return "counting"; }
  bool is_host_addressable() const override { return false; }
  const MemoryAccount& account() const override { return account_; }
  Status move_within(std::byte*, const std::byte*, int64_t) override { return {}; }
  Status fill(std::byte*, int64_t, int) override { return {}; }

 private:
  // Addresses are distinct, but not as far apart as the block sizes.
  std::byte* allocate_block(int64_t size_bytes, Effort, const Tenant&) override {
    auto* memory = reinterpret_cast<std::byte*>(next_address_);
    next_address_ += static_cast<uintptr_t>(kPageBytes);
    return account_.add(memory, size_bytes, size_bytes);
  }
  void release_block(std::byte* memory) override { account_.remove(memory); }
  void change_budget(int64_t budget_bytes) override { account_.set_budget_bytes(budget_bytes); }
  void count_outside(int64_t size_bytes) override { account_.add_outside_bytes(size_bytes); }
  void forget_peaks() override { account_.reset_peak(); }

  Result<Event> record_point(Stream) override { return Event{}; }
  bool is_past(Event) const override { return true; }
  Status wait_for(Event) override { return {}; }
  Status make_wait(Stream, Event) override { return {}; }
  Result<Event> start_copy(const Copy&) override {
    return Status(ErrorCode::kUnsupported, "a counting device has no bytes that could be copied");
  }

  MemoryAccount account_;
  uintptr_t next_address_ = kPageBytes;
};

}  // namespace

std::unique_ptr<Device> make_counting_device(int64_t budget_bytes) {
  return std::make_unique<CountingDevice>(budget_bytes);
}

}  // namespace teraio::device
