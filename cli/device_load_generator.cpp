#include "device_load_generator.h"

#include <algorithm>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/thread.h"
#include "base/units.h"

namespace teraio::cli {
namespace {

size_t index_of(io::Direction direction) { return static_cast<size_t>(direction); }

Status no_memory(const device::Device& device) {
  return Status(ErrorCode::kOutOfMemory, std::string(device.name()) + ": no " +
                                             format_size(kLoadTransferBytes) +
                                             " are free to measure with");
}

// Bytes that a drive cannot compress.
std::vector<uint64_t> noise() {
  std::vector<uint64_t> words(kLoadTransferBytes / 8);
  std::mt19937_64 random(20260101);
  std::generate(words.begin(), words.end(), random);
  return words;
}

// Copies in one direction for `duration_ns`, with two copies in flight between `memory` and two
// places, at least two in all. Returns bytes per second.
Result<double> copy_one_way(device::Device& device, std::byte* memory, std::byte* const places[2],
                            io::Direction direction, int64_t duration_ns) {
  const SteadyClock clock;
  const int64_t start_ns = clock.now_ns();
  std::deque<device::Event> under_way;
  int64_t count = 0;
  while (count < 2 || clock.now_ns() - start_ns < duration_ns) {
    if (under_way.size() == 2) {
      TERAIO_RETURN_IF_ERROR(device.wait(under_way.front()));
      under_way.pop_front();
    }
    std::byte* place = places[count++ % 2];
    const Result<device::Event> end =
        direction == io::Direction::kRead
            ? device.copy_from_host(memory, place, kLoadTransferBytes, device::Event{})
            : device.copy_to_host(place, memory, kLoadTransferBytes, device::Event{});
    if (!end.ok()) return end.status();
    under_way.push_back(*end);
  }
  for (const device::Event event : under_way) TERAIO_RETURN_IF_ERROR(device.wait(event));
  const auto bytes = static_cast<double>(count * kLoadTransferBytes);
  return bytes * 1e9 / static_cast<double>(clock.now_ns() - start_ns);
}

}  // namespace

Result<std::unique_ptr<DeviceLoadGenerator>> DeviceLoadGenerator::open(storage::TierStore& store,
                                                                       device::Device& device,
                                                                       int64_t tier_bytes) {
  std::unique_ptr<DeviceLoadGenerator> load(new DeviceLoadGenerator(device));
  TERAIO_RETURN_IF_ERROR(load->take_memory());
  load->load_ = std::make_unique<probe::LoadGenerator>(store, kLoadTransferBytes, load->memory_);
  const int64_t least_bytes = probe::LoadGenerator::least_bytes(kLoadTransferBytes);
  TERAIO_RETURN_IF_ERROR(load->load_->fill(std::max(tier_bytes, least_bytes)));
  return load;
}

DeviceLoadGenerator::~DeviceLoadGenerator() {
  for (const auto& lanes : memory_)
    for (std::byte* memory : lanes) device_.release(memory);
}

Status DeviceLoadGenerator::take_memory() {
  const std::vector<uint64_t> bytes = noise();
  for (auto& lanes : memory_) {
    for (int32_t lane = 0; lane < probe::kLoadTransfersAtOnce; ++lane) {
      std::byte* memory = device_.allocate(kLoadTransferBytes);
      if (memory == nullptr) return no_memory(device_);
      lanes.push_back(memory);
      const auto* source = reinterpret_cast<const std::byte*>(bytes.data());
      const Result<device::Event> end =
          device_.copy_from_host(memory, source, kLoadTransferBytes, device_.record());
      if (!end.ok()) return end.status();
      TERAIO_RETURN_IF_ERROR(device_.wait(*end));
    }
  }
  return {};
}

Result<probe::LoadRates> measure_bare_copies(device::Device& device, const device::HostMemory& host,
                                             bool reads, bool writes, int64_t duration_ns) {
  std::byte* memory[2] = {device.allocate(kLoadTransferBytes), device.allocate(kLoadTransferBytes)};
  Result<double> rates[2] = {0.0, 0.0};
  if (memory[0] == nullptr || memory[1] == nullptr) rates[0] = no_memory(device);
  const bool is_active[2] = {reads, writes};
  std::vector<std::thread> threads;
  for (const io::Direction direction : {io::Direction::kRead, io::Direction::kWrite}) {
    const size_t way = index_of(direction);
    if (!is_active[way] || !rates[0].ok()) continue;
    Result<std::thread> thread = start_thread([&, direction, way] {
      const auto first = static_cast<int64_t>(2 * way) * kLoadTransferBytes;
      std::byte* const places[2] = {host.at(first), host.at(first + kLoadTransferBytes)};
      rates[way] = copy_one_way(device, memory[way], places, direction, duration_ns);
    });
    if (thread.ok())
      threads.push_back(std::move(*thread));
    else
      rates[way] = thread.status();
  }
  for (std::thread& thread : threads) thread.join();
  for (std::byte* block : memory)
    if (block != nullptr) device.release(block);
  for (const Result<double>& rate : rates)
    if (!rate.ok()) return rate.status();
  return probe::LoadRates{*rates[0], *rates[1]};
}

}  // namespace teraio::cli
