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
// To start a copy and to notice its end takes a fraction of a millisecond. Beside this time that
// does not count. A fast link copies the memory several times for it.
constexpr int64_t kMeasuredNs = 20'000'000;
constexpr int64_t kMostRepeats = 16;

using Copy = std::function<Result<device::Event>(device::Event after)>;

// Asks for each copy `repeats` times, one after the other, and waits for all. Returns the time.
Result<int64_t> copy_ns(device::Device& device, const Clock& clock, const std::vector<Copy>& copies,
                        int64_t repeats) {
  const int64_t start_ns = clock.now_ns();
  std::vector<device::Event> last(copies.size(), device.record());
  std::vector<Result<device::Event>> ends;
  for (int64_t i = 0; i < repeats; ++i) {
    for (size_t copy = 0; copy < copies.size(); ++copy) {
      ends.push_back(copies[copy](last[copy]));
      if (ends.back().ok()) last[copy] = *ends.back();
    }
  }
  // All are waited for, also when one has failed: the caller frees the memory.
  Status status;
  for (const Result<device::Event>& end : ends) {
    Status ended = end.ok() ? device.wait(*end) : end.status();
    if (status.ok()) status = std::move(ended);
  }
  if (!status.ok()) return status;
  return std::max<int64_t>(clock.now_ns() - start_ns, 1);
}

// How long the copies take that are asked for together: the least of several tries, or the mean of
// as many rounds as take long enough.
Result<double> least_ns(device::Device& device, const Clock& clock,
                        const std::vector<Copy>& copies) {
  int64_t least_ns = std::numeric_limits<int64_t>::max();
  for (int i = 0; i < kTries; ++i) {
    const Result<int64_t> once_ns = copy_ns(device, clock, copies, 1);
    if (!once_ns.ok()) return once_ns.status();
    least_ns = std::min(least_ns, *once_ns);
  }
  const int64_t repeats = std::clamp<int64_t>(kMeasuredNs / least_ns, 1, kMostRepeats);
  const Result<int64_t> all_ns = copy_ns(device, clock, copies, repeats);
  if (!all_ns.ok()) return all_ns.status();
  return std::min(static_cast<double>(least_ns),
                  static_cast<double>(*all_ns) / static_cast<double>(repeats));
}

int64_t rate(int64_t size_bytes, double duration_ns) {
  return static_cast<int64_t>(static_cast<double>(size_bytes) * 1e9 / duration_ns);
}

// The memory is used in halves, which both directions copy, alone and at once.
Result<Rates> measure_with(device::Device& device, const Clock& clock, std::byte* memory,
                           std::byte* host, int64_t size_bytes) {
  const int64_t half_bytes = size_bytes / 2;
  const Copy in = [&](device::Event after) {
    return device.copy_from_host(memory, host, half_bytes, after);
  };
  const Copy out = [&](device::Event after) {
    return device.copy_to_host(host + half_bytes, memory + half_bytes, half_bytes, after);
  };
  const Result<double> in_ns = least_ns(device, clock, {in});
  if (!in_ns.ok()) return in_ns.status();
  const Result<double> out_ns = least_ns(device, clock, {out});
  if (!out_ns.ok()) return out_ns.status();
  const Result<double> both_ns = least_ns(device, clock, {in, out});
  if (!both_ns.ok()) return both_ns.status();
  const double slowdown = std::max(1.0, *both_ns / std::max(*in_ns, *out_ns));
  return Rates{rate(half_bytes, *in_ns * slowdown), rate(half_bytes, *out_ns * slowdown)};
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
  // Utmost effort: the program's earlier memory on the device has not been evicted yet.
  std::byte* memory =
      size_bytes > 0 ? device.allocate(size_bytes, device::Effort::kUtmost) : nullptr;
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
