#include "probe/link_rate.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/units.h"

namespace teraio::probe {
namespace {

constexpr int64_t kMostBytes = 256 * kMiB;
constexpr int64_t kUnitBytes = 2 * device::kPageBytes;  // a page for each direction
constexpr int kTries = 4;                               // the first one touches the pages

using Copy = std::function<Result<device::Event>()>;

// How long the copies take that are asked for together: the least of several tries.
Result<int64_t> least_ns(device::Device& device, const Clock& clock,
                         const std::vector<Copy>& copies) {
  int64_t least_ns = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kTries; ++i) {
    const int64_t start_ns = clock.now_ns();
    std::vector<Result<device::Event>> ends;
    for (const Copy& copy : copies) ends.push_back(copy());
    // All are waited for, also when one has failed: the caller frees the memory.
    Status status;
    for (const Result<device::Event>& end : ends) {
      Status ended = end.ok() ? device.wait(*end) : end.status();
      if (status.ok()) status = std::move(ended);
    }
    if (!status.ok()) return status;
    least_ns = std::min(least_ns, std::max<int64_t>(clock.now_ns() - start_ns, 1));
  }
  return least_ns;
}

int64_t rate(int64_t size_bytes, double duration_ns) {
  return static_cast<int64_t>(static_cast<double>(size_bytes) * 1e9 / duration_ns);
}

// The memory is used in halves, which both directions copy, alone and at once.
Result<Rates> measure_with(device::Device& device, const Clock& clock, std::byte* memory,
                           std::byte* host, int64_t size_bytes) {
  const int64_t half_bytes = size_bytes / 2;
  const Copy in = [&] { return device.copy_from_host(memory, host, half_bytes, device.record()); };
  const Copy out = [&] {
    return device.copy_to_host(host + half_bytes, memory + half_bytes, half_bytes, device.record());
  };
  const Result<int64_t> in_ns = least_ns(device, clock, {in});
  if (!in_ns.ok()) return in_ns.status();
  const Result<int64_t> out_ns = least_ns(device, clock, {out});
  if (!out_ns.ok()) return out_ns.status();
  const Result<int64_t> both_ns = least_ns(device, clock, {in, out});
  if (!both_ns.ok()) return both_ns.status();
  const double slowdown =
      std::max(1.0, static_cast<double>(*both_ns) / static_cast<double>(std::max(*in_ns, *out_ns)));
  return Rates{rate(half_bytes, static_cast<double>(*in_ns) * slowdown),
               rate(half_bytes, static_cast<double>(*out_ns) * slowdown)};
}

int64_t measured_bytes(const device::Device& device) {
  const int64_t share_bytes = device.usage().budget_bytes / 4;
  return std::min(kMostBytes, share_bytes / kUnitBytes * kUnitBytes);
}

}  // namespace

Result<Rates> measure_link(device::Device& device, const Clock& clock) {
  const int64_t size_bytes = std::max(measured_bytes(device), kUnitBytes);
  const Result<device::HostMemory> host = device::HostMemory::map(size_bytes, device);
  return host.ok() ? measure_link(device, clock, *host) : Result<Rates>(host.status());
}

Result<Rates> measure_link(device::Device& device, const Clock& clock,
                           const device::HostMemory& host) {
  const int64_t size_bytes =
      std::min(measured_bytes(device), host.size_bytes() / kUnitBytes * kUnitBytes);
  // At all costs: what the program has on the device from before is not evicted yet.
  std::byte* memory = size_bytes > 0 ? device.allocate_at_all_costs(size_bytes) : nullptr;
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
