#include "probe/link_rate.h"

#include <algorithm>
#include <functional>

#include "base/units.h"

namespace teraio::probe {
namespace {

constexpr int64_t kMostBytes = 256 * kMiB;
constexpr int kCopies = 4;  // the first one touches the pages

// The rate of the fastest of several copies, in bytes per second.
Result<int64_t> best_rate(device::Device& device, const Clock& clock, int64_t size_bytes,
                          const std::function<Result<device::Event>()>& copy) {
  int64_t best_ns = 0;
  for (int i = 0; i < kCopies; ++i) {
    const int64_t start_ns = clock.now_ns();
    const Result<device::Event> end = copy();
    if (!end.ok()) return end.status();
    TERAIO_RETURN_IF_ERROR(device.wait(*end));
    const int64_t duration_ns = std::max<int64_t>(clock.now_ns() - start_ns, 1);
    if (i == 0 || duration_ns < best_ns) best_ns = duration_ns;
  }
  return static_cast<int64_t>(static_cast<double>(size_bytes) * 1e9 / static_cast<double>(best_ns));
}

Result<Rates> measure_with(device::Device& device, const Clock& clock, std::byte* memory,
                           std::byte* host, int64_t size_bytes) {
  const Result<int64_t> read = best_rate(device, clock, size_bytes, [&] {
    return device.copy_from_host(memory, host, size_bytes, device.record());
  });
  if (!read.ok()) return read.status();
  const Result<int64_t> write = best_rate(device, clock, size_bytes, [&] {
    return device.copy_to_host(host, memory, size_bytes, device.record());
  });
  if (!write.ok()) return write.status();
  return Rates{*read, *write};
}

int64_t measured_bytes(const device::Device& device) {
  const int64_t share_bytes = device.usage().budget_bytes / 4;
  return std::min(kMostBytes, share_bytes / device::kPageBytes * device::kPageBytes);
}

}  // namespace

Result<Rates> measure_link(device::Device& device, const Clock& clock) {
  const int64_t size_bytes = std::max(measured_bytes(device), device::kPageBytes);
  const Result<device::HostMemory> host = device::HostMemory::map(size_bytes, device);
  return host.ok() ? measure_link(device, clock, *host) : Result<Rates>(host.status());
}

Result<Rates> measure_link(device::Device& device, const Clock& clock,
                           const device::HostMemory& host) {
  const int64_t size_bytes = std::min(measured_bytes(device), host.size_bytes());
  std::byte* memory = size_bytes > 0 ? device.allocate(size_bytes) : nullptr;
  if (memory == nullptr)
    return Status(ErrorCode::kOutOfMemory, std::string(device.name()) + ": no " +
                                               format_size(size_bytes) +
                                               " are free to measure its link with");
  // Of memory that is pinned in part only, the end is not.
  std::byte* end = host.at(host.size_bytes() - size_bytes);
  Result<Rates> rates = measure_with(device, clock, memory, end, size_bytes);
  device.release(memory);
  return rates;
}

}  // namespace teraio::probe
